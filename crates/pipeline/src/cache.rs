//! The chunk cache of a node: the pages of the last snapshot of a source, which name its chunks.
//! With it, a backup over a network need not fetch the previous snapshot to see what changed, and a
//! node with a write-only key can see it at all.
//!
//! Two files: `pages` (appended to) and `index` (replaced at the end). Nothing in it is trusted: a
//! page is used only if its content matches the requested id. So a cache that is stale, torn,
//! damaged, missing or of another source costs time, never a backup.
//!
//! ```text
//!  pages:  | kind 1 | refs: count 4 | payload: length 4 | refs… | payload… |  one after the other
//!  index:  | "ICECACH1" | length of pages 8 | epoch 8 | rows: id 24, offset 8, length 4 … | sum 16 |
//! ```

use crypto::IdKey;
use format::page::PageKind;
use format::wire::{Reader, checksum};
use ids::ObjectId;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tree::PageData;

const MAGIC: [u8; 8] = *b"ICECACH1";
const HEAD_BYTES: usize = 9;
const ROW_BYTES: usize = 36;
/// The largest index that is read: for more pages than any tree that fits into a cache.
const INDEX_BYTES_MAX: u64 = 512 << 20;
/// How much old pages may take besides those in use before they are removed.
const GARBAGE_BYTES: u64 = 4 << 20;
/// The largest page that is accepted.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// A cache of pages, shared by threads.
pub struct ChunkCache {
    folder: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
}

struct State {
    pages: File,
    length: u64,
    /// The length of the pages that the saved index covers.
    saved_length: u64,
    /// The damage epoch of the repository when the cache was last saved.
    epoch: u64,
    positions: FxHashMap<ObjectId, (u64, u32)>,
    /// The pages that this run used, and their bytes; the others are of old snapshots.
    used: FxHashSet<ObjectId>,
    used_bytes: u64,
    /// Writing failed, or there is no room: nothing more is added.
    is_full: bool,
}

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CacheReport {
    /// Pages that were found.
    pub hits: u64,
    /// Pages that were not found.
    pub misses: u64,
    /// Pages whose content did not match their ids.
    pub damaged: u64,
    /// The size of the cache in bytes.
    pub bytes: u64,
}

impl ChunkCache {
    /// Opens or creates the cache in `folder`, with at most `max_bytes`. `None` if another process
    /// uses it.
    ///
    /// # Errors
    /// When the folder cannot be created or written.
    pub fn open(folder: &Path, max_bytes: u64) -> io::Result<Option<Self>> {
        // Its files name what the user has: nobody else may even list them.
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let pages = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join("pages"))?;
        if rustix::fs::flock(&pages, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return Ok(None);
        }
        let length = pages.metadata()?.len();
        let known = read_index(&folder.join("index"), length);
        let (length, epoch, positions) = known.unwrap_or_default();
        // Bytes behind it are from a run that did not finish.
        pages.set_len(length)?;
        let (used, used_bytes, saved_length) = (FxHashSet::default(), 0, length);
        let is_full = false;
        let state =
            State { pages, length, saved_length, epoch, positions, used, used_bytes, is_full };
        let (hits, misses, damaged) = Default::default();
        let state = Mutex::new(state);
        Ok(Some(Self { folder: folder.to_owned(), max_bytes, state, hits, misses, damaged }))
    }

    /// The page `id`, if it is there and intact.
    pub(crate) fn get(&self, id: &ObjectId, ids: &IdKey) -> Option<Arc<PageData>> {
        let position = self.state.lock().positions.get(id).copied();
        let page = position.and_then(|position| self.read(position));
        let Some(page) = page else {
            self.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if !ids.is_page(id, page.kind as u8, &page.refs, &page.payload) {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            self.state.lock().positions.remove(id);
            return None;
        }
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.state.lock().use_page(*id);
        Some(Arc::new(page))
    }

    /// Whether the page `id` seems to be there.
    pub(crate) fn has(&self, id: &ObjectId) -> bool {
        self.state.lock().positions.contains_key(id)
    }

    /// Adds a page, if there is room.
    pub(crate) fn put(&self, id: ObjectId, kind: PageKind, refs: &[ObjectId], payload: &[u8]) {
        let mut state = self.state.lock();
        if state.is_full || state.positions.contains_key(&id) {
            return state.use_page(id);
        }
        let mut bytes = vec![kind as u8];
        bytes.extend_from_slice(&(refs.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        refs.iter().for_each(|id| bytes.extend_from_slice(&id.0));
        bytes.extend_from_slice(payload);
        let end = state.length + bytes.len() as u64;
        if end > self.max_bytes || state.pages.write_all_at(&bytes, state.length).is_err() {
            state.is_full = true;
            return;
        }
        let position = (state.length, bytes.len() as u32);
        state.positions.insert(id, position);
        state.length = end;
        state.use_page(id);
    }

    /// The damage epoch of the repository when the cache was saved; 0 for a new one.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.lock().epoch
    }

    /// Saves the cache for the next run. A cache that is full keeps only the pages of this run.
    ///
    /// # Errors
    /// When the index cannot be written; the next run starts with an empty cache.
    pub fn save(&self, epoch: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let garbage = state.length.saturating_sub(state.used_bytes);
        if state.is_full || garbage > state.used_bytes + GARBAGE_BYTES {
            state.compact(&self.folder)?;
        }
        state.epoch = epoch;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&state.length.to_le_bytes());
        bytes.extend_from_slice(&epoch.to_le_bytes());
        for (id, (offset, length)) in &state.positions {
            bytes.extend_from_slice(&id.0);
            bytes.extend_from_slice(&offset.to_le_bytes());
            bytes.extend_from_slice(&length.to_le_bytes());
        }
        let sum = checksum(&[&bytes]);
        bytes.extend_from_slice(&sum);
        let new = self.folder.join("index.new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&bytes)?;
        // No sync: after a power failure the checksum does not match, and the cache starts empty.
        std::fs::rename(&new, self.folder.join("index"))?;
        state.saved_length = state.length;
        Ok(())
    }

    /// The counters since the cache was opened.
    pub fn report(&self) -> CacheReport {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let bytes = self.state.lock().length;
        let (hits, misses) = (get(&self.hits), get(&self.misses));
        CacheReport { hits, misses, damaged: get(&self.damaged), bytes }
    }

    fn read(&self, (offset, length): (u64, u32)) -> Option<PageData> {
        if length as usize > PAGE_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; length as usize];
        self.state.lock().pages.read_exact_at(&mut bytes, offset).ok()?;
        decode(&bytes)
    }
}

