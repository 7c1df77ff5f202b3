//! Container headers, trailers and footers; checksums are made good so that what is behind them
//! is reached.

use format::container::{self, TRAILER_BYTES, encode_footer};
use format::wire::checksum;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let _ = container::Header::decode(bytes);
    let Some(start) = bytes.len().checked_sub(TRAILER_BYTES) else {
        return;
    };
    let (footer, trailer) = bytes.split_at(start);
    let _ = container::footer_bytes(trailer);
    let mut trailer = trailer.to_vec();
    trailer[..4].copy_from_slice(&(footer.len() as u32).to_le_bytes());
    trailer[4..20].copy_from_slice(&checksum(&[footer]));
    trailer[20..].copy_from_slice(&container::TRAILER_MAGIC);
    let records = footer
        .chunks_exact(9)
        .map(|row| u64::from(u32::from_le_bytes([row[5], row[6], row[7], row[8]])));
    let length = 64 + records.sum::<u64>() + bytes.len() as u64;
    if let Ok(rows) = container::decode_footer(footer, &trailer, length) {
        assert_eq!(encode_footer(&rows), [footer, &trailer].concat(), "decoded and encoded");
    }
}
