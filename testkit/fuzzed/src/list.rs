//! List pages, and sets of extended attributes that are chunks: whatever decodes is encoded and decoded to the same.

use format::{list, xattrs};

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(set) = xattrs::decode(bytes) {
        assert_eq!(xattrs::decode(&xattrs::encode(&set)), Ok(set));
    }
    let Some((refs, payload)) = crate::page(bytes) else {
        return;
    };
    let Ok(segments) = list::decode(&refs, payload) else {
        return;
    };
    let page = list::encode(&segments);
    assert_eq!(list::decode(&page.refs, &page.payload), Ok(segments));
}
