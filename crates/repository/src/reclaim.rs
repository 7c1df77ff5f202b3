//! Reclaim: frees the space of forgotten snapshots, while backups run in the same process.
//!
//! `mark` finds the objects that snapshots reach, `plan` chooses the containers to rewrite, and `stages` divides them.
//! For each stage, `rewrite` condemns its containers, copies their live objects, makes the copies durable, publishes an
//! index that points to them, and only then removes the old files. It stops before deleting anything uncertain. It
//! needs no key, because pages show their references. A caller with a key can pass a [`Repacker`], which removes dead
//! objects from records that also hold live ones.

mod batch;
mod copied;
mod copy;
mod live;
pub mod locked;
mod mark;
mod plan;
mod rewrite;
mod scan;
mod stages;
mod unknown;

use crate::guard::{Guard, guarded};
use crate::index::interrupted::Interrupted;
use crate::lease::Lease;
use crate::pins::Covered;
use crate::watch::{Unwatched, Watch};
use crate::{Error, Repository, Result, container, parity};
use format::record::SealedRecord;
use ids::{ContainerNo, ObjectId};
use live::LiveSet;
use plan::Plan;
use rewrite::Rewriter;

/// Options of reclaim.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimOptions {
    /// Dead bytes that may stay, in percent of all bytes.
    pub max_waste_percent: f64,
    /// Report what would be done, and change nothing.
    pub dry_run: bool,
    /// Continue although parts of a snapshot are lost, and drop damaged records and everything below a lost page. Reads
    /// every byte.
    pub accept_damage: bool,
    /// Free at once what interrupted sessions stored, and what was stored twice because of that. Else it stays for
    /// three reclaims, so that the next run of each finds it. Reads the footers of all containers.
    pub free_interrupted: bool,
}

/// Removes dead objects from records. Implemented by the pipeline, which has the keys.
pub trait Repacker {
    /// The session record of the records that it returns.
    fn session_record(&self) -> SealedRecord;

    /// Learns the key of a session from the clear part of its record, before any of its records
    /// are added.
    fn learn(&mut self, session: &[u8]) -> Result<()>;

    /// Adds those objects of `record` for which `live` is `true`: all of them, or none and then it returns `false`, so
    /// that the record is copied as it is.
    fn add(&mut self, record: &[u8], live: &[bool]) -> Result<bool>;

    /// Drops the objects that were added and are in no record that was taken.
    fn forget(&mut self);

    /// A record of the added objects, when there are enough for one, or at the `end`.
    fn take(&mut self, end: bool) -> Result<Option<SealedRecord>>;
}

/// What reclaim did, or would do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReclaimOutcome {
    /// Containers before.
    pub containers: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Objects that a snapshot refers to.
    pub live_objects: u64,
    /// Objects that no snapshot refers to.
    pub dead_objects: u64,
    /// Containers that held no live object.
    pub containers_removed: u64,
    /// Containers whose live records were copied.
    pub containers_rewritten: u64,
    /// Bytes copied.
    pub bytes_copied: u64,
    /// Bytes freed.
    pub bytes_freed: u64,
    /// Dead bytes that stay, estimated.
    pub bytes_wasted: u64,
    /// Those of them that stay because interrupted sessions stored them.
    pub bytes_interrupted: u64,
    /// Those of them that stay because a lock helper keeps their containers: removing them would free nothing.
    pub bytes_secured: u64,
    /// Those of them that stay because their containers lie in cold storage classes, where a read costs more.
    pub bytes_cold: u64,
    /// How many containers that are.
    pub containers_cold: u64,
    /// Containers that were not rewritten because there was no room for their live objects.
    pub containers_left: u64,
    /// Pages and chunks that snapshots need and that are lost. Objects below lost pages count as dead.
    pub lost_objects: u64,
    /// Containers with damaged records.
    pub damaged_containers: u64,
    /// The longest time in seconds for which anybody had the commit lock, since the repository was opened.
    pub commit_lock_secs: f64,
}

