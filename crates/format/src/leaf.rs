//! Leaf pages: entries in path order.
//!
//! Paths share their beginning with the entry before; what many entries have in common stands
//! once in a table; times and inodes are differences to the entry before. A file of one chunk
//! that is the next reference costs no byte for its content.

mod sets;

use crate::entry::{Attributes, Content, Entry, Kind, Segment, Time, is_clean_path};
use crate::limits::{
    CHUNK_BYTES_MAX, INLINE_BYTES_MAX, PAGE_ENTRIES_MAX, PAGE_PATH_BYTES_MAX, PAGE_REFS_MAX,
    PATH_BYTES_MAX,
};
use crate::list::{SegmentReader, put_segments};
use crate::page::{Page, PageKind};
use crate::wire::{Reader, put_signed, put_string, put_varint};
use crate::{Error, Result};
use ids::ObjectId;
pub(crate) use sets::are_runs;
use std::collections::HashMap;
use std::sync::Arc;

/// What is in an entry, the low three bits of its tag.
mod tag {
    pub(super) const NONE: u8 = 0;
    pub(super) const INLINE: u8 = 1;
    /// One chunk as long as the file, and the next reference.
    pub(super) const NEXT: u8 = 2;
    pub(super) const SEGMENTS: u8 = 3;
    pub(super) const LISTS: u8 = 4;
    pub(super) const CONTENT: u8 = 7;
    /// Has a link count other than 1.
    pub(super) const LINKS: u8 = 8;
    pub(super) const DEVICE: u8 = 16;
    pub(super) const STATUS: u8 = 32;
    /// The time of birth is known.
    pub(super) const BIRTH: u8 = 64;
    /// An extension follows.
    pub(super) const EXTENSION: u8 = 128;
}

/// References of a page under construction: each id once, by position.
#[derive(Default)]
pub struct Refs {
    ids: Vec<ObjectId>,
    positions: HashMap<ObjectId, u32>,
}

impl Refs {
    /// 0 when `id` is new and so becomes the next reference, else its position + 1.
    pub fn code(&mut self, id: ObjectId) -> u64 {
        if let Some(position) = self.positions.get(&id) {
            return u64::from(*position) + 1;
        }
        self.positions.insert(id, self.ids.len() as u32);
        self.ids.push(id);
        0
    }

    /// The references in order.
    pub fn into_ids(self) -> Vec<ObjectId> {
        self.ids
    }

    fn contains(&self, id: &ObjectId) -> bool {
        self.positions.contains_key(id)
    }
}

/// Reads references by the codes of [`Refs::code`].
pub(crate) struct RefCursor<'a> {
    refs: &'a [ObjectId],
    next: usize,
}

impl<'a> RefCursor<'a> {
    pub(crate) fn new(refs: &'a [ObjectId]) -> Self {
        Self { refs, next: 0 }
    }

    /// A reference that must be a chunk.
    pub(crate) fn chunk(&mut self, code: u64) -> Result<ObjectId> {
        self.get(code, false)
    }

    /// A reference that must be a page.
    pub(crate) fn page(&mut self, code: u64) -> Result<ObjectId> {
        self.get(code, true)
    }

    fn get(&mut self, code: u64, is_page: bool) -> Result<ObjectId> {
        let position = match code.checked_sub(1) {
            Some(position) => usize::try_from(position).unwrap_or(usize::MAX),
            None => self.advance(),
        };
        let id = self.refs.get(position).filter(|id| id.is_page() == is_page);
        id.copied().ok_or(Error::Invalid { what: "reference of a page" })
    }

    fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Those behind what was met, which count from there.
    fn rest(self) -> Self {
        Self::new(self.refs.get(self.next..).unwrap_or_default())
    }

    /// Every reference must have been met: a page cannot keep alive what no entry names.
    pub(crate) fn end(&self) -> Result<()> {
        if self.next == self.refs.len() {
            Ok(())
        } else {
            Err(Error::Invalid { what: "references of a page" })
        }
    }
}

