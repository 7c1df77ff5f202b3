//! Whether commands on this machine copy from the files of a domain: they read them where they lay when they began.

use repository::readers::DIRECTORY;
use repository::storage::{Storage, StorageResult};
use std::path::Path;

/// Whether it is worth to look: a domain in a bucket has no such directory.
pub(super) fn are_noted(domain: &Path) -> bool {
    domain.join(DIRECTORY).is_dir()
}

/// Whether somebody who named what he reads is still alive: the file with a dot in its name is his lock.
pub(super) fn are_alive(source: &dyn Storage) -> StorageResult<bool> {
    let names = match source.list(DIRECTORY) {
        Err(error) if error.is_not_found() => return Ok(false),
        names => names?,
    };
    for name in names.iter().filter(|name| name.contains('.')) {
        if source.try_lock(&format!("{DIRECTORY}/{name}"))?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}
