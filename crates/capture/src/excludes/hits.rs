//! Which patterns matched: one that never does is often a typing error.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether each pattern matched something.
#[derive(Debug, Default)]
pub(super) struct PatternHits(Vec<AtomicBool>);

impl PatternHits {
    /// For this number of patterns.
    pub(super) fn of(patterns: usize) -> Self {
        Self(std::iter::repeat_with(AtomicBool::default).take(patterns).collect())
    }

    /// Notes that the pattern `number` decided. Written only once, because many threads call it.
    pub(super) fn note(&self, number: usize) {
        if let Some(hit) = self.0.get(number)
            && !hit.load(Ordering::Relaxed)
        {
            hit.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the pattern `number` never decided.
    pub(super) fn is_unused(&self, number: usize) -> bool {
        self.0.get(number).is_some_and(|hit| !hit.load(Ordering::Relaxed))
    }
}
