//! What a process does: one thing after the other, or one beside the other.

use super::backup::{Backup, Base, Checkpoints};
use super::liar::Liar;
use super::model::{Model, Violation};
use super::records::{SessionSeals, dead};
use super::tree::Tree;
use crate::disk::{AMPLE_BYTES, Disk, SimStorage};
use crate::random::Random;
use format::manifest::{self, Head};
use format::record::{Record, RecordKind};
use format::wire::checksum;
use ids::SnapshotId;
use parking_lot::Mutex;
use repository::container::read::ContainerReader;
use repository::lease::Lease;
use repository::rebuild::FoundManifest;
use repository::reclaim::{self, ReclaimOptions};
use repository::snapshots::SnapshotRef;
use repository::storage::Storage;
use repository::{Error, Repository, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all processes and tasks share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) disk: Arc<Disk>,
    pub(super) model: Arc<Mutex<Model>>,
    /// The first thing that was wrong.
    pub(super) wrong: Arc<Mutex<Option<Violation>>>,
    sessions: Arc<AtomicU64>,
    /// Containers are finished at this size, so that a session makes several.
    container_bytes: Option<u64>,
    checkpoints: Checkpoints,
    /// Backups share nothing: the repository has no deduplication.
    is_apart: bool,
    /// Some nodes lie.
    pub(super) has_liars: bool,
}

/// How sessions make checkpoints.
const CHECKPOINTS: [Checkpoints; 6] = [
    Checkpoints::AtItsEnd,
    Checkpoints::After(1),
    Checkpoints::After(4),
    Checkpoints::FromIds(1),
    Checkpoints::FromIds(4),
    Checkpoints::Always,
];

/// Sizes at which containers are finished: as everywhere, or after one record, or after a few.
const CONTAINER_BYTES: [Option<u64>; 5] = [None, None, Some(1), Some(3_000), Some(8_000)];

impl Shared {
    pub(super) fn new(disk: Arc<Disk>) -> Self {
        let (model, wrong, sessions) = Default::default();
        let checkpoints = Checkpoints::AtItsEnd;
        let (container_bytes, is_apart, has_liars) = (None, false, false);
        Self { disk, model, wrong, sessions, container_bytes, checkpoints, is_apart, has_liars }
    }

    /// With containers of any size, and any checkpoints.
    pub(super) fn with_random_sizes(disk: Arc<Disk>, random: &mut Random) -> Self {
        let container_bytes = *random.pick(&CONTAINER_BYTES);
        Self { container_bytes, checkpoints: *random.pick(&CHECKPOINTS), ..Self::new(disk) }
    }

    /// The same with or without deduplication.
    pub(super) fn with_backups_apart(self, is_apart: bool) -> Self {
        Self { is_apart, ..self }
    }

    /// The same with these checkpoints.
    pub(super) fn with_checkpoints(self, checkpoints: Checkpoints) -> Self {
        Self { checkpoints, ..self }
    }

    /// The same with containers of `bytes`.
    pub(super) fn with_container_bytes(self, bytes: u64) -> Self {
        Self { container_bytes: Some(bytes), ..self }
    }

    /// What goes on with a copy of the files: the copy knows what was promised until then, and no more.
    pub(super) fn on(&self, disk: Arc<Disk>) -> Self {
        let model = Arc::new(Mutex::new(self.model.lock().clone()));
        Self { disk, model, ..self.clone() }
    }

    /// A process that opens the repository and takes the lease.
    pub(super) fn start(&self) -> Result<WriterProcess> {
        let storage = self.disk.process();
        let repository = Arc::new(Repository::open(Arc::new(storage.clone()))?);
        if let Some(bytes) = self.container_bytes {
            repository.make_containers_small(bytes);
        }
        repository.make_checkpoints_at(self.checkpoints.limits());
        let lease = repository.lease("simulation")?;
        Ok(WriterProcess { storage, repository, lease })
    }

    pub(super) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn violation(&self, what: Violation) {
        self.wrong.lock().get_or_insert(what);
    }

    /// A reader that needs no lock looks whether everything is there.
    pub(super) fn read_all(&self) {
        self.disk
            .without_faults(|| self.with_reader(|repository| self.model.lock().verify(repository)));
    }

    /// What a reader with stale listings sees: not all, but nothing that is wrong.
    pub(super) fn read_stale(&self) {
        self.disk.without_faults(|| {
            self.disk.serve_stale_listings();
            self.with_reader(|repository| self.model.lock().verify_some(repository));
        });
    }

