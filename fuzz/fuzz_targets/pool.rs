//! The small files of a pool, which anybody with access to the disk may have written: settings and superblock.
#![no_main]

use repository::local::mode::IoSettings;
use repository::local::superblock::Superblock;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let settings = IoSettings::decode(bytes);
    let method = settings.method();
    assert!(method.block_bytes % 4096 == 0 && method.block_bytes <= 8 << 20);
    assert_eq!(IoSettings::decode(&settings.encode()).method(), method);
    if let Some(found) = Superblock::decode(bytes) {
        assert_eq!(Superblock::decode(found.encode().as_bytes()), Some(found));
    }
});
