//! A backup, step by step, as a client makes it: chunks, then the pages that refer to them, then
//! the commit. What its base holds it cites without storing it.

use super::model::KnownTree;
use super::records::{SessionSeals, receipt};
use super::tree::Tree;
use ids::{ObjectId, SnapshotId};
use repository::lease::Lease;
use repository::session::{CheckpointLimits, Session};
use repository::snapshots::SnapshotRef;
use repository::{Error, Repository, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Objects in one record.
const RECORD_OBJECTS: usize = 3;

/// One step of a backup.
enum Step {
    Begin,
    /// Some chunks of a leaf.
    Chunks(ObjectId, Vec<ObjectId>),
    Page(ObjectId, Vec<ObjectId>),
    Checkpoint,
    Commit,
}

impl Step {
    /// Whether it stores this leaf or what is below it.
    fn stores(&self, leaf: &ObjectId) -> bool {
        matches!(self, Self::Chunks(id, _) | Self::Page(id, _) if id == leaf)
    }
}

/// When a session makes checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Checkpoints {
    /// Only when it ends without a commit.
    #[default]
    AtItsEnd,
    /// When it is told to: after so many steps each.
    After(usize),
    /// By itself: from so many ids in memory on.
    FromIds(usize),
    /// By itself, of what is durable: whenever it has stored something.
    Always,
}

impl Checkpoints {
    /// The limits that the engine gets.
    pub(super) fn limits(self) -> CheckpointLimits {
        let (ids, bytes) = match self {
            Self::AtItsEnd | Self::After(_) => (usize::MAX, u64::MAX),
            Self::FromIds(ids) => (ids, u64::MAX),
            Self::Always => (usize::MAX, 1),
        };
        CheckpointLimits { ids, bytes, every: Duration::MAX }
    }

    /// Whether any step may make one.
    fn come_by_themselves(self) -> bool {
        matches!(self, Self::FromIds(_) | Self::Always)
    }
}

/// The snapshot that a backup builds on.
#[derive(Clone)]
pub(super) struct Base {
    pub(super) name: SnapshotRef,
    pub(super) known: KnownTree,
}

/// A backup under way.
pub(super) struct Backup {
    repository: Arc<Repository>,
    lease: Arc<Lease>,
    seals: SessionSeals,
    tree: Tree,
    base: Option<Base>,
    session: Option<Session>,
    /// When it began: what may have been lost later is no concern of its base.
    epoch: u64,
    steps: VecDeque<Step>,
    checkpoints: Checkpoints,
}

impl Backup {
    /// Of `tree`, in session number `number`.
    pub(super) fn new(
        repository: &Arc<Repository>,
        lease: &Arc<Lease>,
        tree: Tree,
        base: Option<Base>,
        number: u64,
        checkpoints: Checkpoints,
    ) -> Self {
        Self {
            repository: repository.clone(),
            lease: lease.clone(),
            seals: SessionSeals::new(number),
            steps: steps(&tree, checkpoints),
            checkpoints,
            tree,
            base,
            session: None,
            epoch: repository.damage_epoch(),
        }
    }

    /// Whether the next step waits for nobody who commits.
    pub(super) fn can_interleave(&self) -> bool {
        let stores = matches!(self.steps.front(), Some(Step::Chunks(..) | Step::Page(..)));
        stores && !self.checkpoints.come_by_themselves()
    }

    /// Whether only the commit is left.
    pub(super) fn is_at_commit(&self) -> bool {
        matches!(self.steps.front(), Some(Step::Commit))
    }

    /// Goes on by one step. `Some` when it is done.
    pub(super) fn advance(&mut self) -> Result<Option<SnapshotRef>> {
        match self.steps.pop_front() {
            Some(Step::Begin) => self.begin()?,
            Some(Step::Chunks(_, ids)) => self.store_chunks(ids)?,
            Some(Step::Page(id, refs)) => self.store_page(id, &refs)?,
            Some(Step::Checkpoint) => self.checkpoint()?,
            Some(Step::Commit) => return self.commit().map(Some),
            None => {}
        }
        Ok(None)
    }

