//! The files of the engine, as objects.

use super::{CONFIG, CONTAINERS, LATELY, ObjectStorage, RECENT_BYTES_MAX, SNAPSHOTS};
use crate::class_setting::SETTING;
use crate::classes::STANDARD;
use crate::client::Kind;
use crate::names::{DIRECTORY_MARK, ENDED, LEASE, REMOVED, snapshot};
use crate::ownership::Guard;
use crate::reader::{MemoryReader, ObjectReader};
use crate::rows::row_of;
use crate::small::SmallReader;
use bytes::Bytes;
use repository::config;
use repository::storage::{
    Cold, FileReader, FileWriter, LockGuard, PUT_SUFFIX, Storage, StorageError, StorageResult,
};
use std::io::ErrorKind;

/// Containers that go up at the same time: each is in memory meanwhile.
const UPLOADS: usize = 2;
/// Objects that one request removes.
const REMOVED_AT_ONCE: usize = 1000;
/// Rows, leases and the class of containers: nothing of a repository in a directory is called so, but for the lease.
const OF_BUCKETS: [&str; 4] = [ENDED, REMOVED, LEASE, SETTING];
/// Runs that are gone when their process is.
const SPILLED: &str = "index/spill-";

/// Files of which each version is an object with a name of its own.
fn is_of_several_objects(name: &str) -> bool {
    name == LEASE || row_of(name).is_some() || name.starts_with("snapshots/")
}

impl ObjectStorage {
    /// The length of the file `name` as far as listings have told it.
    fn listed_length_of(&self, name: &str) -> StorageResult<Option<u64>> {
        if name.starts_with("snapshots/") {
            let object = self.snapshot_object(name)?;
            return Ok(self.shared.state.lock().names.length(&object));
        }
        if self.is_known_absent(name) {
            return Err(StorageError::new("open", name, ErrorKind::NotFound));
        }
        if !name.starts_with("containers/") {
            return Ok(self.shared.state.lock().names.length(name));
        }
        match self.listed_length(name)? {
            Some(length) => Ok(Some(length)),
            None => Ok(self.shared.state.lock().lengths.get(name).copied()),
        }
    }

    /// Somebody may have emptied the bucket while this writer used it, and what it wrote is no repository then.
    fn is_still_there(&self) -> StorageResult<()> {
        for name in config::NAMES {
            match self.client().length(name) {
                Err(error) if error.is_not_found() => {}
                found => return found.map(drop),
            }
        }
        let why = "the repository is not there any more: its object config was deleted";
        let source = std::io::Error::new(ErrorKind::NotConnected, why);
        Err(StorageError::new("write to", self.client().location(), source))
    }

    /// Uploads the staged file `from` as `to`, an object of such a `kind`.
    fn publish_as(&self, from: &str, to: &str, kind: &Kind) -> StorageResult<()> {
        let staged = self.staged(from)?;
        if to.starts_with(SPILLED) {
            self.staging.rename(from, to);
            return Ok(());
        }
        if is_of_several_objects(to) {
            return self.replace(from, to); // each of its objects is created
        }
        let length = staged.bytes();
        let read = |offset, length| staged.read(offset, length);
        let Some(written) = self.client().upload(to, kind, length, read)? else {
            return Err(StorageError::new("create", to, ErrorKind::AlreadyExists));
        };
        self.note(to, length, written.tag);
        self.staging.remove(from);
        if to.starts_with("index/") && self.reads_runs {
            self.keep_run(to, staged)?;
        }
        Ok(())
    }

    /// What the engine calls the directory of the repository: without what only a bucket needs.
    fn list_top(&self) -> StorageResult<Vec<String>> {
        let listed = self.client().list_directory("")?;
        let names = listed.into_iter().map(|(name, _)| name);
        Ok(names.filter(|name| !OF_BUCKETS.contains(&&**name)).collect())
    }
}

impl Storage for ObjectStorage {
    fn published_at_once(&self) -> usize {
        UPLOADS
    }

    fn create(&self, name: &str) -> StorageResult<Box<dyn FileWriter>> {
        Ok(Box::new(self.staging.create(name)?))
    }

