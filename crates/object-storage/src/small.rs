//! Small objects that never change: snapshots, and small runs of the index. What was read of an object can be wrong
//! while the bucket has it whole: bytes are bad on their way, or in a cache. Who finds that out says so, and reads it
//! once more.

use crate::known;
use crate::names::numbered;
use crate::reader::copy_from;
use crate::rows::row_of;
use crate::storage::{ObjectStorage, Shared};
use bytes::Bytes;
use parking_lot::RwLock;
use repository::storage::{FileReader, StorageError, StorageResult};
use std::io::ErrorKind;
use std::sync::Arc;

/// So many small objects are kept in memory, each of at most 1 MiB.
const RECENT_MAX: usize = 16;

impl Shared {
    /// A small object that never changes.
    pub(crate) fn get_small(&self, name: &str) -> StorageResult<Bytes> {
        let mut state = self.state.lock();
        if let Some((_, bytes)) = state.recent.iter().find(|(recent, _)| recent == name) {
            return Ok(bytes.clone());
        }
        let (kept, expected) = (state.kept_of(name), state.expected.remove(name));
        drop(state);
        let fetch = || expected.map_or_else(|| self.client.get(name), Ok);
        // Whoever asks knows what it is to be, and comes again if it is not.
        let bytes = kept.whole(name, |_| true, fetch)?;
        self.keep(name, bytes.clone());
        Ok(bytes)
    }

    pub(crate) fn keep(&self, name: &str, bytes: Bytes) {
        let mut state = self.state.lock();
        state.recent.push_front((name.to_owned(), bytes));
        state.recent.truncate(RECENT_MAX);
    }

    /// What was read of the object `name` is wrong: nothing of it is believed any more.
    fn distrust(&self, name: &str) {
        let mut state = self.state.lock();
        state.kept_of(name).distrust(name);
        state.recent.retain(|(recent, _)| recent != name);
        state.distrusted.insert(name.to_owned());
        drop(state);
        known::forget(self.client.location(), name);
    }
}

impl ObjectStorage {
    /// What was read of the file `name` is wrong.
    pub(crate) fn distrust_file(&self, name: &str) {
        let Some(row) = row_of(name) else {
            let snapshot = name.starts_with("snapshots/").then(|| self.snapshot_object(name).ok());
            return self.shared.distrust(snapshot.flatten().as_deref().unwrap_or(name));
        };
        let mut state = self.shared.state.lock();
        state.roots.remove(row);
        let last = state.names.highest(row);
        drop(state);
        last.iter().for_each(|last| self.shared.distrust(&numbered(row, *last)));
    }
}

/// A small object that is in memory, and is fetched again if it turns out to be wrong.
pub(crate) struct SmallReader {
    shared: Arc<Shared>,
    name: String,
    bytes: RwLock<Bytes>,
}

impl SmallReader {
    pub(crate) fn open(shared: &Arc<Shared>, name: &str) -> StorageResult<Self> {
        let bytes = RwLock::new(shared.get_small(name)?);
        Ok(Self { shared: shared.clone(), name: name.to_owned(), bytes })
    }
}

impl FileReader for SmallReader {
    fn length(&self) -> StorageResult<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let ends = || StorageError::new("read", &self.name, ErrorKind::UnexpectedEof);
        copy_from(&self.bytes.read(), 0, buffer, offset).then_some(()).ok_or_else(ends)
    }

    fn distrust(&self) -> bool {
        self.shared.distrust(&self.name);
        let again = self.shared.get_small(&self.name);
        again.map(|bytes| *self.bytes.write() = bytes).is_ok()
    }
}
