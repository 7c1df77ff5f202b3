//! Attribute sets: what many entries of a leaf have in common, each distinct one once.

use super::{RefCursor, Refs};
use crate::Result;
use crate::entry::{Attributes, Kind, Segment};
use crate::limits::{OWNER_BYTES_MAX, XATTR_SET_BYTES_MAX};
use crate::list::{SegmentReader, put_segments};
use crate::wire::{Reader, put_string, put_varint};
use crate::xattrs;
use std::sync::Arc;

/// Flags beside the kind, in the first byte of a set.
mod flag {
    /// The extended attributes lie in chunks.
    pub(super) const STORED: u8 = 16;
    /// An extension ends the set.
    pub(super) const EXTENSION: u8 = 32;
    pub(super) const KINDS: u8 = 15;
    pub(super) const KNOWN: u8 = 63;
}

/// Appends a set.
pub(super) fn put(out: &mut Vec<u8>, refs: &mut Refs, set: &Attributes) {
    let stored = if set.xattr_runs.is_empty() { 0 } else { flag::STORED };
    let extension = if set.extension.is_empty() { 0 } else { flag::EXTENSION };
    out.push(set.kind as u8 | stored | extension);
    for value in [u32::from(set.mode), set.uid, set.gid] {
        put_varint(out, value.into());
    }
    put_string(out, &set.user);
    put_string(out, &set.group);
    out.extend_from_slice(&set.file_system.to_le_bytes());
    put_varint(out, set.inode_flags.into());
    if stored == 0 {
        xattrs::put(out, &set.xattrs);
    } else {
        put_segments(out, refs, &set.xattr_runs);
    }
    if extension != 0 {
        put_string(out, &set.extension);
    }
}

/// Reads a set.
pub(super) fn read(reader: &mut Reader<'_>, refs: &mut RefCursor<'_>) -> Result<Arc<Attributes>> {
    let first = reader.u8()?;
    let kind = Kind::from_u8(first & flag::KINDS).filter(|_| first & !flag::KNOWN == 0);
    let kind = kind.ok_or(reader.invalid())?;
    let mode = u16::try_from(reader.varint()?).map_err(|_| reader.invalid())?;
    if mode > 0o7777 {
        return Err(reader.invalid());
    }
    let (uid, gid) = (reader.varint_u32()?, reader.varint_u32()?);
    let user = reader.string(OWNER_BYTES_MAX)?.to_vec();
    let group = reader.string(OWNER_BYTES_MAX)?.to_vec();
    let (file_system, inode_flags) = (reader.u64()?, reader.varint_u32()?);
    let (xattrs, xattr_runs) = match first & flag::STORED {
        0 => (xattrs::read(reader)?, Vec::new()),
        _ => (Vec::new(), runs(reader, refs)?),
    };
    let has_extension = first & flag::EXTENSION != 0;
    let extension = if has_extension { reader.extension()? } else { Vec::new() };
    Ok(Arc::new(Attributes {
        kind,
        mode,
        uid,
        gid,
        user,
        group,
        file_system,
        inode_flags,
        xattrs,
        xattr_runs,
        extension,
    }))
}

fn runs(reader: &mut Reader<'_>, refs: &mut RefCursor<'_>) -> Result<Vec<Segment>> {
    let runs = SegmentReader::read(reader, refs)?;
    if are_runs(&runs) { Ok(runs) } else { Err(reader.invalid()) }
}

/// Whether `runs` can be those of extended attributes: chunks only, and no more than one wants to
/// have in memory.
pub(crate) fn are_runs(runs: &[Segment]) -> bool {
    let total = runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.length()));
    let fits = total.is_some_and(|total| total <= XATTR_SET_BYTES_MAX as u64);
    fits && !runs.is_empty() && runs.iter().all(|run| run.id().is_some())
}
