//! Where a pipeline is, for who shows it, and whether it is to stop.

use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where a backup is; read by who shows it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Objects that the walk met.
    pub objects: AtomicU64,
    /// Bytes of objects dealt with.
    pub bytes: AtomicU64,
    /// Bytes read.
    pub bytes_read: AtomicU64,
    /// Objects of the whole source, once the walk has ended; 0 before.
    pub total_objects: AtomicU64,
    /// Bytes of the whole source, once the walk has ended; 0 before.
    pub total_bytes: AtomicU64,
    /// Set to stop: what was stored so far is found by the next backup.
    pub cancel: AtomicBool,
    current: parking_lot::Mutex<Vec<u8>>,
}

impl Progress {
    /// The path that is dealt with.
    pub fn current(&self) -> Vec<u8> {
        self.current.lock().clone()
    }

    /// Nothing is done yet, again.
    pub(crate) fn start_again(&self) {
        let totals = [&self.total_objects, &self.total_bytes];
        for counter in [&self.objects, &self.bytes, &self.bytes_read].into_iter().chain(totals) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The walk has ended: all objects were met, and the source has so many bytes.
    pub(crate) fn walked(&self, bytes: u64) {
        self.total_objects.store(self.objects.load(Ordering::Relaxed), Ordering::Relaxed);
        self.total_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}
