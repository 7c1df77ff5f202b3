//! The small files that copies leave: what was copied, and what somebody reads.

use crate::summed;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    for file in [bytes, &summed(bytes)] {
        if let Some(ids) = repository::copies::decode(file) {
            assert!(ids.len() * 16 < file.len());
        }
        if let Some(roots) = repository::readers::decode(file) {
            assert!(roots.iter().all(ids::ObjectId::is_page));
        }
    }
}
