//! Who writes here: taking the lease, what others read of it, and its end.

use crate::lease::{self, Held, Leases, Moment};
use crate::names::{BEHIND_CONTAINERS, LEASE, Names, ROOTS, number, numbered};
use crate::probe;
use crate::storage::{ObjectStorage, Shared, State};
use crate::takeover;
use crate::uploads;
use bytes::Bytes;
use repository::storage::{LockGuard, StorageError, StorageResult};
use std::io::{Error, ErrorKind};
use std::sync::Arc;

/// How often a lease is tried for when somebody else was faster.
const TRIES: usize = 8;
/// So many objects of a row are kept once it is tidied up, and so many are let grow before.
const ROOTS_KEPT: u64 = 16;
const ROOTS_MAX: usize = 64;

impl ObjectStorage {
    /// Takes the lease, unless somebody has it.
    pub(crate) fn acquire(&self) -> StorageResult<Option<Arc<Held>>> {
        let client = self.client();
        for _ in 0..TRIES {
            let leases = Leases::of(&self.look(LEASE)?.names);
            let is_gone = || lease::is_gone(client, leases.last, self.quiet, &*self.waits);
            if !leases.is_free() && !is_gone()? {
                return Ok(None);
            }
            let mine = leases.last + 1;
            let in_use = lease::InUse::new();
            if !lease::create(client, mine, &in_use)? {
                continue;
            }
            let mut state = self.shared.state.lock();
            let listed = client.list("", BEHIND_CONTAINERS)?;
            state.names.replace("", "", listed);
            if Leases::of(&state.names).last != mine {
                // It had been taken and tidied away while this process slept.
                return Ok(None);
            }
            self.check_conditions(mine)?;
            takeover::settle(client, &mut state.names, mine)?;
            let held = Arc::new(Held::new(client, mine, in_use, self.beat_every));
            state.lengths.clear();
            state.held = Some(held.clone());
            return Ok(Some(held));
        }
        Ok(None)
    }

    /// The storage could have been changed since the probe: to one that ignores conditions.
    fn check_conditions(&self, mine: u64) -> StorageResult<()> {
        let lease = numbered(LEASE, mine);
        if self.client().is_refused(&lease)? {
            return Ok(());
        }
        // Nobody has written with it. If it stays, the next one waits in vain for a sign of its holder.
        let _ = self.client().delete(&[lease]);
        let reason = format!(
            "it overwrote an object that was to be created only if it is absent, {}",
            probe::NEEDS
        );
        let location = self.client().location();
        Err(StorageError::new("use", location, Error::new(ErrorKind::Unsupported, reason)))
    }

    /// What the engine says of who holds the lease, of the last holder while nobody does.
    pub(crate) fn read_lease(&self) -> StorageResult<Bytes> {
        let held = self.shared.state.lock().held.clone();
        let absent = || StorageError::new("open", LEASE, ErrorKind::NotFound);
        let Some(held) = held else {
            let leases = Leases::of(&self.look(LEASE)?.names);
            return self.last_words(&leases.beats, 0)?.ok_or_else(absent);
        };
        let Some(content) = held.content() else {
            let before = Leases::of(&self.shared.state.lock().names).beats;
            return self.last_words(&before, 0)?.ok_or_else(absent);
        };
        match self.later_leases(&held)? {
            Some(later) => self.last_words(&later.beats, held.number)?.ok_or_else(absent),
            None => Ok(content),
        }
    }

    /// The leases after `held`, if there are any. A look of a moment ago is believed.
    pub(crate) fn later_leases(&self, held: &Held) -> StorageResult<Option<Leases>> {
        if held.is_checked(self.checked_for) {
            return Ok(None);
        }
        let now = Moment::now();
        let mut later = Names::default();
        later.replace("", "", self.client().list(LEASE, &lease::behind(held.number - 1))?);
        let leases = Leases::of(&later);
        if leases.last > held.number {
            return Ok(Some(leases));
        }
        if !later.has(&numbered(LEASE, held.number)) {
            let why = "the lease of this writer is not there any more: somebody deleted it";
            let source = Error::new(ErrorKind::NotConnected, why);
            return Err(StorageError::new("write to", self.client().location(), source));
        }
        held.note_checked(now);
        Ok(None)
    }

    /// What the engine said of the holder of the last lease of `beats` of which it said anything and that is above `floor`.
    fn last_words(&self, beats: &[u64], floor: u64) -> StorageResult<Option<Bytes>> {
        for lease in beats.iter().rev().take_while(|lease| **lease > floor) {
            match lease::read(self.client(), *lease)? {
                Some(content) if !content.is_empty() => return Ok(Some(content)),
                _ => {}
            }
        }
        Ok(None)
    }

    pub(crate) fn put_lease(&self, bytes: &[u8]) -> StorageResult<()> {
        let held = self.shared.state.lock().held.clone();
        match held {
            Some(held) => held.show(bytes),
            None => Err(StorageError::new("write", LEASE, ErrorKind::NotFound)),
        }
    }
}

/// Ends the lease when it goes.
pub(crate) struct Guard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) held: Arc<Held>,
}

impl LockGuard for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.held = None;
        state.unread.clear();
        state.removed.clear();
        state.listed.clear();
        let old = old_objects(&state, self.held.number);
        if !old.is_empty()
            && !self.shared.client.is_uncertain()
            && self.shared.client.delete(&old).is_ok()
        {
            old.iter().for_each(|name| state.names.remove(name));
            // Like these, seldom: nothing is lost if it fails, and the next time comes.
            let _ = uploads::abort(&self.shared.client, uploads::ABANDONED_AFTER);
        }
        self.held.end();
    }
}

/// Objects that nobody needs any more: of rows and leases, but the latest.
fn old_objects(state: &State, mine: u64) -> Vec<String> {
    let mut old = Vec::new();
    for root in ROOTS {
        let numbers: Vec<_> = state.names.below(root).filter_map(number).collect();
        let last = numbers.last().copied().unwrap_or(0);
        let is_old = |number: &u64| numbers.len() > ROOTS_MAX && number + ROOTS_KEPT < last;
        old.extend(numbers.iter().copied().filter(is_old).map(|number| numbered(root, number)));
    }
    let is_settled = |lease| state.ended.as_ref().is_some_and(|(_, ended)| ended.has(lease));
    old.extend(lease::to_tidy(&state.names, mine, is_settled));
    old
}
