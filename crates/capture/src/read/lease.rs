//! Opening a file on which another process has a lease of the system (`fcntl(2)`): Samba with kernel oplocks, an NFS
//! server with delegations. The first attempt asks the holder to give it back, and does not wait for it.

use rustix::fd::OwnedFd;
use rustix::io::{Errno, Result};
use std::time::{Duration, Instant};

/// After this the system takes a lease back by itself: what kernels come with.
const BREAK_TIME: Duration = Duration::from_secs(45);
/// Taking it back takes its time, too.
const MARGIN: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// What `open` opens, also if another process must give a lease back before. Only this thread waits.
pub(super) fn opening(open: impl Fn() -> Result<OwnedFd>) -> Result<OwnedFd> {
    match open() {
        Err(Errno::AGAIN) => opening_within(break_time() + MARGIN, open),
        result => result,
    }
}

fn opening_within(most: Duration, open: impl Fn() -> Result<OwnedFd>) -> Result<OwnedFd> {
    let (start, mut pause) = (Instant::now(), PAUSE_MIN);
    loop {
        let is_last = start.elapsed() >= most;
        match open() {
            Err(Errno::AGAIN) if !is_last => std::thread::sleep(pause),
            result => return result,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Zero means that the system never takes one back.
fn break_time() -> Duration {
    let told = std::fs::read_to_string("/proc/sys/fs/lease-break-time").ok();
    let secs = told.and_then(|text| text.trim().parse().ok()).filter(|secs| *secs > 0);
    secs.map_or(BREAK_TIME, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_lease_is_waited_for_and_not_for_ever() {
        let tries = Cell::new(0);
        let after = |times: usize| {
            let tries = &tries;
            move || {
                tries.set(tries.get() + 1);
                if tries.get() <= times {
                    return Err(Errno::AGAIN);
                }
                Ok(std::fs::File::open("/").unwrap().into())
            }
        };
        assert!(opening(after(4)).is_ok());
        assert_eq!(tries.replace(0), 5);
        let most = Duration::from_millis(50);
        let start = Instant::now();
        assert_eq!(opening_within(most, after(usize::MAX)).unwrap_err(), Errno::AGAIN);
        assert!(start.elapsed() >= most && tries.replace(0) > 2);
        assert_eq!(opening(|| Err(Errno::ACCESS)).unwrap_err(), Errno::ACCESS);
        assert!(break_time() > Duration::ZERO);
    }
}
