//! Which containers nobody writes any more, and whose objects the index knows.

use crate::Repository;
use crate::reclaim::first_unsettled;
use ids::ContainerNo;

/// The containers that were settled at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    below: u64,
}

impl Settled {
    /// Whether `container` was settled. A later one never is.
    pub fn has(&self, container: ContainerNo) -> bool {
        container.0 < self.below
    }
}

impl Repository {
    /// The containers that are settled now.
    pub fn settled(&self) -> Settled {
        Settled { below: first_unsettled(self) }
    }
}
