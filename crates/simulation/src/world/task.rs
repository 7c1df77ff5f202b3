//! What a process does: one thing after the other, or one beside the other.

use super::backup::{Backup, Base};
use super::model::{Model, Violation};
use super::records::{Seals, dead};
use super::tree::Tree;
use crate::disk::{Disk, ROOMY, SimStorage};
use crate::random::Random;
use format::manifest::{self, Head};
use format::record::{Record, RecordKind};
use format::wire::checksum;
use ids::SnapshotId;
use parking_lot::Mutex;
use repository::container::read::ContainerReader;
use repository::lease::Lease;
use repository::rebuild::FoundManifest;
use repository::reclaim::{self, Options};
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
}

/// Sizes at which containers are finished: as everywhere, or after one record, or after a few.
const CONTAINER_BYTES: [Option<u64>; 5] = [None, None, Some(1), Some(3_000), Some(8_000)];

impl Shared {
    pub(super) fn new(disk: Arc<Disk>) -> Self {
        let (model, wrong, sessions) = Default::default();
        Self { disk, model, wrong, sessions, container_bytes: None }
    }

    /// With containers of any size.
    pub(super) fn of_any_size(disk: Arc<Disk>, random: &mut Random) -> Self {
        Self { container_bytes: *random.pick(&CONTAINER_BYTES), ..Self::new(disk) }
    }

    /// The same with containers of `bytes`.
    pub(super) fn with_containers_of(self, bytes: u64) -> Self {
        Self { container_bytes: Some(bytes), ..self }
    }

    /// What goes on with a copy of the files: the copy knows what was promised until then, and no more.
    pub(super) fn on(&self, disk: Arc<Disk>) -> Self {
        let model = Arc::new(Mutex::new(self.model.lock().clone()));
        Self { disk, model, ..self.clone() }
    }

    /// A process that opens the repository and takes the lease.
    pub(super) fn start(&self) -> Result<Running> {
        let storage = self.disk.process();
        let repository = Arc::new(Repository::open(Arc::new(storage.clone()))?);
        if let Some(bytes) = self.container_bytes {
            repository.make_containers_small(bytes);
        }
        let lease = repository.lease("simulation")?;
        Ok(Running { storage, repository, lease })
    }

    pub(super) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_wrong(&self, what: Violation) {
        self.wrong.lock().get_or_insert(what);
    }

    /// A reader that needs no lock looks whether everything is there.
    pub(super) fn look(&self) {
        self.disk.undisturbed(|| self.see(|repository| self.model.lock().verify(repository)));
    }

    /// What a reader sees that lists the past: not all, but nothing that is wrong.
    pub(super) fn glance(&self) {
        self.disk.undisturbed(|| {
            self.disk.show_the_past();
            self.see(|repository| self.model.lock().verify_some(repository));
        });
    }

    /// A copy that is taken at this moment is a repository: what is promised now is in it, whatever happens to the
    /// one that it was taken of.
    pub(super) fn copy(&self) {
        let operations = self.disk.operations();
        let copy = self.on(self.disk.copy_of_files(Random::new(operations)));
        copy.disk.tell_free_bytes(ROOMY);
        copy.look();
        let failed = |error: Error| self.is_wrong(format!("a copy does not go on: {error}"));
        if let Err(error) = copy.go_on_with(operations) {
            failed(error);
        }
        copy.look();
    }

    fn go_on_with(&self, seed: u64) -> Result<()> {
        let running = self.start()?;
        let mut random = Random::new(seed);
        for mut task in [Task::backup(&running, self, &mut random), Task::Reclaim(0.0)] {
            while !task.go_on(&running, self)? {}
        }
        Ok(())
    }

    fn see(&self, what: impl FnOnce(&Repository) -> std::result::Result<(), Violation>) {
        let storage = self.disk.process();
        let process = storage.process();
        let opened = Repository::open(Arc::new(storage)).map_err(|error| error.to_string());
        let seen = opened.and_then(|repository| what(&repository));
        self.disk.kill(process);
        if let Err(what) = seen {
            self.is_wrong(what);
        }
    }
}

/// A process that may write.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) storage: SimStorage,
    pub(super) repository: Arc<Repository>,
    pub(super) lease: Arc<Lease>,
}

impl Shared {
    /// A backup of `tree` on `base`.
    pub(super) fn backup_of(&self, running: &Running, tree: Tree, base: Option<Base>) -> Task {
        self.model.lock().tries(&tree);
        let number = self.next_session();
        let backup = Backup::new(&running.repository, &running.lease, tree, base, number);
        Task::Backup(Box::new(backup))
    }
}

/// Something to do.
pub(super) enum Task {
    Backup(Box<Backup>),
    Forget(Vec<SnapshotRef>),
    Reclaim(f64),
    /// The same, giving up what is lost.
    GiveUp,
    /// Forgets, and gives the space back at once.
    Clean(Vec<SnapshotRef>),
    /// Somebody without a lease reads everything.
    Look,
    /// The same with lists of the past.
    Glance,
    /// Somebody copies all files at once, and goes on with the copy.
    Copy,
}

