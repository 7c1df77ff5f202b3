//! One process at a time: a lock on a file, which ends with the process that holds it, however that ends.

use crate::failure::{Failure, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Locks the file `path`, which is made if it is missing, for as long as the result lives. If another process has it,
/// the error is `held`.
///
/// # Errors
/// `held`; files that cannot be opened or locked.
pub(crate) fn hold(path: &Path, held: impl FnOnce() -> Failure) -> Result<File> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = open.map_err(|error| Failure::file(path, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(held()),
        Err(error) => Err(Failure::file(path, &error.into())),
    }
}
