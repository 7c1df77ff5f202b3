//! Paths that somebody else chose: each must lie below a folder that this machine allows, and no link may lead there.

use crate::codes::Code;
use crate::escape;
use crate::failure::{Failure, Result};
use capture::excludes::{self, Excludes};
use capture::walk::{Directory, DirectoryHandles, SourceRoot};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Refuses all when one is not allowed. The walk looks again, with the same eyes, when it begins.
pub(super) fn check(roots: &[SourceRoot], folders: &[impl AsRef<Path>]) -> Result<()> {
    if folders.is_empty() {
        return Ok(());
    }
    roots.iter().try_for_each(|root| {
        let path = Path::new(OsStr::from_bytes(&root.source));
        if !folders.iter().any(|folder| path.starts_with(folder)) {
            return Err(refused(
                path,
                "is not in a directory that this machine lets the server back up",
            ));
        }
        let parent = path.parent().unwrap_or(path).as_os_str().as_bytes();
        let opened = Directory::starting_without_links(parent, &DirectoryHandles::new()).handle();
        opened.map(drop).map_err(|error| {
            refused(path, &format!("cannot be reached without following a symbolic link: {error}"))
        })
    })
}

/// Refuses all when a pattern of this machine excludes one, or a directory between it and the folder that allows it.
/// Who types a path has it backed up whatever patterns say; here a server named it.
pub(super) fn refuse_excluded(
    roots: &[SourceRoot],
    folders: &[impl AsRef<Path>],
    own: &Excludes,
) -> Result<()> {
    roots.iter().try_for_each(|root| {
        let path = Path::new(OsStr::from_bytes(&root.source));
        let around = folders.iter().map(AsRef::as_ref).filter(|folder| path.starts_with(folder));
        let innermost = around.max_by_key(|folder| folder.components().count());
        let from = innermost.unwrap_or(Path::new("/")).as_os_str().as_bytes();
        let decision = excludes::explain(own, false, from, &root.source);
        let Some(rule) = decision.by.filter(|_| !decision.included) else { return Ok(()) };
        let pattern = escape::text(&rule.pattern);
        let what = format!("this machine excludes {} by '{pattern}'", path.display());
        Err(Failure::new(Code::NotAllowed, what)
            .hint("Leave it out of the policy or command. Where the pattern stands, on the node: icecore options --set"))
    })
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::new(Code::NotAllowed, format!("{} {why}", path.display())).hint(
        "Name directories by their real paths, in the command and in allow.toml: realpath PATH",
    )
}
