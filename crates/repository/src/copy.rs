//! Copying snapshots to another place, without a key.
//!
//! The copy is a repository of its own with the same id and the same keys. References lie in the clear, so this walks
//! the pages of each snapshot, asks the copy what it lacks, and copies the records of that as they are, batch by batch,
//! in the order in which they lie; the walk goes on meanwhile. Each is verified before it is stored. What is durable
//! goes into the index of the copy in checkpoints (`docs/adr/0038-copies.md`): a copy that was interrupted goes on where
//! it ended. The files of snapshots come last.

mod batch;
mod heal;
mod records;
mod walk;

use crate::index::prefix_of;
use crate::index::run::Prefix;
use crate::lease::Lease;
use crate::readers::ReaderPin;
use crate::session::Session;
use crate::snapshots::SnapshotRef;
use crate::storage::StorageError;
use crate::watch::Watch;
use crate::{Error, Repository, Result};
use batch::{Batch, Copied};
pub use heal::{HealOutcome, heal, heal_containers};
use ids::{ObjectId, SnapshotId};
pub use records::GoodRecord;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use store::StoredSnapshot;

/// Ids of a batch: one is copied while the next is gathered, some 1 MB each.
const WANTED_MAX: usize = 1 << 15;
/// After so many bytes the snapshots that are complete appear: 1 GiB.
const PUBLISH_BYTES: u64 = 1 << 30;
/// Damages that are told one by one; all are counted.
const TOLD_MAX: usize = 100;

/// The system has limits of processes and of address space.
fn no_thread(error: std::io::Error) -> Error {
    StorageError::new("start", "a thread", error).into()
}

/// Where the copy is made.
#[derive(Clone, Copy)]
pub enum CopyTo<'a> {
    /// Nowhere: what would be copied is counted. Without a repository there is nothing yet.
    Plan(Option<&'a Arc<Repository>>),
    /// In a repository whose lease the caller has.
    Repository(&'a Arc<Repository>, &'a Arc<Lease>),
}

impl CopyTo<'_> {
    fn is_plan(&self) -> bool {
        matches!(self, Self::Plan(_))
    }
}

/// An object that could not be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostObject {
    /// The object.
    pub id: ObjectId,
    /// Why.
    pub reason: String,
}

/// What a copy did, or would do.
#[derive(Clone, Debug, Default)]
pub struct CopyOutcome {
    /// The snapshots that are in the copy now and were not.
    pub snapshots: Vec<SnapshotRef>,
    /// Those that were left out because parts of them are lost, or they cannot be read.
    pub left_out: Vec<(SnapshotId, String)>,
    /// Those that were forgotten in the meantime.
    pub forgotten: Vec<SnapshotId>,
    /// Pages that were walked.
    pub pages: u64,
    /// Objects that the copy lacked.
    pub objects: u64,
    /// Records that were copied.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Objects that are lost in the original.
    pub lost_objects: u64,
    /// The first of them.
    pub lost: Vec<LostObject>,
    /// Whether it was asked to stop before its end.
    pub is_interrupted: bool,
}

/// Copies the snapshots `names` of `source`, the oldest first. The caller has made sure that both places have the same
/// config. Until it ends, no reclaim of `source` removes what it reads. With `accept_damage`, snapshots of which the
/// first place has lost parts are copied without these.
///
/// # Errors
/// Those of both storages. Damage is reported, not returned.
pub fn run(
    source: &Arc<Repository>,
    to: CopyTo<'_>,
    names: &[SnapshotRef],
    accept_damage: bool,
    watch: &dyn Watch,
) -> Result<CopyOutcome> {
    let mut names = names.to_vec();
    names.sort_unstable();
    std::thread::scope(|scope| {
        let mut copier = Copier::new(scope, source, to, accept_damage, watch);
        copier.pin(&names)?;
        let copied = copier.all(&names);
        copier.outcome.is_interrupted |= !watch.goes_on();
        copied.map(|()| copier.outcome)
    })
}

/// A copy that runs.
struct Copier<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    source: &'env Arc<Repository>,
    to: CopyTo<'env>,
    accept_damage: bool,
    watch: &'env dyn Watch,
    pin: Option<ReaderPin>,
    /// Pages that were walked.
    visited: FxHashSet<Prefix>,
    /// What is lost in the original.
    lost: FxHashSet<Prefix>,
    /// What the copy lacks and was not copied yet.
    wanted: Vec<ObjectId>,
    /// What a dry run has counted.
    counted: FxHashSet<Prefix>,
    session: Option<Arc<Session>>,
    /// The batch that is being copied.
    running: Option<ScopedJoinHandle<'scope, Result<Copied>>>,
    /// Bytes copied since snapshots appeared last.
    unpublished_bytes: u64,
    pending: Vec<StoredSnapshot>,
    outcome: CopyOutcome,
}

impl<'scope, 'env> Copier<'scope, 'env> {
    fn new(
        scope: &'scope Scope<'scope, 'env>,
        source: &'env Arc<Repository>,
        to: CopyTo<'env>,
        accept_damage: bool,
        watch: &'env dyn Watch,
    ) -> Self {
        let (visited, lost, wanted, counted, pending, outcome) = Default::default();
        let (pin, session, running, unpublished_bytes) = (None, None, None, 0);
        Self {
            scope,
            source,
            to,
            accept_damage,
            watch,
            pin,
            visited,
            lost,
            wanted,
            counted,
            session,
            running,
            unpublished_bytes,
            pending,
            outcome,
        }
    }

