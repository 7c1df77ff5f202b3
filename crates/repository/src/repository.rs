//! A repository, open. Readers need nothing else; writers begin a [`Session`] under a lease.

use crate::config::Config;
use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::fresh::Marks;
use crate::index::Index;
use crate::index::state::State;
use crate::lease::{Lease, Purpose};
use crate::numbers::Numbers;
use crate::pins::{Pins, SessionNo};
use crate::sabotage::{Point, is_out};
use crate::session::Session;
use crate::snapshots::{self, SnapshotRef, Stored};
use crate::storage::{Storage, read_small};
use crate::{Error, Result, container, lease, reserve};
use format::container::Header;
use format::record::{SealedRecord, verify};
use ids::{ContainerNo, KeyId, ObjectId, Place};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Containers kept open for reading.
const OPEN_CONTAINERS_MAX: usize = 64;
/// Readers look at the index again at most this often when files vanish under them.
const REFRESH_MAX: usize = 8;
pub(crate) const KEYS: &str = "keys";
const KEY_BYTES_MAX: usize = 64 << 10;

/// An open repository.
pub struct Repository {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) config: Config,
    pub(crate) index: RwLock<Arc<Index>>,
    pub(crate) pins: Mutex<Pins>,
    /// Held while the index or the list of snapshots changes.
    pub(crate) commit: Mutex<()>,
    /// Held while a reclaim runs: two would condemn the same containers.
    pub(crate) reclaiming: Mutex<()>,
    pub(crate) next_container: AtomicU64,
    pub(crate) next_snapshot: AtomicU64,
    next_run: AtomicU64,
    pub(crate) marks: Marks,
    open: Mutex<VecDeque<Arc<ContainerReader>>>,
    /// Records that were read from parity, and those that could not be: nobody tries them again
    /// for each of their chunks.
    healed: Mutex<BTreeMap<Place, bool>>,
}

/// Key slots of an `init` that was interrupted: they open nothing, and would look damaged. Where
/// there is anything that they may open, it is the config that was lost, and they stay.
fn remove_slots_that_open_nothing(storage: &dyn Storage) -> Result<()> {
    let is_new = State::is_of_nothing(storage)
        && container::list(storage, ContainerNo(0))?.is_empty()
        && storage.list(snapshots::DIRECTORY)?.is_empty();
    if is_new {
        for name in storage.list(KEYS)? {
            storage.remove(&format!("{KEYS}/{name}"))?;
        }
    }
    Ok(())
}

impl Repository {
    /// Makes a repository in `storage`; `slots` are its first key slots.
    pub fn init(
        storage: Arc<dyn Storage>,
        config: Config,
        slots: &[(KeyId, Vec<u8>)],
    ) -> Result<Self> {
        if Config::exists(&*storage)? {
            return Err(Error::Exists { location: storage.describe() });
        }
        let _lock = lease::lock_alone(&*storage)?;
        for directory in [KEYS, container::DIRECTORY, "index"] {
            storage.create_directory(directory)?;
        }
        snapshots::create_directory(&*storage)?;
        remove_slots_that_open_nothing(&*storage)?;
        for (id, slot) in slots {
            storage.put(&format!("{KEYS}/{id}"), slot)?;
        }
        State { next_container: 1, next_run: 1, next_snapshot: 1, ..State::default() }
            .write(&*storage)?;
        config.write(&*storage)?;
        Self::open(storage)
    }

    /// Opens the repository in `storage`. Costs the same at any size.
    pub fn open(storage: Arc<dyn Storage>) -> Result<Self> {
        let config = Config::read(&*storage)?;
        let index = open_index(&*storage)?;
        Ok(Self::assemble(storage, config, index))
    }

    pub(crate) fn assemble(storage: Arc<dyn Storage>, config: Config, index: Index) -> Self {
        Self {
            next_container: AtomicU64::new(index.state.next_container),
            next_snapshot: AtomicU64::new(index.state.next_snapshot),
            next_run: AtomicU64::new(index.state.next_run),
            storage,
            config,
            index: RwLock::new(Arc::new(index)),
            pins: Mutex::default(),
            commit: Mutex::new(()),
            reclaiming: Mutex::new(()),
            marks: Marks::default(),
            open: Mutex::default(),
            healed: Mutex::default(),
        }
    }

