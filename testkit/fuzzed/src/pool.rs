//! The small files of a pool, which anybody with access to the disk may have written: settings and superblock.

use repository::local::mode::IoSettings;
use repository::local::superblock::Superblock;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let settings = IoSettings::decode(bytes);
    let method = settings.method();
    assert!(method.block_bytes.is_multiple_of(4096) && method.block_bytes <= 8 << 20);
    assert_eq!(IoSettings::decode(&settings.encode()).method(), method);
    if let Some(found) = Superblock::decode(bytes) {
        assert_eq!(Superblock::decode(found.encode().as_bytes()), Some(found));
    }
}