    /// Pins what is to be read. What is listed behind the pin was not removed before it.
    fn pin(&mut self, names: &[SnapshotRef]) -> Result<()> {
        if !self.to.is_plan() {
            let roots = self.roots(names)?;
            let pinned = roots.len();
            self.pin = Some(ReaderPin::new(self.source, roots));
            // What was removed before the pin was there is not pinned: a reclaim would miss it for as long.
            let left = self.roots(names)?;
            if left.len() < pinned {
                self.pin = Some(ReaderPin::new(self.source, left));
            }
        }
        // An index of before may name containers that a reclaim has removed since.
        self.source.refresh()
    }

    fn roots(&self, names: &[SnapshotRef]) -> Result<Vec<ObjectId>> {
        let mut roots = Vec::with_capacity(names.len());
        for name in names {
            match self.source.snapshot(*name) {
                Ok(stored) => roots.push(stored.head.root),
                Err(error) if error.is_unreachable() => return Err(error),
                Err(_) => {} // told when it is its turn
            }
        }
        Ok(roots)
    }

    fn all(&mut self, names: &[SnapshotRef]) -> Result<()> {
        for name in names {
            if !self.watch.goes_on() {
                return Ok(());
            }
            self.snapshot(*name)?;
            if self.unpublished_bytes >= PUBLISH_BYTES {
                self.publish()?;
            }
        }
        self.publish()
    }

    /// Copies what the copy lacks of one snapshot.
    fn snapshot(&mut self, name: SnapshotRef) -> Result<()> {
        let stored = match self.source.snapshot(name) {
            Ok(stored) => stored,
            Err(Error::SnapshotMissing(id)) => {
                self.outcome.forgotten.push(id);
                return Ok(());
            }
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => {
                self.outcome.left_out.push((name.id, error.to_string()));
                return Ok(());
            }
        };
        self.walk(stored.head.root)?;
        self.copy_wanted()?;
        self.pending.push(stored);
        Ok(())
    }

    /// Notes that the copy may lack `id`.
    fn want(&mut self, id: &ObjectId) -> Result<()> {
        let is_wanted = match self.to {
            CopyTo::Plan(None) => self.counted.insert(prefix_of(id)),
            CopyTo::Plan(Some(target)) => {
                target.index().find(id)?.is_none() && self.counted.insert(prefix_of(id))
            }
            CopyTo::Repository(target, lease) => self.session(target, lease).claim(id)?,
        };
        if is_wanted {
            self.outcome.objects += 1;
            self.wanted.push(*id);
        }
        if self.wanted.len() < WANTED_MAX { Ok(()) } else { self.copy_wanted() }
    }

    fn session(&mut self, target: &Arc<Repository>, lease: &Arc<Lease>) -> &Arc<Session> {
        self.session.get_or_insert_with(|| Arc::new(target.begin_copy(lease)))
    }

    /// Begins to copy what is wanted, as soon as the batch before is done.
    fn copy_wanted(&mut self) -> Result<()> {
        self.settle()?;
        let ids = std::mem::take(&mut self.wanted);
        let (session, is_stepwise) = match self.to {
            CopyTo::Plan(_) => (None, true),
            CopyTo::Repository(target, lease) => {
                (Some(self.session(target, lease).clone()), target.is_stepwise())
            }
        };
        let batch = Batch { source: self.source, session, is_stepwise, watch: self.watch };
        if is_stepwise {
            let copied = batch.run(ids)?;
            self.note(copied);
        } else {
            let running = Builder::new().spawn_scoped(self.scope, move || batch.run(ids));
            self.running = Some(running.map_err(no_thread)?);
        }
        Ok(())
    }

    /// Waits for the batch that is being copied.
    fn settle(&mut self) -> Result<()> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let copied = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        self.note(copied);
        Ok(())
    }

    fn note(&mut self, copied: Copied) {
        self.outcome.records += copied.records;
        self.outcome.bytes += copied.bytes;
        if !self.to.is_plan() {
            self.unpublished_bytes += copied.bytes;
        }
        copied.lost.into_iter().for_each(|(id, reason)| self.lose(id, &reason));
    }

    /// `id` cannot be read in the first place.
    fn lose(&mut self, id: ObjectId, reason: &str) {
        if let Some(session) = &self.session {
            session.give_up(&id);
        }
        if self.lost.insert(prefix_of(&id)) {
            self.outcome.lost_objects += 1;
            if self.outcome.lost.len() < TOLD_MAX {
                self.outcome.lost.push(LostObject { id, reason: reason.to_owned() });
            }
        }
    }

    /// Lets those snapshots appear that are complete.
    fn publish(&mut self) -> Result<()> {
        self.settle()?;
        let pending = std::mem::take(&mut self.pending);
        let mut whole = Vec::with_capacity(pending.len());
        for stored in pending {
            match self.has_lost(stored.head.root)? {
                true if !self.accept_damage => {
                    let reason = "parts of it are lost in the original".to_owned();
                    self.outcome.left_out.push((stored.name.id, reason));
                }
                _ => whole.push(stored),
            }
        }
        if !self.watch.goes_on() {
            return Ok(());
        }
        if let CopyTo::Repository(target, lease) = self.to
            && !whole.is_empty()
        {
            // A session without anything to store has still looked for what it relies on.
            self.session(target, lease);
            let epoch = self.epoch();
            // All who helped have ended: nobody else has it.
            let session = self.session.take().and_then(Arc::into_inner);
            session.ok_or(Error::WriterStopped)?.commit_copied(&whole, epoch)?;
            self.unpublished_bytes = 0;
        }
        self.outcome.snapshots.extend(whole.iter().map(|stored| stored.name));
        Ok(())
    }

    /// The damage epoch of the copy: a backup to it looks for what it reuses of a snapshot that is not whole.
    fn epoch(&self) -> u64 {
        self.source.damage_epoch().saturating_add(u64::from(!self.lost.is_empty()))
    }
}
