//! Small files that are stored twice, because nothing else holds their content.

use crate::Result;
use crate::storage::{Storage, StorageResult, read_checked};

/// A small file and its copy.
pub(crate) struct DuplicatedFile {
    /// Its name.
    pub(crate) name: &'static str,
    /// The copy's name.
    pub(crate) copy: &'static str,
    /// Maximum size in bytes.
    pub(crate) bytes_max: usize,
    /// Checks that bytes are what was written.
    pub(crate) is_good: fn(&[u8]) -> format::Result<()>,
}

impl DuplicatedFile {
    /// The content; from the copy when the file is lost or damaged. `None` when neither exists.
    pub(crate) fn read(&self, storage: &dyn Storage) -> Result<Option<Vec<u8>>> {
        let damaged = match self.one(storage, self.name)? {
            Some(Ok(bytes)) => return Ok(Some(bytes)),
            Some(Err(damaged)) => Some(damaged),
            None => None,
        };
        match (self.one(storage, self.copy)?, damaged) {
            (Some(Ok(bytes)), _) => Ok(Some(bytes)),
            (_, Some(damaged)) | (Some(Err(damaged)), None) => Err(damaged),
            (None, None) => Ok(None),
        }
    }

    /// Durably writes both. The copy comes first, so it is never older than the file, and falling back to it undoes
    /// nothing.
    pub(crate) fn write(&self, storage: &dyn Storage, bytes: &[u8]) -> StorageResult<()> {
        storage.put(self.copy, bytes)?;
        storage.put(self.name, bytes)
    }

    /// The same for one that was not there.
    ///
    /// # Errors
    /// [`StorageError::already_exists`] when somebody else has written one of them meanwhile.
    pub(crate) fn write_new(&self, storage: &dyn Storage, bytes: &[u8]) -> StorageResult<()> {
        storage.put_new(self.copy, bytes)?;
        storage.put_new(self.name, bytes)
    }

    /// Removes both as far as possible, after a failed write.
    pub(crate) fn remove(&self, storage: &dyn Storage) {
        for name in [self.name, self.copy] {
            let _ = storage.remove(name);
        }
    }

    /// Whether at least one of them exists.
    pub(crate) fn exists(&self, storage: &dyn Storage) -> Result<bool> {
        for name in [self.name, self.copy] {
            match storage.open(name) {
                Ok(_) => return Ok(true),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// What is wrong with each of them: name and reason.
    pub(crate) fn problems(&self, storage: &dyn Storage) -> Result<Vec<(&'static str, String)>> {
        let mut problems = Vec::new();
        for name in [self.name, self.copy] {
            match self.one(storage, name)? {
                Some(Ok(_)) => {}
                Some(Err(error)) => problems.push((name, error.to_string())),
                None => problems.push((name, format!("{name} is missing"))),
            }
        }
        Ok(problems)
    }

    /// One of the two files, checked; `None` when it does not exist.
    ///
    /// # Errors
    /// When the storage cannot be reached: that says nothing about the data.
    fn one(&self, storage: &dyn Storage, name: &str) -> Result<Option<Result<Vec<u8>>>> {
        let checked = |bytes: Vec<u8>| (self.is_good)(&bytes).map(|()| bytes);
        match read_checked(storage, name, self.bytes_max, checked) {
            Ok(bytes) => Ok(Some(Ok(bytes))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) if error.is_unreachable() => Err(error),
            Err(error) => Ok(Some(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStorage;

    const FILE: DuplicatedFile =
        DuplicatedFile { name: "a", copy: "a.copy", bytes_max: 4, is_good };

    fn is_good(bytes: &[u8]) -> format::Result<()> {
        let is_good = bytes.starts_with(b"ok");
        if is_good { Ok(()) } else { Err(format::Error::Invalid { what: "twin" }) }
    }

    #[test]
    fn either_of_both_is_enough_and_what_is_ill_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        let write =
            |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        assert!(matches!(FILE.read(&storage), Ok(None)));
        assert!(!FILE.exists(&storage).unwrap());
        FILE.write(&storage, b"ok1").unwrap();
        assert!(FILE.problems(&storage).unwrap().is_empty());
        for broken in [&b"no"[..], b"", b"ok too long"] {
            write("a", broken);
            assert_eq!(FILE.read(&storage).unwrap(), Some(b"ok1".to_vec()));
            assert_eq!(FILE.problems(&storage).unwrap()[0].0, "a");
        }
        write("a.copy", b"no");
        assert!(FILE.read(&storage).is_err(), "damage is not absence");
        std::fs::remove_file(folder.path().join("a")).unwrap();
        assert!(FILE.read(&storage).is_err(), "damage is not absence");
        assert_eq!(FILE.problems(&storage).unwrap().len(), 2);
        assert!(FILE.exists(&storage).unwrap());
    }
}
