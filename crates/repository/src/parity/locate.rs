//! Finding the parity section of a container, also when one of its ends is lost.

use crate::container::lenient::read_what_can_be;
use crate::storage::{FileReader, StorageResult};
use format::container::{self, TRAILER_BYTES};
use format::parity::{Geometry, HEAD_BYTES, SHARD_BYTES};

/// Bytes that are searched at once.
const WINDOW_BYTES: usize = 1 << 20;

/// A parity section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParitySection {
    /// What it says.
    pub geometry: Geometry,
    /// Whether it ends where it should with its second head.
    pub has_end: bool,
}

/// The parity section of `file`, if it has one. A container that ends in a trailer of its own has
/// none; only when its end says neither, the first head is searched for.
pub fn locate(file: &dyn FileReader) -> StorageResult<Option<ParitySection>> {
    let length = file.length()?;
    let end = length.saturating_sub(HEAD_BYTES as u64);
    if let Some(geometry) = head_at(file, end)
        && geometry.end() == length
    {
        return Ok(Some(ParitySection { geometry, has_end: true }));
    }
    let mut trailer = [0; TRAILER_BYTES];
    let at = length.saturating_sub(TRAILER_BYTES as u64);
    if file.read_exact_at(&mut trailer, at).is_ok() && container::footer_bytes(&trailer).is_ok() {
        return Ok(None);
    }
    let geometry = search(file, length);
    Ok(geometry.map(|geometry| ParitySection { geometry, has_end: false }))
}

pub(super) fn head_at(file: &dyn FileReader, at: u64) -> Option<Geometry> {
    let mut bytes = [0; HEAD_BYTES];
    file.read_exact_at(&mut bytes, at).ok()?;
    Geometry::decode(&bytes).ok()
}

/// The first head: it begins a sector, the one after that in which it says that the container ends.
fn search(file: &dyn FileReader, length: u64) -> Option<Geometry> {
    let mut window = Vec::new();
    for offset in (0..length).step_by(WINDOW_BYTES) {
        window.resize(WINDOW_BYTES.min((length - offset) as usize), 0);
        // What cannot be read does not keep the head from being found beside it.
        read_what_can_be(file, &mut window, offset);
        for (at, sector) in (offset..).step_by(SHARD_BYTES).zip(window.chunks(SHARD_BYTES)) {
            if let Ok(geometry) = Geometry::decode(sector)
                && geometry.heads_at()[0] == at
            {
                return Some(geometry);
            }
        }
    }
    None
}
