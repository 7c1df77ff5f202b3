//! Pages of snapshot trees: read through the cache of opened records, and written into records of
//! their own.

use crate::blocks::{BlockCache, Scratch};
use crate::cache::ChunkCache;
use crate::dedup::{DedupBatcher, merge_blocks};
use crate::{Error, Result, UnlockedRepository};
use crypto::IdKey;
use format::entry::compare_paths;
use format::page::{Page, PageKind};
use format::record::{RecordKind, SealedRecord};
use ids::{ObjectId, RecordLocation};
use rustc_hash::{FxHashMap, FxHashSet};
use seal::{Block, BlockCompressor, Level, OpenedBlock, Sealer};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Claim, WriteSession};
use tree::cursor::is_below;
use tree::{Cursor, PageData, PageSink, PageSource};

/// Plaintext bytes of a record of pages. Smaller than for chunks, because looking up one entry
/// opens a few of them.
const PAGE_BLOCK_BYTES: usize = 512 << 10;
/// Pages are small: a better ratio is worth the time.
const PAGE_LEVEL: Level = Level::Fixed(3);
/// Decoded inner pages that are cached.
const PAGES_MAX: usize = 256;
/// Pages that are prefetched; as leaves, some ten thousand entries.
const PREFETCH_PAGES: usize = 128;
/// Bytes of records that are prefetched for pages. It bounds what they take from the content of
/// files.
const PREFETCH_BYTES_MAX: usize = 1 << 20;

/// Reads pages.
pub struct PageReader<'a> {
    /// `None` for a write-only key: only the cache is available.
    blocks: Option<&'a BlockCache>,
    cache: Option<&'a ChunkCache>,
    ids: &'a IdKey,
    state: Mutex<State>,
}

struct State {
    scratch: Scratch,
    latest: VecDeque<(ObjectId, Arc<PageData>)>,
    /// The locations of the pages that will be read soon.
    expected: FxHashMap<ObjectId, RecordLocation>,
    /// Records that were requested and not read yet, and their bytes.
    requested: FxHashSet<RecordLocation>,
    requested_bytes: usize,
}

impl<'a> PageReader<'a> {
    /// A reader of the pages of `repository`.
    ///
    /// # Errors
    /// [`Error::WriteOnly`] for write-only keys.
    pub fn new(repository: &'a UnlockedRepository) -> Result<Self> {
        let blocks = Some(repository.blocks()?);
        Ok(Self { blocks, ..Self::cached(repository, None)? })
    }

    /// A reader that uses `cache` first, and `repository` if the key can read.
    pub(crate) fn cached(
        repository: &'a UnlockedRepository,
        cache: Option<&'a ChunkCache>,
    ) -> Result<Self> {
        let (latest, expected, requested) = Default::default();
        let state =
            State { scratch: Scratch::new()?, latest, expected, requested, requested_bytes: 0 };
        let (blocks, ids) = (repository.blocks().ok(), &repository.keys.writer.ids);
        Ok(Self { blocks, cache, ids, state: Mutex::new(state) })
    }

    /// Whether equal objects of all snapshots have the same id.
    pub(crate) fn has_dedup(&self) -> bool {
        !self.ids.is_per_backup()
    }

