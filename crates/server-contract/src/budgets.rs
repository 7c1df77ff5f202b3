//! Budgets of nodes for what lies outside of every quota: so much at once, and all of it comes back in some time.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Jobs that a node may begin at once: each is a row of the catalog, which is kept for long. A source each minute makes
/// 1,440 a day, a script that restores file by file some thousands.
pub const NODE_JOBS: u64 = 50_000;
/// In this time all of them come back.
pub const NODE_JOBS_IN: Duration = Duration::from_secs(86_400);
/// Nodes that are remembered before those are forgotten whose budget is whole again.
const NODES_MAX: usize = 4_096;

/// The budgets of all nodes that have spent something lately.
pub struct Budgets {
    max: u64,
    refilled_in: Duration,
    nodes: Mutex<FxHashMap<String, Budget>>,
}

#[derive(Clone, Copy)]
struct Budget {
    left: u64,
    at: Instant,
}

impl Budgets {
    /// Each node may spend `max` at once, and gets it back evenly, in `refilled_in`.
    pub fn new(max: u64, refilled_in: Duration) -> Self {
        Self { max, refilled_in, nodes: Mutex::default() }
    }

    /// Whether `node` may spend so much; then it has.
    pub fn take(&self, node: &str, amount: u64) -> bool {
        self.take_at(node, amount, Instant::now())
    }

    fn take_at(&self, node: &str, amount: u64, now: Instant) -> bool {
        let mut all = self.nodes.lock();
        if all.len() >= NODES_MAX {
            all.retain(|_, budget| self.refilled(*budget, now) < self.max);
        }
        let known = all.get(node).map_or(self.max, |known| self.refilled(*known, now));
        // Whoever asks in vain changes nothing: else parts of what comes back would be lost each time.
        let Some(left) = known.checked_sub(amount) else { return false };
        all.insert(node.to_owned(), Budget { left, at: now });
        true
    }

    /// What is left of `budget` now.
    fn refilled(&self, budget: Budget, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(budget.at).min(self.refilled_in).as_millis();
        let more = u128::from(self.max) * passed / self.refilled_in.as_millis().max(1);
        budget.left.saturating_add(more as u64).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_node_spends_its_own_and_gets_it_back_slowly() {
        let (budgets, now, part) = (Budgets::new(16 << 20, HOUR), Instant::now(), 256 << 10);
        let spent = (0..1386).filter(|_| budgets.take_at("bad", part, now)).count();
        assert_eq!(spent, 64);
        assert!(budgets.take_at("good", part, now));
        let minutes = |minutes: u64| now + Duration::from_secs(60 * minutes);
        assert!(!budgets.take_at("bad", 512 << 10, minutes(1)), "it comes back slowly");
        assert!(budgets.take_at("bad", 512 << 10, minutes(2)));
        let each_minute = |minute| budgets.take_at("busy", part, minutes(minute));
        assert!((0..1_440).all(each_minute), "ordinary nodes never meet it");
    }

    #[test]
    fn who_asks_all_the_time_gets_what_comes_back() {
        let (budgets, now) = (Budgets::new(60, HOUR), Instant::now());
        assert!(budgets.take_at("busy", 60, now));
        let asked = (1..=36_000)
            .filter(|tenth| budgets.take_at("busy", 1, now + Duration::from_millis(100 * tenth)));
        assert_eq!(asked.count(), 60);
    }

    #[test]
    fn very_many_nodes_take_no_more_memory() {
        let (budgets, now) = (Budgets::new(16 << 20, HOUR), Instant::now());
        for node in 0..3 * NODES_MAX {
            budgets.take_at(&node.to_string(), 1, now + HOUR * node as u32);
        }
        assert!(budgets.nodes.lock().len() <= NODES_MAX);
    }
}