impl Task {
    /// A backup of something new, or of what the newest snapshot became.
    pub(super) fn backup(running: &Running, shared: &Shared, random: &mut Random) -> Self {
        let model = shared.model.lock();
        let newest = model.kept().pop().filter(|_| !random.one_in(3));
        let base =
            newest.and_then(|name| model.known(name).cloned().map(|known| Base { name, known }));
        let tree = match &base {
            Some(base) => base.known.tree.changed(random),
            None => Tree::any(random),
        };
        drop(model);
        shared.backup_of(running, tree, base)
    }

    /// Forgets one or two.
    pub(super) fn forget(shared: &Shared, random: &mut Random) -> Self {
        Self::Forget(victims(shared, random))
    }

    /// Forgets one or two, and reclaims.
    pub(super) fn clean(shared: &Shared, random: &mut Random) -> Self {
        Self::Clean(victims(shared, random))
    }

    /// Gives space back.
    pub(super) fn reclaim(random: &mut Random) -> Self {
        Self::Reclaim(*random.pick(&[0.0, 0.0, 10.0, 50.0]))
    }

    /// Whether the next step waits for nobody who commits.
    fn is_free(&self) -> bool {
        match self {
            Self::Backup(backup) => backup.is_free(),
            Self::Look | Self::Glance | Self::Copy => true,
            Self::Forget(_) | Self::Reclaim(_) | Self::GiveUp | Self::Clean(_) => false,
        }
    }

    /// Goes on by one step; whether it is done.
    pub(super) fn go_on(&mut self, running: &Running, shared: &Shared) -> Result<bool> {
        match self {
            Self::Backup(backup) => {
                let Some(name) = backup.go_on()? else { return Ok(false) };
                shared.model.lock().acknowledges(name, backup.known());
            }
            Self::Forget(names) => forget(running, shared, names)?,
            Self::Reclaim(percent) => reclaim(running, *percent, false)?,
            Self::GiveUp => reclaim(running, 0.0, true)?,
            Self::Clean(names) => {
                // A server goes on with the one after the other has failed.
                let forgotten = forget(running, shared, names);
                reclaim(running, 0.0, false).and(forgotten)?;
            }
            Self::Look => shared.look(),
            Self::Glance => shared.glance(),
            Self::Copy => shared.copy(),
        }
        Ok(true)
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Backup(_) => "backup",
            Self::Forget(_) => "forget",
            Self::Reclaim(_) => "reclaim",
            Self::GiveUp => "reclaim that accepts damage",
            Self::Clean(_) => "forget and reclaim",
            Self::Look => "look",
            Self::Glance => "glance",
            Self::Copy => "copy",
        }
    }
}

fn victims(shared: &Shared, random: &mut Random) -> Vec<SnapshotRef> {
    let kept = shared.model.lock().kept();
    let count = (1 + random.index(2)).min(kept.len());
    let mut names: Vec<_> = (0..count).map(|_| *random.pick(&kept)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn forget(running: &Running, shared: &Shared, names: &[SnapshotRef]) -> Result<()> {
    let seals = Seals::new(shared.next_session());
    let ids: Vec<_> = names.iter().map(|name| name.id).collect();
    shared.model.lock().may_forget(names);
    let tombstone = seals.tombstone(&ids);
    running.repository.forget(&running.lease, names, &seals.session_record(), &tombstone)?;
    shared.model.lock().forgets(names);
    Ok(())
}

fn reclaim(running: &Running, max_waste_percent: f64, accept_damage: bool) -> Result<()> {
    let options = Options { max_waste_percent, dry_run: false, accept_damage };
    match reclaim::run(&running.repository, &running.lease, options, None) {
        Err(Error::InUse { .. }) => Ok(()), // another one runs
        result => result.map(|_| ()),
    }
}

/// Ids that a rebuild keeps in memory: so few that it writes several runs.
const REBUILD_IDS: usize = 20;

/// Makes index and snapshots anew, as a client with keys does it. Says whether anything was found
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
    let names = repository.snapshots_now()?.into_iter();
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
pub(super) fn bring_back_before(running: &Running) -> Result<()> {
    let storage = &**running.repository.storage();
    let (mut manifests, mut gone) = (Vec::new(), HashSet::new());
    for file in running.repository.containers_now()?.iter().filter(|file| file.finished) {
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
            RecordKind::Data | RecordKind::Pages => {}
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
pub(super) struct Guest {
    pub(super) task: Task,
    pub(super) random: Random,
    /// How it ended.
    pub(super) ended: Option<Result<()>>,
}

impl Guest {
    /// Perhaps goes on by one step: never when it would wait for the host, which cannot go on.
    pub(super) fn turn(&mut self, running: &Running, shared: &Shared) {
        let may = self.task.is_free() || !running.repository.is_committing();
        if may && self.random.one_in(2) {
            self.step(running, shared);
        }
    }

    /// Goes on to its end.
    pub(super) fn finish(&mut self, running: &Running, shared: &Shared) {
        while self.ended.is_none() {
            self.step(running, shared);
        }
    }

    fn step(&mut self, running: &Running, shared: &Shared) {
        if self.ended.is_some() {
            return;
        }
        match self.task.go_on(running, shared) {
            Ok(false) => {}
            Ok(true) => self.ended = Some(Ok(())),
            Err(error) => self.ended = Some(Err(error)),
        }
    }
}