    /// What it is.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it lies.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The index as of now.
    pub fn index(&self) -> Arc<Index> {
        self.index.read().clone()
    }

    /// Rises whenever something may have been lost: see `rebuild`.
    pub fn damage_epoch(&self) -> u64 {
        self.index().state.damage_epoch
    }

    /// Looks at the index on the disk again: another process may have changed it.
    pub fn refresh(&self) -> Result<()> {
        let index = open_index(&*self.storage)?;
        self.next_container.fetch_max(index.state.next_container, Ordering::Relaxed);
        self.next_snapshot.fetch_max(index.state.next_snapshot, Ordering::Relaxed);
        self.next_run.fetch_max(index.state.next_run, Ordering::Relaxed);
        *self.index.write() = Arc::new(index);
        Ok(())
    }

    /// The key slots.
    pub fn key_slots(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        key_slots(&*self.storage)
    }

    /// One key slot, if it is there. It need not be in any list.
    pub fn key_slot(&self, id: KeyId) -> Result<Option<Vec<u8>>> {
        read_slot(&*self.storage, id)
    }

    /// Durably adds or replaces a key slot.
    pub fn put_key_slot(&self, lease: &Lease, id: KeyId, slot: &[u8]) -> Result<()> {
        lease.verify()?;
        Ok(self.storage.put(&format!("{KEYS}/{id}"), slot)?)
    }

    /// Durably removes a key slot.
    pub fn remove_key_slot(&self, lease: &Lease, id: KeyId) -> Result<()> {
        lease.verify()?;
        Ok(self.storage.remove(&format!("{KEYS}/{id}"))?)
    }

    /// Takes the lease to store something; sees what other processes did, and settles what a dead
    /// one left behind.
    pub fn lease(&self, holder: &str) -> Result<Arc<Lease>> {
        self.lease_for(holder, Purpose::Store)
    }

    /// [`Repository::lease`] for a purpose.
    pub fn lease_for(&self, holder: &str, purpose: Purpose) -> Result<Arc<Lease>> {
        let lease = Lease::acquire_for(&self.storage, holder, purpose)?;
        self.marks.take_over(lease.generation());
        let settle = || {
            self.refresh()?;
            self.next_run.fetch_max(lease.first_run(), Ordering::Relaxed);
            crate::recover::recover(self, &lease)
        };
        let settled = match purpose {
            Purpose::Store => settle(),
            Purpose::Free => reserve::with(&*self.storage, settle),
        };
        // Who was robbed meanwhile finds what another one is changing.
        if let Err(error) = settled {
            lease.verify()?;
            return Err(error);
        }
        Ok(Arc::new(lease))
    }