impl Drop for State {
    /// Removes what was not saved; the next run would truncate it anyway.
    fn drop(&mut self) {
        let _ = self.pages.set_len(self.saved_length.min(self.length));
    }
}

impl State {
    fn use_page(&mut self, id: ObjectId) {
        if let Some((_, length)) = self.positions.get(&id)
            && self.used.insert(id)
        {
            self.used_bytes += u64::from(*length);
        }
    }

    /// Rewrites the pages, without those that this run did not use.
    fn compact(&mut self, folder: &Path) -> io::Result<()> {
        let path = folder.join("pages.new");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let new = options.open(&path)?;
        rustix::fs::flock(&new, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        let (mut positions, mut length, mut buffer) = (FxHashMap::default(), 0, Vec::new());
        for id in &self.used {
            let Some((offset, bytes)) = self.positions.get(id).copied() else { continue };
            buffer.resize(bytes as usize, 0);
            self.pages.read_exact_at(&mut buffer, offset)?;
            new.write_all_at(&buffer, length)?;
            positions.insert(*id, (length, bytes));
            length += u64::from(bytes);
        }
        // The old index is longer than these pages, or its places hold other pages: either way
        // nothing wrong is trusted.
        std::fs::rename(path, folder.join("pages"))?;
        (self.pages, self.positions, self.length) = (new, positions, length);
        Ok(())
    }
}

fn decode(bytes: &[u8]) -> Option<PageData> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let mut reader = Reader::new(head, "cached page");
    let kind = PageKind::from_number(reader.u8().ok()?)?;
    let (refs, payload) = (reader.u32().ok()? as usize, reader.u32().ok()? as usize);
    let (refs, payload_bytes) = rest.split_at_checked(refs.checked_mul(ObjectId::LEN)?)?;
    if payload_bytes.len() != payload {
        return None;
    }
    let refs = refs.as_chunks::<{ ObjectId::LEN }>().0.iter().map(|id| ObjectId(*id)).collect();
    Some(PageData { kind, refs, payload: payload_bytes.to_vec() })
}

type Known = (u64, u64, FxHashMap<ObjectId, (u64, u32)>);