    fn open(&self, name: &str) -> StorageResult<Box<dyn FileReader>> {
        let in_memory = |bytes| -> StorageResult<Box<dyn FileReader>> {
            Ok(Box::new(MemoryReader { name: name.to_owned(), bytes }))
        };
        if let Some(staged) = self.staging.get(name) {
            return Ok(Box::new(staged));
        }
        if name == LEASE {
            return in_memory(self.read_lease()?);
        }
        if let Some(row) = row_of(name) {
            return in_memory(self.read_root(row)?);
        }
        if name.starts_with("snapshots/") {
            return in_memory(self.open_snapshot(name)?);
        }
        if name.ends_with(PUT_SUFFIX) || self.is_known_absent(name) {
            return Err(StorageError::new("open", name, ErrorKind::NotFound));
        }
        let state = self.shared.state.lock();
        if name.starts_with("containers/") {
            let length = state.lengths.get(name).copied();
            return Ok(Box::new(ObjectReader::new(
                self.client(),
                name,
                length,
                state.kept_of(name),
            )));
        }
        let (length, kept) = (state.names.length(name), state.kept_of(name));
        drop(state);
        if name.starts_with("index/") {
            if length.is_some_and(|length| length <= RECENT_BYTES_MAX) {
                return Ok(Box::new(SmallReader::open(&self.shared, name)?));
            }
            return Ok(Box::new(self.runs.open(self.client(), name, length, kept)?));
        }
        in_memory(if name == CONFIG { self.open_config()? } else { self.get_seldom(name)? })
    }

    fn publish(&self, from: &str, to: &str) -> StorageResult<()> {
        self.publish_as(from, to, &Kind::default())
    }

    /// Whoever has set a class wants it for these containers alone, and any other one, too, kept apart from them.
    fn separates_content(&self) -> StorageResult<bool> {
        Ok(self.storage_class()?.is_some())
    }

    fn publish_content(&self, from: &str, to: &str) -> StorageResult<()> {
        let class = self.storage_class()?.filter(|class| class != STANDARD);
        self.publish_as(from, to, &Kind { class, is_content: true })
    }

    fn cold(&self, names: &[String]) -> StorageResult<Vec<Option<Cold>>> {
        self.cold_ones(names)
    }

    fn replace(&self, from: &str, to: &str) -> StorageResult<()> {
        let staged = self.staged(from)?;
        let length = staged.bytes();
        let bytes = staged.read(0, length as usize)?;
        if is_of_several_objects(to) {
            self.put(to, &bytes)?;
            self.staging.remove(from);
            return Ok(());
        }
        self.client().put(to, bytes)?;
        self.note(to, length, None);
        self.distrust(to);
        self.staging.remove(from);
        Ok(())
    }

    /// Bytes can be bad in a cache, or on their way, or of a container that was repaired since.
    fn distrust(&self, name: &str) -> bool {
        self.distrust_file(name);
        true
    }