    /// Begins a session that builds on the snapshot `base` and whose key `session_record` holds.
    /// [`Error::SnapshotMissing`] when `base` was forgotten meanwhile: look for another one.
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
        Ok(Session::new(self.clone(), lease.clone(), number, session_record))
    }

    /// The root of a snapshot to build on.
    fn base(&self, name: SnapshotRef) -> Result<Option<ObjectId>> {
        match self.snapshot(name) {
            Err(Error::SnapshotMissing(_)) if is_out(Point::BaseCheck) => Ok(None),
            stored => Ok(Some(stored?.head.root)),
        }
    }

    /// Leaves `count` numbers of containers out.
    pub fn skip_containers(&self, count: u64) {
        self.next_container.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether somebody changes the index or the list of snapshots at this moment.
    pub fn is_committing(&self) -> bool {
        self.commit.is_locked()
    }

    /// All snapshots. On a network file system this may be of the past: one that was just made by
    /// another client is missing, or one that was forgotten is there, and cannot be read.
    pub fn snapshots(&self) -> Result<Vec<SnapshotRef>> {
        Ok(snapshots::parse_all(&self.storage.list(snapshots::DIRECTORY)?))
    }

    /// All snapshots as of now, for who holds the lease.
    pub fn snapshots_now(&self) -> Result<Vec<SnapshotRef>> {
        let (storage, point) = (&*self.storage, Point::FreshSnapshots);
        Ok(snapshots::parse_all(&self.marks.list(storage, snapshots::DIRECTORY, point)?))
    }

    /// All containers, for who only reads. Where a list may be of the past, the newest are looked for
    /// by their names.
    pub fn containers(&self) -> Result<Vec<container::Found>> {
        let mut found = container::list(&*self.storage, ContainerNo(0))?;
        if self.storage.lists_are_fresh() {
            return Ok(found);
        }
        let known = self.index().state.next_container;
        let mut next = found.last().map_or(0, |file| file.number.0) + 1;
        loop {
            let number = ContainerNo(next);
            match self.storage.open(&container::name(number)) {
                Ok(_) => found.push(container::Found { number, finished: true }),
                Err(error) if !error.is_not_found() => return Err(error.into()),
                // What a forget wrote lies behind all that the index knows.
                Err(_) if next >= known => return Ok(found),
                Err(_) => {}
            }
            next += 1;
        }
    }

    /// All containers as of now, for who holds the lease.
    pub fn containers_now(&self) -> Result<Vec<container::Found>> {
        container::list_now(self, ContainerNo(0), Point::FreshContainers)
    }

    /// One snapshot.
    pub fn snapshot(&self, name: SnapshotRef) -> Result<Stored> {
        snapshots::read(&*self.storage, name)
    }

    /// Forgets snapshots: durably notes it in the pool, so that a rebuild does not bring them
    /// back, then removes them. `tombstone` is the record that says so, `session_record` that of
    /// the session that sealed it.
    pub fn forget(
        &self,
        lease: &Lease,
        names: &[SnapshotRef],
        session_record: &SealedRecord,
        tombstone: &SealedRecord,
    ) -> Result<()> {
        let _commit = self.commit.lock();
        let numbers = Numbers::new(self);
        let mut writer = self.new_container(lease, || numbers.next())?;
        for record in [session_record, tombstone] {
            let sum = record.checksum();
            writer.append(record.kind, &[&record.associated, &record.sealed, &sum])?;
        }
        writer.sync()?;
        lease.verify()?;
        writer.publish(&*self.storage)?;
        numbers.done();
        lease.verify()?;
        names.iter().try_for_each(|name| snapshots::remove(&*self.storage, *name))?;
        // One that was gone already may be so by a removal that is not durable.
        Ok(self.storage.sync_directory(snapshots::DIRECTORY)?)
    }

    /// Reads the record at `place`. Whether it is good is for who opens its seal; when it is not,
    /// [`Repository::heal`] may help.
    pub fn read(&self, place: Place, buffer: &mut Vec<u8>) -> Result<()> {
        match self.container(place.container)?.read(place, buffer) {
            Err(_) if self.heal(place, buffer) => Ok(()),
            result => result,
        }
    }

    /// Reads the record at `place`, from parity when its checksum does not fit.
    pub(crate) fn read_good(&self, place: Place, buffer: &mut Vec<u8>) -> Result<()> {
        self.read(place, buffer)?;
        if let Err(reason) = verify(buffer)
            && !self.heal(place, buffer)
        {
            return Err(Error::damaged(&container::name(place.container), reason));
        }
        Ok(())
    }

    /// Makes the record at `place` good from the parity of its container. Whether that was done:
    /// not when nothing was wrong with it.
    pub fn heal(&self, place: Place, buffer: &mut Vec<u8>) -> bool {
        if self.healed.lock().get(&place) == Some(&false) {
            return false;
        }
        let is_healed = self.container(place.container).is_ok_and(|it| it.heal(place, buffer));
        self.healed.lock().insert(place, is_healed);
        is_healed
    }

    /// Notes that the record at `place` was read from parity.
    pub fn note_healed(&self, place: Place) {
        self.healed.lock().insert(place, true);
    }

    /// Records that were read from parity so far, sorted.
    pub fn healed(&self) -> Vec<Place> {
        self.healed.lock().iter().filter(|(_, healed)| **healed).map(|(place, _)| *place).collect()
    }

    /// Finds and reads the record that holds `id`, even while reclaim moves it.
    pub fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<Place> {
        for _ in 0..REFRESH_MAX {
            let Some(place) = self.index().find_many(&[*id])?[0] else { break };
            match self.read(place, buffer) {
                Err(error) if error.is_gone() => self.refresh_after(place.container)?,
                result => return result.map(|()| place),
            }
        }
        Err(Error::ObjectMissing(*id))
    }

    /// Forgets an open container that vanished, and looks at the index again.
    pub fn refresh_after(&self, gone: ContainerNo) -> Result<()> {
        self.open.lock().retain(|reader| reader.number() != gone);
        self.refresh()
    }

    /// The container `number`, open.
    pub fn container(&self, number: ContainerNo) -> Result<Arc<ContainerReader>> {
        if let Some(reader) = self.open.lock().iter().find(|reader| reader.number() == number) {
            return Ok(reader.clone());
        }
        let reader = Arc::new(ContainerReader::open(&*self.storage, number)?);
        let mut open = self.open.lock();
        open.push_front(reader.clone());
        open.truncate(OPEN_CONTAINERS_MAX);
        Ok(reader)
    }

    /// Lets go of the open containers `numbers`, so that their space comes back.
    pub(crate) fn close(&self, numbers: &[ContainerNo]) {
        self.open.lock().retain(|reader| !numbers.contains(&reader.number()));
    }

    pub(crate) fn allocate_container(&self) -> ContainerNo {
        ContainerNo(self.next_container.fetch_add(1, Ordering::Relaxed))
    }

    /// A number for a run, noted in `state`. None is given twice: a commit that failed in its last
    /// step may have left a state that names its run.
    pub(crate) fn allocate_run(&self, state: &mut State) -> u64 {
        let number = self.next_run.fetch_add(1, Ordering::Relaxed);
        state.next_run = number.saturating_add(1);
        number
    }

    /// A number for a container of `session`. Under one lock: nobody sees the number given and not
    /// yet noted.
    pub(crate) fn allocate_for(&self, session: SessionNo) -> ContainerNo {
        let mut pins = self.pins.lock();
        let number = self.allocate_container();
        pins.writes(session, number.0);
        number
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
                Err(Error::Storage(error)) if error.exists_already() => {}
                writer => return writer,
            }
        }
    }

    /// Durably replaces the state of the index and uses it from now on. The commit lock is held.
    /// The lease is looked at last: making the runs that the state names took a while.
    pub(crate) fn publish_index(&self, lease: &Lease, state: State) -> Result<()> {
        let index = Index::open(&*self.storage, state)?;
        lease.verify()?;
        index.state.write(&*self.storage)?;
        *self.index.write() = Arc::new(index);
        Ok(())
    }
}

/// The key slots in `storage`.
pub fn key_slots(storage: &dyn Storage) -> Result<Vec<(KeyId, Vec<u8>)>> {
    let ids = storage.list(KEYS)?.into_iter().filter_map(|name| KeyId::from_hex(&name));
    // One that is listed and gone was removed meanwhile.
    ids.filter_map(|id| Some((id, read_slot(storage, id).transpose()?)))
        .map(|(id, slot)| Ok((id, slot?)))
        .collect()
}

fn read_slot(storage: &dyn Storage, id: KeyId) -> Result<Option<Vec<u8>>> {
    match read_small(storage, &format!("{KEYS}/{id}"), KEY_BYTES_MAX) {
        Err(error) if error.is_not_found() => Ok(None),
        slot => Ok(Some(slot?)),
    }
}

/// Opens the index; a writer may replace runs between our two looks.
fn open_index(storage: &dyn Storage) -> Result<Index> {
    let mut last = None;
    for _ in 0..REFRESH_MAX {
        let state = State::read(storage).map_err(no_index)?;
        match Index::open(storage, state) {
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
