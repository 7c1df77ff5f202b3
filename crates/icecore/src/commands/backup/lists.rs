//! What is to be backed up: named on the command line, in lists, or in the config file.

use super::Backup;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Most bytes of a list.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of all paths that name a source: they stand in every snapshot of it, whose description holds a MiB.
const PATHS_BYTES_MAX: usize = 512 << 10;

/// The paths of the command line and of lists; when there are none at all, those of the config file.
pub(super) fn wanted(flags: &Backup, context: &Context) -> Result<Vec<OsString>> {
    let mut all = flags.paths.clone();
    for file in &flags.files_from {
        all.extend(list(file, b'\n')?);
    }
    for file in &flags.files_from_raw {
        all.extend(list(file, 0)?);
    }
    let has_lists = !flags.files_from.is_empty() || !flags.files_from_raw.is_empty();
    // A node command is only what it names.
    if all.is_empty() && !has_lists && !context.global.server.node_command {
        all =
            crate::profile::own_paths(&context.resolved)?.into_iter().map(OsString::from).collect();
    }
    if !all.is_empty() {
        return Ok(all);
    }
    let what = if has_lists { "the list contains no path" } else { "no PATH given" };
    Err(Failure::usage(what)
        .hint("Name what to back up: icecore backup /home /etc; or set `paths` in the config file"))
}

/// What the file lists; no name is empty, and none is a comment.
fn list(file: &Path, end: u8) -> Result<Vec<OsString>> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(LIST_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file)
            .and_then(|open| open.take(LIST_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| unread(file, &error))?;
    if bytes.len() as u64 > LIST_BYTES_MAX {
        return Err(too_many(&format!("{} is larger than 64 MiB", file.display())));
    }
    Ok(names(&bytes, end))
}

/// A list that is not there was mistyped, as a file of patterns is that is not there.
fn unread(file: &Path, error: &std::io::Error) -> Failure {
    if error.kind() != ErrorKind::NotFound {
        return Failure::file(file, error);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).display().to_string();
    Failure::usage(format!("the list {}: {error}", file.display()))
        .hint(format!("What is there: ls {}", quoted(&folder)))
}

fn names(bytes: &[u8], end: u8) -> Vec<OsString> {
    let parts = bytes.split(|byte| *byte == end).filter(|name| !name.is_empty());
    parts.map(|name| OsString::from_vec(name.to_vec())).collect()
}

/// The paths are stored in the snapshot, which has limited room for them.
pub(super) fn refuse_too_many(paths: &[String]) -> Result<()> {
    // As JSON has them: with quotes, a comma, and a backslash before each backslash.
    let bytes: usize = paths.iter().map(|path| path.len() + path.matches('\\').count() + 3).sum();
    if bytes <= PATHS_BYTES_MAX {
        return Ok(());
    }
    Err(too_many(&format!("{} paths are too many for one snapshot", paths.len())))
}

fn too_many(what: &str) -> Failure {
    Failure::usage(what)
        .hint("Name the directories that contain them, and exclude the rest with --exclude-from.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_at_their_ends_and_nowhere_else() {
        let shown = |bytes: &[u8], end| {
            let names = names(bytes, end).into_iter();
            names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shown(b"/a b\n\n#c\n./d", b'\n'), ["/a b", "#c", "./d"]);
        assert_eq!(shown(b"/a\nb\0/c\0", 0), ["/a\nb", "/c"]);
        assert!(shown(b"\n\n", b'\n').is_empty());
    }

    #[test]
    fn more_paths_than_a_snapshot_can_name_are_refused() {
        let paths = |count| vec!["/x".repeat(128); count];
        assert!(refuse_too_many(&paths(2000)).is_ok());
        assert!(refuse_too_many(&paths(2100)).is_err());
    }
}