/// Entries on their way into a leaf page.
#[derive(Default)]
pub struct LeafBuilder {
    rows: Vec<u8>,
    refs: Refs,
    /// Attribute sets as they will be written, and what they refer to.
    sets: Vec<u8>,
    set_refs: Refs,
    table: Vec<Arc<Attributes>>,
    lookup: HashMap<Arc<Attributes>, u32>,
    count: u64,
    path: Vec<u8>,
    path_bytes: usize,
    before: Before,
}

/// The numbers of the entry before, which the next one is told against.
#[derive(Default)]
struct Before {
    mtime: i64,
    ctime: i64,
    inode: u64,
}

impl LeafBuilder {
    /// Number of entries so far.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes so far: payload and references.
    pub fn bytes(&self) -> usize {
        let refs = self.refs.ids.len() + self.set_refs.ids.len();
        self.rows.len() + self.sets.len() + refs * ObjectId::LEN
    }

    /// About as many bytes as the content and the extended attributes of `entry` take in a leaf.
    pub fn bytes_of_content(entry: &Entry) -> usize {
        let in_content = match &entry.content {
            Content::None => 0,
            Content::Inline(bytes) => bytes.len(),
            Content::Segments(runs) => runs.len() * ObjectId::LEN,
            Content::Lists(lists) => lists.len() * ObjectId::LEN,
        };
        in_content + entry.attributes.xattr_runs.len() * ObjectId::LEN
    }

    /// Bytes of all paths, written out.
    pub fn path_bytes(&self) -> usize {
        self.path_bytes
    }

    /// Appends `entry`, whose path sorts after all before it.
    pub fn push(&mut self, entry: &Entry) {
        let attributes = self.attributes_index(&entry.attributes);
        let mut tag = content_tag(entry, &self.refs);
        tag |= if entry.links != 1 { tag::LINKS } else { 0 };
        tag |= if entry.rdev != 0 { tag::DEVICE } else { 0 };
        tag |= if entry.status != 0 { tag::STATUS } else { 0 };
        let age = entry.birth.and_then(|birth| nanos_between(birth, entry.ctime));
        tag |= if age.is_some() { tag::BIRTH } else { 0 };
        tag |= if entry.extension.is_empty() { 0 } else { tag::EXTENSION };
        self.put_path(&entry.path);
        self.rows.push(tag);
        put_varint(&mut self.rows, attributes.into());
        put_varint(&mut self.rows, entry.size);
        self.put_numbers(entry);
        self.put_rare(entry, tag);
        if let Some(age) = age {
            put_signed(&mut self.rows, age);
        }
        if tag & tag::EXTENSION != 0 {
            put_string(&mut self.rows, &entry.extension);
        }
        self.put_content(entry, tag);
        self.count += 1;
    }

    /// The page of the entries so far; the builder is empty again.
    pub fn finish(&mut self) -> Page {
        let built = std::mem::take(self);
        let mut payload = Vec::with_capacity(built.rows.len() + built.sets.len() + 16);
        put_varint(&mut payload, built.table.len() as u64);
        payload.extend_from_slice(&built.sets);
        put_varint(&mut payload, built.count);
        payload.extend_from_slice(&built.rows);
        // Those of the sets come first, as the sets do; entries count theirs from there.
        let mut refs = built.set_refs.into_ids();
        refs.append(&mut built.refs.into_ids());
        Page { kind: PageKind::Leaf, refs, payload }
    }

    fn attributes_index(&mut self, attributes: &Arc<Attributes>) -> u32 {
        // Neighbors mostly share one allocation: no hashing then.
        if let Some(last) = self.table.last()
            && Arc::ptr_eq(last, attributes)
        {
            return self.table.len() as u32 - 1;
        }
        if let Some(index) = self.lookup.get(attributes) {
            return *index;
        }
        let index = self.table.len() as u32;
        sets::put(&mut self.sets, &mut self.set_refs, attributes);
        self.table.push(attributes.clone());
        self.lookup.insert(attributes.clone(), index);
        index
    }

