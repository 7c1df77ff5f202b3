//! What must be there: a map from snapshots to trees.

use super::records;
use super::tree::Tree;
use format::record::RecordKind;
use ids::{ContainerNo, ObjectId, SessionId, SnapshotId};
use repository::Repository;
use repository::snapshots::SnapshotRef;
use std::collections::{BTreeMap, BTreeSet};

/// A tree that was backed up.
#[derive(Clone, Debug)]
pub(super) struct KnownTree {
    pub(super) tree: Tree,
    /// Of the repository when it was backed up.
    pub(super) epoch: u64,
}

/// What the runs so far were told.
#[derive(Clone, Default)]
pub(super) struct Model {
    /// Reported done and not forgotten.
    live: BTreeMap<SnapshotRef, KnownTree>,
    /// Whose forgetting was begun and not reported done: they may be there.
    uncertain: BTreeMap<SnapshotRef, KnownTree>,
    /// Reported forgotten.
    forgotten: BTreeSet<SnapshotId>,
    /// Every tree that was ever to be backed up, by its root.
    attempted: BTreeMap<[u8; ObjectId::LEN], Tree>,
    /// Numbers that were seen, each with its snapshot.
    numbers: BTreeMap<u64, SnapshotId>,
    /// The first that was reported done.
    first: Option<SnapshotRef>,
    /// Chunks of which a record has other bytes, and which some snapshot has had ever since.
    lied_about: BTreeSet<ObjectId>,
    /// Those that no snapshot had meanwhile. What a session left that was interrupted, or a rebuild, may have made that
    /// record the first that has it: the same as if the node had stored it before anybody else.
    doubtful: BTreeSet<ObjectId>,
}

/// What must not be.
pub(super) type Violation = String;

/// What was acknowledged and cannot be had.
#[derive(Clone, Default)]
pub(super) struct LostObjects {
    pub(super) objects: BTreeSet<ObjectId>,
    /// What can.
    pub(super) readable: BTreeSet<ObjectId>,
    /// Numbers of snapshots that are not listed, or cannot be read.
    pub(super) snapshots: BTreeSet<u64>,
}

impl Model {
    pub(super) fn live_snapshots(&self) -> Vec<SnapshotRef> {
        self.live.keys().copied().collect()
    }

    pub(super) fn known(&self, name: SnapshotRef) -> Option<&KnownTree> {
        self.live.get(&name)
    }

    /// A backup of `tree` begins.
    pub(super) fn begin_backup(&mut self, tree: &Tree) {
        self.attempted.insert(tree.root().0, tree.clone());
    }

    /// A backup was reported done.
    pub(super) fn acknowledge_backup(&mut self, name: SnapshotRef, known: KnownTree) {
        self.first.get_or_insert(name);
        self.live.insert(name, known);
    }

    /// The first snapshot, and its tree, if it was not forgotten.
    pub(super) fn first(&self) -> Option<(SnapshotRef, &Tree)> {
        self.first.and_then(|name| Some((name, &self.live.get(&name)?.tree)))
    }

    /// A record will name this chunk and have other bytes.
    pub(super) fn lie_about(&mut self, chunk: ObjectId) {
        self.lied_about.insert(chunk);
        self.doubt();
    }

    fn doubt(&mut self) {
        let live: BTreeSet<_> = self.live.values().flat_map(|known| known.tree.objects()).collect();
        self.doubtful.extend(self.lied_about.difference(&live));
    }

    /// Somebody begins to forget `names`.
    pub(super) fn begin_forget(&mut self, names: &[SnapshotRef]) {
        for name in names {
            self.uncertain.extend(self.live.remove(name).map(|known| (*name, known)));
        }
        self.doubt();
    }

    /// It was reported done.
    pub(super) fn acknowledge_forget(&mut self, names: &[SnapshotRef]) {
        self.uncertain.retain(|name, _| !names.contains(name));
        self.forgotten.extend(names.iter().map(|name| name.id));
    }

    /// Those of `names` whose forgetting was not reported done.
    pub(super) fn not_forgotten(&self, names: &[SnapshotRef]) -> Vec<SnapshotRef> {
        names.iter().filter(|name| !self.forgotten.contains(&name.id)).copied().collect()
    }

    /// What was forgotten may be back.
    pub(super) fn allow_forgotten(&mut self) {
        self.forgotten.clear();
    }

    /// Everything that was promised is there, and nothing else.
    pub(super) fn verify(&mut self, repository: &Repository) -> Result<(), Violation> {
        let found = repository.snapshots().map_err(|error| format!("no list: {error}"))?;
        if let Some(lost) = self.live.keys().find(|name| !found.contains(name)) {
            return Err(format!("snapshot {} was reported done and is not there", lost.sequence));
        }
        let mut seen = Seen::default();
        for name in found {
            self.verify_snapshot(repository, name, &mut seen)?;
        }
        Ok(())
    }