    fn put(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        if name == LEASE {
            return self.put_lease(bytes);
        }
        if let Some(row) = row_of(name) {
            return self.put_root(row, bytes);
        }
        let object = Bytes::copy_from_slice(bytes);
        if !name.starts_with("snapshots/") {
            self.client().put(name, object)?;
            self.note(name, bytes.len() as u64, None);
            return Ok(());
        }
        let held = self.shared.state.lock().held.clone();
        // What follows a snapshot is the look that counts.
        held.iter().for_each(|held| held.forget_check());
        let lease = held.map_or(0, |held| held.number);
        let name = snapshot(name, lease);
        let Some(written) = self.client().create(&name, &object)? else {
            return Err(StorageError::new("create", &name, ErrorKind::AlreadyExists));
        };
        self.note(&name, bytes.len() as u64, written.tag);
        let state = self.shared.state.lock();
        state.kept_of(&name).keep(&name, &object);
        let is_repository = state.is_repository;
        drop(state);
        if is_repository { self.is_still_there() } else { Ok(()) }
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> StorageResult<()> {
        let created = self.client().create(name, &Bytes::copy_from_slice(bytes))?;
        let exists = || StorageError::new("create", name, ErrorKind::AlreadyExists);
        self.note(name, bytes.len() as u64, created.ok_or_else(exists)?.tag);
        Ok(())
    }

    fn remove(&self, name: &str) -> StorageResult<()> {
        self.remove_all(&[name.to_owned()])
    }

    fn removed_at_once(&self) -> usize {
        REMOVED_AT_ONCE
    }

    fn remove_all(&self, names: &[String]) -> StorageResult<()> {
        let mut objects = Vec::new();
        for name in names {
            objects.extend(self.objects_of(name)?);
        }
        if objects.is_empty() {
            return Ok(());
        }
        let is_container = |object: &&String| object.starts_with("containers/");
        let containers: Vec<_> = objects.iter().filter(is_container).cloned().collect();
        if !containers.is_empty() {
            self.announce_removal(&containers)?;
        }
        self.client().delete(&objects)?;
        names.iter().for_each(|name| self.runs.remove(name));
        let mut state = self.shared.state.lock();
        for object in &objects {
            state.names.remove(object);
            state.lengths.remove(object);
        }
        state.recent.retain(|(recent, _)| !objects.contains(recent));
        drop(state);
        if containers.is_empty() { Ok(()) } else { self.forget_removal(&containers) }
    }

    fn listed_length(&self, name: &str) -> StorageResult<Option<u64>> {
        let directory = name.rsplit_once('/').map_or(name, |(directory, _)| directory);
        let (is_held, is_listed) = {
            let state = self.shared.state.lock();
            (state.held.is_some(), state.listed.contains(directory))
        };
        if !is_held {
            return Ok(None);
        }
        if !is_listed {
            self.list_containers(directory)?;
        }
        let length = self.shared.state.lock().lengths.get(name).copied();
        length.map(Some).ok_or_else(|| StorageError::new("open", name, ErrorKind::NotFound))
    }

    fn length(&self, name: &str) -> StorageResult<u64> {
        if is_of_several_objects(name) && !name.starts_with("snapshots/") {
            return self.open(name)?.length();
        }
        if let Some(listed) = self.listed_length_of(name)? {
            return Ok(listed);
        }
        self.client().length(name)
    }

    fn expect(&self, names: &[String]) {
        let of_snapshots = names.iter().filter(|name| name.starts_with("snapshots/"));
        self.expect_snapshots(&of_snapshots.cloned().collect::<Vec<_>>());
    }

    fn list(&self, directory: &str) -> StorageResult<Vec<String>> {
        if directory == SNAPSHOTS {
            return self.list_snapshots(None);
        }
        if directory.starts_with(CONTAINERS) {
            return self.list_containers(directory);
        }
        if directory == "." {
            return self.list_top();
        }
        let state = self.look(directory)?;
        let entries = state.names.entries(directory);
        if entries.is_empty() && !state.names.has(&format!("{directory}/{DIRECTORY_MARK}")) {
            return Err(StorageError::new("list", directory, ErrorKind::NotFound));
        }
        Ok(entries)
    }

    fn list_lately(&self, directory: &str) -> StorageResult<Vec<String>> {
        match directory {
            SNAPSHOTS => self.list_snapshots(Some(LATELY)),
            _ => self.list(directory),
        }
    }

    /// S3 and what is compatible with it list what was written before; `docs/GUIDE-ONE-MACHINE.md` names those that do not.
    fn has_consistent_listing(&self) -> bool {
        true
    }

    fn create_directory(&self, name: &str) -> StorageResult<()> {
        let mark = format!("{name}/{DIRECTORY_MARK}");
        if name.contains('/') || self.shared.state.lock().names.has(&mark) {
            return Ok(());
        }
        self.client().put(&mark, Bytes::new())?;
        self.note(&mark, 0, None);
        Ok(())
    }

    /// What is written is durable, and so is its name.
    fn sync_directory(&self, _: &str) -> StorageResult<()> {
        Ok(())
    }

    fn has_named_locks(&self) -> bool {
        false
    }

    fn try_lock(&self, _: &str) -> StorageResult<Option<Box<dyn LockGuard>>> {
        let _one_at_a_time = self.acquiring.lock();
        if self.shared.state.lock().held.is_some() {
            return Ok(None);
        }
        let held = self.acquire()?;
        Ok(held.map(|held| -> Box<dyn LockGuard> {
            Box::new(Guard { shared: self.shared.clone(), held })
        }))
    }

    /// There is no disk that could be full; what an object storage allows, it says when it refuses.
    fn free_bytes(&self) -> StorageResult<u64> {
        Ok(u64::MAX)
    }

    fn has_limited_space(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        self.client().location().to_owned()
    }
}
