//! Reading from copies what the first place has lost.
//!
//! A copy holds the same records at other locations. Here the containers of copies have numbers of their own, above all
//! that a repository gives, so that every location says where it lies. A copy is opened when it is first needed.

mod as_store;
mod copy;
mod session_keys;

pub use copy::{Copy, CopyUse, OpenStorage, instead};

use crate::{Error, Repository, Result};
use format::record::verify;
use ids::{ContainerNo, ObjectId, RecordLocation};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::{SnapshotRef, StoredSnapshot};

/// Containers have numbers of 40 bits; above them stands the number of the copy, from 1.
const COPY_BITS: u32 = 48;

/// A repository with its copies.
pub struct WithCopies {
    first: Arc<Repository>,
    copies: Vec<Copy>,
    reads: Mutex<BTreeMap<usize, u64>>,
    /// The first place has no list of its snapshots.
    has_lost_list: AtomicBool,
}

impl WithCopies {
    /// Reads from `first`, and from the first of `copies` that has what is lost there.
    pub fn new(first: Arc<Repository>, copies: Vec<Copy>) -> Self {
        Self { first, copies, reads: Mutex::default(), has_lost_list: AtomicBool::new(false) }
    }

    /// Whether the list that was asked for last is that of a copy, which may lack the newest snapshots.
    pub fn has_lost_list(&self) -> bool {
        self.has_lost_list.load(Relaxed)
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
            let found = work(copy.repository(&self.first)?)?;
            Some((at, found))
        });
        if let Some((at, _)) = &found {
            *self.reads.lock().entry(*at).or_default() += 1;
        }
        found
    }

    /// What the first place says, or else a copy.
    fn or_copy<T>(&self, first: Result<T>, work: impl Fn(&Repository) -> Result<T>) -> Result<T> {
        match first {
            Ok(value) => Ok(value),
            // Somebody has forgotten it: the copy may keep it for longer, but nobody asks for that here. Where the list
            // is lost, nobody can say so.
            Err(error @ Error::SnapshotMissing(_)) if !self.has_lost_list.load(Relaxed) => {
                Err(error)
            }
            Err(error) => match self.in_copies(|copy| work(copy).ok()) {
                Some((_, value)) => Ok(value),
                None => Err(error),
            },
        }
    }

    /// The same of what every repository has: where the first place has nothing, it was lost.
    fn unless_empty<T>(
        &self,
        first: Result<T>,
        is_empty: impl Fn(&T) -> bool,
        work: impl Fn(&Repository) -> Result<T>,
    ) -> Result<T> {
        match first {
            Ok(value) if is_empty(&value) => {
                let found = self.in_copies(|copy| work(copy).ok().filter(|it| !is_empty(it)));
                Ok(found.map_or(value, |(_, found)| found))
            }
            first => self.or_copy(first, work),
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
        Some((copy.repository(&self.first)?, ContainerNo(number)))
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
        found: Result<Vec<Option<RecordLocation>>>,
    ) -> Result<Vec<Option<RecordLocation>>> {
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
            Some(error) if found.contains(&None) => Err(error),
            _ => Ok(found),
        }
    }
}

fn elsewhere(copy: usize, location: RecordLocation) -> RecordLocation {
    let container = ContainerNo(location.container.0 | ((copy as u64 + 1) << COPY_BITS));
    RecordLocation { container, ..location }
}

/// The reads, with the errors of the engine. What nobody has is the error of the first place.
impl WithCopies {
    /// See [`Repository::snapshot`]. One that was forgotten is not looked for in copies, which may keep it for longer.
    pub fn snapshot(&self, name: SnapshotRef) -> Result<StoredSnapshot> {
        self.or_copy(self.first.snapshot(name), |copy| copy.snapshot(name))
    }

    /// See [`Repository::locate`].
    pub fn locate(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordLocation>>> {
        self.located(ids, self.first.locate(ids))
    }

    /// See [`Repository::read`].
    pub fn read(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> Result<()> {
        let (repository, location) = self.at(location);
        repository.read(location, buffer)
    }

    /// See [`Repository::heal`].
    pub fn heal(&self, location: RecordLocation, buffer: &mut Vec<u8>) -> bool {
        let (repository, location) = self.at(location);
        repository.heal(location, buffer)
    }

    /// See [`Repository::fetch`]; what is returned is good, if any place has it so.
    pub fn fetch(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> Result<RecordLocation> {
        let first = self.first.fetch(id, buffer);
        if let Ok(location) = &first
            && (verify(buffer).is_ok() || self.first.heal(*location, buffer))
        {
            return Ok(*location);
        }
        match self.fetch_from_copies(id, buffer) {
            Some(location) => Ok(location),
            // As it lies there: whoever opens it says what is wrong with it.
            None => self.first.fetch(id, buffer),
        }
    }

    /// See [`Repository::session_keys`].
    pub fn session_keys(&self, container: ContainerNo, healed: bool) -> Result<Vec<Vec<u8>>> {
        match self.copy_of(container) {
            Some((copy, container)) => copy.session_keys(container, healed),
            None => self.keys_of_first(container, healed),
        }
    }
}