    /// A copy that is taken at this moment is a repository: what is promised now is in it, whatever happens to the
    /// one that it was taken of.
    pub(super) fn copy(&self) {
        let operations = self.disk.operations();
        let copy = self.on(self.disk.copy_of_files(Random::new(operations)));
        copy.disk.set_free_bytes(AMPLE_BYTES);
        copy.read_all();
        let failed = |error: Error| self.violation(format!("a copy does not go on: {error}"));
        if let Err(error) = copy.continue_with(operations) {
            failed(error);
        }
        copy.read_all();
    }

    fn continue_with(&self, seed: u64) -> Result<()> {
        let running = self.start()?;
        let mut random = Random::new(seed);
        for mut task in [Task::backup(&running, self, &mut random), Task::Reclaim(0.0)] {
            while !task.advance(&running, self)? {}
        }
        Ok(())
    }

    fn with_reader(&self, what: impl FnOnce(&Repository) -> std::result::Result<(), Violation>) {
        let storage = self.disk.process();
        let process = storage.process();
        let opened = Repository::open(Arc::new(storage)).map_err(|error| error.to_string());
        let seen = opened.and_then(|repository| what(&repository));
        self.disk.kill(process);
        if let Err(what) = seen {
            self.violation(what);
        }
    }
}

/// A process that may write.
#[derive(Clone)]
pub(super) struct WriterProcess {
    pub(super) storage: SimStorage,
    pub(super) repository: Arc<Repository>,
    pub(super) lease: Arc<Lease>,
}

impl Shared {
    /// A backup of `tree` on `base`.
    pub(super) fn backup_of(
        &self,
        running: &WriterProcess,
        tree: Tree,
        base: Option<Base>,
    ) -> Task {
        self.model.lock().begin_backup(&tree);
        let number = self.next_session();
        let (repository, lease) = (&running.repository, &running.lease);
        let backup = Backup::new(repository, lease, tree, base, number, self.checkpoints);
        Task::Backup(Box::new(backup))
    }
}

/// Something to do.
pub(super) enum Task {
    Backup(Box<Backup>),
    /// The same by a node that lies.
    Lie(Box<Liar>),
    Forget(Vec<SnapshotRef>),
    Reclaim(f64),
    /// The same, giving up what is lost.
    ReclaimAcceptingDamage,
    /// All space that nobody needs, with what interrupted sessions stored.
    ReclaimInterrupted,
    /// Forgets, and gives the space back at once.
    ForgetAndReclaim(Vec<SnapshotRef>),
    /// Somebody without a lease reads everything.
    Read,
    /// The same with stale listings.
    StaleRead,
    /// Somebody copies all files at once, and goes on with the copy.
    Copy,
}

impl Task {
    /// A backup of something new, or of what the newest snapshot became.
    pub(super) fn backup(running: &WriterProcess, shared: &Shared, random: &mut Random) -> Self {
        let model = shared.model.lock();
        let newest = model.live_snapshots().pop().filter(|_| !random.one_in(3));
        let base =
            newest.and_then(|name| model.known(name).cloned().map(|known| Base { name, known }));
        let tree = match &base {
            Some(base) => base.known.tree.changed(random),
            None => Tree::any(random),
        };
        let last = model.live_snapshots().pop().map_or(0, |name| name.sequence);
        let tree = if shared.is_apart { tree.apart(last + 1) } else { tree };
        drop(model);
        shared.backup_of(running, tree, base)
    }

    /// A backup by a node that lies, where there are such.
    pub(super) fn lie(running: &WriterProcess, shared: &Shared, random: &mut Random) -> Self {
        match Self::backup(running, shared, random) {
            Self::Backup(backup) if shared.has_liars => {
                Self::Lie(Box::new(Liar::new(*backup, shared.model.clone(), random.next())))
            }
            honest => honest,
        }
    }

    /// Forgets one or two.
    pub(super) fn forget(shared: &Shared, random: &mut Random) -> Self {
        Self::Forget(snapshots_to_forget(shared, random))
    }

    /// Forgets one or two, and reclaims.
    pub(super) fn clean(shared: &Shared, random: &mut Random) -> Self {
        Self::ForgetAndReclaim(snapshots_to_forget(shared, random))
    }

    /// Gives space back.
    pub(super) fn reclaim(random: &mut Random) -> Self {
        Self::Reclaim(*random.pick(&[0.0, 0.0, 10.0, 50.0]))
    }

    /// Whether the next step waits for nobody who commits.
    fn can_interleave(&self) -> bool {
        match self {
            Self::Backup(backup) => backup.can_interleave(),
            Self::Read | Self::StaleRead | Self::Copy => true,
            Self::Lie(_)
            | Self::Forget(_)
            | Self::Reclaim(_)
            | Self::ReclaimAcceptingDamage
            | Self::ReclaimInterrupted
            | Self::ForgetAndReclaim(_) => false,
        }
    }