    fn put_path(&mut self, path: &[u8]) {
        self.path_bytes += path.len();
        let shared = crate::entry::common_bytes(&self.path, path);
        let (_, suffix) = path.split_at(shared);
        put_varint(&mut self.rows, shared as u64);
        put_string(&mut self.rows, suffix);
        self.path.truncate(shared);
        self.path.extend_from_slice(suffix);
    }

    fn put_numbers(&mut self, entry: &Entry) {
        put_signed(&mut self.rows, entry.mtime.secs.wrapping_sub(self.before.mtime));
        put_varint(&mut self.rows, entry.mtime.nanos.into());
        put_signed(&mut self.rows, entry.ctime.secs.wrapping_sub(self.before.ctime));
        put_varint(&mut self.rows, entry.ctime.nanos.into());
        put_signed(&mut self.rows, entry.inode.wrapping_sub(self.before.inode) as i64);
        self.before =
            Before { mtime: entry.mtime.secs, ctime: entry.ctime.secs, inode: entry.inode };
    }

    fn put_rare(&mut self, entry: &Entry, tag: u8) {
        if tag & tag::LINKS != 0 {
            put_varint(&mut self.rows, entry.links.into());
        }
        if tag & tag::DEVICE != 0 {
            put_varint(&mut self.rows, entry.rdev);
        }
        if tag & tag::STATUS != 0 {
            self.rows.push(entry.status);
        }
    }

    fn put_content(&mut self, entry: &Entry, tag: u8) {
        match &entry.content {
            Content::None => {}
            Content::Inline(bytes) => put_string(&mut self.rows, bytes),
            Content::Segments(segments) if tag & tag::CONTENT == tag::NEXT => {
                segments.iter().for_each(|segment| {
                    if let Segment::Data(id, _) = segment {
                        self.refs.code(*id);
                    }
                });
            }
            Content::Segments(segments) => put_segments(&mut self.rows, &mut self.refs, segments),
            Content::Lists(lists) => {
                put_varint(&mut self.rows, lists.len() as u64);
                for id in lists.iter() {
                    let code = self.refs.code(*id);
                    put_varint(&mut self.rows, code);
                }
            }
        }
    }
}

fn content_tag(entry: &Entry, refs: &Refs) -> u8 {
    match &entry.content {
        Content::None => tag::NONE,
        Content::Inline(_) => tag::INLINE,
        Content::Lists(_) => tag::LISTS,
        Content::Segments(segments) => match segments.as_ref() {
            [Segment::Data(id, length)]
                if u64::from(*length) == entry.size && !refs.contains(id) =>
            {
                tag::NEXT
            }
            _ => tag::SEGMENTS,
        },
    }
}

/// Nanoseconds from `earlier` to `later`; `None` when they are more than 64 bits tell: 292 years.
fn nanos_between(earlier: Time, later: Time) -> Option<i64> {
    i64::try_from(nanos_of(later) - nanos_of(earlier)).ok()
}

fn nanos_of(time: Time) -> i128 {
    i128::from(time.secs) * i128::from(NANOS_A_SEC) + i128::from(time.nanos)
}

/// A time that is told as the nanoseconds from it to `later`. Divides in 64 bits: each entry that is
/// restored passes here twice, and a division of 128 bits is a call of some 50 ns.
fn born_before(later: Time, reader: &mut Reader<'_>) -> Result<Time> {
    let age = reader.signed()?;
    let nanos = i64::from(later.nanos) - age.rem_euclid(NANOS_A_SEC);
    let borrowed = i128::from(nanos < 0);
    let secs = i128::from(later.secs) - i128::from(age.div_euclid(NANOS_A_SEC)) - borrowed;
    let secs = i64::try_from(secs).map_err(|_| reader.invalid())?;
    Ok(Time { secs, nanos: nanos.rem_euclid(NANOS_A_SEC) as u32 })
}