    /// Announces that the pages `ids` will be read next, in this order. For a remote repository,
    /// some of them are requested in advance. Call it before each read.
    pub(crate) fn prefetch(&self, ids: impl Iterator<Item = ObjectId>) -> Result<()> {
        let Some(blocks) = self.blocks.filter(|blocks| blocks.store().is_remote()) else {
            return Ok(());
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next: Vec<_> = ids.take(PREFETCH_PAGES).collect();
        let is_cached = |id: &ObjectId| self.cache.is_some_and(|cache| cache.has(id));
        let is_known = |id: &ObjectId| {
            state.expected.contains_key(id) || is_cached(id) || state.cached(id).is_some()
        };
        let is_enough = next.iter().take(PREFETCH_PAGES / 2).all(is_known);
        if is_enough || state.requested_bytes >= PREFETCH_BYTES_MAX {
            return Ok(());
        }
        let is_alone = next.len() == 1;
        let unknown: Vec<_> = next.into_iter().filter(|id| !is_known(id)).collect();
        // One page alone is found and fetched in one step.
        if is_alone || unknown.is_empty() { Ok(()) } else { state.request(&unknown, blocks) }
    }

    fn load(&self, id: &ObjectId, state: &mut State) -> Result<Arc<PageData>> {
        if let Some(page) = self.cache.and_then(|cache| cache.get(id, self.ids)) {
            return Ok(page);
        }
        let blocks = self.blocks.ok_or(Error::WriteOnly)?;
        let opened = match state.requested_record(id, blocks) {
            Some(opened) => opened,
            None => blocks.find_record(id, &mut state.scratch)?,
        };
        let page = match self.page_in(&opened, id) {
            // Any record may name a page: the one that the index names counts.
            Err(_) => {
                let opened = blocks.fetch_record(id, &mut state.scratch)?;
                self.page_in(&opened, id)?
            }
            Ok(page) => page,
        };
        if let Some(cache) = self.cache {
            cache.put(*id, page.kind, &page.refs, &page.payload);
        }
        Ok(Arc::new(page))
    }

    /// The page `id` in a record, verified.
    fn page_in(&self, opened: &OpenedBlock, id: &ObjectId) -> Result<PageData> {
        let at = opened.ids.iter().position(|other| other == id);
        let at = at.ok_or(store::Error::ObjectMissing(*id))?;
        let (kind, refs) = opened.page_head(at).ok_or(format::Error::Invalid { what: "page" })?;
        let payload = opened.payload(at);
        if !self.ids.is_page(id, kind as u8, refs, payload) {
            return Err(Error::WrongContent(*id));
        }
        Ok(PageData { kind, refs: refs.to_vec(), payload: payload.to_vec() })
    }
}

impl State {
    fn cached(&self, id: &ObjectId) -> Option<&Arc<PageData>> {
        self.latest.iter().find(|(other, _)| other == id).map(|(_, page)| page)
    }

    fn request(&mut self, ids: &[ObjectId], blocks: &BlockCache) -> Result<()> {
        let locations = blocks.store().locate(ids)?;
        for (id, location) in ids.iter().zip(locations) {
            // A missing page is reported when it is read.
            let Some(location) = location else { continue };
            self.expected.insert(*id, location);
            if !blocks.is_cached(location) && self.requested.insert(location) {
                self.requested_bytes += location.length as usize;
                blocks.store().prefetch(location)?;
            }
            if self.requested_bytes >= PREFETCH_BYTES_MAX {
                break;
            }
        }
        Ok(())
    }

    /// The record that holds `id`, if it was requested and is good.
    fn requested_record(&mut self, id: &ObjectId, blocks: &BlockCache) -> Option<Arc<OpenedBlock>> {
        let location = self.expected.remove(id)?;
        if !self.requested.remove(&location) {
            return None;
        }
        self.requested_bytes -= location.length as usize;
        let opened = blocks.open_and_cache(location, &mut self.scratch).ok()?;
        opened.ids.contains(id).then_some(opened)
    }
}

impl PageSource for PageReader<'_> {
    type Error = Error;

    fn get(&self, id: &ObjectId) -> Result<Arc<PageData>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = state.cached(id) {
            return Ok(page.clone());
        }
        let page = self.load(id, &mut state)?;
        // Leaves are read once; only inner pages are needed again.
        if page.kind == PageKind::Inner {
            state.latest.push_front((*id, page.clone()));
            state.latest.truncate(PAGES_MAX);
        }
        Ok(page)
    }

    fn content_of(&self, id: &ObjectId) -> ObjectId {
        self.ids.content_of_id(id)
    }
}

/// A page of a snapshot that cannot be read. The entries after it can.
#[derive(Clone, Debug)]
pub struct LostPage {
    /// The page.
    pub id: ObjectId,
    /// The path of its first entry; empty if unknown.
    pub first: Vec<u8>,
    /// What is missing, and why.
    pub text: String,
}

impl LostPage {
    /// The page that `error` of `cursor` lost; `None` if the tree is invalid, or nothing is lost
    /// because the storage is unreachable or the user cancelled.
    pub(crate) fn at(cursor: &mut Cursor<'_, PageReader<'_>>, error: &Error) -> Option<Self> {
        let page = cursor.take_unreadable_page().filter(|_| error.is_damage())?;
        let text = match page.sums.entries {
            0 => format!("nothing from here on can be read ({error})"),
            entries => format!("{entries} entries from here on cannot be read ({error})"),
        };
        Some(Self { id: page.id, first: page.first, text })
    }

