//! Open repositories: one for each domain in use, closed with its last user. All writers share one
//! lease, which is released with the last of them, so that commands on the server's own machine get
//! their turn.

use super::expiry;
use super::receipts::Receipts;
use clock::Reading;
use format::record::SealedRecord;
use ids::{KeyId, ObjectId, RepositoryId, SnapshotId};
use parking_lot::{Mutex, MutexGuard};
use repository::config::Config;
use repository::expiries::SeenExpiries;
use repository::keys::Keys;
use repository::lease::{Lease, LeasePurpose};
use repository::received::ReceivedSnapshot;
use repository::session::Session;
use repository::snapshots::SnapshotRef;
use repository::{Error, Repository, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use server_contract::{Expired, Repositories, pool, repositories};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Who holds the lease, for people.
const HOLDER: &str = "the server";

/// So long a directory stays closed from which a repository was moved.
const CLOSED_FOR: Duration = Duration::from_secs(300);
/// Who has a repository that is closed, for people.
const MOVER: &str = "the server, which moves the domain to another pool";

/// The repositories that are open.
#[derive(Default)]
pub struct Domains {
    slots: Mutex<FxHashMap<PathBuf, Arc<DomainSlot>>>,
    /// Directories whose repositories are being moved, or were until when: nobody opens them.
    closed: Mutex<FxHashMap<PathBuf, Option<Instant>>>,
    /// Signs that snapshots expired.
    receipts: Option<Arc<Receipts>>,
    /// Directories whose locked snapshots need other files than before.
    to_secure: Arc<ToSecure>,
}

/// Directories of repositories.
type ToSecure = Mutex<FxHashSet<PathBuf>>;

/// Slot of one repository: it is opened once, and no other repository waits for it.
type DomainSlot = Mutex<Weak<Domain>>;

impl Domains {
    /// No repository is open yet; `receipts` signs what expires.
    pub fn new(receipts: Option<Arc<Receipts>>) -> Self {
        Self { receipts, ..Self::default() }
    }

    /// The repository in `folder`.
    pub fn open(&self, folder: &Path) -> Result<Arc<Domain>> {
        pool::verify(folder)?;
        let slot = self.slot(folder);
        let mut slot = slot.lock();
        // Under the lock: who closes it afterwards sees what is opened here.
        self.is_open(folder)?;
        if let Some(domain) = slot.upgrade() {
            domain.look_again()?;
            return Ok(domain);
        }
        let repository = Repository::open(repositories::storage(folder)?)?;
        repository.verify_with(crypto::is_signed);
        let secure = (folder.to_owned(), self.to_secure.clone());
        let domain = Arc::new(Domain::new(repository, secure));
        *slot = Arc::downgrade(&domain);
        Ok(domain)
    }

    /// Nobody opens the repository in `folder` from now on.
    pub fn close(&self, folder: &Path) {
        self.closed.lock().insert(folder.to_owned(), None);
    }

    /// It lies elsewhere now. Who looked its place up before must not make another one there; nobody takes so long to
    /// open it.
    pub fn moved_away(&self, folder: &Path) {
        self.closed.lock().insert(folder.to_owned(), Instant::now().checked_add(CLOSED_FOR));
    }

    /// It may be opened again.
    pub fn reopen(&self, folder: &Path) {
        self.closed.lock().remove(folder);
    }

    /// The locked snapshots of `folder` may need other files than before.
    pub fn secure_soon(&self, folder: &Path) {
        self.to_secure.lock().insert(folder.to_owned());
    }

    /// The repositories of which that was said since the last call.
    pub fn to_secure(&self) -> Vec<PathBuf> {
        self.to_secure.lock().drain().collect()
    }

    /// Whether nobody opens it.
    pub fn is_closed(&self, folder: &Path) -> bool {
        let mut closed = self.closed.lock();
        closed.retain(|_, until| until.is_none_or(|until| Instant::now() < until));
        closed.contains_key(folder)
    }

    /// Whether somebody has it open, or opens it at this moment.
    pub fn is_in_use(&self, folder: &Path) -> bool {
        self.slot(folder).lock().strong_count() > 0
    }

    fn is_open(&self, folder: &Path) -> Result<()> {
        match self.is_closed(folder) {
            true => Err(Error::InUse { holder: MOVER.to_owned() }),
            false => Ok(()),
        }
    }

    fn slot(&self, folder: &Path) -> Arc<DomainSlot> {
        let mut slots = self.slots.lock();
        // A place that somebody holds, or may be opening, stays.
        let is_used =
            |slot: &Arc<DomainSlot>| Arc::strong_count(slot) > 1 || slot.lock().strong_count() > 0;
        slots.retain(|_, slot| is_used(slot));
        slots.entry(folder.to_owned()).or_default().clone()
    }
}

/// The control plane writes keys through the same lease as sessions.
impl Repositories for Domains {
    fn init(&self, folder: &Path, config: Config, keys: &Keys) -> Result<()> {
        pool::verify(folder)?;
        let slot = self.slot(folder);
        let _alone = slot.lock();
        self.is_open(folder)?;
        Repository::init(repositories::new_storage(folder)?, config, keys).map(drop)
    }

    fn put_key_list(&self, folder: &Path, list: &[u8]) -> Result<()> {
        self.open(folder)?.put_key_list(list)
    }

    fn put_key_slot(&self, folder: &Path, id: KeyId, slot: &[u8]) -> Result<()> {
        self.open(folder)?.put_slot(id, slot)
    }

    fn remove_key_slot(&self, folder: &Path, id: KeyId) -> Result<()> {
        self.open(folder)?.remove_slot(id)
    }

    fn received(
        &self,
        folder: &Path,
        names: &[SnapshotRef],
    ) -> Result<Vec<Result<ReceivedSnapshot>>> {
        let domain = self.open(folder)?;
        Ok(names.iter().map(|name| domain.repository.received(*name)).collect())
    }

    fn expire(&self, folder: &Path, ids: &[SnapshotId], now: Reading) -> Result<Expired> {
        let receipts = self.receipts.as_deref().ok_or(Error::NoReceiptKey)?;
        expiry::expire(&*self.open(folder)?, receipts, ids, now)
    }

    fn sign_expiry(
        &self,
        repository: RepositoryId,
        ids: &[SnapshotId],
        now_secs: i64,
    ) -> Result<Vec<u8>> {
        let receipts = self.receipts.as_deref().ok_or(Error::NoReceiptKey)?;
        Ok(receipts.expiry(repository, ids.to_vec(), now_secs))
    }
}

/// A repository in use.
pub struct Domain {
    /// The engine.
    pub repository: Arc<Repository>,
    /// The lease, while somebody writes.
    lease: Mutex<Weak<Lease>>,
    /// Locks by the first byte of a source's id.
    publishing: [Mutex<()>; 256],
    /// Expiries of the containers that somebody has asked about.
    expiries: Mutex<SeenExpiries>,
    /// Its directory, and where it says that its locks need other files.
    secure: (PathBuf, Arc<ToSecure>),
}

impl Domain {
    fn new(repository: Repository, secure: (PathBuf, Arc<ToSecure>)) -> Self {
        let publishing = std::array::from_fn(|_| Mutex::new(()));
        let (lease, expiries) = Default::default();
        Self { repository: Arc::new(repository), lease, publishing, expiries, secure }
    }

    /// The lease, shared with all writers in this process.
    pub fn lease(&self) -> Result<Arc<Lease>> {
        self.lease_for(LeasePurpose::Store)
    }

    fn lease_for(&self, purpose: LeasePurpose) -> Result<Arc<Lease>> {
        let mut lease = self.lease.lock();
        if let Some(held) = lease.upgrade() {
            return Ok(held);
        }
        let held = self.repository.lease_for(HOLDER, purpose)?;
        *lease = Arc::downgrade(&held);
        Ok(held)
    }

    /// The clear parts of all expiries.
    pub(super) fn expiries(&self) -> Result<Vec<Vec<u8>>> {
        self.repository.expiries(&mut self.expiries.lock())
    }

    /// While this is held, no other node publishes a snapshot of `source`.
    pub(super) fn publishing(&self, source: &ObjectId) -> MutexGuard<'_, ()> {
        self.publishing[usize::from(source.0[0])].lock()
    }

    /// Begins a session.
    pub fn begin(&self, base: Option<SnapshotRef>, record: SealedRecord) -> Result<Session> {
        let lease = self.lease()?;
        self.repository.begin(&lease, base, record)
    }

    /// Durably replaces the key list by the next one.
    pub fn put_key_list(&self, list: &[u8]) -> Result<()> {
        self.repository.put_key_list(&*self.lease()?, list)
    }

    /// Durably adds a key slot.
    pub fn put_slot(&self, id: KeyId, slot: &[u8]) -> Result<()> {
        self.repository.put_key_slot(&*self.lease()?, id, slot)
    }

    /// Durably removes a key slot, if it exists.
    pub fn remove_slot(&self, id: KeyId) -> Result<()> {
        self.repository.remove_key_slot(&*self.lease()?, id)
    }

    /// The lease, to free space: on a full disk the reserve is there for it.
    pub fn lease_to_free(&self) -> Result<Arc<Lease>> {
        self.lease_for(LeasePurpose::Reclaim)
    }

    /// Removes snapshots: see [`Repository::forget`] and [`Repository::expire`]. On a full disk it uses the reserve.
    pub(super) fn remove(&self, remove: impl Fn(&Repository) -> Result<()>) -> Result<()> {
        let done = match remove(&self.repository) {
            Err(error) if error.is_full() && self.repository.release_reserve()? => {
                remove(&self.repository)
            }
            done => done,
        };
        self.repository.fill_reserve();
        done
    }

    /// A locked snapshot came.
    pub(super) fn secure_soon(&self) {
        let (folder, to_secure) = &self.secure;
        to_secure.lock().insert(folder.clone());
    }

    /// Whether the domain stores nothing.
    pub fn is_empty(&self) -> bool {
        self.repository.index().entries() == 0
    }

    /// Rereads the repository if no writer of this process holds the lease: another process may have written.
    fn look_again(&self) -> Result<()> {
        let is_ours = self.lease.lock().strong_count() > 0;
        if is_ours { Ok(()) } else { self.repository.refresh() }
    }
}
