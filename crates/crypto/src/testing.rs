//! Helpers of this crate's tests.

use crate::{KdfParams, KeyMaterial};

/// The cheapest password hash: tests try passwords hundreds of times.
pub(crate) const CHEAP: KdfParams = KdfParams { memory_kib: 8, passes: 1, lanes: 1 };

/// Bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a hex text.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let pair = |i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex digits");
    (0..text.len()).step_by(2).map(pair).collect()
}

/// "Random" bytes for fixed outputs: `start`, `start + 1`, …
pub(crate) fn counting_random(start: u8) -> impl FnMut(&mut [u8]) {
    let mut next = start;
    move |bytes| {
        for byte in bytes {
            *byte = next;
            next = next.wrapping_add(1);
        }
    }
}

/// A domain with fixed secrets.
pub(crate) fn material() -> KeyMaterial {
    KeyMaterial::generate(&mut counting_random(0))
}
