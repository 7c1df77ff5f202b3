//! Who watches long work: may slow it down, and may end it where that costs nothing.

use ids::ContainerNo;

/// Watches a reclaim or a check.
pub trait Watch: Sync {
    /// So many bytes were read or written. Waits for as long as its limits want.
    fn moved(&self, bytes: u64);

    /// Whether to go on: asked where everything done so far stays done.
    fn goes_on(&self) -> bool;

    /// What is done from now on, in a word.
    fn stage(&self, name: &str);

    /// A check has read everything up to this container without finding damage: who begins anew need not read it again.
    fn passed(&self, _: ContainerNo) {}
}

/// Nobody watches: full speed to the end.
pub struct Unwatched;

impl Watch for Unwatched {
    fn moved(&self, _: u64) {}

    fn goes_on(&self) -> bool {
        true
    }

    fn stage(&self, _: &str) {}
}