/// Reclaims space.
///
/// # Errors
/// [`Error::InUse`] while another reclaim runs; [`Error::UncertainData`].
pub fn run(
    repository: &Repository,
    lease: &Lease,
    options: ReclaimOptions,
    repacker: Option<&mut dyn Repacker>,
) -> Result<ReclaimOutcome> {
    run_watched(repository, lease, options, repacker, &Unwatched)
}

/// The same under the eyes of `watch`, which may end it between two stages: what was rewritten until then stays so.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    repository: &Repository,
    lease: &Lease,
    options: ReclaimOptions,
    repacker: Option<&mut dyn Repacker>,
    watch: &dyn Watch,
) -> Result<ReclaimOutcome> {
    let only = repository.reclaiming.try_lock();
    if only.is_none() && guarded(Guard::SingleReclaim) {
        return Err(Error::InUse { holder: "a reclaim of this process".into() });
    }
    let from_unfinished = remove_unfinished_containers(repository, lease, options.dry_run)?;
    if !options.dry_run {
        parity::remove_unfinished(repository, lease)?;
    }
    let mut live = LiveSet::accepting_damage(options.accept_damage);
    mark::mark(repository, &mut live, watch)?;
    let scans = scan::run(repository, &live)?;
    let plan = Plan::new(repository, &live, options, &scans)?;
    if options.dry_run {
        return Ok(plan.outcome().with_freed(from_unfinished));
    }
    let mut rewriter =
        Rewriter::new(repository, lease, live, repacker, options.accept_damage, watch);
    let outcome = stages::run(&mut rewriter, &plan);
    if outcome.is_err() {
        // Nobody knows when the next one comes.
        rewriter.drain_only(&[]);
    }
    let commit_lock_secs = repository.commit.longest().as_secs_f64();
    let outcome = ReclaimOutcome { commit_lock_secs, ..outcome?.with_freed(from_unfinished) };
    if watch.goes_on() {
        age_interrupted(repository, lease, options.free_interrupted)?;
    }
    Ok(outcome)
}

impl ReclaimOutcome {
    /// This, after more bytes came back.
    fn with_freed(self, bytes: u64) -> Self {
        Self { bytes_freed: self.bytes_freed.saturating_add(bytes), ..self }
    }
}

impl Repository {
    /// Whether the index has everything that the snapshot of `root` needs.
    pub fn is_complete(&self, root: ObjectId) -> Result<bool> {
        Ok(!guarded(Guard::CompleteManifest) || mark::is_complete(self, root)?)
    }

    /// Whether the index has everything that all snapshots of now need. Reads each page once, however many share it.
    ///
    /// # Errors
    /// When the storage is unreachable.
    pub fn are_complete(&self, watch: &dyn Watch) -> Result<bool> {
        mark::are_complete(self, watch)
    }
}

/// What interrupted sessions stored was left alone once more, or `is_free` from now on.
fn age_interrupted(repository: &Repository, lease: &Lease, is_free: bool) -> Result<()> {
    let _commit = repository.commit.lock();
    let mut state = repository.next_state(Covered::Nothing);
    if state.interrupted.is_empty() {
        return Ok(());
    }
    match is_free {
        true => state.interrupted = Interrupted::default(),
        false => state.interrupted.age(),
    }
    repository.publish_index(lease, state)
}

/// Removes unfinished containers that nobody will finish: of a writer that was fenced out while it
/// slept, or had no more room. How many bytes they took.
fn remove_unfinished_containers(
    repository: &Repository,
    lease: &Lease,
    dry_run: bool,
) -> Result<u64> {
    let settled = repository.settled();
    let files = container::list(&*repository.storage, ContainerNo(0))?;
    let mut bytes = 0_u64;
    for file in files.iter().filter(|file| !file.finished && settled.has(file.number)) {
        let name = container::part_name(file.number);
        // Its length is for the report alone.
        bytes += repository.storage.open(&name).and_then(|file| file.length()).unwrap_or(0);
        if !dry_run {
            lease.verify()?;
            repository.storage.remove(&name)?;
        }
    }
    Ok(bytes)
}
