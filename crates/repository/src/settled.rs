//! Which containers nobody writes any more.

use crate::Repository;
use ids::ContainerNo;
use rustc_hash::FxHashSet;
use std::sync::atomic::Ordering;

/// The containers that were settled at one moment: finished by sessions that committed, or settled by a lease.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Numbers from here on were not given to anybody.
    below: u64,
    /// Those that sessions write, or left behind.
    unsettled: FxHashSet<ContainerNo>,
}

impl Settled {
    /// Whether `container` was settled. A later one never is.
    pub fn has(&self, container: ContainerNo) -> bool {
        container.0 < self.below && !self.unsettled.contains(&container)
    }
}

impl Repository {
    /// The containers that are settled now.
    pub fn settled(&self) -> Settled {
        // Under this lock no number is given: none is missing in both.
        let pins = self.pins.lock();
        let below = self.next_container.load(Ordering::Relaxed);
        Settled { below, unsettled: pins.unsettled() }
    }
}
