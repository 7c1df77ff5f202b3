//! An open repository. Readers need nothing else; writers begin a [`Session`] with a lease.

use crate::commit_lock::CommitLock;
use crate::config::{self, Config};
use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::container_numbers::ContainerNumbers;
use crate::guard::{Guard, guarded};
use crate::healed::Healed;
use crate::index::Index;
use crate::index::pending::Pending;
use crate::index::state::State;
use crate::keys::Keys;
use crate::lease::{Lease, LeasePurpose};
use crate::listing_markers::ListingMarkers;
use crate::pins::{Covered, Pins, SessionNo};
use crate::reading::REFRESH_MAX;
use crate::received::Verifier;
use crate::session::{CheckpointLimits, Session};
use crate::snapshots::{self, SnapshotRef, StoredSnapshot};
use crate::sources::Sources;
use crate::storage::{Storage, StorageError};
use crate::{Error, Result, container, keys, lease, readme, reserve};
use clock::Tick;
use format::container::Header;
use format::record::SealedRecord;
use ids::{ContainerNo, ObjectId};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// So many snapshots are read at once from a storage that is far away. Most have one or two thousand bytes.
const SNAPSHOTS_AT_ONCE: usize = 128;

/// How many numbers are tried for a container that others' containers have.
const PUBLISH_TRIES: usize = 64;

/// An open repository.
pub struct Repository {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) config: Config,
    pub(crate) index: RwLock<Arc<Index>>,
    pub(crate) pins: Mutex<Pins>,
    /// Held while the index or the list of snapshots changes.
    pub(crate) commit: CommitLock,
    /// Held while a reclaim runs: two would condemn the same containers.
    pub(crate) reclaiming: Mutex<()>,
    /// Held while runs of the index are merged. Who has it may take the commit lock, and not the other way round.
    pub(crate) merging: Mutex<()>,
    pub(crate) next_container: AtomicU64,
    pub(crate) next_snapshot: AtomicU64,
    /// Snapshots that this process made and that may have no file yet.
    pub(crate) pending: Mutex<Pending>,
    pub(crate) next_run: AtomicU64,
    pub(crate) listing_markers: ListingMarkers,
    pub(crate) open: Mutex<VecDeque<Arc<ContainerReader>>>,
    /// Records that were read from parity, and those that could not be: nobody tries them again
    /// for each of their chunks.
    pub(crate) healed: Mutex<Healed>,
    pub(crate) sources: Sources,
    pub(crate) verifier: OnceLock<Verifier>,
    /// Held while the file of the lock clock changes.
    pub(crate) lock_file: Mutex<()>,
    /// What the clocks of the machine show, in tests.
    pub(crate) shown_time: Mutex<Option<Tick>>,
    /// Size in bytes at which a container is finished.
    container_bytes: AtomicU64,
    checkpoint_limits: Mutex<CheckpointLimits>,
}

/// Key slots of an `init` that was interrupted: they open nothing, and would look damaged. Where
/// there is anything that they may open, it is the config that was lost, and they stay.
fn remove_slots_that_open_nothing(storage: &dyn Storage) -> Result<()> {
    let is_new = State::has_stored_nothing(storage)
        && container::list(storage, ContainerNo(0))?.is_empty()
        && storage.list(snapshots::DIRECTORY)?.is_empty();
    if is_new {
        for name in storage.list(keys::DIRECTORY)? {
            storage.remove(&format!("{}/{name}", keys::DIRECTORY))?;
        }
    }
    Ok(())
}

/// A repository whose config was lost still has its snapshots: another config would make them nobody's.
fn has_snapshots(storage: &dyn Storage) -> Result<bool> {
    match storage.list(snapshots::DIRECTORY) {
        Err(error) if error.is_not_found() => Ok(false),
        names => Ok(!snapshots::parse_all(&names?).is_empty()),
    }
}

