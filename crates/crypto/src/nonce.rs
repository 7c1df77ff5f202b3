//! Nonces: each is handed out once and used once.
//!
//! Tarsnap 1.0.22–1.0.27 lost its counter in a refactor and encrypted every chunk with the same
//! nonce. Here a nonce cannot be made, copied or cloned outside this file, and sealing consumes it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// Records sealed in one session, at most: 2^32.
pub const MAX_RECORDS: u64 = 1 << 32;
/// Bytes sealed in one session, at most: 64 TiB after compression (2^42 AES blocks; the advantage
/// of an attacker on GCM then stays under 2^(2·42 - 128) = 2^-44). One backup is one session.
pub const MAX_BYTES: u64 = 64 << 40;
const NONCE_LEN: usize = 12;

/// Hands out the nonces of one session. Make exactly one for each [`crate::SessionKey`] that
/// seals; any number of threads may share it.
#[derive(Default)]
pub struct NonceCounter {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl NonceCounter {
    /// A counter that starts at 0.
    pub const fn new() -> Self {
        Self { records: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// The nonce for a record of `plaintext_len` bytes.
    ///
    /// # Errors
    /// [`Error::SessionFull`] when the session has sealed [`MAX_RECORDS`] or would exceed
    /// [`MAX_BYTES`]: start a new session.
    pub fn next(&self, plaintext_len: usize) -> Result<Nonce, Error> {
        take(&self.bytes, plaintext_len as u64, MAX_BYTES)?;
        take(&self.records, 1, MAX_RECORDS).map(Nonce)
    }

    /// Records handed out so far.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Plaintext bytes counted so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Adds `amount` to `count` when the sum stays within `max`; returns the count before. Saturates
/// instead of wrapping: a wrapped counter would hand out a nonce twice. Relaxed order is enough,
/// since only the atomicity of each count matters.
fn take(count: &AtomicU64, amount: u64, max: u64) -> Result<u64, Error> {
    let add = |now: u64| now.checked_add(amount).filter(|sum| *sum <= max);
    let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    taken.map_err(|_| Error::SessionFull)
}

/// A number used once: neither `Copy` nor `Clone`, and [`crate::SessionKey::seal_in_place`]
/// consumes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Nonce(u64);

impl Nonce {
    /// The number to write into the record, for the reader.
    pub fn counter(&self) -> u64 {
        self.0
    }
}

/// The 96-bit nonce of AES-GCM and ChaCha20-Poly1305: counter in little-endian ‖ four zero bytes.
pub(crate) fn nonce_bytes(counter: u64) -> [u8; NONCE_LEN] {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&counter.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_count_up_from_zero() {
        let counter = NonceCounter::new();
        let got: Vec<u64> = (0..4).filter_map(|_| counter.next(1).ok()).map(|n| n.0).collect();
        assert_eq!(got, [0, 1, 2, 3]);
        assert_eq!(nonce_bytes(0x0102), [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_session_ends_after_its_last_record() {
        let counter = NonceCounter::new();
        counter.records.store(MAX_RECORDS - 1, Ordering::Relaxed);
        assert_eq!(counter.next(0), Ok(Nonce(MAX_RECORDS - 1)));
        assert_eq!(counter.next(0), Err(Error::SessionFull));
        assert_eq!(counter.next(0), Err(Error::SessionFull));
    }

    #[test]
    fn a_session_ends_after_two_tebibytes() {
        let counter = NonceCounter::new();
        counter.bytes.store(MAX_BYTES - 10, Ordering::Relaxed);
        assert_eq!(counter.next(11), Err(Error::SessionFull));
        assert_eq!(counter.next(10), Ok(Nonce(0)));
        assert_eq!(counter.next(1), Err(Error::SessionFull));
        assert_eq!(counter.next(usize::MAX), Err(Error::SessionFull));
    }

    #[test]
    fn threads_never_share_a_nonce() {
        let counter = NonceCounter::new();
        let draw = || (0..1000).filter_map(|_| counter.next(1).ok()).map(|n| n.0).collect();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads
                .into_iter()
                .flat_map(|t: std::thread::ScopedJoinHandle<'_, Vec<u64>>| {
                    t.join().expect("no panic")
                })
                .collect()
        });
        all.sort_unstable();
        assert!(all.into_iter().eq(0..4000));
    }
}
