//! Takes one protection out, so that a test can show that it is needed: with the feature
//! `sabotage` only, which nothing that is shipped turns on.

use std::sync::atomic::{AtomicU8, Ordering};

/// A protection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Point {
    /// Reading the lease again before something is made visible or removed.
    LeaseCheck = 1,
    /// Pinning the containers of which a session was told "it is there".
    Pin,
    /// Telling sessions that nothing lies in containers that are condemned.
    Condemned,
    /// Pinning the tree that a session builds on.
    BasePin,
    /// Looking whether the snapshot that a session builds on is still there.
    BaseCheck,
    /// Looking at a container before anything in it is promised.
    Exists,
    /// Giving up on a sync that failed, and writing elsewhere.
    FailedSync,
    /// Leaving records out whose key was torn away.
    TornKey,
    /// Making durable what a killed writer named.
    NamesOfTheDead,
    /// Making the removal of snapshots durable before their data goes.
    Removals,
    /// Marking anew when the list of snapshots changed meanwhile.
    MarkAgain,
    /// Refusing when something that lives is nowhere.
    Doubt,
    /// Keeping the index behind containers that are still being written.
    Unsettled,
    /// Leaving manifests out whose data is not all there.
    Incomplete,
    /// Leaving manifests of unfinished containers out.
    UnfinishedManifest,
    /// One reclaim at a time.
    OneReclaim,
    /// Keeping to the known place of what a killed reclaim had copied.
    KnownPlaces,
    /// Not believing a list of snapshots that may be of the past.
    FreshSnapshots,
    /// Not believing a list of all containers that may be.
    FreshContainers,
    /// Not believing a list of what a dead writer left that may be.
    FreshLeft,
    /// Making the state of a killed writer durable before what it does not name is removed.
    StateOfTheDead,
    /// Looking whether anything was stored where a list of the past says that nothing was.
    FreshInit,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::LeaseCheck,
        Self::Pin,
        Self::Condemned,
        Self::BasePin,
        Self::BaseCheck,
        Self::Exists,
        Self::FailedSync,
        Self::TornKey,
        Self::NamesOfTheDead,
        Self::Removals,
        Self::MarkAgain,
        Self::Doubt,
        Self::Unsettled,
        Self::Incomplete,
        Self::UnfinishedManifest,
        Self::OneReclaim,
        Self::KnownPlaces,
        Self::FreshSnapshots,
        Self::FreshContainers,
        Self::FreshLeft,
        Self::StateOfTheDead,
        Self::FreshInit,
    ];
}

static OUT: AtomicU8 = AtomicU8::new(0);

/// Takes `point` out of this process; with `None` nothing is out.
#[cfg(feature = "sabotage")]
pub fn take_out(point: Option<Point>) {
    OUT.store(point.map_or(0, |point| point as u8), Ordering::SeqCst);
}

/// Whether `point` is taken out.
pub(crate) fn is_out(point: Point) -> bool {
    cfg!(feature = "sabotage") && OUT.load(Ordering::Relaxed) == point as u8
}
