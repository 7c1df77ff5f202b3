//! The file `lock-clock`: the clock by which the locks of a repository end, and when the last of them does.
//!
//! The clock counts while the machine runs, and believes the wall clock only for a short time off
//! (`crates/clock/src/lock_clock.rs`). It needs no writer of its own: each writer reads it, and stores it from time to
//! time. Without the file, or with a damaged one, locks last longer.

use crate::lease::Lease;
use crate::storage::read_small;
use crate::{Repository, Result};
use clock::{LockClock, Tick};
use format::wire::checksum;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const NAME: &str = "lock-clock";
const MAGIC: &[u8; 8] = b"ICELOCK1";
const SUM_BYTES: usize = 16;
const BYTES: usize = MAGIC.len() + LockClock::BYTES + size_of::<i64>() + SUM_BYTES;
/// What may be lost of the time that was counted, when the machine stops: ten minutes.
const STORED_EVERY_SECS: i64 = 600;

/// The lock clock at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockState {
    clock: LockClock,
    /// What it shows.
    pub(crate) now_secs: i64,
    /// When the last lock ends that was ever given.
    pub(crate) last_until_secs: i64,
}

impl LockState {
    /// A clock and what it shows at `tick`.
    pub(crate) fn read(mut clock: LockClock, last_until_secs: i64, tick: Tick) -> Self {
        let now_secs = clock.read(tick);
        Self { clock, now_secs, last_until_secs }
    }

    /// A clock that is set, without a lock.
    pub(crate) fn started(tick: Tick) -> Self {
        Self::read(LockClock::start(tick), i64::MIN, tick)
    }
}

impl Repository {
    /// Sets what the clocks of the machine show. For tests.
    pub fn show_time(&self, tick: Tick) {
        *self.shown_time.lock() = Some(tick);
    }

    pub(crate) fn tick(&self) -> Tick {
        self.shown_time.lock().unwrap_or_else(machine_time)
    }

    /// What the file says; `None` without it, or if it is damaged.
    pub(crate) fn read_lock_file(&self) -> Result<Option<(LockClock, i64)>> {
        match read_small(&*self.storage, NAME, BYTES) {
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) if error.is_unreachable() => Err(error.into()),
            bytes => Ok(bytes.ok().and_then(|bytes| decode(&bytes))),
        }
    }

    pub(crate) fn put_lock_state(&self, lease: &Lease, state: &LockState) -> Result<()> {
        lease.verify()?;
        Ok(self.storage.put(NAME, &encode(&state.clock, state.last_until_secs))?)
    }

    /// Stores the time that was counted, if there is much of it. A full disk is no reason to stop: then locks last a
    /// little longer.
    pub(crate) fn keep_lock_clock(&self, lease: &Lease) -> Result<()> {
        let Some((stored, last_until_secs)) = self.read_lock_file()? else { return Ok(()) };
        let _one_at_a_time = self.lock_file.lock();
        let state = LockState::read(stored, last_until_secs, self.tick());
        if !state.clock.differs_from(&stored, STORED_EVERY_SECS) {
            return Ok(());
        }
        match self.put_lock_state(lease, &state) {
            Err(error) if error.is_full() => Ok(()),
            put => put,
        }
    }
}

fn encode(clock: &LockClock, last_until_secs: i64) -> Vec<u8> {
    let body = [&MAGIC[..], &clock.encode(), &last_until_secs.to_le_bytes()].concat();
    let sum = checksum(&[&body]);
    [&body[..], &sum].concat()
}

fn decode(bytes: &[u8]) -> Option<(LockClock, i64)> {
    let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
    let (clock, rest) = body.strip_prefix(MAGIC)?.split_first_chunk()?;
    let last_until_secs = i64::from_le_bytes(rest.try_into().ok()?);
    let is_whole = *sum == checksum(&[body]);
    is_whole.then(|| LockClock::decode(clock)).flatten().map(|clock| (clock, last_until_secs))
}

/// What the clocks of this machine show. A time namespace has a second clock of its own, so it counts as another start
/// of the machine; where the kernel does not number its starts, so does each process.
pub fn machine_time() -> Tick {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall_secs = i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX);
    Tick { wall_secs, boot: boot(), up_secs: clock_gettime(ClockId::Boottime).tv_sec }
}

fn boot() -> u128 {
    let start = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let start = u128::from_str_radix(&start.trim().replace('-', ""), 16);
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    let namespace = checksum(&[namespace.as_os_str().as_encoded_bytes()]);
    start.unwrap_or_else(|_| std::process::id().into()) ^ u128::from_le_bytes(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_back_and_damage_is_seen() {
        let clock = LockClock::start(Tick { wall_secs: 5, boot: 6, up_secs: 7 });
        let bytes = encode(&clock, -8);
        assert_eq!((decode(&bytes), bytes.len()), (Some((clock, -8)), BYTES));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "length {at}");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn the_second_clock_of_this_machine_goes_on() {
        let (first, second) = (machine_time(), machine_time());
        assert_eq!(first.boot, second.boot);
        assert!(first.up_secs <= second.up_secs && first.wall_secs > 0);
    }
}
