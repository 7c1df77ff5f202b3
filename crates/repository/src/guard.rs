//! Guards: the protections of the engine, each of which a test can switch off to show that it is needed. Only the
//! feature `sabotage` makes that possible, and nothing that is shipped turns it on.

use std::sync::atomic::{AtomicU8, Ordering};

/// A protection that a sabotage switches off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Guard {
    /// The lease is read again before anything becomes visible or is removed.
    LeaseCheck = 1,
    /// Containers that a session was told to rely on are pinned.
    Pin,
    /// Sessions are told that condemned containers hold nothing.
    Condemned,
    /// The tree that a session builds on is pinned.
    BasePin,
    /// The snapshot that a session builds on is looked up before the session begins.
    BaseCheck,
    /// A container is opened before anything in it counts as stored.
    ContainerExists,
    /// After a failed sync the data is written to another file.
    FailedSync,
    /// Records whose session record is lost are left out.
    TornKey,
    /// Names that a killed writer left are made durable.
    LeftoverNames,
    /// The removal of snapshots is durable before their data is removed.
    RemovalSync,
    /// Live objects are marked again when the list of snapshots changed meanwhile.
    Remark,
    /// Reclaim stops when something live is nowhere to be found.
    UncertainData,
    /// The index stays behind containers that are still being written.
    UnfinishedContainers,
    /// Manifests whose data is incomplete are left out.
    CompleteManifest,
    /// Manifests in unfinished containers are left out.
    UnfinishedManifest,
    /// Only one reclaim runs at a time.
    SingleReclaim,
    /// The known location stays for what a killed reclaim had copied.
    KnownLocations,
    /// A stale listing of snapshots is not believed.
    SnapshotListing,
    /// A stale listing of all containers is not believed.
    ContainerListing,
    /// A stale listing of what a killed writer left is not believed.
    LeftoverListing,
    /// The state file of a killed writer is durable before files that it does not name are removed.
    LeftoverState,
    /// `init` looks for stored data although a stale listing shows none.
    InitListing,
    /// Reclaim leaves the containers alone that running sessions write.
    OpenContainers,
    /// A container that is written again belongs to the session that wrote it first.
    WrittenAgain,
    /// No session is told that anything lies in a container that drains.
    Drain,
    /// Only one thread merges runs of the index at a time.
    SingleMerge,
    /// Runs that commits add during a merge stay in the index.
    LaterRuns,
    /// Only what is durable goes into a checkpoint.
    DurableCheckpoint,
    /// What a checkpoint takes stays in memory until the index has it.
    PublishedCheckpoint,
    /// A session does not finish a container in which a write failed.
    TornAppend,
    /// Reclaim leaves alone for a while what interrupted sessions stored.
    InterruptedContainers,
    /// A merge keeps the rows that running sessions rely on, although newer ones are there.
    NeededRows,
    /// Who reads the index again does not replace a newer one.
    NewerIndex,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 33] = [
        Self::LeaseCheck,
        Self::Pin,
        Self::Condemned,
        Self::BasePin,
        Self::BaseCheck,
        Self::ContainerExists,
        Self::FailedSync,
        Self::TornKey,
        Self::LeftoverNames,
        Self::RemovalSync,
        Self::Remark,
        Self::UncertainData,
        Self::UnfinishedContainers,
        Self::CompleteManifest,
        Self::UnfinishedManifest,
        Self::SingleReclaim,
        Self::KnownLocations,
        Self::SnapshotListing,
        Self::ContainerListing,
        Self::LeftoverListing,
        Self::LeftoverState,
        Self::InitListing,
        Self::OpenContainers,
        Self::WrittenAgain,
        Self::Drain,
        Self::SingleMerge,
        Self::LaterRuns,
        Self::DurableCheckpoint,
        Self::PublishedCheckpoint,
        Self::TornAppend,
        Self::InterruptedContainers,
        Self::NeededRows,
        Self::NewerIndex,
    ];
}

static DISABLED: AtomicU8 = AtomicU8::new(0);

/// Switches `guard` off in this process; `None` switches all of them on.
#[cfg(feature = "sabotage")]
pub fn disable(guard: Option<Guard>) {
    DISABLED.store(guard.map_or(0, |guard| guard as u8), Ordering::SeqCst);
}

/// Whether `guard` is on: always, but in a sabotage.
pub(crate) fn guarded(guard: Guard) -> bool {
    !cfg!(feature = "sabotage") || DISABLED.load(Ordering::Relaxed) != guard as u8
}
