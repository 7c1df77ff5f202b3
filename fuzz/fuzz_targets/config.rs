//! The config of a repository: refused, or as it was written.
#![no_main]

use icecore_fuzz::memory::Memory;
use icecore_fuzz::summed;
use repository::config::{read, write};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for bytes in [bytes.to_vec(), summed(bytes)] {
        let storage = Memory::with(&[("config", &bytes)]);
        let Ok(config) = read(&*storage) else { continue };
        let parity = config.parity_percent();
        assert_eq!(config, config.with_parity(parity), "unknown features are refused");
        write(&config, &*storage).expect("memory");
        assert_eq!(
            repository::storage::read_small(&*storage, "config", 1 << 10).expect("it"),
            bytes
        );
    }
});
