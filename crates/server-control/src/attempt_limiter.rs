//! Limits failed attempts with tokens: after some of them an address has to wait. Secrets are too long to be guessed
//! anyway; this saves log and processor time.

use crate::{Error, Result};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use transport::evicting_quota::network;

/// Failed attempts in a window that are allowed.
const TRIES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of addresses that are tracked.
const ADDRESSES_MAX: usize = 4096;

/// Counts failed attempts by address.
#[derive(Default)]
pub(crate) struct AttemptLimiter {
    tries: Mutex<FxHashMap<IpAddr, (u32, Instant)>>,
}

impl AttemptLimiter {
    /// Refuses an address with too many failed attempts.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    pub(crate) fn check(&self, from: IpAddr) -> Result<()> {
        let tries = self.tries.lock();
        match tries.get(&network(from)) {
            Some((count, since)) if *count >= TRIES && since.elapsed() < WINDOW => {
                Err(Error::TooMany(from))
            }
            _ => Ok(()),
        }
    }

    /// Counts a failed attempt from this address.
    pub(crate) fn failed(&self, from: IpAddr) {
        let mut tries = self.tries.lock();
        if tries.len() >= ADDRESSES_MAX {
            tries.retain(|_, (_, since)| since.elapsed() < WINDOW);
        }
        // Still full: somebody has very many addresses, and counting by address is of no use.
        if tries.len() >= ADDRESSES_MAX {
            tries.clear();
        }
        let entry = tries.entry(network(from)).or_insert((0, Instant::now()));
        if entry.1.elapsed() >= WINDOW {
            *entry = (0, Instant::now());
        }
        entry.0 = entry.0.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_has_to_wait_and_others_do_not() {
        let guard = AttemptLimiter::default();
        let (bad, neighbor, other) = ("2001:db8::1", "2001:db8::ffff:1", "192.0.2.1");
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for _ in 0..TRIES {
            assert!(guard.check(ip(bad)).is_ok());
            guard.failed(ip(bad));
        }
        assert!(guard.check(ip(bad)).is_err());
        assert!(guard.check(ip(neighbor)).is_err());
        assert!(guard.check(ip(other)).is_ok());
    }

    #[test]
    fn very_many_addresses_take_no_more_memory() {
        let guard = AttemptLimiter::default();
        for n in 0..3 * ADDRESSES_MAX as u32 {
            guard.failed(IpAddr::V4(n.into()));
        }
        assert!(guard.tries.lock().len() <= ADDRESSES_MAX);
    }
}
