//! Files in the making. They lie in temporary files of this machine that have no name, so they go with the process:
//! what was in them was promised to nobody.

use bytes::Bytes;
use parking_lot::Mutex;
use repository::storage::{FileReader, FileWriter, StorageError, StorageResult};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What fails when this machine has no room for them: the storage may have.
pub const TEMPORARY: &str = "write a temporary file for";

/// All of them, by their names.
#[derive(Default)]
pub(crate) struct Staging(Mutex<HashMap<String, Staged>>);

/// One of them.
#[derive(Clone)]
pub(crate) struct Staged {
    file: Arc<File>,
    /// Where it begins in the file.
    start: u64,
    length: Arc<AtomicU64>,
    name: String,
}

impl Staging {
    /// A new one.
    pub(crate) fn create(&self, name: &str) -> StorageResult<Staged> {
        let mut files = self.0.lock();
        if files.contains_key(name) {
            return Err(StorageError::new("create", name, io::ErrorKind::AlreadyExists));
        }
        let staged = Staged::new(name)?;
        files.insert(name.to_owned(), staged.clone());
        Ok(staged)
    }

    /// The one of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Staged> {
        self.0.lock().get(name).cloned()
    }

    /// Gives up the one of this name; whether there was one.
    pub(crate) fn remove(&self, name: &str) -> bool {
        self.0.lock().remove(name).is_some()
    }

    /// Gives it another name.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        let mut files = self.0.lock();
        if let Some(staged) = files.remove(from) {
            files.insert(to.to_owned(), staged);
        }
    }
}

impl Staged {
    /// An empty one, to be called `name` in messages.
    pub(crate) fn new(name: &str) -> StorageResult<Self> {
        let file =
            tempfile::tempfile().map_err(|error| StorageError::new(TEMPORARY, name, error))?;
        Ok(Self::part_of(file, 0, 0, name))
    }

    /// What lies in `file`: `length` bytes from `start` on.
    pub(crate) fn part_of(file: File, start: u64, length: u64, name: &str) -> Self {
        let (file, length) = (Arc::new(file), Arc::new(AtomicU64::new(length)));
        Self { file, start, length, name: name.to_owned() }
    }

    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// Part of its content.
    pub(crate) fn read(&self, offset: u64, length: usize) -> StorageResult<Bytes> {
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, offset)?;
        Ok(bytes.into())
    }
}

impl FileWriter for Staged {
    fn append(&mut self, parts: &[&[u8]]) -> StorageResult<()> {
        for part in parts {
            let at = self.length.load(Ordering::Relaxed);
            let written = self.file.write_all_at(part, self.start + at);
            written.map_err(|error| StorageError::new(TEMPORARY, &self.name, error))?;
            self.length.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Durable it is when it is published: that uploads it.
    fn sync(&mut self) -> StorageResult<()> {
        Ok(())
    }
}

impl FileReader for Staged {
    fn length(&self) -> StorageResult<u64> {
        Ok(self.bytes())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let read = self.file.read_exact_at(buffer, self.start + offset);
        read.map_err(|error| StorageError::new("read", &self.name, error))
    }
}
