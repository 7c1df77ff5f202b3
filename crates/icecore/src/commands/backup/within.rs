//! Paths that somebody else chose: each must lie below a folder that this machine allows, and no link may lead there.

use crate::codes::Code;
use crate::failure::{Failure, Result};
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

fn refused(path: &Path, why: &str) -> Failure {
    Failure::new(Code::NotAllowed, format!("{} {why}", path.display()))
        .hint("Name folders by their real paths, in the command and in allow.toml: realpath PATH")
}