    /// What is listed and was not removed meanwhile is whole, by a listing that may be stale.
    pub(super) fn verify_some(&mut self, repository: &Repository) -> Result<(), Violation> {
        let found = repository.snapshots().map_err(|error| format!("no list: {error}"))?;
        for name in found {
            match repository.snapshot(name) {
                Err(repository::Error::SnapshotMissing(_)) => {}
                _ => self.verify_snapshot(repository, name, &mut Seen::default())?,
            }
        }
        Ok(())
    }

    /// What of the kept snapshots cannot be had. A wrong byte is a violation.
    pub(super) fn lost(&self, repository: &Repository) -> Result<LostObjects, Violation> {
        let mut lost = LostObjects::default();
        for (name, known) in &self.live {
            if repository.snapshot(*name).is_err() {
                lost.snapshots.insert(name.sequence);
            }
            for id in known.tree.objects() {
                let found = is_there(repository, &id)?;
                if found {
                    lost.readable.insert(id)
                } else {
                    lost.objects.insert(id)
                };
            }
        }
        Ok(lost)
    }

    /// Trees of all kept snapshots.
    pub(super) fn trees(&self) -> Vec<Tree> {
        self.live.values().map(|known| known.tree.clone()).collect()
    }

    /// One snapshot is whole.
    fn verify_snapshot(
        &mut self,
        repository: &Repository,
        name: SnapshotRef,
        seen: &mut Seen,
    ) -> Result<(), Violation> {
        let number = name.sequence;
        if self.forgotten.contains(&name.id) {
            return Err(format!("snapshot {number} was forgotten and is there"));
        }
        if *self.numbers.entry(number).or_insert(name.id) != name.id {
            return Err(format!("number {number} was used twice"));
        }
        let failed = |error: repository::Error| format!("snapshot {number}: {error}");
        let stored = repository.snapshot(name).map_err(failed)?;
        if stored.receipt != records::receipt(number) {
            return Err(format!("snapshot {number} has lost its receipt, or has another one's"));
        }
        let tree =
            self.attempted.get(&stored.head.root.0).ok_or("a snapshot of nothing is there")?;
        let doubtful = &self.doubtful;
        let whole = tree.objects().into_iter().try_for_each(|id| match seen.has(repository, id) {
            Err(reason) if reason.ends_with(records::OTHER_BYTES) && doubtful.contains(&id) => {
                Ok(())
            }
            seen => seen,
        });
        whole.map_err(|reason| format!("snapshot {number}: {reason}"))
    }
}

/// What one pass has read, while nobody else does anything: snapshots share most of their objects.
#[derive(Default)]
struct Seen {
    objects: BTreeSet<ObjectId>,
    keys: BTreeSet<(ContainerNo, SessionId)>,
}

impl Seen {
    /// Whether every byte of an object can be had.
    fn has(&mut self, repository: &Repository, id: ObjectId) -> Result<(), Violation> {
        if self.objects.contains(&id) {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let place = repository.fetch(&id, &mut bytes).map_err(|error| format!("{id}: {error}"))?;
        let session = records::holds(&bytes, &id).map_err(|reason| format!("{id}: {reason}"))?;
        let key = (place.container, session);
        if !self.keys.contains(&key) {
            let here = keys_in(repository, place.container).map_err(|error| error.to_string())?;
            self.keys.extend(here.into_iter().map(|session| (place.container, session)));
        }
        if !self.keys.contains(&key) {
            return Err(format!("{id}: container {} lacks its key", place.container));
        }
        self.objects.insert(id);
        Ok(())
    }
}

/// Whether an object can be had. What passes for it and is not is a violation.
fn is_there(repository: &Repository, id: &ObjectId) -> Result<bool, Violation> {
    let mut bytes = Vec::new();
    if repository.fetch(id, &mut bytes).is_err() {
        return Ok(false);
    }
    match records::holds(&bytes, id) {
        Err(reason) if reason == records::OTHER_BYTES => Err(format!("{id}: {reason}")),
        found => Ok(found.is_ok()),
    }
}

/// Sessions whose key record stands in a container.
fn keys_in(repository: &Repository, number: ContainerNo) -> repository::Result<Vec<SessionId>> {
    let mut found = Vec::new();
    repository.container(number)?.walk(|_, record| {
        if record.header.kind == RecordKind::Session {
            found.push(record.header.session);
        }
    })?;
    Ok(found)
}
