//! Reading from copies what the first place has lost.
//!
//! A copy holds the same records at other locations. Here the containers of copies have numbers of their own, above all
//! that a repository gives, so that every location says where it lies. A copy is opened when it is first needed.

mod session_keys;

use crate::Result;
use format::record::verify;
use ids::{ContainerNo, KeyId, ObjectId, RecordLocation};
use parking_lot::Mutex;
use repository::Repository;
use repository::storage::Storage;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use store::{Config, ReceiptKey, SnapshotRef, Store, StoredSnapshot, WriteLease};

/// Containers have numbers of 40 bits; above them stands the number of the copy, from 1.
const COPY_BITS: u32 = 48;

/// Opens the storage of a copy, or says why not.
pub type OpenStorage = Box<dyn Fn() -> std::result::Result<Arc<dyn Storage>, String> + Send + Sync>;

/// A copy that may be read.
pub struct Copy {
    /// Where it is, for messages.
    pub place: String,
    open: OpenStorage,
    opened: OnceLock<std::result::Result<Arc<Repository>, String>>,
}

impl Copy {
    /// A copy at `place` that `open` opens when it is needed.
    pub fn new(place: String, open: OpenStorage) -> Self {
        Self { place, open, opened: OnceLock::new() }
    }

    /// The repository in it, if it is a copy of that with the settings `config`.
    fn repository(&self, config: &Config) -> Option<&Arc<Repository>> {
        self.opened.get_or_init(|| self.look(config)).as_ref().ok()
    }

    /// Opens it, if it is a copy of the repository with the settings `config`.
    ///
    /// # Errors
    /// Why it cannot be used, for people.
    pub fn look(&self, config: &Config) -> std::result::Result<Arc<Repository>, String> {
        let repository = Repository::open((self.open)()?).map_err(|error| error.to_string())?;
        if repository.config() != config {
            return Err("it holds another repository".to_owned());
        }
        repository.verify_with(crypto::is_signed);
        Ok(Arc::new(repository))
    }
}

/// What was read from one copy, because the first place had lost it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyUse {
    /// The copy.
    pub place: String,
    /// Records, snapshots and lists that were read from it.
    pub reads: u64,
    /// Why it could not be used.
    pub problem: Option<String>,
}

/// A repository with its copies.
pub struct WithCopies {
    first: Arc<Repository>,
    copies: Vec<Copy>,
    reads: Mutex<BTreeMap<usize, u64>>,
}

impl WithCopies {
    /// Reads from `first`, and from the first of `copies` that has what is lost there.
    pub fn new(first: Arc<Repository>, copies: Vec<Copy>) -> Self {
        Self { first, copies, reads: Mutex::default() }
    }

    /// What was read from which copy; nothing while the first place had everything.
    pub fn uses(&self) -> Vec<CopyUse> {
        let reads = self.reads.lock();
        let asked = self.copies.iter().enumerate().filter(|(_, copy)| copy.opened.get().is_some());
        let told = asked.map(|(at, copy)| CopyUse {
            place: copy.place.clone(),
            reads: reads.get(&at).copied().unwrap_or(0),
            problem: copy.opened.get().and_then(|opened| opened.as_ref().err().cloned()),
        });
        told.filter(|used| used.reads > 0 || used.problem.is_some()).collect()
    }

    /// The first that `work` finds in any copy, with the number of the copy.
    fn in_copies<T>(&self, mut work: impl FnMut(&Repository) -> Option<T>) -> Option<(usize, T)> {
        let found = self.copies.iter().enumerate().find_map(|(at, copy)| {
            let found = work(copy.repository(self.first.config())?)?;
            Some((at, found))
        });
        if let Some((at, _)) = &found {
            *self.reads.lock().entry(*at).or_default() += 1;
        }
        found
    }

    /// What the first place says, or else a copy.
    fn or_copy<T>(
        &self,
        first: repository::Result<T>,
        work: impl Fn(&Repository) -> repository::Result<T>,
    ) -> store::Result<T> {
        match first {
            Ok(value) => Ok(value),
            // Somebody has forgotten it: the copy may keep it for longer, but nobody asks for that here.
            Err(error @ repository::Error::SnapshotMissing(_)) => Err(error.into()),
            Err(error) => match self.in_copies(|copy| work(copy).ok()) {
                Some((_, value)) => Ok(value),
                None => Err(error.into()),
            },
        }
    }

    /// The record that holds `id` in any copy.
    fn fetch_from_copies(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Option<RecordLocation> {
        let found = self.in_copies(|copy| {
            let location = copy.fetch(id, buffer).ok()?;
            (verify(buffer).is_ok() || copy.heal(location, buffer)).then_some(location)
        });
        found.map(|(at, location)| elsewhere(at, location))
    }

    /// The copy, and the container there, of a container number of ours; `None` for one of the first place.
    fn copy_of(&self, container: ContainerNo) -> Option<(&Repository, ContainerNo)> {
        let at = (container.0 >> COPY_BITS).checked_sub(1)?;
        let copy = self.copies.get(usize::try_from(at).ok()?)?;
        let number = container.0 & ((1 << COPY_BITS) - 1);
        Some((copy.repository(self.first.config())?, ContainerNo(number)))
    }

    /// Where `location` lies.
    fn at(&self, location: RecordLocation) -> (&Repository, RecordLocation) {
        match self.copy_of(location.container) {
            Some((copy, container)) => (copy, RecordLocation { container, ..location }),
            None => (&self.first, location),
        }
    }

    /// What the first place has `found` of `ids`, and the copies of the others.
    fn located(
        &self,
        ids: &[ObjectId],
        found: repository::Result<Vec<Option<RecordLocation>>>,
    ) -> store::Result<Vec<Option<RecordLocation>>> {
        let (mut found, failed) = match found {
            Ok(found) => (found, None),
            Err(error) => (vec![None; ids.len()], Some(error)),
        };
        for (id, location) in ids.iter().zip(&mut found).filter(|(_, location)| location.is_none())
        {
            let there = self.in_copies(|copy| copy.locate(&[*id]).ok()?[0]);
            *location = there.map(|(at, location)| elsewhere(at, location));
        }
        match failed {
            // The first place may have it: it is not missing.
            Some(error) if found.contains(&None) => Err(error.into()),
            _ => Ok(found),
        }
    }
}

fn elsewhere(copy: usize, location: RecordLocation) -> RecordLocation {
    let container = ContainerNo(location.container.0 | ((copy as u64 + 1) << COPY_BITS));
    RecordLocation { container, ..location }
}

impl Store for WithCopies {
    fn config(&self) -> &Config {
        self.first.config()
    }

