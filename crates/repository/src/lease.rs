//! The lease: the right to write. It is a lock that the system releases when its process dies, and a generation that
//! fences out a writer that lost the lock without noticing.

use crate::config;
use crate::container::{self, ContainerFile, read::ContainerReader};
use crate::guard::{Guard, guarded};
use crate::storage::{LockGuard, Storage, read_checked};
use crate::{Error, Result, reserve};
use format::wire::{Reader, checksum};
use ids::ContainerNo;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Its name as a file, or of the lock where there are no files.
pub const LOCK: &str = "lock";
pub(crate) const NAME: &str = "lease";
const BYTES_MAX: usize = 4096;
/// Runs that the holder of one lease writes before their numbers reach those of the next: 2^16.
const RUNS_BITS: u32 = 16;
const HOLDER_BYTES_MAX: usize = 1024;

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeasePurpose {
    /// To store data.
    Store,
    /// To free space, or to rebuild what that needs: on a full disk it may use the reserve.
    Reclaim,
}

/// The right to write, until it is dropped.
pub struct Lease {
    storage: Arc<dyn Storage>,
    _lock: Box<dyn LockGuard>,
    generation: u64,
    holder: String,
}

impl Lease {
    /// Takes the lease to store data. `holder` names host, process and command.
    ///
    /// # Errors
    /// [`Error::InUse`] names the holder of the lease; [`Error::LockingUnsupported`].
    pub fn acquire(storage: &Arc<dyn Storage>, holder: &str) -> Result<Self> {
        Self::acquire_for(storage, holder, LeasePurpose::Store)
    }

    /// Takes the lease for `purpose`; otherwise like [`Lease::acquire`].
    pub fn acquire_for(
        storage: &Arc<dyn Storage>,
        holder: &str,
        purpose: LeasePurpose,
    ) -> Result<Self> {
        if !storage.locks_are_shared() {
            return Err(Error::LockingUnsupported { location: storage.describe() });
        }
        let Some(lock) = storage.try_lock(LOCK)? else {
            let current = read(&**storage).ok().flatten();
            let holder = current.map_or("another process".into(), |(_, holder)| shown(&holder));
            return Err(Error::InUse { holder });
        };
        let generation = last_generation(&**storage)?.saturating_add(1);
        let holder = unlike_any(holder);
        let put = || put(&**storage, &encode(generation, &holder));
        match purpose {
            LeasePurpose::Store => put()?,
            LeasePurpose::Reclaim => reserve::with(&**storage, put)?,
        }
        Ok(Self { storage: storage.clone(), _lock: lock, generation, holder })
    }

    /// Number of this lease; every later one has a higher one.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The first number for the runs of its holder: a writer that lost the lease while it slept,
    /// and its successor, never write a run of the same name.
    pub(crate) fn first_run(&self) -> u64 {
        self.generation << RUNS_BITS
    }

    /// Checks that no other process took the lease over. Called before anything is published or removed.
    ///
    /// # Errors
    /// [`Error::LeaseLost`].
    pub fn verify(&self) -> Result<()> {
        if !guarded(Guard::LeaseCheck) {
            return Ok(());
        }
        match read(&*self.storage)? {
            Some((generation, holder))
                if (generation, &holder) == (self.generation, &self.holder) =>
            {
                Ok(())
            }
            Some((_, holder)) => Err(Error::LeaseLost { holder: shown(&holder) }),
            None if config::exists(&*self.storage)? => {
                Err(Error::LeaseLost { holder: "nobody".into() })
            }
            None => Err(Error::NoRepository { location: self.storage.describe() }),
        }
    }
}

/// Takes the right to write from whoever has it, also from one that is frozen and never gives its lock back. The file
/// of that lock loses its name, and the generation of that lease is not the last one any more: its holder publishes
/// nothing.
///
/// # Errors
/// [`Error::InUse`] when somebody else took the new lock meanwhile; those of the storage.
pub fn take_over(storage: &Arc<dyn Storage>, holder: &str) -> Result<()> {
    reserve::with(&**storage, || Ok(storage.put(LOCK, &[])?))?;
    Lease::acquire_for(storage, holder, LeasePurpose::Reclaim).map(drop)
}

