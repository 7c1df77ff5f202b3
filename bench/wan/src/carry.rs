//! Carries the packets of one direction: reads, waits as long as the link says, writes.

use crate::line::DelayLine;
use crate::link::{Fate, Link, Shape};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Packets that are read before those that are due are looked at again.
const BATCH: usize = 64;
/// How long a busy direction lets packets gather: waking for each would cost more than carrying.
const GATHER: Duration = Duration::from_micros(100);
/// An idle direction looks this often whether it shall end.
const IDLE: Duration = Duration::from_millis(50);

/// What one direction did so far.
#[derive(Default)]
pub(crate) struct Counters {
    /// Packets that arrived, and their bytes with IP headers.
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Found the queue full.
    pub(crate) dropped: AtomicU64,
    /// Lost on the wire.
    pub(crate) lost: AtomicU64,
    /// The kernel on the other side would not take them; 0 unless a device is down.
    pub(crate) refused: AtomicU64,
}

fn add(counter: &AtomicU64, more: u64) {
    // One thread writes, others look.
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// One direction of the link, with all that it needs made beforehand.
pub(crate) struct Carrier<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    link: Link,
    line: DelayLine,
    counters: &'a Counters,
    epoch: Instant,
}

impl<'a> Carrier<'a> {
    pub(crate) fn new(
        (from, to): (BorrowedFd<'a>, BorrowedFd<'a>),
        (shape, seed): (Shape, u64),
        counters: &'a Counters,
    ) -> Self {
        let (link, line) = (Link::new(shape, seed), DelayLine::new(shape.bytes_at_once()));
        Self { from, to, link, line, counters, epoch: Instant::now() }
    }

    /// Carries until `stop` is set.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        be_precise();
        while !stop.load(Ordering::Relaxed) {
            self.deliver();
            if self.collect() > 0 {
                std::thread::sleep(GATHER);
            } else {
                self.wait();
            }
        }
    }

    /// Reads what has been sent; says how many packets that were.
    fn collect(&mut self) -> usize {
        let now = self.now();
        for count in 0..BATCH {
            // A full line leaves the packet where it is: in the device, which is long.
            let Some(space) = self.line.space() else { return count };
            let Ok(len) = rustix::io::read(self.from, space) else { return count };
            match self.link.offer(now, len) {
                Fate::Arrives(at) => self.line.push(len, at),
                Fate::Dropped => add(&self.counters.dropped, 1),
                Fate::Lost => add(&self.counters.lost, 1),
            }
        }
        BATCH
    }

    /// Writes what has arrived.
    fn deliver(&mut self) {
        let now = self.now();
        while let Some(packet) = self.line.due(now) {
            match rustix::io::write(self.to, packet) {
                Ok(len) => {
                    add(&self.counters.packets, 1);
                    add(&self.counters.bytes, len as u64);
                }
                Err(_) => add(&self.counters.refused, 1),
            }
            self.line.pop();
        }
    }

    /// Until something is sent or arrives.
    fn wait(&self) {
        let until = self.line.next_arrival().map(|at| at.saturating_sub(self.now()));
        let wait = until.map_or(IDLE, Duration::from_nanos).min(IDLE);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut readable = [PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN)];
        // Interrupted or not: the loop looks at everything again.
        let _ = poll(&mut readable, Some(&timeout));
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Sleeps end when they should, and before the programs that are measured: a wire does not wait
/// for a processor. Without the right to it the link is only less exact.
fn be_precise() {
    const NICE: i32 = -19;
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}
