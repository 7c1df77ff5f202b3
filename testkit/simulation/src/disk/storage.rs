//! The disk as a process sees it.

use super::faults::Accepted;
use super::names::{Node, parent};
use super::{Content, Disk, FileNo, Process, failed};
use parking_lot::Mutex;
use repository::storage::{
    FileReader, FileWriter, LockGuard, PUT_SUFFIX, Storage, StorageError, StorageResult, write_all,
};
use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The disk of one process.
#[derive(Clone)]
pub struct SimStorage {
    disk: Arc<Disk>,
    process: Process,
    durable: Arc<Mutex<BTreeSet<String>>>,
}

impl SimStorage {
    pub(super) fn new(disk: Arc<Disk>, process: Process) -> Self {
        Self { disk, process, durable: Arc::default() }
    }

    /// The process that uses it.
    pub fn process(&self) -> Process {
        self.process
    }

    fn step(&self, verb: &'static str, name: &str, length: usize) -> StorageResult<()> {
        self.disk.step(self.process, verb, name, length)
    }

    fn handle(&self, file: FileNo, name: &str) -> Handle {
        let open = &self.disk.open;
        let now = open.now.fetch_add(1, Ordering::Relaxed) + 1;
        open.most.fetch_max(now, Ordering::Relaxed);
        Handle { storage: self.clone(), file, name: name.to_owned() }
    }

    fn rename(&self, from: &str, to: &str, replaces: bool) -> StorageResult<()> {
        self.step("rename", to, 0)?;
        {
            let mut state = self.disk.state.lock();
            if state.names.file(from).is_none() {
                return Err(self.absent("rename", from));
            }
            if !replaces && state.names.exists(to) {
                return Err(StorageError::new("rename", to, io::ErrorKind::AlreadyExists));
            }
            state.names.rename(from, to);
        }
        self.sync_directory(parent(to))
    }

    /// Takes a name away; `false` when there was none.
    fn has_unlinked(&self, name: &str) -> StorageResult<bool> {
        self.step("remove", name, 0)?;
        let mut state = self.disk.state.lock();
        let is_there = state.names.file(name).is_some();
        if is_there {
            state.names.unset(name);
        }
        Ok(is_there)
    }

    fn absent(&self, verb: &'static str, name: &str) -> StorageError {
        StorageError::new(verb, name, io::ErrorKind::NotFound)
    }
}

impl Storage for SimStorage {
    fn create(&self, name: &str) -> StorageResult<Box<dyn FileWriter>> {
        self.step("create", name, 0)?;
        let mut state = self.disk.state.lock();
        if !state.names.is_directory(parent(name)) {
            return Err(self.absent("create", name));
        }
        if state.names.exists(name) {
            return Err(StorageError::new("create", name, io::ErrorKind::AlreadyExists));
        }
        let file = state.files.len();
        state.files.push(Content::default());
        state.names.set(name, Node::File(file));
        Ok(Box::new(self.handle(file, name)))
    }

    fn open(&self, name: &str) -> StorageResult<Box<dyn FileReader>> {
        self.step("open", name, 0)?;
        let file = self.disk.state.lock().names.file(name);
        let file = file.ok_or_else(|| self.absent("open", name))?;
        Ok(Box::new(self.handle(file, name)))
    }

    fn publish(&self, from: &str, to: &str) -> StorageResult<()> {
        self.rename(from, to, false)
    }

    fn replace(&self, from: &str, to: &str) -> StorageResult<()> {
        self.rename(from, to, true)
    }

    /// As the local storage does it.
    fn put(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        let part = format!("{name}{PUT_SUFFIX}");
        self.remove(&part)?;
        let mut file = self.create(&part)?;
        file.append(&[bytes])?;
        file.sync()?;
        self.replace(&part, name)
    }

    fn remove(&self, name: &str) -> StorageResult<()> {
        if self.has_unlinked(name)? { self.sync_directory(parent(name)) } else { Ok(()) }
    }

    fn unlink(&self, name: &str) -> StorageResult<()> {
        self.has_unlinked(name).map(drop)
    }

    fn list(&self, directory: &str) -> StorageResult<Vec<String>> {
        self.step("list", directory, 0)?;
        let mut state = self.disk.state.lock();
        if !state.names.is_directory(directory) {
            return Err(self.absent("list", directory));
        }
        Ok(state.list(directory))
    }

    fn has_consistent_listing(&self) -> bool {
        !self.disk.is_remote()
    }

