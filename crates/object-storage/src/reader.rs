//! Reading objects: small reads are served from a piece that is larger, and reads in order from ever larger ones.

use crate::cache::Cache;
use crate::client::{Client, Part};
use crate::staging::Staged;
use bytes::Bytes;
use parking_lot::Mutex;
use repository::storage::{FileReader, StorageError, StorageResult};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The least that a request fetches: 64 KiB.
const PIECE_BYTES_MIN: u64 = 64 << 10;
/// A read of so much is a request of its own, beside others: 256 KiB.
const LARGE_BYTES: u64 = 256 << 10;
/// The most that is read ahead: 8 MiB.
const PIECE_BYTES_MAX: u64 = 8 << 20;
/// Objects up to this size are fetched whole: 1 MiB.
const WHOLE_BYTES_MAX: u64 = 1 << 20;

/// The name of the piece that is all of an object.
const WHOLE: &str = "whole";
/// The name of what is all of an object, and lies as it is behind the head of its file.
const FILE: &str = "file";

/// An object that is in memory.
pub(crate) struct MemoryReader {
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
}

impl FileReader for MemoryReader {
    fn length(&self) -> StorageResult<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        copy_from(&self.bytes, 0, buffer, offset).then_some(()).ok_or_else(|| ends(&self.name))
    }
}

/// An object that is fetched in pieces. It is not looked for before the first read.
pub(crate) struct ObjectReader {
    client: Arc<Client>,
    name: String,
    length: OnceLock<u64>,
    kept: Kept,
    /// Bytes that were fetched.
    fetched: Arc<AtomicU64>,
    /// What was fetched last, and its offset.
    piece: Mutex<Piece>,
}

/// Pieces that this machine keeps.
#[derive(Clone, Default)]
pub(crate) struct Kept {
    pub(crate) cache: Option<Arc<Cache>>,
    /// Whether new ones are kept. Without a tag, not while the lease is held: what is written now may come to nothing,
    /// and its number be given again.
    pub(crate) is_growing: bool,
    /// By which the storage tells the contents of the object apart: with it, what is kept is of that content.
    pub(crate) tag: Option<String>,
    /// Whether what is kept was found to be wrong: then it is fetched, and takes its place.
    pub(crate) is_distrusted: bool,
}

impl Kept {
    /// Whether all of the object `name` is kept.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.part(name, WHOLE).is_some()
    }

    /// What is kept of the object `name` is wrong: it goes, in whatever pieces it is not fetched again.
    pub(crate) fn distrust(&mut self, name: &str) {
        self.is_distrusted = true;
        if let Some(cache) = &self.cache {
            [WHOLE, FILE].iter().for_each(|piece| cache.remove(&self.key(name, piece)));
        }
    }

    fn key(&self, name: &str, piece: &str) -> String {
        let tag = self.tag.as_deref().unwrap_or_default();
        format!("{name} {piece} {tag}")
    }

    /// Keeps the object `name`, which this process has written, if its tag is known.
    pub(crate) fn keep(&self, name: &str, object: &Bytes) {
        if let (Some(cache), Some(_)) = (&self.cache, &self.tag) {
            let length = object.len() as u64;
            cache.put(&self.key(name, WHOLE), &[&length.to_le_bytes(), &object[..]].concat());
        }
    }

    /// Keeps the file `name`, if its tag is known.
    pub(crate) fn keep_file(&self, name: &str, file: &Staged) {
        if let (Some(cache), Some(_)) = (&self.cache, &self.tag) {
            cache.put_file(&self.key(name, FILE), file);
        }
    }

    /// The file `name`, if it is kept.
    pub(crate) fn file(&self, name: &str) -> Option<Staged> {
        self.tag.as_ref().filter(|_| !self.is_distrusted)?;
        self.cache.as_ref()?.file(&self.key(name, FILE), name)
    }

    /// The object `name`, or what `fetch` brings. Nothing is kept, or believed of what was, that is not good.
    pub(crate) fn whole(
        &self,
        name: &str,
        is_good: impl Fn(&Bytes) -> bool,
        fetch: impl FnOnce() -> StorageResult<Bytes>,
    ) -> StorageResult<Bytes> {
        if let Some(part) = self.part(name, WHOLE).filter(|part| is_good(&part.bytes)) {
            return Ok(part.bytes);
        }
        let bytes = fetch()?;
        if is_good(&bytes) {
            self.add(name, WHOLE, &Part { object_bytes: bytes.len() as u64, bytes: bytes.clone() });
        }
        Ok(bytes)
    }

    /// The piece of the object `name` that is called `piece`, or what `fetch` brings.
    fn get(
        &self,
        name: &str,
        piece: &str,
        fetch: impl FnOnce() -> StorageResult<Part>,
    ) -> StorageResult<Part> {
        if let Some(part) = self.part(name, piece) {
            return Ok(part);
        }
        let part = fetch()?;
        self.add(name, piece, &part);
        Ok(part)
    }

    /// The piece of the object `name` that is kept.
    fn part(&self, name: &str, piece: &str) -> Option<Part> {
        let cache = self.cache.as_ref().filter(|_| !self.is_distrusted)?;
        let (object_bytes, bytes) = split(&cache.get(&self.key(name, piece))?)?;
        Some(Part { bytes, object_bytes })
    }

    fn add(&self, name: &str, piece: &str, part: &Part) {
        if let Some(cache) = self.cache.as_ref().filter(|_| self.is_growing) {
            let kept = [&part.object_bytes.to_le_bytes(), &part.bytes[..]].concat();
            cache.put(&self.key(name, piece), &kept);
        }
    }
}