    /// Whether it merges runs of the index, and so waits for whoever does.
    fn merges(&self) -> bool {
        match self {
            Self::Reclaim(_) | Self::ReclaimAcceptingDamage | Self::ReclaimInterrupted => true,
            Self::ForgetAndReclaim(_) => true,
            Self::Backup(_) | Self::Lie(_) | Self::Forget(_) => false,
            Self::Read | Self::StaleRead | Self::Copy => false,
        }
    }

    /// Whether this is a backup that has stored everything.
    pub(super) fn is_at_commit(&self) -> bool {
        matches!(self, Self::Backup(backup) if backup.is_at_commit())
    }

    /// Goes on by one step; whether it is done.
    pub(super) fn advance(&mut self, running: &WriterProcess, shared: &Shared) -> Result<bool> {
        match self {
            Self::Backup(backup) => {
                let Some(name) = backup.advance()? else { return Ok(false) };
                shared.model.lock().acknowledge_backup(name, backup.known());
            }
            Self::Lie(liar) => {
                let done = liar.advance()?;
                if let Some(name) = done {
                    shared.model.lock().acknowledge_backup(name, liar.backup().known());
                }
                return Ok(done.is_some() || liar.has_given_up());
            }
            Self::Forget(names) => forget(running, shared, names)?,
            Self::Reclaim(percent) => reclaim(running, to_percent(*percent))?,
            Self::ReclaimAcceptingDamage => {
                reclaim(running, ReclaimOptions { accept_damage: true, ..to_percent(0.0) })?;
            }
            Self::ReclaimInterrupted => {
                reclaim(running, ReclaimOptions { free_interrupted: true, ..to_percent(0.0) })?;
            }
            Self::ForgetAndReclaim(names) => {
                // A server goes on with the one after the other has failed.
                let forgotten = forget(running, shared, names);
                reclaim(running, to_percent(0.0)).and(forgotten)?;
            }
            Self::Read => shared.read_all(),
            Self::StaleRead => shared.read_stale(),
            Self::Copy => shared.copy(),
        }
        Ok(true)
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Backup(_) => "backup",
            Self::Lie(_) => "backup of a liar",
            Self::Forget(_) => "forget",
            Self::Reclaim(_) => "reclaim",
            Self::ReclaimAcceptingDamage => "reclaim that accepts damage",
            Self::ReclaimInterrupted => "reclaim of what was interrupted",
            Self::ForgetAndReclaim(_) => "forget and reclaim",
            Self::Read => "look",
            Self::StaleRead => "glance",
            Self::Copy => "copy",
        }
    }
}

