//! A cache of opened records: pages and small chunks share records, and the neighbors of an object
//! are usually needed next.

use crate::key_list::KeyListReader;
use crate::{Error, Result};
use crypto::IdKey;
use format::record;
use ids::{ContainerNo, ObjectId, RecordLocation, SessionId};
use seal::{OpenedBlock, Opener};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Store;

/// Plaintext bytes kept in memory by default.
const CACHE_BYTES: usize = 24 << 20;

/// Fetches, opens and caches records.
pub(crate) struct BlockCache {
    store: Arc<dyn Store>,
    opener: Opener,
    /// The source of secrets of later key epochs.
    key_list_reader: Arc<KeyListReader>,
    cached: Mutex<CachedBlocks>,
    /// Plaintext bytes that may be cached.
    bytes_max: usize,
}

#[derive(Default)]
struct CachedBlocks {
    /// Latest first.
    blocks: VecDeque<(RecordLocation, Arc<OpenedBlock>)>,
    bytes: usize,
}

/// Buffers of one thread for opening records.
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    unpacker: zstd::bulk::Decompressor<'static>,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let unpacker = zstd::bulk::Decompressor::new().map_err(|_| seal::Error::Decompress)?;
        Ok(Self { bytes: Vec::new(), unpacker })
    }
}

