//! Locks on files, which the system releases when their process dies.

use super::LocalStorage;
use crate::storage::{LockGuard, StorageError, StorageResult};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, FlockOperation, OFlags};
use rustix::io::Errno;

/// How often a file may be replaced while it is being locked.
const TRIES: u32 = 8;

/// A file that is locked until this is dropped.
pub(super) struct LocalLock {
    file: OwnedFd,
}

impl LockGuard for LocalLock {}

impl Drop for LocalLock {
    /// Closing alone would leave the lock with a child that was forked meanwhile, until it runs
    /// its program.
    fn drop(&mut self) {
        let _ = fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl LocalStorage {
    /// Locks the file that has this name now; `None` when somebody else has it.
    pub(super) fn lock_file(&self, name: &str) -> StorageResult<Option<LocalLock>> {
        for _ in 0..TRIES {
            let file = self.open_to_lock(name)?;
            match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.has_name(&file, name)? => return Ok(Some(LocalLock { file })),
                // It was replaced between the two calls: everybody else locks the new one.
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(StorageError::new("take the", name, error)),
            }
        }
        Ok(None)
    }

    /// Opens the file, which is created if it is not there.
    fn open_to_lock(&self, name: &str) -> StorageResult<OwnedFd> {
        if self.heir.is_some() {
            match self.create_file("take the", name) {
                Err(error) if error.already_exists() => {}
                done => return done,
            }
        }
        self.open_file("take the", name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Whether `name` leads to the file that is open.
    fn has_name(&self, file: &OwnedFd, name: &str) -> StorageResult<bool> {
        let failed = |error| StorageError::new("take the", name, error);
        let own = fs::fstat(file).map_err(failed)?;
        match fs::statat(&self.root.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    fn storage() -> (tempfile::TempDir, LocalStorage) {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(directory.path()).unwrap();
        (directory, storage)
    }

    #[test]
    fn a_lock_is_had_by_one() {
        let (directory, storage) = storage();
        let other = LocalStorage::open(directory.path()).unwrap();
        let held = storage.try_lock("lock").unwrap();
        assert!(held.is_some());
        assert!(other.try_lock("lock").unwrap().is_none());
        drop(held);
        assert!(other.try_lock("lock").unwrap().is_some());
    }

    /// A child has the descriptors of its parent between fork and exec.
    #[test]
    fn a_lock_ends_although_a_child_still_has_its_descriptor() {
        let (_directory, storage) = storage();
        let lock = storage.lock_file("lock").unwrap().unwrap();
        let of_child = rustix::io::dup(&lock.file).unwrap();
        drop(lock);
        assert!(storage.try_lock("lock").unwrap().is_some());
        drop(of_child);
    }

    /// Whoever opened the file before it was replaced has a lock that nobody else asks for.
    #[test]
    fn a_file_that_was_replaced_is_not_the_lock() {
        let (_directory, storage) = storage();
        let flags = OFlags::RDWR | OFlags::CREATE;
        let old = storage.open_file("lock", "lock", flags).unwrap();
        assert!(storage.has_name(&old, "lock").unwrap());
        storage.put("lock", b"").unwrap();
        assert!(!storage.has_name(&old, "lock").unwrap());
        storage.remove("lock").unwrap();
        assert!(!storage.has_name(&old, "lock").unwrap());
    }
}
