//! Runs of the index. A lookup reads a page of 4 KiB somewhere: from a bucket, each costs a request. So a run that this
//! process has written stays in its temporary file, and one of which much was fetched is fetched whole into another.

use crate::client::Client;
use crate::reader::{Kept, ObjectReader};
use crate::staging::Staged;
use parking_lot::{Mutex, RwLock};
use repository::storage::{FileReader, FileWriter, StorageResult};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A run is fetched whole once so much of it was fetched in pieces: an eighth, and half a MiB at least.
const PART_OF_ALL: u64 = 8;
const BYTES_MIN: u64 = 512 << 10;
/// Bytes of one request for all of a run: 8 MiB.
const PIECE_BYTES: u64 = 8 << 20;

/// The runs that were opened or written.
#[derive(Default)]
pub(crate) struct Runs(Mutex<HashMap<String, Arc<Run>>>);

/// What all readers of a run share.
#[derive(Default)]
struct Run {
    /// Bytes that were fetched in pieces.
    fetched: Arc<AtomicU64>,
    copy: Mutex<Copy>,
}

#[derive(Default)]
enum Copy {
    #[default]
    NotYet,
    Whole(Staged),
    /// There is no room for it.
    Impossible,
}

impl Runs {
    /// This process has written the run `name`.
    pub(crate) fn keep(&self, name: &str, staged: Staged) {
        let run = Run { copy: Mutex::new(Copy::Whole(staged)), ..Run::default() };
        self.0.lock().insert(name.to_owned(), Arc::new(run));
    }

    /// The run `name` is gone.
    pub(crate) fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// A reader of the run `name`, whose length may be known. One that this machine keeps is not fetched.
    ///
    /// # Errors
    /// When there is no such run, or it cannot be reached.
    pub(crate) fn open(
        &self,
        client: &Arc<Client>,
        name: &str,
        length: Option<u64>,
        kept: Kept,
    ) -> StorageResult<RunReader> {
        if !self.0.lock().contains_key(name)
            && let Some(staged) = kept.file(name)
        {
            self.keep(name, staged);
        }
        let run = self.0.lock().entry(name.to_owned()).or_default().clone();
        let object = RwLock::new(run.object(client, name, length, kept.clone()));
        let (client, name) = (client.clone(), name.to_owned());
        let reader = RunReader { object, client, name, run, kept };
        reader.length()?;
        Ok(reader)
    }
}

impl Run {
    /// The run `name` in the bucket.
    fn object(
        &self,
        client: &Arc<Client>,
        name: &str,
        length: Option<u64>,
        kept: Kept,
    ) -> Arc<ObjectReader> {
        let mut object = ObjectReader::new(client, name, length, kept);
        object.count_in(&self.fetched);
        Arc::new(object)
    }
}

/// A run in a bucket, or the copy of it.
pub(crate) struct RunReader {
    object: RwLock<Arc<ObjectReader>>,
    client: Arc<Client>,
    name: String,
    run: Arc<Run>,
    kept: Kept,
}

impl RunReader {
    fn object(&self) -> Arc<ObjectReader> {
        self.object.read().clone()
    }

    /// The copy, which is made now if that pays. Who comes meanwhile waits for it.
    fn copy(&self) -> StorageResult<Option<Staged>> {
        let mut copy = self.run.copy.lock();
        if let Copy::NotYet = *copy {
            let length = self.object().length()?;
            if self.run.fetched.load(Ordering::Relaxed) < BYTES_MIN.max(length / PART_OF_ALL) {
                return Ok(None);
            }
            *copy = self.fetch(length)?.map_or(Copy::Impossible, Copy::Whole);
        }
        match &*copy {
            Copy::Whole(staged) => Ok(Some(staged.clone())),
            Copy::NotYet | Copy::Impossible => Ok(None),
        }
    }

    /// All of it in a temporary file; `None` when there is no room for that.
    fn fetch(&self, length: u64) -> StorageResult<Option<Staged>> {
        let Ok(mut staged) = Staged::new(&self.name) else { return Ok(None) };
        while staged.bytes() < length {
            let range = staged.bytes()..length.min(staged.bytes() + PIECE_BYTES);
            let part = self.client.get_range(&self.name, range)?;
            if part.bytes.is_empty() || staged.append(&[&part.bytes]).is_err() {
                return Ok(None);
            }
        }
        self.kept.keep_file(&self.name, &staged);
        Ok(Some(staged))
    }
}

impl FileReader for RunReader {
    fn length(&self) -> StorageResult<u64> {
        if let Copy::Whole(staged) = &*self.run.copy.lock() {
            return Ok(staged.bytes());
        }
        self.object().length()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        match self.copy()? {
            Some(staged) => staged.read_exact_at(buffer, offset),
            None => self.object().read_exact_at(buffer, offset),
        }
    }

    /// From now on it is read in the bucket, whose length of it may be another, too.
    fn distrust(&self) -> bool {
        let mut kept = self.kept.clone();
        kept.distrust(&self.name);
        *self.run.copy.lock() = Copy::NotYet;
        *self.object.write() = self.run.object(&self.client, &self.name, None, kept);
        true
    }
}
