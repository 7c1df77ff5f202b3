//! `icecore explain`.

use super::backup::{Choice, excludes};
use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::paths::absolute;
use capture::excludes::{ExcludeDecision, Rule, explain, nodump_above};
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Explain why a path is included in a backup, or excluded.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore explain ~/.cache/x --exclude '.cache'\n  icecore explain --gitignore --root ~/src ~/src/project/target\n  icecore explain --nodump --exclude-if-present .nobackup ~/scratch/x"
)]
pub(crate) struct Explain {
    /// The path to explain.
    #[arg(value_name = "PATH")]
    path: OsString,
    /// The path that would be backed up.
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
        let mut choice = self.choice.clone();
        context.resolved.apply_to(&mut choice)?;
        let effective = Self { path: self.path.clone(), root: self.root.clone(), choice };
        effective.run_effective(context)
    }

    fn run_effective(&self, context: &Context) -> Result<Code> {
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
                return Ok(Some("it was last modified before --exclude-older-than".into()));
            }
            if choice.newer_than.is_some_and(|limit| mtime > limit) {
                return Ok(Some("it was last modified after --exclude-newer-than".into()));
            }
        }
        if self.choice.one_file_system && device(&root) != device(&path) {
            return Ok(Some("it is on another file system (--one-file-system)".into()));
        }
        Ok(self.nodump_above(&path, &root).or_else(|| self.tagged_above(&path, &root)))
    }

    /// The object itself, or a directory above it, is marked.
    fn nodump_above(&self, path: &Path, root: &Path) -> Option<String> {
        let marked = self.choice.nodump.then(|| nodump_above(path, root)).flatten()?;
        Some(format!("{} is marked with chattr +d (--nodump)", shown_path(&marked)))
    }

    /// The directory that a tag file keeps out. The file itself stays in the backup, and a directory
    /// that was named too.
    fn tagged_above(&self, path: &Path, root: &Path) -> Option<String> {
        let tags = self.choice.tag_files();
        let above = path.ancestors().skip(1);
        let between = above.take_while(|above| *above != root && above.starts_with(root));
        // The outermost one keeps the walk out of all the others.
        let marked =
            between.filter_map(|above| Some((above, tags.iter().find(|tag| tag.marks(above))?)));
        let (above, tag) = marked.last()?;
        let is_tag = path.parent() == Some(above)
            && path.file_name().is_some_and(|name| name.as_bytes() == tag.name());
        let name = escape::escape(tag.name());
        (!is_tag).then(|| format!("{} has a {name}", shown_path(above)))
    }
}

fn device(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|metadata| metadata.dev())
}

fn shown_path(path: &Path) -> String {
    escape::escape(path.as_os_str().as_bytes())
}

fn reason(decision: &ExcludeDecision, root: &[u8]) -> String {
    let matched = escape::escape(&decision.matched);
    match &decision.by {
        Some(rule) => format!("{matched} matches {}", shown(rule)),
        None if decision.included => "no pattern matches it".to_owned(),
        None => format!("it is not in {}", escape::escape(root)),
    }
}

fn shown(rule: &Rule) -> String {
    let pattern = escape::text(&rule.pattern);
    match &rule.file {
        Some(file) => {
            format!("'{pattern}' ({}:{})", escape::text(&file.to_string_lossy()), rule.line)
        }
        None => format!("'{pattern}' (command line, environment or config file)"),
    }
}