impl BlockCache {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        opener: Opener,
        key_list_reader: Arc<KeyListReader>,
    ) -> Self {
        Self { store, opener, key_list_reader, cached: Mutex::default(), bytes_max: CACHE_BYTES }
    }

    /// Sets how many bytes of plaintext may be cached.
    pub(crate) fn with_cache_bytes(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    pub(crate) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// The record that holds `id`, or says so: one that is cached need not be the one that the index names. Whoever finds
    /// something else in it asks for [`BlockCache::fetch_record`].
    pub(crate) fn find_record(
        &self,
        id: &ObjectId,
        scratch: &mut Scratch,
    ) -> Result<Arc<OpenedBlock>> {
        if let Some(opened) = self.cached_with(id) {
            return Ok(opened);
        }
        self.fetch_record(id, scratch)
    }

    /// The record in which the index has `id`.
    pub(crate) fn fetch_record(
        &self,
        id: &ObjectId,
        scratch: &mut Scratch,
    ) -> Result<Arc<OpenedBlock>> {
        let location = self.store.fetch(id, &mut scratch.bytes)?;
        let opened = Arc::new(self.open_or_heal(location, scratch)?);
        self.cache(location, &opened);
        Ok(opened)
    }

    /// The payload of `id`, verified against its id by `is_named`.
    pub(crate) fn object(
        &self,
        id: &ObjectId,
        scratch: &mut Scratch,
        is_named: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>> {
        let opened = self.find_record(id, scratch)?;
        if let Some(payload) = opened.find(id).filter(|payload| is_named(payload)) {
            return Ok(payload.to_vec());
        }
        let opened = self.fetch_record(id, scratch)?;
        let payload = opened.find(id).ok_or(store::Error::ObjectMissing(*id))?;
        if is_named(payload) { Ok(payload.to_vec()) } else { Err(Error::WrongContent(*id)) }
    }

    /// Reads and opens the record at `location`, without caching it.
    pub(crate) fn open_at(
        &self,
        location: RecordLocation,
        scratch: &mut Scratch,
    ) -> Result<OpenedBlock> {
        self.store.read(location, &mut scratch.bytes)?;
        self.open_or_heal(location, scratch)
    }

    /// Reads, opens and caches the record at `location`.
    pub(crate) fn open_and_cache(
        &self,
        location: RecordLocation,
        scratch: &mut Scratch,
    ) -> Result<Arc<OpenedBlock>> {
        let opened = Arc::new(self.open_at(location, scratch)?);
        self.cache(location, &opened);
        Ok(opened)
    }

    /// The repository.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Whether the record at `location` is cached.
    pub(crate) fn is_cached(&self, location: RecordLocation) -> bool {
        self.lock().blocks.iter().any(|(other, _)| *other == location)
    }

    /// The record that holds `id`, if it is cached.
    fn cached_with(&self, id: &ObjectId) -> Option<Arc<OpenedBlock>> {
        let mut cached = self.lock();
        let at = cached.blocks.iter().position(|(_, opened)| opened.ids.contains(id))?;
        let block = cached.blocks.remove(at)?;
        let opened = block.1.clone();
        cached.blocks.push_front(block);
        Some(opened)
    }

    /// Opens the record that was read from `location`. If it does not open, parity of its container
    /// may heal it.
    fn open_or_heal(&self, location: RecordLocation, scratch: &mut Scratch) -> Result<OpenedBlock> {
        match self.open_fetched(location, scratch) {
            Err(_) if self.store.heal(location, &mut scratch.bytes) => {
                self.open_fetched(location, scratch)
            }
            result => result,
        }
    }

    /// Opens the bytes of a record of `container`; `bytes` is overwritten.
    pub(crate) fn open_bytes(
        &self,
        container: ContainerNo,
        bytes: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<OpenedBlock> {
        let session = record::split(bytes)?.header.session;
        if !self.opener.knows_session(&session) {
            self.learn(&session, container)?;
        }
        self.open_known(bytes, scratch)
    }

    /// Opens the bytes of a record whose session key is known; `bytes` is overwritten.
    pub(crate) fn open_known(
        &self,
        bytes: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<OpenedBlock> {
        Ok(self.opener.open(bytes, &mut scratch.unpacker)?)
    }

    fn open_fetched(&self, location: RecordLocation, scratch: &mut Scratch) -> Result<OpenedBlock> {
        let session = record::split(&scratch.bytes)?.header.session;
        if !self.opener.knows_session(&session) {
            self.learn(&session, location.container)?;
        }
        Ok(self.opener.open(&mut scratch.bytes, &mut scratch.unpacker)?)
    }

    /// Learns the session keys in a container, which are before the records that they seal, and at
    /// its end.
    pub(crate) fn learn_sessions(&self, container: ContainerNo) -> Result<()> {
        self.learn_from(&self.store.session_keys(container, false)?)
    }

    /// Learns the key of a session from the clear part of its record.
    pub(crate) fn learn_key(&self, sealed: &[u8]) -> Result<()> {
        self.key_list_reader.learn(&self.opener, sealed)
    }

    fn learn_from(&self, keys: &[Vec<u8>]) -> Result<()> {
        let learned: Vec<Result<()>> = keys.iter().map(|key| self.learn_key(key)).collect();
        // Each is stored twice: one good copy is enough.
        if learned.iter().any(Result::is_ok) {
            return Ok(());
        }
        learned.into_iter().next().unwrap_or(Ok(()))
    }

    /// Learns the key of `session`, of which `container` holds a record. If the key record there is
    /// damaged, the snapshot file of that session has a copy (`docs/FORMAT.md`, section 15).
    fn learn(&self, session: &SessionId, container: ContainerNo) -> Result<()> {
        let here = self.learn_sessions(container);
        if self.opener.knows_session(session) || self.learn_healed(session, container)? {
            return Ok(());
        }
        for stored in
            self.store.snapshots()?.chunks(64).flat_map(|some| self.store.read_snapshots(some))
        {
            let Ok(stored) = stored else { continue };
            if record::split(&stored.record)?.header.session == *session {
                return self.learn_key(&stored.session);
            }
        }
        here
    }

    /// Learns the key of `session` from the parity of a container that lost both its key records.
    fn learn_healed(&self, session: &SessionId, container: ContainerNo) -> Result<bool> {
        let _ = self.learn_from(&self.store.session_keys(container, true)?);
        Ok(self.opener.knows_session(session))
    }

    fn cache(&self, location: RecordLocation, opened: &Arc<OpenedBlock>) {
        if self.is_cached(location) {
            return;
        }
        let mut cached = self.lock();
        cached.bytes += opened.bytes();
        cached.blocks.push_front((location, opened.clone()));
        while cached.bytes > self.bytes_max
            && let Some((_, last)) = cached.blocks.pop_back()
        {
            cached.bytes -= last.bytes();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedBlocks> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The objects of a record whose content does not match their ids.
pub(crate) fn misnamed(ids: &IdKey, opened: &OpenedBlock) -> impl Iterator<Item = ObjectId> {
    let is_named = |at: usize, id: &ObjectId| {
        let payload = opened.payload(at);
        match opened.page_head(at) {
            Some((kind, refs)) => ids.is_page(id, kind as u8, refs, payload),
            None => ids.is_chunk(id, payload),
        }
    };
    let named = opened.ids.iter().enumerate();
    named.filter(move |(at, id)| !is_named(*at, id)).map(|(_, id)| *id)
}
