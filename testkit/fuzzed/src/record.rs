//! Records whose checksum nobody looked at, and payloads that nobody counted.

use format::record;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(split) = record::split(bytes) {
        let _ = record::object_ids(&split);
        let again = [&split.header.encode().expect("what was read")[..], split.clear, split.sealed]
            .concat();
        assert_eq!(bytes.get(..again.len()), Some(&again[..]), "decoded and encoded");
        let objects = split.header.objects as usize;
        if let Ok(parts) = record::payloads(split.sealed, objects) {
            let total: usize = parts.iter().map(|part| part.len()).sum();
            assert_eq!(total + 4 * objects, split.sealed.len(), "payloads fill the plaintext");
        }
    }
    if let Ok(good) = record::verify(bytes) {
        assert!(good.header.record_bytes() <= bytes.len());
    }
    let _ = record::head_only(bytes).map(|head| record::object_ids(&head));
    let _ = record::payloads(bytes, bytes.len());
}
