//! What running sessions rely on, so that reclaim in the same process leaves it alone.
//!
//! Pins are kept per container: a session that was told "it is there" of anything in a container
//! keeps the whole of it. Snapshots that a session builds on are pinned as roots.

use crate::guard::{Guard, guarded};
use ids::{ContainerNo, ObjectId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Number of a session in this process.
pub(crate) type SessionNo = u64;

/// What one session relies on.
#[derive(Default)]
struct Pinned {
    containers: FxHashSet<ContainerNo>,
    root: Option<ObjectId>,
    /// The lowest container number that it was given: none from here on is settled.
    first_container: Option<u64>,
}

/// All pins of the process.
#[derive(Default)]
pub(crate) struct Pins {
    sessions: FxHashMap<SessionNo, Pinned>,
    condemned: FxHashSet<ContainerNo>,
    next: SessionNo,
    /// The lowest container number of a session that ended without a commit: the next lease
    /// settles what it left.
    abandoned: Option<u64>,
}

impl Pins {
    /// Registers a session that builds on the snapshot tree `root`.
    pub(crate) fn begin(&mut self, root: Option<ObjectId>) -> SessionNo {
        self.next += 1;
        self.sessions.insert(self.next, Pinned { root, ..Pinned::default() });
        self.next
    }

    /// Forgets a session.
    pub(crate) fn end(&mut self, session: SessionNo, committed: bool) {
        let ended = self.sessions.remove(&session);
        let left = ended.and_then(|pinned| pinned.first_container).filter(|_| !committed);
        self.abandoned = self.abandoned.into_iter().chain(left).min();
    }

    /// What abandoned sessions left is in the index now.
    pub(crate) fn settled(&mut self) {
        self.abandoned = None;
    }

    /// Pins `container` for `session`; `false` when it is condemned and so counts as gone.
    pub(crate) fn pin(&mut self, session: SessionNo, container: ContainerNo) -> bool {
        if self.condemned.contains(&container) && guarded(Guard::Condemned) {
            return false;
        }
        if guarded(Guard::Pin) {
            self.sessions.entry(session).or_default().containers.insert(container);
        }
        true
    }

    /// Notes that `session` writes the container `number`.
    pub(crate) fn writes(&mut self, session: SessionNo, number: u64) {
        let pinned = self.sessions.entry(session).or_default();
        pinned.first_container.get_or_insert(number);
    }

    /// The lowest container number that is not settled: written by a session other than `but`,
    /// or left behind by one.
    pub(crate) fn first_unsettled(&self, but: Option<SessionNo>) -> Option<u64> {
        if !guarded(Guard::UnfinishedContainers) {
            return None;
        }
        let others = self.sessions.iter().filter(|(number, _)| Some(**number) != but);
        others.filter_map(|(_, pinned)| pinned.first_container).chain(self.abandoned).min()
    }

    /// Trees that sessions build on.
    pub(crate) fn roots(&self) -> Vec<ObjectId> {
        let roots = self.sessions.values().filter_map(|pinned| pinned.root);
        roots.filter(|_| guarded(Guard::BasePin)).collect()
    }

    /// Condemns those of `candidates` that nobody pinned, and returns them. From now on no
    /// session is told that anything lies in them.
    pub(crate) fn condemn(&mut self, candidates: &[ContainerNo]) -> Vec<ContainerNo> {
        let pinned = |number: &ContainerNo| {
            self.sessions.values().any(|session| session.containers.contains(number))
        };
        let free: Vec<_> = candidates.iter().copied().filter(|number| !pinned(number)).collect();
        self.condemned.extend(&free);
        free
    }

    /// Takes a condemnation back: nothing was deleted.
    pub(crate) fn pardon(&mut self, containers: &[ContainerNo]) {
        containers.iter().for_each(|number| {
            self.condemned.remove(number);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_was_promised_is_not_condemned() {
        let mut pins = Pins::default();
        let session = pins.begin(None);
        assert!(pins.pin(session, ContainerNo(1)));
        assert_eq!(pins.condemn(&[ContainerNo(1), ContainerNo(2)]), [ContainerNo(2)]);
        assert!(!pins.pin(session, ContainerNo(2)), "what is condemned is not promised");
        pins.end(session, true);
        assert_eq!(pins.condemn(&[ContainerNo(1)]), [ContainerNo(1)]);
    }
}