    /// As the local storage does it.
    fn create_directory(&self, name: &str) -> StorageResult<()> {
        if self.durable.lock().contains(name) {
            return Ok(());
        }
        for (end, _) in name.match_indices('/').chain([(name.len(), "")]) {
            let part = &name[..end];
            self.step("create directory", part, 0)?;
            {
                let names = &mut self.disk.state.lock().names;
                if !names.exists(part) {
                    names.set(part, Node::Directory);
                }
            }
            self.sync_directory(parent(part))?;
        }
        self.durable.lock().insert(name.to_owned());
        Ok(())
    }

    fn sync_directory(&self, name: &str) -> StorageResult<()> {
        if self.disk.is_skipped("sync directory", name) {
            return Ok(());
        }
        self.step("sync directory", name, 0)?;
        let names = &mut self.disk.state.lock().names;
        if !names.is_directory(name) {
            return Err(self.absent("sync directory", name));
        }
        names.sync(if name == "." { "" } else { name });
        Ok(())
    }

    fn try_lock(&self, name: &str) -> StorageResult<Option<Box<dyn LockGuard>>> {
        self.step("lock", name, 0)?;
        let mut state = self.disk.state.lock();
        if state.locks.contains_key(name) {
            return Ok(None);
        }
        state.locks.insert(name.to_owned(), self.process);
        Ok(Some(Box::new(Lock { storage: self.clone(), name: name.to_owned() })))
    }

    fn free_bytes(&self) -> StorageResult<u64> {
        Ok(self.disk.state.lock().free_bytes)
    }

    fn describe(&self) -> String {
        "a simulated disk".into()
    }
}

struct Lock {
    storage: SimStorage,
    name: String,
}

impl LockGuard for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.storage.disk.state.lock();
        // Of the dead it was taken before, and may be somebody else's by now.
        if state.locks.get(&self.name) == Some(&self.storage.process) {
            state.locks.remove(&self.name);
        }
    }
}

/// An open file.
struct Handle {
    storage: SimStorage,
    file: FileNo,
    name: String,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.storage.disk.open.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handle {
    /// One call of the system: how much of `bytes` it took. One that fails has taken a part of them.
    fn write(&self, mut bytes: Vec<u8>) -> io::Result<usize> {
        let result = self.storage.step("append", &self.name, bytes.len());
        let disk = &self.storage.disk;
        if result.is_err() && !disk.is_alive(self.storage.process) {
            return result.map(|()| 0).map_err(|error| error.source);
        }
        let mut state = disk.state.lock();
        let hidden = match result {
            Ok(()) => state.accept_write(bytes.len()),
            Err(error) => {
                Accepted { bytes: state.random.index(bytes.len() + 1), then: Err(error.source) }
            }
        };
        bytes.truncate(hidden.bytes);
        let bytes = state.written(self.file, bytes);
        state.files[self.file].append(&bytes);
        hidden.then.map(|()| bytes.len())
    }
}

impl FileWriter for Handle {
    /// As the local storage does it.
    fn append(&mut self, parts: &[&[u8]]) -> StorageResult<()> {
        let write = |slices: &[IoSlice<'_>], _| {
            // Whole slices: byte by byte this was two thirds of the time of whatever runs on this disk.
            let mut bytes = Vec::with_capacity(slices.iter().map(|slice| slice.len()).sum());
            slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
            self.write(bytes)
        };
        write_all(parts, write).map_err(|error| StorageError::new("append", &self.name, error))
    }

    fn sync(&mut self) -> StorageResult<()> {
        let disk = &self.storage.disk;
        if disk.is_skipped("sync", &self.name) {
            return Ok(());
        }
        let result = self.storage.step("sync", &self.name, 0);
        if disk.is_alive(self.storage.process) {
            let file = &mut disk.state.lock().files[self.file];
            if result.is_ok() { file.sync() } else { file.fail_sync() }
        }
        result
    }
}

impl FileReader for Handle {
    fn length(&self) -> StorageResult<u64> {
        self.storage.step("length", &self.name, 0)?;
        Ok(self.storage.disk.state.lock().files[self.file].cached().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.storage.step("read", &self.name, buffer.len())?;
        let state = self.storage.disk.state.lock();
        let start = offset as usize;
        let bytes = state.files[self.file].cached().get(start..start + buffer.len());
        let bytes = bytes.ok_or_else(|| failed("read", &self.name, "end of file"))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
