//! The lease that somebody left: whatever it says, the next one comes after it.

use crate::memory::Memory;
use crate::summed;
use repository::lease::Lease;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let good = summed(bytes);
    for lease in [bytes, &good] {
        // The same in a bucket, where it is several objects.
        object_storage::decode_objects(lease);
        let storage = Memory::with(&[("lease", lease)]);
        let Ok(next) = Lease::acquire(&storage, "fuzz") else { continue };
        assert!(next.generation() > 0);
        if next.generation() < u64::MAX {
            next.verify().expect("it is ours");
        }
        if let (true, Some(before)) = (std::ptr::eq(lease, &good[..]), bytes.first_chunk()) {
            let before = u64::from_le_bytes(*before);
            assert!(next.generation() > before || before == u64::MAX);
        }
    }
}
