//! The config of a repository: refused, or as it was written.

use crate::memory::Memory;
use crate::summed;
use repository::config::{read, write};

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
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
}
