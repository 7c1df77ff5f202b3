//! Inner pages: whatever decodes is encoded and decoded to the same.

use format::inner;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let Some((refs, payload)) = crate::page(bytes) else {
        return;
    };
    let Ok((level, children)) = inner::decode(&refs, payload) else {
        return;
    };
    let page = inner::encode(level, &children);
    assert_eq!(inner::decode(&page.refs, &page.payload), Ok((level, children)));
}
