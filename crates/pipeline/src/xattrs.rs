//! Extended attributes in chunks: fetched on demand, so that those of many objects are never in
//! memory at once.

use crate::blocks::{BlockCache, Scratch};
use crate::{Error, Result};
use crypto::IdKey;
use format::entry::{Attributes, Entry, Segment, Xattr};
use std::borrow::Cow;
use std::sync::Arc;

/// `entry` with its extended attributes, fetched if they are in chunks.
pub(crate) fn whole<'e>(
    entry: &'e Entry,
    blocks: &BlockCache,
    ids: &IdKey,
) -> Result<Cow<'e, Entry>> {
    if entry.attributes.xattr_runs.is_empty() {
        return Ok(Cow::Borrowed(entry));
    }
    let xattrs = read(&entry.attributes.xattr_runs, blocks, ids)?;
    let attributes = entry.attributes.as_ref().clone();
    let attributes = Arc::new(Attributes { xattrs, xattr_runs: Vec::new(), ..attributes });
    Ok(Cow::Owned(Entry { attributes, ..entry.clone() }))
}

/// The decoder has verified that the runs are chunks, and their number.
fn read(runs: &[Segment], blocks: &BlockCache, ids: &IdKey) -> Result<Vec<Xattr>> {
    let (mut bytes, mut scratch) = (Vec::new(), Scratch::new()?);
    for run in runs {
        let Segment::Data(id, length) = run else { continue };
        let chunk = blocks.object(id, &mut scratch, |bytes| ids.is_chunk(id, bytes))?;
        if chunk.len() != *length as usize {
            return Err(Error::WrongContent(*id));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(format::xattrs::decode(&bytes)?)
}