/// Takes the lock for `init`, and checks that it cannot be taken twice: on some file systems locking does not work.
pub(crate) fn lock_alone(storage: &dyn Storage) -> Result<Box<dyn LockGuard>> {
    if !storage.locks_are_shared() {
        return Err(Error::LockingUnsupported { location: storage.describe() });
    }
    let Some(lock) = storage.try_lock(LOCK)? else {
        return Err(Error::InUse { holder: "another process".into() });
    };
    match storage.try_lock(LOCK)? {
        Some(_) => Err(Error::LockingUnsupported { location: storage.describe() }),
        None => Ok(lock),
    }
}

/// The name of a holder, and behind a zero byte a number that no other lease has: of two processes that slept at the
/// wrong moment both generations may be the same, and in containers their hosts and numbers, too.
fn unlike_any(holder: &str) -> String {
    let number = RandomState::new().hash_one(std::time::SystemTime::now());
    let end = holder.floor_char_boundary(HOLDER_BYTES_MAX - 17);
    format!("{}\0{number:016x}", &holder[..end])
}

/// The name alone, for people.
fn shown(holder: &str) -> String {
    holder.split('\0').next().unwrap_or_default().to_owned()
}

fn put(storage: &dyn Storage, bytes: &[u8]) -> Result<()> {
    match storage.put(NAME, bytes) {
        // Somebody else writes the same file: the lock was lost at this moment.
        Err(error) if error.is_not_found() || error.already_exists() => {
            Err(Error::LeaseLost { holder: "another process".into() })
        }
        put => Ok(put?),
    }
}

/// The generation of the lease before. When its file is damaged, or is missing where somebody wrote, a number beyond
/// any that can have been given: the lock is ours, so nobody else writes.
fn last_generation(storage: &dyn Storage) -> Result<u64> {
    let is_missing = match read(storage) {
        Ok(Some((generation, _))) => return Ok(generation),
        Ok(None) => true,
        Err(Error::Damaged { .. }) => false,
        Err(error) => return Err(error),
    };
    let files = match container::list(storage, ContainerNo(0)) {
        Err(error) if error.is_not_found() => Vec::new(),
        files => files?,
    };
    match is_missing && files.is_empty() {
        true => Ok(0),
        false => Ok(beyond_any(storage, &files)),
    }
}

/// More than the newest container that can be read says, by more than any number of leases.
fn beyond_any(storage: &dyn Storage, files: &[ContainerFile]) -> u64 {
    const BEYOND: u64 = 1 << 32;
    let finished = files.iter().rev().filter(|file| file.finished);
    // One that is listed may be gone.
    let mut headers = finished
        .filter_map(|file| ContainerReader::open(storage, file.number).ok()?.any_header().ok());
    let last = headers.next().map_or(0, |header| header.generation);
    last.saturating_add(BEYOND)
}

fn encode(generation: u64, holder: &str) -> Vec<u8> {
    let mut out = generation.to_le_bytes().to_vec();
    out.extend_from_slice(holder.as_bytes());
    let sum = checksum(&[&out]);
    out.extend_from_slice(&sum);
    out
}

fn read(storage: &dyn Storage) -> Result<Option<(u64, String)>> {
    match read_checked(storage, NAME, BYTES_MAX, |bytes| decode(&bytes)) {
        Err(error) if error.is_not_found() => Ok(None),
        read => read.map(Some),
    }
}