fn snapshots_to_forget(shared: &Shared, random: &mut Random) -> Vec<SnapshotRef> {
    let mut kept = shared.model.lock().live_snapshots();
    // What nodes that lie say of pages is about those of the first.
    let first = shared.model.lock().first().map(|(name, _)| name).filter(|_| shared.has_liars);
    kept.retain(|name| Some(*name) != first);
    let count = (1 + random.index(2)).min(kept.len());
    let mut names: Vec<_> = (0..count).map(|_| *random.pick(&kept)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn forget(running: &WriterProcess, shared: &Shared, names: &[SnapshotRef]) -> Result<()> {
    let seals = SessionSeals::new(shared.next_session());
    let ids: Vec<_> = names.iter().map(|name| name.id).collect();
    shared.model.lock().begin_forget(names);
    let tombstone = seals.tombstone(&ids);
    running.repository.forget(&running.lease, names, &seals.session_record(), &tombstone)?;
    shared.model.lock().acknowledge_forget(names);
    Ok(())
}

fn to_percent(max_waste_percent: f64) -> ReclaimOptions {
    ReclaimOptions {
        max_waste_percent,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    }
}

fn reclaim(running: &WriterProcess, options: ReclaimOptions) -> Result<()> {
    match reclaim::run(&running.repository, &running.lease, options, None) {
        Err(Error::InUse { .. }) => Ok(()), // another one runs
        result => result.map(|_| ()),
    }
}

/// Ids that a rebuild keeps in memory: so few that it writes several runs.
const REBUILD_IDS: usize = 20;

/// Rebuilds index and snapshots, as a pipeline with keys does. Returns whether anything was found
/// damaged.
pub(super) fn rebuild(disk: &Arc<Disk>) -> Result<bool> {
    rebuild_in_parts(disk, REBUILD_IDS)
}

/// The same with memory for `placed_max` ids.
pub(super) fn rebuild_in_parts(disk: &Arc<Disk>, placed_max: usize) -> Result<bool> {
    let storage: Arc<dyn Storage> = Arc::new(disk.process());
    let rebuilt = repository::rebuild::rebuild_in_parts(&storage, "rebuild", placed_max);
    let (repository, lease, found) = rebuilt?;
    let gone = found.tombstones.iter().flat_map(|clear| dead(clear)).collect();
    bring_back(&repository, &lease, &found.manifests, &gone)?;
    repository.settle_snapshot_numbers(&lease)?;
    Ok(!found.damages.is_empty())
}

/// Lists what nobody forgot and whose data is there; a client does so also before it reclaims.
pub(super) fn bring_back(
    repository: &Repository,
    lease: &Lease,
    manifests: &[FoundManifest],
    gone: &HashSet<SnapshotId>,
) -> Result<()> {
    let names = repository.current_snapshots()?.into_iter();
    let whole = names.filter(|name| repository.snapshot(*name).is_ok());
    let whole: HashSet<_> = whole.map(|name| name.id).collect();
    for manifest in manifests {
        let is_settled = whole.contains(&manifest.id) || gone.contains(&manifest.id);
        if !is_settled && is_complete(repository, manifest)? {
            repository.restore_manifest(lease, manifest)?;
        }
    }
    Ok(())
}

/// What a client does before it reclaims: the data of a snapshot whose file was lost looks like
/// that of a forgotten one. Nobody forgets meanwhile.
pub(super) fn bring_back_before(running: &WriterProcess) -> Result<()> {
    let storage = &**running.repository.storage();
    let (mut manifests, mut gone) = (Vec::new(), HashSet::new());
    for file in running.repository.current_containers()?.iter().filter(|file| file.finished) {
        let reader = ContainerReader::open(storage, file.number)?;
        let (mut keys, mut receipts) = (HashMap::new(), HashMap::new());
        let first = manifests.len();
        let mut sessions = Vec::new();
        reader.walk(|_, record| match record.header.kind {
            RecordKind::Session => drop(keys.insert(record.header.session, whole(record))),
            RecordKind::Tombstone => gone.extend(dead(record.clear)),
            RecordKind::Manifest => {
                let key = keys.get(&record.header.session).cloned().unwrap_or_default();
                let id = manifest::snapshot_id(record.clear);
                let file = [key, whole(record)].concat();
                manifests.push(FoundManifest { id, clear: record.clear.to_vec(), file });
                sessions.push(record.header.session);
            }
            RecordKind::Receipt => drop(receipts.insert(record.header.session, whole(record))),
            RecordKind::Data | RecordKind::Pages | RecordKind::Expiry => {}
        })?;
        for (manifest, session) in manifests[first..].iter_mut().zip(sessions) {
            manifest.file.extend(receipts.remove(&session).unwrap_or_default());
        }
    }
    bring_back(&running.repository, &running.lease, &manifests, &gone)
}

/// The bytes of a record.
fn whole(record: &Record<'_>) -> Vec<u8> {
    let sum = checksum(&[record.associated, record.sealed]);
    [record.associated, record.sealed, &sum].concat()
}

fn is_complete(repository: &Repository, manifest: &FoundManifest) -> Result<bool> {
    let head = Head::decode(&manifest.clear);
    head.map_or(Ok(false), |(head, _)| repository.is_complete(head.root))
}

/// A task that runs beside another one, between its operations.
pub(super) struct Interleaved {
    pub(super) task: Task,
    pub(super) random: Random,
    /// How it ended.
    pub(super) ended: Option<Result<()>>,
}

impl Interleaved {
    /// Perhaps goes on by one step: never when it would wait for the host, which cannot go on.
    pub(super) fn turn(&mut self, running: &WriterProcess, shared: &Shared) {
        let is_waiting = running.repository.is_committing()
            || self.task.merges() && running.repository.is_merging();
        let may = self.task.can_interleave() || !is_waiting;
        if may && self.random.one_in(2) {
            self.step(running, shared);
        }
    }

    /// Goes on to its end.
    pub(super) fn finish(&mut self, running: &WriterProcess, shared: &Shared) {
        while self.ended.is_none() {
            self.step(running, shared);
        }
    }

    fn step(&mut self, running: &WriterProcess, shared: &Shared) {
        if self.ended.is_some() {
            return;
        }
        match self.task.advance(running, shared) {
            Ok(false) => {}
            Ok(true) => self.ended = Some(Ok(())),
            Err(error) => self.ended = Some(Err(error)),
        }
    }
}
