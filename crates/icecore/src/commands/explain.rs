//! `icecore explain`.

use super::backup::{Choice, absolute, excludes};
use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use capture::excludes::{Decision, Rule, explain};
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why is a path in the backup, or not?
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore explain ~/.cache/x --exclude '.cache'\n  icecore explain --gitignore --root ~/src ~/src/project/target"
)]
pub(crate) struct Explain {
    /// The path.
    #[arg(value_name = "PATH")]
    path: OsString,
    /// What would be backed up [default: everything].
    #[arg(long, value_name = "PATH", default_value = "/")]
    root: OsString,
    #[command(flatten)]
    choice: Choice,
}

#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    path: JsonPath,
    included: bool,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

impl Explain {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let (path, root) = (absolute(&self.path)?, absolute(&self.root)?);
        let excludes = excludes(&self.choice, context)?;
        let decision = explain(&excludes, self.choice.gitignore, &root, &path);
        let limit = if decision.included { self.limit(&path, &root)? } else { None };
        let included = decision.included && limit.is_none();
        let reason = limit.unwrap_or_else(|| reason(&decision, &root));
        let word = if included { "in" } else { "out" };
        context.out.print(&format!("{word}: {} - {reason}", escape::escape(&path)))?;
        let rule = decision.by.as_ref();
        let explained = Explained {
            path: JsonPath::as_is(&path),
            included,
            reason,
            pattern: rule.map(|rule| rule.pattern.clone()),
            file: rule.and_then(|rule| Some(rule.file.as_ref()?.display().to_string())),
            line: rule.map(|rule| rule.line).filter(|line| *line > 0),
        };
        context.out.summary(Code::Complete, &explained)
    }

    /// What no pattern says, but the object itself or a directory above it.
    fn limit(&self, path: &[u8], root: &[u8]) -> Result<Option<String>> {
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        let root = PathBuf::from(OsString::from_vec(root.to_vec()));
        let metadata =
            std::fs::symlink_metadata(&path).map_err(|error| Failure::file(&path, &error))?;
        if metadata.is_file() {
            let (choice, mtime) = (
                &self.choice,
                format::entry::Time { secs: metadata.mtime(), nanos: metadata.mtime_nsec() as u32 },
            );
            if choice.exclude_larger_than.is_some_and(|limit| metadata.len() > limit) {
                return Ok(Some("it is larger than --exclude-larger-than".into()));
            }
            if choice.older_than.is_some_and(|limit| mtime < limit) {
                return Ok(Some("it was last changed before --exclude-older-than".into()));
            }
            if choice.newer_than.is_some_and(|limit| mtime > limit) {
                return Ok(Some("it was last changed after --exclude-newer-than".into()));
            }
        }
        if self.choice.one_file_system && device(&root) != device(&path) {
            return Ok(Some("it lies on another file system (--one-file-system)".into()));
        }
        Ok(self.cache_above(&path, &root))
    }

    /// The directory that a tag marks as a cache. The tag itself stays in the backup.
    fn cache_above(&self, path: &Path, root: &Path) -> Option<String> {
        if self.choice.no_cache_tags || path.ends_with("CACHEDIR.TAG") {
            return None;
        }
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(root));
        let tagged = above.into_iter().find(|above| is_cache(above))?;
        Some(format!(
            "{} has a CACHEDIR.TAG",
            escape::escape(std::os::unix::ffi::OsStrExt::as_bytes(tagged.as_os_str()))
        ))
    }
}

fn device(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|metadata| metadata.dev())
}

/// Whether a directory has a tag with the right beginning.
fn is_cache(directory: &Path) -> bool {
    use std::io::Read;
    const SIGNATURE: &[u8; 43] = b"Signature: 8a477f597d28d172789f06886806bc55";
    let mut start = [0; SIGNATURE.len()];
    let tag = directory.join("CACHEDIR.TAG");
    // Only regular files are opened: a FIFO would wait for ever.
    std::fs::symlink_metadata(&tag).is_ok_and(|metadata| metadata.is_file())
        && std::fs::File::open(&tag).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *SIGNATURE
}

fn reason(decision: &Decision, root: &[u8]) -> String {
    let matched = escape::escape(&decision.matched);
    match &decision.by {
        Some(rule) => format!("{matched} matches {}", shown(rule)),
        None if decision.included => "no pattern speaks of it".to_owned(),
        None => format!("it does not lie in {}", escape::escape(root)),
    }
}

fn shown(rule: &Rule) -> String {
    let pattern = escape::text(&rule.pattern);
    match &rule.file {
        Some(file) => {
            format!("'{pattern}' ({}:{})", escape::text(&file.to_string_lossy()), rule.line)
        }
        None => format!("'{pattern}' (command line or profile)"),
    }
}