fn decode(bytes: &[u8]) -> format::Result<(u64, String)> {
    let Some((body, sum)) = bytes.split_last_chunk::<16>() else {
        return Err(format::Error::Truncated { what: "lease" });
    };
    if checksum(&[body]) != *sum {
        return Err(format::Error::Checksum { what: "lease" });
    }
    let mut reader = Reader::new(body, "lease");
    let generation = reader.u64()?;
    let holder = reader.bytes(reader.remaining())?;
    Ok((generation, String::from_utf8_lossy(holder).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStorage;

    fn storage() -> (tempfile::TempDir, Arc<dyn Storage>) {
        let directory = tempfile::tempdir().unwrap();
        let storage = Arc::new(LocalStorage::open(directory.path()).unwrap());
        (directory, storage)
    }

    #[test]
    fn the_second_is_told_who_has_it() {
        let (_directory, storage) = storage();
        let lease = Lease::acquire(&storage, "host-a backup").unwrap();
        let refused = Lease::acquire(&storage, "host-b").err().unwrap();
        assert!(refused.to_string().contains("host-a backup"), "{refused}");
        drop(lease);
        assert_eq!(Lease::acquire(&storage, "host-b").unwrap().generation(), 2);
    }

    /// Two containers with the same name, in which each program has the number 1; one slept before it wrote its lease.
    #[test]
    fn two_leases_are_never_the_same() {
        let (directory, storage) = storage();
        let one = Lease::acquire(&storage, "host-a, process 1").unwrap();
        for name in [LOCK, NAME] {
            std::fs::remove_file(directory.path().join(name)).unwrap();
        }
        let other = Lease::acquire(&storage, "host-a, process 1").unwrap();
        assert_eq!(one.generation(), other.generation());
        other.verify().unwrap();
        let lost = one.verify().unwrap_err().to_string();
        assert!(lost.contains("host-a, process 1") && !lost.contains('\0'), "{lost}");
        let refused = Lease::acquire(&storage, "host-b").err().unwrap().to_string();
        assert!(refused.contains("host-a, process 1") && !refused.contains('\0'), "{refused}");
    }

    /// As a process that is frozen, which gives nothing back.
    #[test]
    fn a_lease_is_taken_from_one_that_never_gives_it_back() {
        let (_directory, storage) = storage();
        let frozen = Lease::acquire(&storage, "frozen").unwrap();
        take_over(&storage, "another server").unwrap();
        let lost = frozen.verify().unwrap_err().to_string();
        assert!(lost.contains("another server"), "{lost}");
        let next = Lease::acquire(&storage, "next").unwrap();
        next.verify().unwrap();
        assert!(Lease::acquire(&storage, "third").is_err());
        drop(frozen);
        assert!(Lease::acquire(&storage, "third").is_err(), "its lock was another one");
    }

    #[test]
    fn a_lease_is_read_back_and_flips_are_found() {
        let bytes = encode(7, "host-a");
        assert_eq!(decode(&bytes), Ok((7, "host-a".to_owned())));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_damaged_lease_keeps_nobody_from_writing() {
        let (_directory, storage) = storage();
        storage.create_directory("containers").unwrap();
        drop(Lease::acquire(&storage, "old").unwrap());
        for garbage in [&b"garbage that is no lease at all"[..], &[7; BYTES_MAX + 1]] {
            storage.put(NAME, garbage).unwrap();
            assert!(Lease::acquire(&storage, "new").unwrap().generation() > 1 << 32);
        }
    }

    /// A rebuild counts from it (F-12.6), and so does a key list that is made again (F-11.3).
    #[test]
    fn a_lease_that_was_lost_does_not_begin_again_where_somebody_wrote() {
        let (directory, storage) = storage();
        storage.create_directory(container::DIRECTORY).unwrap();
        drop(Lease::acquire(&storage, "first").unwrap());
        let lost = || std::fs::remove_file(directory.path().join(NAME)).unwrap();
        lost();
        assert_eq!(Lease::acquire(&storage, "nobody wrote").unwrap().generation(), 1);
        storage.create_directory(&container::shard(ContainerNo(7))).unwrap();
        storage.put(&container::name(ContainerNo(7)), b"nothing that can be read").unwrap();
        lost();
        assert!(Lease::acquire(&storage, "new").unwrap().generation() > 1 << 32);
    }

    /// Found by the fuzzer: who may write to the storage can make a good sum of too little.
    #[test]
    fn a_lease_of_too_few_bytes_with_a_good_sum_keeps_nobody_from_writing() {
        for length in 0..8 {
            let (_directory, storage) = storage();
            storage.create_directory("containers").unwrap();
            let body = vec![0; length];
            storage.put(NAME, &[&body[..], &checksum(&[&body])].concat()).unwrap();
            assert!(Lease::acquire(&storage, "new").unwrap().generation() > 1 << 32);
        }
    }

    #[test]
    fn who_lost_the_lease_is_fenced() {
        let (_directory, storage) = storage();
        let lease = Lease::acquire(&storage, "old").unwrap();
        lease.verify().unwrap();
        storage.put(NAME, &encode(9, "new")).unwrap();
        assert!(matches!(lease.verify(), Err(Error::LeaseLost { holder }) if holder == "new"));
    }
}
