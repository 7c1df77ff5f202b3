//! Locks of domains in buckets: the storage keeps their objects (`docs/adr/0046-object-lock.md`).

use super::{Kept, Outcome, nothing_lost, text};
use crate::upkeep::lock_mode;
use api::upkeep::ObjectLock;
use object_storage::{KnownLocks, LockMode, LockOptions};
use parking_lot::Mutex;
use repository::reclaim::locked::LockedFiles;
use rustc_hash::FxHashMap;
use server_contract::pool;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// So long it is believed that what was locked is locked. Each object costs a request otherwise, at each look.
const BELIEVED_FOR: Duration = Duration::from_secs(86_400);

/// The buckets in which domains lie.
pub(super) struct Buckets {
    mode: LockMode,
    known: Mutex<FxHashMap<PathBuf, Known>>,
}

/// What is believed of a domain.
struct Known {
    since: Instant,
    /// Of this stay of the domain in the bucket: what moved away and came back is not locked.
    stay: SystemTime,
    locks: KnownLocks,
}

impl Buckets {
    pub(super) fn new(mode: ObjectLock) -> Self {
        Self { mode: lock_mode(mode), known: Mutex::default() }
    }

    /// Locks what the locked snapshots of the domain in `folder` need.
    pub(super) fn secure(&self, folder: &Path, locked: &LockedFiles) -> Outcome {
        let stay = pool::in_bucket_since(folder).map_err(text)?;
        let new = || Known { since: Instant::now(), stay, locks: KnownLocks::default() };
        let known = self.known.lock().remove(folder).filter(|known| known.is_of(stay));
        let mut known = known.unwrap_or_else(new);
        let outcome = self.lock(folder, locked, &mut known.locks);
        self.known.lock().insert(folder.to_owned(), known);
        outcome
    }

    fn lock(&self, folder: &Path, locked: &LockedFiles, known: &mut KnownLocks) -> Outcome {
        let gone = "the pool of the domain is no bucket any more";
        let bucket = pool::bucket_of_domain(folder).map_err(text)?.ok_or(gone)?;
        let options = LockOptions::exact(self.mode);
        let done = bucket.lock_unless_known(&locked.files, options, known, &|| false);
        let done = done.map_err(text)?;
        if done.failed > 0 {
            let why = done.reasons.join(", ");
            return Err(format!("{} objects are not locked: {why}", done.failed));
        }
        nothing_lost(locked.lost_pages)?;
        Ok(Kept { files: 0, objects: done.objects })
    }
}

impl Known {
    /// Whether it is young enough, and of the stay that began at `stay`.
    fn is_of(&self, stay: SystemTime) -> bool {
        self.stay == stay && self.since.elapsed() < BELIEVED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_away_and_came_back_is_not_believed_to_be_locked() {
        let (stay, later) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + BELIEVED_FOR);
        let since = Instant::now();
        let known = Known { since, stay, locks: KnownLocks::default() };
        assert!(known.is_of(stay) && !known.is_of(later));
        let since = since.checked_sub(BELIEVED_FOR).unwrap();
        assert!(!Known { since, ..known }.is_of(stay));
    }
}
