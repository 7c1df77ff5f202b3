//! The progress of a pipeline, and the request to cancel it.

use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress of a pipeline; other threads may read it at any time.
#[derive(Debug, Default)]
pub struct Progress {
    /// Objects processed.
    pub objects: AtomicU64,
    /// Bytes of the objects processed.
    pub bytes: AtomicU64,
    /// Bytes read.
    pub bytes_read: AtomicU64,
    /// All objects of the source; 0 until the walk has ended.
    pub total_objects: AtomicU64,
    /// All bytes of the source; 0 until the walk has ended.
    pub total_bytes: AtomicU64,
    /// Set it to cancel. What a backup stored so far is found by the next one.
    pub cancel: AtomicBool,
    current: parking_lot::Mutex<Vec<u8>>,
}

impl Progress {
    /// The path that is processed now.
    pub fn current(&self) -> Vec<u8> {
        self.current.lock().clone()
    }

    /// Resets all counters.
    pub(crate) fn start_again(&self) {
        let totals = [&self.total_objects, &self.total_bytes];
        for counter in [&self.objects, &self.bytes, &self.bytes_read].into_iter().chain(totals) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The walk has ended: all objects were visited, and the source has `bytes`.
    pub(crate) fn walked(&self, bytes: u64) {
        self.total_objects.store(self.objects.load(Ordering::Relaxed), Ordering::Relaxed);
        self.total_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}