/// Makes `content` these bytes, in the memory that it has.
fn put_inline(content: &mut Content, bytes: &[u8]) {
    match content {
        Content::Inline(own) => {
            own.clear();
            own.extend_from_slice(bytes);
        }
        other => *other = Content::Inline(bytes.to_vec()),
    }
}

/// Makes `content` this one run, in the memory that it has.
fn put_segment(content: &mut Content, segment: Segment) {
    if let Content::Segments(own) = content
        && let Some([only]) = Arc::get_mut(own)
    {
        *only = segment;
    } else {
        *content = Content::Segments(Arc::new([segment]));
    }
}

/// Path, tag, attributes, size, both times and inode take one byte each, or more.
const ENTRY_BYTES_MIN: usize = 10;

const NANOS_A_SEC: i64 = 1_000_000_000;

/// Reads the entries of a leaf page in order.
pub struct LeafReader<'a> {
    reader: Reader<'a>,
    refs: RefCursor<'a>,
    table: Vec<Arc<Attributes>>,
    left: usize,
    path: Vec<u8>,
    path_bytes: usize,
    before: Before,
}

impl<'a> LeafReader<'a> {
    /// Reads `payload`, whose page refers to `refs`.
    pub fn new(refs: &'a [ObjectId], payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload, "leaf page");
        let kinds = reader.count(PAGE_ENTRIES_MAX)?;
        let mut refs = RefCursor::new(refs);
        let table =
            (0..kinds).map(|_| sets::read(&mut reader, &mut refs)).collect::<Result<Vec<_>>>()?;
        let left = reader.count(PAGE_ENTRIES_MAX)?;
        let (refs, path, before) = (refs.rest(), Vec::new(), Before::default());
        Ok(Self { reader, refs, table, left, path, path_bytes: 0, before })
    }

    /// How many entries are left, as the page says: not more than its bytes can hold.
    pub fn left(&self) -> usize {
        self.left.min(self.reader.remaining() / ENTRY_BYTES_MIN)
    }

