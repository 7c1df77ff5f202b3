//! Checks before writing that a reader will accept the result: entries before they go into a leaf, so that an invalid
//! one does not cost the others; pages before they are stored. [`crate::record::Header::encode`] checks records.

use crate::entry::{Attributes, Content, Entry, Segment, Time, is_clean_path};
use crate::leaf::{LeafReader, are_runs, content_fits};
use crate::limits::{
    CHUNK_BYTES_MAX, EXTENSION_BYTES_MAX, INLINE_BYTES_MAX, OWNER_BYTES_MAX, PAGE_REFS_MAX,
    PATH_BYTES_MAX, RECORD_CLEAR_MAX, RECORD_PLAIN_MAX, XATTR_BYTES_MAX, XATTR_SET_BYTES_MAX,
    XATTRS_MAX,
};
use crate::page::{HEAD_BYTES, Page, PageKind};
use crate::{Error, Result, inner, list, xattrs};
use ids::ObjectId;

/// Checks that a reader accepts `entry`.
pub fn entry(entry: &Entry) -> Result<()> {
    at_most("path", entry.path.len(), PATH_BYTES_MAX)?;
    valid("path", is_clean_path(&entry.path))?;
    let is_time = |time: Time| time.nanos < 1_000_000_000;
    let times = is_time(entry.mtime) && is_time(entry.ctime) && entry.birth.is_none_or(is_time);
    valid("time", times)?;
    at_most("extension", entry.extension.len(), EXTENSION_BYTES_MAX)?;
    attributes(&entry.attributes)?;
    let refs = content(&entry.content)? + entry.attributes.xattr_runs.len();
    at_most("number of chunks", refs, PAGE_REFS_MAX)?;
    valid("content", content_fits(entry.kind(), &entry.content, entry.size))
}

/// Checks that a reader accepts `page`. Decodes all of it.
pub fn page(page: &Page) -> Result<()> {
    at_most("references of a page", page.refs.len(), PAGE_REFS_MAX)?;
    at_most("head of a page", HEAD_BYTES + page.refs.len() * ObjectId::LEN, RECORD_CLEAR_MAX)?;
    at_most("payload of a page", page.payload.len() + 4, RECORD_PLAIN_MAX)?;
    match page.kind {
        PageKind::Leaf => {
            let mut reader = LeafReader::new(&page.refs, &page.payload)?;
            while reader.next_entry()?.is_some() {}
            Ok(())
        }
        PageKind::Inner => inner::decode(&page.refs, &page.payload).map(drop),
        PageKind::List => list::decode(&page.refs, &page.payload).map(drop),
    }
}

fn attributes(set: &Attributes) -> Result<()> {
    valid("mode", set.mode <= 0o7777)?;
    at_most("name of an owner", set.user.len().max(set.group.len()), OWNER_BYTES_MAX)?;
    at_most("extension", set.extension.len(), EXTENSION_BYTES_MAX)?;
    at_most("number of extended attributes", set.xattrs.len(), XATTRS_MAX)?;
    for xattr in &set.xattrs {
        at_most("extended attribute", xattr.name.len().max(xattr.value.len()), XATTR_BYTES_MAX)?;
    }
    let (inline, most) = (xattrs::encoded_bytes_max(&set.xattrs), INLINE_BYTES_MAX);
    at_most("extended attributes in a page", inline, most)?;
    if set.xattr_runs.is_empty() {
        return Ok(());
    }
    let bytes = set.xattr_runs.iter().map(Segment::length).fold(0, u64::saturating_add);
    at_most("extended attributes", bytes as usize, XATTR_SET_BYTES_MAX)?;
    valid("extended attributes", set.xattrs.is_empty() && are_runs(&set.xattr_runs))
}

/// The number of references of `content`.
fn content(content: &Content) -> Result<usize> {
    match content {
        Content::None => Ok(0),
        Content::Inline(bytes) => {
            at_most("inline content", bytes.len(), INLINE_BYTES_MAX).map(|()| 0)
        }
        Content::Lists(lists) => Ok(lists.len()),
        Content::Segments(runs) => {
            valid("runs of a file", runs.iter().all(is_run)).map(|()| runs.len())
        }
    }
}

fn is_run(run: &Segment) -> bool {
    match run {
        Segment::Data(_, length) => (1..=CHUNK_BYTES_MAX).contains(&(*length as usize)),
        Segment::Hole(length) => (1..=u64::MAX >> 1).contains(length),
    }
}

fn valid(what: &'static str, is_so: bool) -> Result<()> {
    if is_so { Ok(()) } else { Err(Error::Invalid { what }) }
}

fn at_most(what: &'static str, value: usize, limit: usize) -> Result<()> {
    if value <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { what, value: value as u64, limit: limit as u64 })
}