/// The length of an object, and the piece of it that was kept.
fn split(kept: &Bytes) -> Option<(u64, Bytes)> {
    let length = kept.first_chunk::<8>()?;
    Some((u64::from_le_bytes(*length), kept.slice(8..)))
}

#[derive(Default)]
struct Piece {
    offset: u64,
    bytes: Bytes,
    /// What the next one has, if it follows.
    next_bytes: u64,
}

impl Piece {
    /// Whether what is at `offset` comes next.
    fn is_followed_by(&self, offset: u64) -> bool {
        !self.bytes.is_empty() && offset == self.offset + self.bytes.len() as u64
    }
}

impl ObjectReader {
    /// The object `name`, whose length may be known.
    pub(crate) fn new(client: &Arc<Client>, name: &str, length: Option<u64>, kept: Kept) -> Self {
        let length = length.map(OnceLock::from).unwrap_or_default();
        let (client, piece) = (client.clone(), Mutex::default());
        Self { client, name: name.to_owned(), length, kept, fetched: Arc::default(), piece }
    }

    /// Counts the bytes that it fetches in `fetched`.
    pub(crate) fn count_in(&mut self, fetched: &Arc<AtomicU64>) {
        self.fetched = fetched.clone();
    }

    /// One request.
    fn request(&self, range: Range<u64>) -> StorageResult<Part> {
        let part = self.client.get_range(&self.name, range)?;
        self.fetched.fetch_add(part.bytes.len() as u64, Ordering::Relaxed);
        Ok(part)
    }

    /// What one request fetches for a read of `length` bytes at `offset`.
    fn range(&self, piece: &Piece, offset: u64, length: u64) -> (u64, u64) {
        let end = offset.saturating_add(length);
        let ahead = if piece.is_followed_by(offset) { piece.next_bytes } else { PIECE_BYTES_MIN };
        let Some(object) = self.length.get().copied() else {
            return (offset, end.max(offset.saturating_add(ahead)));
        };
        if object <= WHOLE_BYTES_MAX {
            return (0, object);
        }
        if end == object {
            // The end of a file is read backwards.
            return (offset.min(object.saturating_sub(PIECE_BYTES_MIN)), end);
        }
        (offset, end.max(offset.saturating_add(ahead)).min(object.max(end)))
    }

    fn fetch(&self, piece: &mut Piece, offset: u64, length: u64) -> StorageResult<()> {
        let (start, end) = self.range(piece, offset, length);
        let fetch = || self.request(start..end);
        let is_small = end - start <= WHOLE_BYTES_MAX;
        let fetched = if is_small && !piece.is_followed_by(offset) {
            self.kept.get(&self.name, &format!("{start}-{end}"), fetch)?
        } else {
            fetch()?
        };
        let _ = self.length.set(fetched.object_bytes); // it never changes
        let next_bytes = (2 * (end - start)).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        *piece = Piece { offset: start, bytes: fetched.bytes, next_bytes };
        Ok(())
    }
}

impl FileReader for ObjectReader {
    fn length(&self) -> StorageResult<u64> {
        if let Some(length) = self.length.get() {
            return Ok(*length);
        }
        // Whoever asks for the length reads the end next.
        let mut piece = self.piece.lock();
        let fetch = || self.client.get_end(&self.name, PIECE_BYTES_MIN);
        let end = self.kept.get(&self.name, "end", fetch)?;
        let offset = end.object_bytes.saturating_sub(end.bytes.len() as u64);
        *piece = Piece { offset, bytes: end.bytes, next_bytes: PIECE_BYTES_MIN };
        Ok(*self.length.get_or_init(|| end.object_bytes))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let length = buffer.len() as u64;
        if length == 0 {
            return Ok(());
        }
        let mut piece = self.piece.lock();
        if copy_from(&piece.bytes, piece.offset, buffer, offset) {
            return Ok(());
        }
        if self.length.get().is_some_and(|object| offset.saturating_add(length) > *object) {
            return Err(ends(&self.name));
        }
        let follows = offset == piece.offset + piece.bytes.len() as u64;
        if length >= LARGE_BYTES && !follows {
            drop(piece);
            let part = self.request(offset..offset.saturating_add(length))?;
            let _ = self.length.set(part.object_bytes); // it never changes
            let is_whole = copy_from(&part.bytes, offset, buffer, offset);
            return is_whole.then_some(()).ok_or_else(|| ends(&self.name));
        }
        self.fetch(&mut piece, offset, length)?;
        let is_whole = copy_from(&piece.bytes, piece.offset, buffer, offset);
        is_whole.then_some(()).ok_or_else(|| ends(&self.name))
    }
}

/// Fills `buffer` from `bytes`, which begin at `start`; `false` when they do not have all of it.
pub(crate) fn copy_from(bytes: &Bytes, start: u64, buffer: &mut [u8], offset: u64) -> bool {
    let Some(from) = offset.checked_sub(start) else { return false };
    let end = from.saturating_add(buffer.len() as u64);
    let Some(bytes) = bytes.get(from as usize..end as usize) else { return false };
    buffer.copy_from_slice(bytes);
    true
}

fn ends(name: &str) -> StorageError {
    StorageError::new("read", name, ErrorKind::UnexpectedEof)
}