    /// The entry of the directory `path`, which only the lost page `id` can hold.
    pub(crate) fn of_entry(id: ObjectId, path: &[u8]) -> Self {
        let text = "the entry of this directory cannot be read; what lies below it can".to_owned();
        Self { id, first: path.to_vec(), text }
    }

    /// A list of chunks of the file `path`, which `error` lost.
    pub(crate) fn of_list(id: ObjectId, path: &[u8], error: &Error) -> Self {
        let text = format!("a part of its content cannot be read ({error})");
        Self { id, first: path.to_vec(), text }
    }

    /// Whether all of it comes after everything in `directory`.
    pub(crate) fn is_behind(&self, directory: &[u8]) -> bool {
        compare_paths(&self.first, directory).is_gt() && !is_below(&self.first, directory)
    }
}

impl std::fmt::Display for LostPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Writes new pages; shared by the threads of a backup.
pub(crate) struct PageWriter<'a> {
    session: &'a dyn WriteSession,
    sealer: &'a Sealer,
    ids: &'a IdKey,
    cache: Option<&'a ChunkCache>,
    state: Mutex<WriterState>,
}

struct WriterState {
    block: Block,
    unknown: DedupBatcher<()>,
    packer: BlockCompressor,
    record: SealedRecord,
    plain_bytes: u64,
}

impl<'a> PageWriter<'a> {
    pub(crate) fn new(
        session: &'a dyn WriteSession,
        sealer: &'a Sealer,
        ids: &'a IdKey,
        cache: Option<&'a ChunkCache>,
    ) -> Result<Self> {
        let state = WriterState {
            block: Block::new(RecordKind::Pages),
            unknown: DedupBatcher::new(RecordKind::Pages, PAGE_BLOCK_BYTES),
            packer: BlockCompressor::new(PAGE_LEVEL)?,
            record: Sealer::empty_record(),
            plain_bytes: 0,
        };
        Ok(Self { session, sealer, ids, cache, state: Mutex::new(state) })
    }

    /// What names the objects of this backup.
    pub(crate) fn ids(&self) -> &'a IdKey {
        self.ids
    }

    /// Stores `page` if it is new. A page that readers would reject is an error.
    pub(crate) fn put(&self, page: &Page) -> Result<ObjectId> {
        let id = self.ids.page_id(page.kind as u8, &page.refs, &page.payload);
        let bytes = page.payload.len() + page.refs.len() * ObjectId::LEN;
        if let Some(cache) = self.cache {
            cache.put(id, page.kind, &page.refs, &page.payload);
        }
        match self.session.claim(&id)? {
            Claim::Duplicate => {}
            Claim::New => {
                format::check::page(page)?;
                let mut state = self.lock();
                if state.block.is_full_for(bytes, PAGE_BLOCK_BYTES) {
                    self.seal(&mut state)?;
                }
                state.plain_bytes += bytes as u64;
                state.block.push_page(id, page);
            }
            Claim::Unknown => {
                format::check::page(page)?;
                let mut state = self.lock();
                state.unknown.push(self.session, bytes, (), |block| block.push_page(id, page))?;
                self.take_results(&mut state, false)?;
            }
        }
        Ok(id)
    }

    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the pages that turned out to be new.
    fn take_results(&self, state: &mut WriterState, wait: bool) -> Result<()> {
        while let Some(result) = state.unknown.next_result(wait)? {
            state.plain_bytes += result.block.bytes() as u64;
            if let Some(full) = merge_blocks(&mut state.block, result.block, PAGE_BLOCK_BYTES) {
                let rest = std::mem::replace(&mut state.block, full);
                self.seal(state)?;
                state.block = rest;
            }
        }
        Ok(())
    }

    /// Stores all pending pages. Returns the bytes of all pages written.
    pub(crate) fn finish(&self) -> Result<u64> {
        let mut state = self.lock();
        state.unknown.send(self.session)?;
        self.take_results(&mut state, true)?;
        if !state.block.is_empty() {
            self.seal(&mut state)?;
        }
        Ok(state.plain_bytes)
    }

    fn seal(&self, state: &mut WriterState) -> Result<()> {
        self.sealer.seal_block(&mut state.block, &mut state.packer, &mut state.record)?;
        Ok(self.session.append(&state.record)?)
    }
}

impl PageSink for &PageWriter<'_> {
    type Error = Error;

    fn put(&mut self, page: Page) -> Result<ObjectId> {
        PageWriter::put(self, &page)
    }
}
