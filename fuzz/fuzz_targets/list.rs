//! List pages: whatever decodes is encoded and decoded to the same.
#![no_main]

use format::list;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((refs, payload)) = icecore_fuzz::page(bytes) else {
        return;
    };
    let Ok(segments) = list::decode(&refs, payload) else {
        return;
    };
    let page = list::encode(&segments);
    assert_eq!(list::decode(&page.refs, &page.payload), Ok(segments));
});
