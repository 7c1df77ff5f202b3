//! Inner pages: whatever decodes is encoded and decoded to the same.
#![no_main]

use format::inner;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((refs, payload)) = icecore_fuzz::page(bytes) else {
        return;
    };
    let Ok((level, children)) = inner::decode(&refs, payload) else {
        return;
    };
    let page = inner::encode(level, &children);
    assert_eq!(inner::decode(&page.refs, &page.payload), Ok((level, children)));
});
