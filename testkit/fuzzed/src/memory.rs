//! A storage in memory: what a repository's files hold is up to the fuzzer.

use parking_lot::Mutex;
use repository::storage::{
    FileReader, FileWriter, LockGuard, Storage, StorageError, StorageResult,
};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

/// Files by name.
#[derive(Default)]
pub struct Memory {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl Memory {
    /// A storage with these files.
    pub fn with(files: &[(&str, &[u8])]) -> Arc<dyn Storage> {
        let all = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
        Arc::new(Self { files: Arc::new(Mutex::new(all.collect())) })
    }
}

/// A file in memory that is read.
pub struct Reader(pub Vec<u8>);

struct Writer(Arc<Mutex<BTreeMap<String, Vec<u8>>>>, String);

struct Lock;

impl LockGuard for Lock {}

fn error(kind: ErrorKind, name: &str) -> StorageError {
    StorageError::new("open", name, std::io::Error::from(kind))
}

impl FileReader for Reader {
    fn length(&self) -> StorageResult<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = self.0.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(there.ok_or_else(|| error(ErrorKind::UnexpectedEof, ""))?);
        Ok(())
    }
}

impl FileWriter for Writer {
    fn append(&mut self, parts: &[&[u8]]) -> StorageResult<()> {
        self.0.lock().entry(self.1.clone()).or_default().extend(parts.concat());
        Ok(())
    }

    fn sync(&mut self) -> StorageResult<()> {
        Ok(())
    }
}

impl Storage for Memory {
    fn create(&self, name: &str) -> StorageResult<Box<dyn FileWriter>> {
        self.files.lock().insert(name.to_owned(), Vec::new());
        Ok(Box::new(Writer(self.files.clone(), name.to_owned())))
    }

    fn open(&self, name: &str) -> StorageResult<Box<dyn FileReader>> {
        let bytes = self.files.lock().get(name).cloned();
        Ok(Box::new(Reader(bytes.ok_or_else(|| error(ErrorKind::NotFound, name))?)))
    }

    fn publish(&self, from: &str, to: &str) -> StorageResult<()> {
        let mut files = self.files.lock();
        let bytes = files.remove(from).ok_or_else(|| error(ErrorKind::NotFound, from))?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn replace(&self, from: &str, to: &str) -> StorageResult<()> {
        self.publish(from, to)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        self.files.lock().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) -> StorageResult<()> {
        self.files.lock().remove(name);
        Ok(())
    }

    fn list(&self, directory: &str) -> StorageResult<Vec<String>> {
        let prefix = format!("{directory}/");
        let files = self.files.lock();
        let below = files.keys().filter_map(|name| name.strip_prefix(&prefix));
        let mut names: Vec<String> =
            below.filter_map(|name| name.split('/').next()).map(str::to_owned).collect();
        names.dedup();
        Ok(names)
    }

    fn has_consistent_listing(&self) -> bool {
        true
    }

    fn create_directory(&self, _: &str) -> StorageResult<()> {
        Ok(())
    }

    fn sync_directory(&self, _: &str) -> StorageResult<()> {
        Ok(())
    }

    fn try_lock(&self, _: &str) -> StorageResult<Option<Box<dyn LockGuard>>> {
        Ok(Some(Box::new(Lock)))
    }

    fn free_bytes(&self) -> StorageResult<u64> {
        Ok(u64::MAX)
    }

    fn describe(&self) -> String {
        "memory".into()
    }
}