/// The index, if it is intact and no newer than the pages.
fn read_index(path: &Path, pages_bytes: u64) -> Option<Known> {
    let length = std::fs::metadata(path).ok()?.len();
    let bytes = if length <= INDEX_BYTES_MAX { std::fs::read(path).ok()? } else { return None };
    let (body, sum) = bytes.split_last_chunk::<16>()?;
    let rows = body.get(24..)?;
    let mut reader = Reader::new(body, "index of a cache");
    let is_whole = reader.array().ok()? == MAGIC && checksum(&[body]) == *sum;
    let (length, epoch) = (reader.u64().ok()?, reader.u64().ok()?);
    if !is_whole || length > pages_bytes {
        return None;
    }
    let (rows, []) = rows.as_chunks::<ROW_BYTES>() else { return None };
    let row = |row: &[u8; ROW_BYTES]| {
        let mut reader = Reader::new(row, "row of a cache");
        let (id, offset) = (reader.array().ok()?, reader.u64().ok()?);
        Some((ObjectId(id), (offset, reader.u32().ok()?)))
    };
    Some((length, epoch, rows.iter().filter_map(row).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto::DomainSecret;
    use std::os::unix::fs::PermissionsExt;

    fn key() -> IdKey {
        DomainSecret::from_bytes([7; 32]).id_key()
    }

    fn page(number: u8, key: &IdKey) -> (ObjectId, Vec<ObjectId>, Vec<u8>) {
        let (refs, payload) = (vec![ObjectId([number; 24]); 3], vec![number; 1000]);
        (key.page_id(PageKind::Leaf as u8, &refs, &payload), refs, payload)
    }

    fn filled(folder: &Path, key: &IdKey) -> Vec<ObjectId> {
        let cache = ChunkCache::open(folder, 1 << 20).unwrap().unwrap();
        let pages: Vec<_> = (0..10).map(|number| page(number, key)).collect();
        pages.iter().for_each(|(id, refs, payload)| cache.put(*id, PageKind::Leaf, refs, payload));
        cache.save(5).unwrap();
        pages.into_iter().map(|(id, ..)| id).collect()
    }

    #[test]
    fn what_was_kept_is_found_by_the_next_run() {
        let (folder, key) = (tempfile::tempdir().unwrap(), key());
        let ids = filled(folder.path(), &key);
        let cache = ChunkCache::open(folder.path(), 1 << 20).unwrap().unwrap();
        assert_eq!(cache.epoch(), 5);
        assert!(ids.iter().all(|id| cache.get(id, &key).is_some()));
        assert!(cache.get(&ObjectId([9; 24]), &key).is_none());
        assert_eq!((cache.report().hits, cache.report().misses), (10, 1));
    }

    #[test]
    fn a_flipped_bit_anywhere_costs_pages_and_never_gives_a_wrong_one() {
        let key = key();
        for name in ["pages", "index"] {
            let folder = tempfile::tempdir().unwrap();
            let ids = filled(folder.path(), &key);
            let path = folder.path().join(name);
            let whole = std::fs::read(&path).unwrap();
            for at in (0..whole.len()).step_by(97) {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (at % 8);
                std::fs::write(&path, &bytes).unwrap();
                let cache = ChunkCache::open(folder.path(), 1 << 20).unwrap().unwrap();
                for (number, id) in ids.iter().enumerate() {
                    if let Some(found) = cache.get(id, &key) {
                        assert_eq!(found.payload, vec![number as u8; 1000]);
                    }
                }
                drop(cache);
                std::fs::write(&path, &whole).unwrap();
            }
        }
    }

    #[test]
    fn torn_stale_and_lost_files_begin_anew() {
        let key = key();
        for harm in ["cut pages", "cut index", "no pages", "no index"] {
            let folder = tempfile::tempdir().unwrap();
            let ids = filled(folder.path(), &key);
            let (verb, name) = harm.split_once(' ').unwrap();
            let path = folder.path().join(name);
            match verb {
                "cut" => {
                    let length = std::fs::metadata(&path).unwrap().len();
                    OpenOptions::new()
                        .write(true)
                        .open(&path)
                        .unwrap()
                        .set_len(length / 2)
                        .unwrap();
                }
                _ => std::fs::remove_file(&path).unwrap(),
            }
            let cache = ChunkCache::open(folder.path(), 1 << 20).unwrap().unwrap();
            assert!(ids.iter().all(|id| cache.get(id, &key).is_none()), "{harm}");
            let (id, refs, payload) = page(77, &key);
            cache.put(id, PageKind::Leaf, &refs, &payload);
            cache.save(6).unwrap();
            drop(cache);
            let cache = ChunkCache::open(folder.path(), 1 << 20).unwrap().unwrap();
            assert!(cache.get(&id, &key).is_some(), "{harm}: it works again");
        }
    }

    #[test]
    fn its_folder_is_of_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("of/source");
        ChunkCache::open(&path, 5000).unwrap().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&path), mode(&path.join("pages"))], [0o700, 0o600]);
    }

    #[test]
    fn it_grows_no_larger_than_it_may_and_is_of_one_process() {
        let (folder, key) = (tempfile::tempdir().unwrap(), key());
        let cache = ChunkCache::open(folder.path(), 5000).unwrap().unwrap();
        assert!(ChunkCache::open(folder.path(), 5000).unwrap().is_none(), "another has it");
        for number in 0..100 {
            let (id, refs, payload) = page(number, &key);
            cache.put(id, PageKind::Leaf, &refs, &payload);
        }
        assert!(cache.report().bytes <= 5000);
        cache.save(0).unwrap();
        assert!(std::fs::metadata(folder.path().join("pages")).unwrap().len() <= 5000);
    }
}
