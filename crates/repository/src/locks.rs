//! Locks: until when nobody can remove a snapshot through the program (`docs/adr/0027-locks.md`).
//!
//! A lock is a part of the receipt beside its snapshot, so it goes wherever the snapshot goes. Here is the one place
//! that decides whether it has ended. In doubt it has not:
//! - what counts is a good signature by the key that the receipt names, whether or not the repository knows the key: a
//!   list that was lost unlocks nothing. Only a server writes receipts, and takes none from a node;
//! - a snapshot whose receipt cannot be read is locked as long as any lock that was ever given here;
//! - time comes from the repository's own lock clock (`crates/repository/src/lock_file.rs`).

use crate::lease::Lease;
use crate::lock_file::LockState;
use crate::received::SignedReceipt;
use crate::snapshots::SnapshotRef;
use crate::{Error, Repository, Result};
use clock::{LockClock, Tick};
use format::receipt::{Lock, Receipt};
use store::StoredSnapshot;

/// What a receipt says of the removal of its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Nothing.
    Free,
    /// It must wait.
    By(Lock),
    /// It cannot be read.
    Unknown,
}

impl Held {
    /// What the receipt of `stored` says, of which `own` says what is signed.
    pub(crate) fn of(stored: &StoredSnapshot, own: impl FnOnce() -> Option<SignedReceipt>) -> Self {
        let Some(clear) = stored.receipt.as_deref() else { return Self::Free };
        if matches!(Receipt::decode(clear), Err(format::Error::Version { .. })) {
            return Self::Unknown;
        }
        match own() {
            Some((Receipt { lock: Some(lock), .. }, None | Some(true))) => Self::By(lock),
            _ => Self::Free,
        }
    }

    /// When it ends; the end of time where nobody knows.
    pub(crate) fn until_secs(self) -> Option<i64> {
        match self {
            Self::Free => None,
            Self::By(lock) => Some(lock.until_secs),
            Self::Unknown => Some(i64::MAX),
        }
    }
}

impl Repository {
    /// The snapshots among `names` whose lock has not ended, with the time at which it does, in seconds since 1970.
    /// Those that are gone are not locked.
    ///
    /// # Errors
    /// Those of the storage: what cannot be looked at now is not free.
    pub fn locked(&self, names: &[SnapshotRef]) -> Result<Vec<(SnapshotRef, i64)>> {
        let mut held = Vec::new();
        for (name, read) in self.each_snapshot(names) {
            match self.held_by(read)? {
                Held::Free => {}
                by => held.push((name, by)),
            }
        }
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let state = self.lock_state()?;
        let until = |(name, by): (SnapshotRef, Held)| Some((name, end_of(by, state.as_ref())?));
        Ok(held.into_iter().filter_map(until).collect())
    }

    /// Fails when one of `names` is locked.
    ///
    /// # Errors
    /// [`Error::Locked`]; those of [`Repository::locked`].
    pub fn refuse_locked(&self, names: &[SnapshotRef]) -> Result<()> {
        let locked = self.locked(names)?;
        let Some((name, until_secs)) = locked.first() else { return Ok(()) };
        let (snapshot, until_secs, others) = (name.id, *until_secs, locked.len() - 1);
        Err(Error::Locked { snapshot, until_secs, others })
    }

    /// Whether the lock of a snapshot, as it was read from anywhere in the repository, has not ended.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn is_locked(&self, stored: &StoredSnapshot) -> Result<bool> {
        match self.held(stored) {
            Held::Free => Ok(false),
            by => Ok(end_of(by, self.lock_state()?.as_ref()).is_some()),
        }
    }

    /// A lock of `secs` seconds from now on, for a receipt that is given now. The lock clock is durable before. While
    /// nothing is locked it is set to `now_secs`, but never back.
    ///
    /// # Errors
    /// [`Error::NoSuchLock`] for a length that no lock has; those of the storage.
    pub fn give_lock(&self, lease: &Lease, secs: u64, now_secs: i64) -> Result<Lock> {
        let _one_at_a_time = self.lock_file.lock();
        let tick = self.tick();
        let mut state = match self.lock_state()? {
            Some(state) if state.now_secs < state.last_until_secs => state,
            before => {
                let shown_secs = before.map_or(now_secs, |before| before.now_secs);
                LockState::started(Tick { wall_secs: now_secs.max(shown_secs), ..tick })
            }
        };
        let lock = Lock::new(state.now_secs.max(1), secs).ok_or(Error::NoSuchLock(secs))?;
        state.last_until_secs = state.last_until_secs.max(lock.until_secs);
        self.put_lock_state(lease, &state)?;
        Ok(lock)
    }

    fn held_by(&self, read: Result<StoredSnapshot>) -> Result<Held> {
        match read {
            Ok(stored) => Ok(self.held(&stored)),
            Err(Error::SnapshotMissing(_)) => Ok(Held::Free),
            Err(Error::Damaged { .. }) => Ok(Held::Unknown),
            Err(error) => Err(error),
        }
    }

    /// What the receipt of `stored` says. Who cannot verify it believes it.
    pub(crate) fn held(&self, stored: &StoredSnapshot) -> Held {
        Held::of(stored, || self.own_receipt(stored))
    }

    /// The state of the lock clock at this moment: of its file, or else what the locks themselves prove. `None` when the
    /// repository has no lock and never had one.
    pub(crate) fn lock_state(&self) -> Result<Option<LockState>> {
        let tick = self.tick();
        match self.read_lock_file()? {
            Some((clock, last_until_secs)) => {
                Ok(Some(LockState::read(clock, last_until_secs, tick)))
            }
            None => self.proven_state(),
        }
    }

    /// Without its file the clock stands at the newest lock that a known server gave, since which nothing is known; or,
    /// if no server is known, at the oldest lock of all: who could name a server's key could end locks.
    fn proven_state(&self) -> Result<Option<LockState>> {
        let keys = self.readable_keys()?;
        let (mut known, mut all) = (Vec::new(), Vec::new());
        let names = self.current_snapshots()?;
        for (_, read) in self.each_snapshot(&names) {
            let stored = match read {
                Err(Error::SnapshotMissing(_) | Error::Damaged { .. }) => continue,
                stored => stored?,
            };
            let Held::By(lock) = self.held(&stored) else { continue };
            all.push(lock);
            let receipt = self.own_receipt(&stored);
            let is_known = |(receipt, is_signed): (Receipt, Option<bool>)| {
                is_signed == Some(true) && keys.contains(&receipt.key)
            };
            known.extend(receipt.is_some_and(is_known).then_some(lock.given_secs));
        }
        let oldest = all.iter().map(|lock| lock.given_secs).min();
        let Some(since_secs) = known.into_iter().max().or(oldest) else { return Ok(None) };
        let last_until_secs = all.iter().map(|lock| lock.until_secs).max().unwrap_or(since_secs);
        let tick = self.tick();
        let clock = LockClock::not_before(since_secs, tick);
        Ok(Some(LockState::read(clock, last_until_secs, tick)))
    }
}

/// When a lock that has not ended does; without a clock no lock has ended.
fn end_of(held: Held, state: Option<&LockState>) -> Option<i64> {
    let until_secs = match held {
        Held::Free => None,
        Held::By(lock) => Some(lock.until_secs),
        // Where nothing was ever locked, what is damaged is not locked either.
        Held::Unknown => state.map(|state| state.last_until_secs),
    };
    until_secs.filter(|until_secs| state.is_none_or(|state| state.now_secs < *until_secs))
}
