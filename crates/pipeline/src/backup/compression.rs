//! Chooses the compression level by the bottleneck: while threads wait for the network, more
//! compression pays; while the network waits for them, it does not.

use parking_lot::Mutex;
use seal::AUTO_STEP_MAX;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// The number of blocks over which waiting and working are compared.
const BLOCKS: u32 = 8;
/// Waiting for more than this share of the time raises the level...
const HARDER_ABOVE: f64 = 0.5;
/// ...and for less than this share lowers it.
const EASIER_BELOW: f64 = 0.1;

/// The compression level of all threads.
#[derive(Default)]
pub(super) struct CompressionController {
    level: AtomicU8,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    blocks: u32,
    working: Duration,
    waiting: Duration,
}

impl CompressionController {
    /// The level for the next block.
    pub(super) fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    /// Notes that a block took `working` to compress, and then waited `waiting` to be sent.
    pub(super) fn note(&self, working: Duration, waiting: Duration) {
        let mut window = self.window.lock();
        window.blocks += 1;
        window.working += working;
        window.waiting += waiting;
        if window.blocks < BLOCKS {
            return;
        }
        let whole = (window.working + window.waiting).as_secs_f64();
        let share = window.waiting.as_secs_f64() / whole.max(1e-9);
        *window = Window::default();
        let level = self.level();
        if share > HARDER_ABOVE && level < AUTO_STEP_MAX {
            self.level.store(level + 1, Ordering::Relaxed);
        } else if share < EASIER_BELOW && level > 0 {
            self.level.store(level - 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(controller: &CompressionController, working_ms: u64, waiting_ms: u64) -> u8 {
        let ms = Duration::from_millis;
        (0..BLOCKS).for_each(|_| controller.note(ms(working_ms), ms(waiting_ms)));
        controller.level()
    }

    #[test]
    fn who_waits_for_the_network_tries_harder_and_who_does_not_eases_off() {
        let controller = CompressionController::default();
        assert_eq!(blocks(&controller, 10, 0), 0);
        let rising: Vec<u8> = (0..5).map(|_| blocks(&controller, 10, 90)).collect();
        assert_eq!(rising, [1, 2, 3, 3, 3]);
        assert_eq!(blocks(&controller, 70, 30), 3, "in between it stays");
        assert_eq!(blocks(&controller, 99, 1), 2);
    }
}
