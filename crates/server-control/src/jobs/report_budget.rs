//! How many bytes of reports each node may have kept: they lie in the catalog, outside of every quota.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Bytes of reports that a node may have kept at once, 16 MiB: thousands of usual reports.
const BYTES_MAX: u64 = 16 << 20;
/// In this time all of that comes back: a backup each minute with the longest report is less.
const REFILLED_IN: Duration = Duration::from_secs(3_600);
/// Nodes that are remembered before those are forgotten whose budget is whole again.
const NODES_MAX: usize = 4_096;

/// The budgets of all nodes that have sent a report lately.
#[derive(Default)]
pub(super) struct ReportBudgets(Mutex<FxHashMap<String, Budget>>);

#[derive(Clone, Copy)]
struct Budget {
    left: u64,
    at: Instant,
}

impl Budget {
    fn refilled(self, now: Instant) -> Self {
        let passed = now.saturating_duration_since(self.at).min(REFILLED_IN);
        // 16 MiB times an hour in milliseconds is less than 2^46.
        let more = BYTES_MAX * passed.as_millis() as u64 / REFILLED_IN.as_millis() as u64;
        Self { left: self.left.saturating_add(more).min(BYTES_MAX), at: now }
    }
}

impl ReportBudgets {
    /// Whether a report of so many bytes of this node is kept.
    pub(super) fn take(&self, node: &str, bytes: usize) -> bool {
        self.take_at(node, bytes as u64, Instant::now())
    }

    fn take_at(&self, node: &str, bytes: u64, now: Instant) -> bool {
        let mut all = self.0.lock();
        if all.len() >= NODES_MAX {
            all.retain(|_, budget| budget.refilled(now).left < BYTES_MAX);
        }
        let known = all.get(node).map_or(BYTES_MAX, |known| known.refilled(now).left);
        let left = known.checked_sub(bytes);
        all.insert(node.to_owned(), Budget { left: left.unwrap_or(known), at: now });
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: 1386 jobs with long reports in a loop made 353 MB of catalog in 20 s.
    #[test]
    fn a_node_fills_no_catalog_with_reports_and_takes_nothing_from_others() {
        let (budgets, now, report) = (ReportBudgets::default(), Instant::now(), 256 << 10);
        let kept = (0..1386).filter(|_| budgets.take_at("bad", report, now)).count();
        assert_eq!(kept, 64);
        assert!(budgets.take_at("good", report, now));
        let minutes = |minutes: u64| now + Duration::from_secs(60 * minutes);
        assert!(!budgets.take_at("bad", 512 << 10, minutes(1)), "it comes back slowly");
        assert!(budgets.take_at("bad", 512 << 10, minutes(2)));
        let each_minute = |minute| budgets.take_at("busy", report, minutes(minute));
        assert!((0..1_440).all(each_minute), "ordinary nodes never meet it");
    }

    #[test]
    fn very_many_nodes_take_no_more_memory() {
        let (budgets, now) = (ReportBudgets::default(), Instant::now());
        let hours = |hours| now + REFILLED_IN * hours;
        for node in 0..3 * NODES_MAX {
            budgets.take_at(&node.to_string(), 1, hours(node as u32));
        }
        assert!(budgets.0.lock().len() <= NODES_MAX);
    }
}