    /// The session, while it runs.
    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Its seals.
    pub(super) fn seals(&self) -> &SessionSeals {
        &self.seals
    }

    /// Everything in its tree.
    pub(super) fn objects(&self) -> Vec<ObjectId> {
        self.tree.objects()
    }

    /// Ends the session without a commit.
    pub(super) fn give_up(&mut self) {
        drop(self.session.take());
    }

    /// What it will have backed up.
    pub(super) fn known(&self) -> KnownTree {
        KnownTree { tree: self.tree.clone(), epoch: self.epoch }
    }

    fn begin(&mut self) -> Result<()> {
        let record = self.seals.session_record();
        let name = self.base.as_ref().map(|base| base.name);
        let begun = self.repository.begin(&self.lease, name, record.clone());
        self.session = Some(match begun {
            Err(Error::SnapshotMissing(_)) => {
                self.base = None; // it was forgotten meanwhile
                self.repository.begin(&self.lease, None, record)?
            }
            begun => begun?,
        });
        self.epoch = self.repository.damage_epoch();
        self.skip_stored_objects()
    }

    /// What the base holds is cited; it is looked for when something may have been lost since.
    fn skip_stored_objects(&mut self) -> Result<()> {
        let Some(base) = &self.base else { return Ok(()) };
        let trusted = base.known.epoch == self.epoch;
        for (leaf, chunks) in base.known.tree.leaves() {
            if trusted || self.holds(leaf, chunks)? {
                self.steps.retain(|step| !step.stores(&leaf));
            }
        }
        Ok(())
    }

    fn holds(&self, leaf: ObjectId, chunks: &[ObjectId]) -> Result<bool> {
        let Some(session) = &self.session else { return Ok(false) };
        for id in chunks.iter().chain([&leaf]) {
            if !session.is_stored(id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn store_chunks(&self, ids: Vec<ObjectId>) -> Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        let mut new = Vec::new();
        for id in ids {
            if session.claim(&id)? {
                new.push(id);
            }
        }
        if new.is_empty() { Ok(()) } else { session.append(&self.seals.chunks(new)) }
    }

    fn store_page(&self, id: ObjectId, refs: &[ObjectId]) -> Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        if session.claim(&id)? { session.append(&self.seals.page(id, refs)) } else { Ok(()) }
    }

    fn checkpoint(&self) -> Result<()> {
        self.session.as_ref().map_or(Ok(()), Session::checkpoint)
    }

    fn commit(&mut self) -> Result<SnapshotRef> {
        let Some(session) = self.session.take() else { return Err(Error::WriterStopped) };
        let none = SnapshotId([0; SnapshotId::LEN]);
        let number = session.next_snapshot();
        let manifest = self.seals.manifest(self.tree.root(), number, none);
        Ok(session.commit_received(&manifest, receipt(number).as_deref())?.snapshot)
    }
}

fn steps(tree: &Tree, checkpoints: Checkpoints) -> VecDeque<Step> {
    let mut storing = Vec::new();
    for (leaf, chunks) in tree.leaves() {
        storing.extend(chunks.chunks(RECORD_OBJECTS).map(|ids| Step::Chunks(leaf, ids.to_vec())));
        storing.push(Step::Page(leaf, chunks.to_vec()));
    }
    storing.push(Step::Page(tree.root(), tree.root_refs()));
    let mut steps = VecDeque::from([Step::Begin]);
    for (at, step) in storing.into_iter().enumerate() {
        steps.push_back(step);
        if matches!(checkpoints, Checkpoints::After(count) if at % count == count - 1) {
            steps.push_back(Step::Checkpoint);
        }
    }
    steps.push_back(Step::Commit);
    steps
}