impl Repository {
    /// The highest number that a snapshot has or had, by the stored state and the list. The counter of this process may
    /// be higher: numbers of backups that failed are given out again by the next process.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn last_snapshot_number(&self) -> Result<u64> {
        let stored = State::read(&*self.storage)?.next_snapshot.saturating_sub(1);
        let listed = self.current_snapshots()?.iter().map(|name| name.sequence).max();
        Ok(stored.max(listed.unwrap_or_default()))
    }

    /// Creates a repository in `storage` with the key slots `keys`.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::LockingUnsupported`].
    pub fn init(storage: Arc<dyn Storage>, config: Config, keys: &Keys) -> Result<Self> {
        if config::exists(&*storage)? || has_snapshots(&*storage)? {
            return Err(Error::Exists { location: storage.describe() });
        }
        let _lock = lease::lock_alone(&*storage)?;
        // Somebody else may have been here before us.
        if config::exists(&*storage)? {
            return Err(Error::Exists { location: storage.describe() });
        }
        for directory in [keys::DIRECTORY, container::DIRECTORY, "index"] {
            storage.create_directory(directory)?;
        }
        snapshots::create_directory(&*storage)?;
        remove_slots_that_open_nothing(&*storage)?;
        keys::write(keys, &*storage)?;
        State { next_container: 1, next_run: 1, next_snapshot: 1, ..State::default() }
            .write(&*storage)?;
        readme::write(&*storage)?;
        config::write_first(&config, &*storage).inspect_err(|error| {
            if matches!(error, Error::Exists { .. }) {
                keys::remove_slots(keys, &*storage);
            }
        })?;
        let repository = Self::open(storage)?;
        // From the beginning: the first backup may already be the one that fills the disk.
        repository.fill_reserve();
        Ok(repository)
    }

    /// Opens the repository in `storage`. The cost does not depend on its size.
    ///
    /// # Errors
    /// [`Error::NoRepository`], [`Error::UnknownFeatures`].
    pub fn open(storage: Arc<dyn Storage>) -> Result<Self> {
        let config = config::read(&*storage)?;
        let index = open_index(&*storage, |state| Index::open(&*storage, state))?;
        Ok(Self::assemble(storage, config, index))
    }

    pub(crate) fn assemble(storage: Arc<dyn Storage>, config: Config, index: Index) -> Self {
        Self {
            next_container: AtomicU64::new(index.state.next_container),
            next_snapshot: AtomicU64::new(index.state.next_snapshot),
            next_run: AtomicU64::new(index.state.next_run),
            pending: Mutex::new(index.state.pending.clone()),
            storage,
            config,
            index: RwLock::new(Arc::new(index)),
            pins: Mutex::default(),
            commit: CommitLock::default(),
            reclaiming: Mutex::new(()),
            merging: Mutex::new(()),
            listing_markers: ListingMarkers::default(),
            open: Mutex::default(),
            healed: Mutex::default(),
            sources: Sources::default(),
            verifier: OnceLock::new(),
            lock_file: Mutex::new(()),
            shown_time: Mutex::default(),
            container_bytes: AtomicU64::new(container::TARGET_BYTES),
            checkpoint_limits: Mutex::default(),
        }
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The storage that holds it.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The current chunk index.
    pub fn index(&self) -> Arc<Index> {
        self.index.read().clone()
    }

    /// A counter that rises whenever something may have been lost: see `rebuild`.
    pub fn damage_epoch(&self) -> u64 {
        self.index().state.damage_epoch
    }

    /// Reads the index again: another process may have changed it. Runs that are still named stay open.
    pub fn refresh(&self) -> Result<()> {
        let storage = &*self.storage;
        loop {
            let before = self.index();
            let index = open_index(storage, |state| before.followed_by(storage, state))?;
            self.next_container.fetch_max(index.state.next_container, Ordering::Relaxed);
            self.next_snapshot.fetch_max(index.state.next_snapshot, Ordering::Relaxed);
            self.next_run.fetch_max(index.state.next_run, Ordering::Relaxed);
            // A commit of this process that came meanwhile is newer than what was read, and the next one builds on it.
            if self.replace_index(&before, index) || !guarded(Guard::NewerIndex) {
                return Ok(());
            }
        }
    }

    /// Uses `index` instead of `before`, if that is still in use.
    fn replace_index(&self, before: &Arc<Index>, index: Index) -> bool {
        let mut now = self.index.write();
        let is_as_before = Arc::ptr_eq(&now, before);
        if is_as_before || !guarded(Guard::NewerIndex) {
            *now = Arc::new(index);
        }
        is_as_before
    }

    /// Takes the lease to store data, reads what other processes changed, and completes or removes what a killed one
    /// left.
    pub fn lease(&self, holder: &str) -> Result<Arc<Lease>> {
        self.lease_for(holder, LeasePurpose::Store)
    }

    /// Takes the lease for `purpose`; otherwise like [`Repository::lease`].
    pub fn lease_for(&self, holder: &str, purpose: LeasePurpose) -> Result<Arc<Lease>> {
        let lease = Lease::acquire_for(&self.storage, holder, purpose)?;
        self.listing_markers.take_over(lease.generation());
        let settle = || {
            self.refresh()?;
            self.next_run.fetch_max(lease.first_run(), Ordering::Relaxed);
            crate::recover::recover(self, &lease)?;
            self.keep_lock_clock(&lease)
        };
        let settled = match purpose {
            LeasePurpose::Store => settle(),
            LeasePurpose::Reclaim => reserve::with(&*self.storage, settle),
        };
        // A writer that lost its lease in the meantime finds what its successor is changing.
        if let Err(error) = settled {
            lease.verify()?;
            return Err(error);
        }
        Ok(Arc::new(lease))
    }

    /// Begins a session that builds on the snapshot `base` and whose key `session_record` holds.
    ///
    /// # Errors
    /// [`Error::SnapshotMissing`] when `base` was forgotten in the meantime: choose another one.
    pub fn begin(
        self: &Arc<Self>,
        lease: &Arc<Lease>,
        base: Option<SnapshotRef>,
        session_record: SealedRecord,
    ) -> Result<Session> {
        let number = {
            // Under the commit lock: reclaim either sees the base pinned or has not yet looked.
            let _commit = self.commit.lock();
            let base = base.map(|name| self.base(name)).transpose()?;
            self.pins.lock().begin(base.flatten())
        };
        Ok(Session::new(self.clone(), lease.clone(), number, Some(session_record)))
    }

    /// Each of `names` with its snapshot, one after the other. A storage that is far away reads several at once.
    pub fn each_snapshot<'a>(
        &'a self,
        names: &'a [SnapshotRef],
    ) -> impl Iterator<Item = (SnapshotRef, Result<StoredSnapshot>)> + 'a {
        names.chunks(SNAPSHOTS_AT_ONCE).flat_map(|some| {
            snapshots::expect(&*self.storage, some);
            some.iter().map(|name| (*name, self.snapshot(*name)))
        })
    }

    /// The root of a snapshot to build on.
    fn base(&self, name: SnapshotRef) -> Result<Option<ObjectId>> {
        match self.snapshot(name) {
            Err(Error::SnapshotMissing(_)) if !guarded(Guard::BaseCheck) => Ok(None),
            stored => Ok(Some(stored?.head.root)),
        }
    }

    /// Skips `count` container numbers. For tests.
    pub fn skip_containers(&self, count: u64) {
        self.next_container.fetch_add(count, Ordering::Relaxed);
    }

    /// Finishes containers at `bytes` instead of [`container::TARGET_BYTES`], and syncs them without a thread. For
    /// tests: little data then makes many containers, always in the same order.
    pub fn make_containers_small(&self, bytes: u64) {
        self.container_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sessions make checkpoints by `limits`. For tests.
    pub fn make_checkpoints_at(&self, limits: CheckpointLimits) {
        *self.checkpoint_limits.lock() = limits;
    }

    pub(crate) fn checkpoint_limits(&self) -> CheckpointLimits {
        *self.checkpoint_limits.lock()
    }

    pub(crate) fn container_bytes(&self) -> u64 {
        self.container_bytes.load(Ordering::Relaxed)
    }

    /// Whether no thread of its own makes containers durable.
    pub(crate) fn is_stepwise(&self) -> bool {
        self.container_bytes() != container::TARGET_BYTES
    }

    /// Whether a thread is changing the index or the list of snapshots.
    pub fn is_committing(&self) -> bool {
        self.commit.is_locked()
    }

    /// Whether a thread is merging runs of the index.
    pub fn is_merging(&self) -> bool {
        self.merging.is_locked()
    }

    /// One snapshot.
    pub fn snapshot(&self, name: SnapshotRef) -> Result<StoredSnapshot> {
        snapshots::read(&*self.storage, name)
    }

    /// Forgets snapshots: durably writes the record `tombstone`, so that a rebuild does not bring them back, then
    /// removes them. `session_record` belongs to the session that sealed the tombstone.
    ///
    /// # Errors
    /// [`Error::Locked`] when one of them is locked: then nothing is removed.
    pub fn forget(
        &self,
        lease: &Lease,
        names: &[SnapshotRef],
        session_record: &SealedRecord,
        tombstone: &SealedRecord,
    ) -> Result<()> {
        self.remove(lease, names, &[session_record, tombstone])
    }

    /// Removes snapshots that expired: like [`Repository::forget`], with a server's `expiry` as the record.
    ///
    /// # Errors
    /// [`Error::Locked`] when one of them is locked: then nothing is removed.
    pub fn expire(
        &self,
        lease: &Lease,
        names: &[SnapshotRef],
        expiry: &SealedRecord,
    ) -> Result<()> {
        self.remove(lease, names, &[expiry])
    }

    /// The only way on which the file of a snapshot goes. First `records` say so, durably.
    fn remove(
        &self,
        lease: &Lease,
        names: &[SnapshotRef],
        records: &[&SealedRecord],
    ) -> Result<()> {
        let _commit = self.commit.lock();
        self.refuse_locked(names)?;
        let numbers = ContainerNumbers::new(self);
        self.write_container(
            lease,
            || numbers.next(),
            |writer| {
                for record in records {
                    let sum = record.checksum();
                    writer.append(record.kind, &[&record.associated, &record.sealed, &sum])?;
                }
                writer.sync()
            },
        )?;
        numbers.done();
        self.are_pending_no_more(lease, names)?;
        lease.verify()?;
        snapshots::remove(&*self.storage, names)
    }

    /// Before snapshots are removed: the next writer lists those that are pending and have no file.
    fn are_pending_no_more(&self, lease: &Lease, names: &[SnapshotRef]) -> Result<()> {
        let state = &self.index().state;
        let mut pending = self.pending.lock();
        let is_pending = |name: &SnapshotRef| pending.has(&name.id) || state.pending.has(&name.id);
        if !names.iter().any(is_pending) {
            drop(pending);
            // The state of a killed writer may be seen and not be durable, and the one before it name them as pending.
            return Ok(self.storage.sync_directory("index")?);
        }
        names.iter().for_each(|name| pending.remove(&name.id));
        drop(pending);
        self.publish_index(lease, self.next_state(Covered::Nothing))
    }

    pub(crate) fn allocate_container(&self) -> ContainerNo {
        ContainerNo(self.next_container.fetch_add(1, Ordering::Relaxed))
    }

    /// A number for a container of `session`. Under one lock: nobody sees the number given and not
    /// yet noted.
    pub(crate) fn allocate_for(&self, session: SessionNo) -> ContainerNo {
        let mut pins = self.pins.lock();
        let number = self.allocate_container();
        pins.writes(session, number);
        number
    }

    /// Publishes a container that `write` makes durable, under a number of `next` that no writer has taken which was
    /// overtaken and woke up.
    pub(crate) fn write_container(
        &self,
        lease: &Lease,
        next: impl Fn() -> ContainerNo,
        write: impl Fn(&mut ContainerWriter) -> Result<()>,
    ) -> Result<ContainerNo> {
        for _ in 0..PUBLISH_TRIES {
            let mut writer = self.new_container(lease, &next)?;
            write(&mut writer)?;
            lease.verify()?;
            match writer.publish(&*self.storage) {
                Err(error) if error.is_taken() => {
                    lease.verify()?;
                    self.storage.remove(&container::part_name(writer.number()))?;
                }
                published => return published,
            }
        }
        let exists = StorageError::new("publish", "containers", ErrorKind::AlreadyExists);
        Err(exists.into())
    }

    /// A new container with the first free number of `next`.
    pub(crate) fn new_container(
        &self,
        lease: &Lease,
        next: impl Fn() -> ContainerNo,
    ) -> Result<ContainerWriter> {
        loop {
            let (repository, generation) = (self.config.repository, lease.generation());
            let header = Header { repository, number: next(), generation };
            match ContainerWriter::create(&*self.storage, header, self.config.parity_percent()) {
                // Of a writer that was fenced out while it slept: reclaim removes it.
                Err(error) if error.is_taken() => {}
                writer => return writer,
            }
        }
    }
}

/// Opens the index; a writer may replace runs between our two looks.
fn open_index(storage: &dyn Storage, open: impl Fn(State) -> Result<Index>) -> Result<Index> {
    let mut last = None;
    for _ in 0..REFRESH_MAX {
        let state = State::read(storage).map_err(no_index)?;
        match open(state) {
            Err(Error::Storage(error)) if error.is_not_found() => last = Some(error),
            result => return result,
        }
    }
    Err(last.map_or(Error::IndexDamaged { name: "index".into() }, |error| no_index(error.into())))
}

fn no_index(error: Error) -> Error {
    match error {
        Error::Storage(error) if error.is_not_found() => Error::IndexDamaged { name: error.name },
        other => other,
    }
}
