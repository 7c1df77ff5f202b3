//! Reading what can be read of a file that has sectors which cannot.

use crate::storage::FileReader;
use format::parity::SHARD_BYTES;

/// How a stretch that cannot be read is taken apart to find the sector: few tries for each, as a
/// failing disk takes seconds over one.
const PIECES: [u64; 2] = [128 << 10, SHARD_BYTES as u64];

/// Reads what can be read; the rest is zeros. Whether all could.
pub(super) fn read_what_can_be(file: &dyn FileReader, buffer: &mut [u8], at: u64) -> bool {
    let Ok(length) = file.length() else { return false };
    let there = (length.saturating_sub(at)).min(buffer.len() as u64) as usize;
    let whole = there == buffer.len();
    read_pieces(file, &mut buffer[..there], at, &PIECES) && whole
}

fn read_pieces(file: &dyn FileReader, buffer: &mut [u8], at: u64, pieces: &[u64]) -> bool {
    if buffer.is_empty() || file.read_exact_at(buffer, at).is_ok() {
        return true;
    }
    let Some((piece, smaller)) = pieces.split_first() else {
        buffer.fill(0);
        return false;
    };
    let (mut rest, mut at) = (buffer, at);
    while !rest.is_empty() {
        // Cut where sectors begin.
        let length = (piece - at % piece).min(rest.len() as u64);
        let (now, later) = rest.split_at_mut(length as usize);
        read_pieces(file, now, at, smaller);
        (rest, at) = (later, at + length);
    }
    false
}