    /// The next entry, or `None` at the end.
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        // Without attributes there is no entry to read.
        let Some(attributes) = self.table.first().filter(|_| self.left > 0) else {
            return self.end().map(|()| None);
        };
        let mut entry = Entry::new(b"", attributes.clone());
        self.next_into(&mut entry).map(|found| found.then_some(entry))
    }

    /// Makes `entry` the next one and uses what it has allocated; `false` at the end. After an
    /// error it is part of one and part of the other.
    pub fn next_into(&mut self, entry: &mut Entry) -> Result<bool> {
        let Some(left) = self.left.checked_sub(1) else {
            return self.end().map(|()| false);
        };
        self.left = left;
        self.read_path()?;
        entry.path.clear();
        entry.path.extend_from_slice(&self.path);
        let tag = self.reader.u8()?;
        entry.attributes = self.attributes_at()?;
        entry.size = self.reader.varint()?;
        (entry.mtime, entry.ctime, entry.inode) = self.numbers()?;
        self.read_rare(entry, tag)?;
        self.read_content(&mut entry.content, tag & tag::CONTENT, entry.size)?;
        if !content_fits(entry.attributes.kind, &entry.content, entry.size) {
            return Err(self.reader.invalid());
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<()> {
        if self.left > 0 {
            return Err(self.reader.invalid());
        }
        self.refs.end()?;
        self.reader.end_of_page()
    }

    /// Only what is behind the shared bytes is looked at: those were, in the path before.
    fn read_path(&mut self) -> Result<()> {
        let shared = self.reader.count(self.path.len())?;
        let suffix = self.reader.string(PATH_BYTES_MAX)?;
        let (same, before) = self.path.split_at_checked(shared).unwrap_or_default();
        let rises = self.path.is_empty() || crate::entry::compare_paths(before, suffix).is_lt();
        let name = same.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        self.path.truncate(shared);
        self.path.extend_from_slice(suffix);
        self.path_bytes = self.path_bytes.saturating_add(self.path.len());
        let fits = self.path.len() <= PATH_BYTES_MAX && self.path_bytes <= PAGE_PATH_BYTES_MAX;
        if !rises || !fits || !is_clean_path(self.path.get(name..).unwrap_or_default()) {
            return Err(self.reader.invalid());
        }
        Ok(())
    }

    fn attributes_at(&mut self) -> Result<Arc<Attributes>> {
        let index = self.reader.count(PAGE_ENTRIES_MAX)?;
        self.table.get(index).cloned().ok_or(self.reader.invalid())
    }

    fn numbers(&mut self) -> Result<(Time, Time, u64)> {
        let mtime = self.time(self.before.mtime)?;
        let ctime = self.time(self.before.ctime)?;
        let inode = self.before.inode.wrapping_add(self.reader.signed()? as u64);
        self.before = Before { mtime: mtime.secs, ctime: ctime.secs, inode };
        Ok((mtime, ctime, inode))
    }

    fn time(&mut self, before: i64) -> Result<Time> {
        let secs = before.wrapping_add(self.reader.signed()?);
        let nanos = self.reader.varint_u32()?;
        if nanos >= 1_000_000_000 {
            return Err(self.reader.invalid());
        }
        Ok(Time { secs, nanos })
    }

    fn read_rare(&mut self, entry: &mut Entry, tag: u8) -> Result<()> {
        entry.links = self.rare(tag & tag::LINKS, 1, |reader| reader.varint_u32())?;
        entry.rdev = self.rare(tag & tag::DEVICE, 0, |reader| reader.varint())?;
        entry.status = self.rare(tag & tag::STATUS, 0, |reader| reader.u8())?;
        let ctime = entry.ctime;
        entry.birth =
            self.rare(tag & tag::BIRTH, None, |reader| born_before(ctime, reader).map(Some))?;
        let extension = self.rare(tag & tag::EXTENSION, Vec::new(), |reader| reader.extension());
        entry.extension = extension?;
        Ok(())
    }

    fn rare<T>(
        &mut self,
        present: u8,
        default: T,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Result<T> {
        if present == 0 { Ok(default) } else { read(&mut self.reader) }
    }

    fn read_content(&mut self, content: &mut Content, tag: u8, size: u64) -> Result<()> {
        match tag {
            tag::NONE => *content = Content::None,
            tag::INLINE => {
                let bytes = self.reader.string(INLINE_BYTES_MAX)?;
                put_inline(content, bytes);
            }
            tag::NEXT => {
                if size == 0 || size > CHUNK_BYTES_MAX as u64 {
                    return Err(self.reader.invalid());
                }
                put_segment(content, Segment::Data(self.refs.chunk(0)?, size as u32));
            }
            tag::SEGMENTS => {
                let segments = SegmentReader::read(&mut self.reader, &mut self.refs)?;
                *content = Content::Segments(segments.into());
            }
            tag::LISTS => *content = self.lists()?,
            _ => return Err(self.reader.invalid()),
        }
        Ok(())
    }

    fn lists(&mut self) -> Result<Content> {
        let count = self.reader.count(PAGE_REFS_MAX)?;
        let mut lists = Vec::with_capacity(count.min(self.reader.remaining()));
        for _ in 0..count {
            let code = self.reader.varint()?;
            lists.push(self.refs.page(code)?);
        }
        Ok(Content::Lists(lists.into()))
    }
}

/// Whether `content` can be that of a `kind` of `size` bytes: only files have chunks, and their
/// runs add up to their size.
pub(crate) fn content_fits(kind: Kind, content: &Content, size: u64) -> bool {
    match (kind, content) {
        (Kind::File, Content::None) => size == 0,
        (Kind::File | Kind::Symlink, Content::Inline(bytes)) => bytes.len() as u64 == size,
        (Kind::File, Content::Segments(segments)) => {
            let total = segments.iter().try_fold(0u64, |sum, run| sum.checked_add(run.length()));
            total == Some(size)
        }
        (Kind::File, Content::Lists(_)) => true,
        (Kind::Symlink, _) => false,
        (_, content) => *content == Content::None && size == 0,
    }
}

#[cfg(test)]
mod tests;
