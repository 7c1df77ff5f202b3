//! Manifest heads: whatever decodes is encoded to the same bytes.
#![no_main]

use format::manifest::Head;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok((head, signature)) = Head::decode(bytes) {
        assert_eq!([&head.encode()[..], &signature].concat(), bytes);
    }
});