    fn damage_epoch(&self) -> u64 {
        self.first.damage_epoch()
    }

    fn snapshots(&self) -> store::Result<Vec<SnapshotRef>> {
        match self.first.snapshots() {
            // The list of a copy may be older, and its newest snapshot would pass for the newest.
            Err(error) if error.is_unreachable() => Err(error.into()),
            listed => self.or_copy(listed, Repository::snapshots),
        }
    }

    fn snapshot(&self, name: SnapshotRef) -> store::Result<StoredSnapshot> {
        self.or_copy(self.first.snapshot(name), |copy| copy.snapshot(name))
    }

    fn latest_snapshot(&self, source: &ObjectId) -> store::Result<Option<StoredSnapshot>> {
        Ok(self.first.latest_snapshot(source)?)
    }

    fn key_slots(&self) -> store::Result<Vec<(KeyId, Vec<u8>)>> {
        self.or_copy(self.first.key_slots(), Repository::key_slots)
    }

    fn key_list(&self, _refresh: bool) -> store::Result<Option<Vec<u8>>> {
        self.or_copy(self.first.key_list(), Repository::key_list)
    }

    fn receipt_keys(&self) -> store::Result<Vec<ReceiptKey>> {
        self.or_copy(self.first.receipt_keys(), Repository::receipt_keys)
    }

    fn locate(&self, ids: &[ObjectId]) -> store::Result<Vec<Option<RecordLocation>>> {
        self.located(ids, self.first.locate(ids))
    }

    fn locate_neighbors(&self, ids: &[ObjectId]) -> store::Result<Vec<Option<RecordLocation>>> {
        self.located(ids, self.first.locate_neighbors(ids))
    }

    fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> store::Result<()> {
        let (repository, location) = self.at(location);
        Ok(repository.read(location, buffer)?)
    }

    fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        let (repository, location) = self.at(location);
        repository.heal(location, buffer)
    }

    fn healed(&self) -> Vec<RecordLocation> {
        self.first.healed()
    }

    fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> store::Result<RecordLocation> {
        let first = self.first.fetch(id, buffer);
        if let Ok(location) = &first
            && (verify(buffer).is_ok() || self.first.heal(*location, buffer))
        {
            return Ok(*location);
        }
        match self.fetch_from_copies(id, buffer) {
            Some(location) => Ok(location),
            // As it lies there: whoever opens it says what is wrong with it.
            None => Ok(self.first.fetch(id, buffer)?),
        }
    }

    fn refresh_after(&self, gone: ContainerNo) -> store::Result<()> {
        match self.copy_of(gone) {
            Some((copy, gone)) => Ok(copy.refresh_after(gone)?),
            None => Ok(self.first.refresh_after(gone)?),
        }
    }

    fn session_keys(&self, container: ContainerNo, healed: bool) -> store::Result<Vec<Vec<u8>>> {
        match self.copy_of(container) {
            Some((copy, container)) => Ok(copy.session_keys(container, healed)?),
            None => self.keys_of_first(container, healed),
        }
    }

    fn write_lease(self: Arc<Self>, holder: &str) -> store::Result<Box<dyn WriteLease>> {
        self.first.clone().write_lease(holder)
    }
}

/// The first of `copies` that opens, for when the first place does not; with its name.
///
/// # Errors
/// Why none opens: place and reason of each.
pub fn instead(
    copies: &[Copy],
) -> std::result::Result<(String, Repository), Vec<(String, String)>> {
    let mut failed = Vec::new();
    for copy in copies {
        let opened = (copy.open)()
            .and_then(|storage| Repository::open(storage).map_err(|error| error.to_string()));
        match opened {
            Ok(repository) => return Ok((copy.place.clone(), repository)),
            Err(reason) => failed.push((copy.place.clone(), reason)),
        }
    }
    Err(failed)
}

impl crate::UnlockedRepository {
    /// Unlocks `repository`; what it has lost is read from `copies`.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_with_copies(
        repository: Repository,
        copies: Vec<Copy>,
        secret: crypto::SlotSecret<'_>,
    ) -> Result<(Self, Arc<WithCopies>)> {
        repository.verify_with(crypto::is_signed);
        let repository = Arc::new(repository);
        let with = Arc::new(WithCopies::new(repository.clone(), copies));
        let unlocked = Self::open_local_store(with.clone(), repository, secret)?;
        Ok((unlocked, with))
    }
}
