//! Memory over time: the integral of resident memory, in byte seconds.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The sampling period.
const PERIOD: Duration = Duration::from_millis(100);

/// The integral so far, and the last sample.
struct Integral {
    byte_secs: f64,
    seen_at: Instant,
    seen: u64,
}

impl Integral {
    /// Between two samples, their mean is assumed.
    fn step(&mut self, now: Instant, bytes: u64) {
        let secs = now.duration_since(self.seen_at).as_secs_f64();
        self.byte_secs += (self.seen as f64 + bytes as f64) / 2.0 * secs;
        (self.seen_at, self.seen) = (now, bytes);
    }
}

/// Samples the memory of this process while it exists.
pub(super) struct MemoryWatch {
    integral: Arc<Mutex<Integral>>,
    /// The thread ends when this is dropped.
    _end: Sender<()>,
}

impl MemoryWatch {
    pub(super) fn start() -> Self {
        let first = Integral { byte_secs: 0.0, seen_at: Instant::now(), seen: resident_bytes() };
        let (integral, (end, ended)) = (Arc::new(Mutex::new(first)), channel());
        let shared = integral.clone();
        // If no thread can be started, only the start and the end are sampled.
        let _ =
            std::thread::Builder::new().name("memory".into()).spawn(move || watch(&shared, &ended));
        Self { integral, _end: end }
    }

    /// Byte seconds since the start.
    pub(super) fn byte_secs(&self) -> f64 {
        let mut integral = self.integral.lock();
        integral.step(Instant::now(), resident_bytes());
        integral.byte_secs
    }
}

fn watch(integral: &Mutex<Integral>, ended: &Receiver<()>) {
    while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let mut integral = integral.lock();
        integral.step(Instant::now(), resident_bytes());
    }
}

/// Second field of `/proc/self/statm`, in pages.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_counts_as_long_as_it_was_in_use() {
        let begin = Instant::now();
        let mut integral = Integral { byte_secs: 0.0, seen_at: begin, seen: 100 };
        let at = |secs| begin + Duration::from_secs(secs);
        integral.step(at(10), 100);
        integral.step(at(12), 300);
        integral.step(at(13), 0);
        integral.step(at(100), 0);
        assert_eq!(integral.byte_secs, 1000.0 + 400.0 + 150.0);
    }

    /// The last size times the elapsed time would be far off.
    #[test]
    fn memory_that_came_and_went_is_seen() {
        const BYTES: usize = 256 << 20;
        let watch = MemoryWatch::start();
        let begun = Instant::now();
        let much = vec![1u8; BYTES];
        std::thread::sleep(Duration::from_millis(600));
        let held = begun.elapsed().as_secs_f64();
        drop(std::hint::black_box(much));
        let told = watch.byte_secs();
        assert!(told > BYTES as f64 * held / 2.0, "{told} byte seconds, {held} s");
        let later = watch.byte_secs();
        assert!(later >= told);
    }
}
