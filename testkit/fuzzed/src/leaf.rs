//! Leaf pages: whatever decodes is encoded and decoded to the same.

use format::entry::{Entry, is_clean_path};
use format::leaf::{LeafBuilder, LeafReader};
use ids::ObjectId;

fn read(refs: &[ObjectId], payload: &[u8]) -> Option<Vec<Entry>> {
    let mut reader = LeafReader::new(refs, payload).ok()?;
    let mut entries = Vec::new();
    let mut path_bytes = 0;
    while let Some(entry) = reader.next_entry().ok()? {
        path_bytes += entry.path.len();
        // Kept from eating the fuzzer's memory; whether the decoder should is another question.
        if path_bytes > 256 << 20 {
            return None;
        }
        entries.push(entry);
    }
    Some(entries)
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let Some((refs, payload)) = crate::page(bytes) else {
        return;
    };
    let Some(entries) = read(&refs, payload) else {
        return;
    };
    assert!(entries.iter().all(|entry| is_clean_path(&entry.path)));
    let mut builder = LeafBuilder::default();
    entries.iter().for_each(|entry| builder.push(entry));
    let page = builder.finish();
    assert_eq!(read(&page.refs, &page.payload).as_ref(), Some(&entries), "encoded and decoded");
}
