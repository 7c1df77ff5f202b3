//! Pins of those who read for long in another process: a copy that runs names the trees that it reads, and reclaim
//! leaves them alone.
//!
//! `readers/` holds a file for each, and beside it an empty one whose lock says that the reader lives. A reader that
//! died pins nothing. The file is there before the reader looks whether its snapshots are listed: so whoever removed
//! them began later, and finds the pin. It is a courtesy: who cannot write to the first place, or reads from a bucket,
//! pins nothing, finds what a reclaim took missing, and says so.

use crate::pins::SessionNo;
use crate::storage::{LockGuard, Storage, read_checked};
use crate::{Error, Repository, Result};
use format::wire::checksum;
use ids::ObjectId;
use std::sync::Arc;

/// The directory of pins.
pub const DIRECTORY: &str = "readers";
const MAGIC: &[u8; 8] = b"ICEREAD1";
const LOCK_SUFFIX: &str = ".lock";
const SUM_BYTES: usize = 16;
/// Trees that one reader names: 2^20.
const ROOTS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = MAGIC.len() + ROOTS_MAX * ObjectId::LEN + SUM_BYTES;
/// Names that are tried.
const TRIES: u32 = 1 << 10;

/// What one reader pins, until it is dropped.
pub struct ReaderPin {
    repository: Arc<Repository>,
    /// The pins for a reclaim of the same process.
    sessions: Vec<SessionNo>,
    /// For those of other processes.
    file: Option<(String, Box<dyn LockGuard>)>,
}

impl ReaderPin {
    /// Pins the trees `roots` of `repository`.
    pub fn new(repository: &Arc<Repository>, roots: Vec<ObjectId>) -> Self {
        let file = pin_file(&*repository.storage, &roots).unwrap_or_default();
        let mut pins = repository.pins.lock();
        let sessions = roots.into_iter().map(|root| pins.begin(Some(root))).collect();
        drop(pins);
        Self { repository: repository.clone(), sessions, file }
    }

    /// Whether reclaims of other processes see it.
    pub fn is_seen_elsewhere(&self) -> bool {
        self.file.is_some()
    }
}

impl Drop for ReaderPin {
    fn drop(&mut self) {
        let mut pins = self.repository.pins.lock();
        self.sessions.iter().for_each(|session| pins.end(*session, true));
        drop(pins);
        if let Some((name, lock)) = self.file.take() {
            remove(&*self.repository.storage, &name, lock);
        }
    }
}

/// Writes the pin; nothing where there are no locks but the lease, or nothing can be written.
fn pin_file(
    storage: &dyn Storage,
    roots: &[ObjectId],
) -> Result<Option<(String, Box<dyn LockGuard>)>> {
    if !storage.has_named_locks() || roots.len() > ROOTS_MAX {
        return Ok(None);
    }
    storage.create_directory(DIRECTORY)?;
    for number in 0..TRIES {
        let name = format!("{DIRECTORY}/{number:08x}");
        let Some(lock) = storage.try_lock(&format!("{name}{LOCK_SUFFIX}"))? else { continue };
        storage.put(&name, &encode(roots))?;
        return Ok(Some((name, lock)));
    }
    Ok(None)
}

/// The pin first: while its lock is held nobody else takes the name.
fn remove(storage: &dyn Storage, name: &str, lock: Box<dyn LockGuard>) {
    let _ = storage.remove(name);
    drop(lock);
}

impl Repository {
    /// The trees that readers of other processes read. What dead ones left is removed.
    pub(crate) fn roots_of_readers(&self) -> Result<Vec<ObjectId>> {
        if !self.storage.has_named_locks() {
            return Ok(Vec::new());
        }
        let names = match self.storage.list(DIRECTORY) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            names => names?,
        };
        let mut roots = Vec::new();
        for name in names.iter().filter(|name| !name.contains('.')) {
            roots.extend(self.roots_of_reader(&format!("{DIRECTORY}/{name}"))?);
        }
        Ok(roots)
    }

    fn roots_of_reader(&self, name: &str) -> Result<Vec<ObjectId>> {
        if let Some(lock) = self.storage.try_lock(&format!("{name}{LOCK_SUFFIX}"))? {
            remove(&*self.storage, name, lock);
            return Ok(Vec::new());
        }
        // A damaged one names no trees.
        let decode = |bytes: Vec<u8>| Ok(decode(&bytes).unwrap_or_default());
        match read_checked(&*self.storage, name, BYTES_MAX, decode) {
            Err(error) if error.is_not_found() => Ok(Vec::new()), // it has just ended
            // What is damaged pins nothing: a reader that misses something says so. What cannot be read now may be
            // whole, and its reader is alive.
            Err(Error::Damaged { reason, .. }) if !is_unreadable(&reason) => Ok(Vec::new()),
            roots => roots,
        }
    }
}

fn is_unreadable(reason: &format::Error) -> bool {
    matches!(reason, format::Error::Unreadable { .. })
}

fn encode(roots: &[ObjectId]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    roots.iter().for_each(|root| out.extend_from_slice(&root.0));
    let sum = checksum(&[&out]);
    out.extend_from_slice(&sum);
    out
}

/// The trees in the bytes of a pin; `None` when nobody wrote them so.
pub fn decode(bytes: &[u8]) -> Option<Vec<ObjectId>> {
    let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
    let (roots, rest) = body.strip_prefix(MAGIC)?.as_chunks::<{ ObjectId::LEN }>();
    let is_good = rest.is_empty() && *sum == checksum(&[body]);
    let roots: Vec<_> = roots.iter().map(|root| ObjectId(*root)).collect();
    (is_good && roots.iter().all(ObjectId::is_page)).then_some(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_back_and_damage_is_seen() {
        let roots = [1, 2].map(|byte| ObjectId([byte; ObjectId::LEN]).with_type(true));
        let bytes = encode(&roots);
        assert_eq!(decode(&bytes), Some(roots.to_vec()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "length {at}");
        }
    }
}
