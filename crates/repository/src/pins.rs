//! What running sessions rely on and what they write, so that reclaim in the same process leaves it alone.
//!
//! Pins are kept per container: a session that was told "it is there" of anything in a container keeps the whole of
//! it. Snapshots that a session builds on are pinned as roots. A container that reclaim wants and a session has pinned
//! drains: nobody else is told of anything in it any more, so the last pin goes with the sessions of now.

use crate::guard::{Guard, guarded};
use ids::{ContainerNo, ObjectId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Number of a session in this process.
pub(crate) type SessionNo = u64;

/// What one session relies on, and what it writes.
#[derive(Default)]
struct Pinned {
    containers: FxHashSet<ContainerNo>,
    root: Option<ObjectId>,
    /// The container numbers that it was given, used or not.
    writes: BTreeSet<ContainerNo>,
}

/// All pins of the process.
#[derive(Default)]
pub(crate) struct Pins {
    sessions: FxHashMap<SessionNo, Pinned>,
    condemned: FxHashSet<ContainerNo>,
    draining: FxHashSet<ContainerNo>,
    next: SessionNo,
    /// Container numbers of sessions that ended without a commit: the next lease settles what they left.
    abandoned: BTreeSet<ContainerNo>,
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
        let left = ended.filter(|_| !committed).map(|pinned| pinned.writes);
        self.abandoned.extend(left.into_iter().flatten());
    }

    /// What abandoned sessions left is in the index now.
    pub(crate) fn settled(&mut self) {
        self.abandoned.clear();
    }

    /// Pins `container` for `session`; `false` when it is condemned, or drains, and so counts as gone.
    pub(crate) fn pin(&mut self, session: SessionNo, container: ContainerNo) -> bool {
        if self.condemned.contains(&container) && guarded(Guard::Condemned) {
            return false;
        }
        let pinned = self.sessions.entry(session).or_default();
        let drains = self.draining.contains(&container) && !pinned.containers.contains(&container);
        if drains && guarded(Guard::Drain) {
            return false;
        }
        if guarded(Guard::Pin) {
            pinned.containers.insert(container);
        }
        true
    }

    /// Notes that `session` writes the container `number`.
    pub(crate) fn writes(&mut self, session: SessionNo, number: ContainerNo) {
        self.sessions.entry(session).or_default().writes.insert(number);
    }

    /// The containers that sessions write, or left behind.
    pub(crate) fn unsettled(&self) -> FxHashSet<ContainerNo> {
        if !guarded(Guard::OpenContainers) {
            return FxHashSet::default();
        }
        let written = self.sessions.values().flat_map(|pinned| &pinned.writes);
        written.chain(&self.abandoned).copied().collect()
    }

    /// The lowest of them, without those of the session `but`.
    pub(crate) fn first_unsettled(&self, but: Option<SessionNo>) -> Option<ContainerNo> {
        if !guarded(Guard::UnfinishedContainers) {
            return None;
        }
        let others = self.sessions.iter().filter(|(number, _)| Some(**number) != but);
        let firsts = others.filter_map(|(_, pinned)| pinned.writes.first());
        firsts.chain(self.abandoned.first()).min().copied()
    }

    /// Trees that sessions build on.
    pub(crate) fn roots(&self) -> Vec<ObjectId> {
        let roots = self.sessions.values().filter_map(|pinned| pinned.root);
        roots.filter(|_| guarded(Guard::BasePin)).collect()
    }

    /// Condemns those of `candidates` that nobody pinned, and returns them: no session is told that anything lies in
    /// them. The others drain.
    pub(crate) fn condemn(&mut self, candidates: &[ContainerNo]) -> Vec<ContainerNo> {
        let (pinned, free): (Vec<_>, Vec<_>) =
            candidates.iter().copied().partition(|number| self.is_pinned(*number));
        self.draining.extend(pinned);
        free.iter().for_each(|number| {
            self.draining.remove(number);
        });
        self.condemned.extend(&free);
        free
    }

    /// Whether a session relies on anything in `container`.
    pub(crate) fn is_pinned(&self, container: ContainerNo) -> bool {
        self.sessions.values().any(|session| session.containers.contains(&container))
    }

    /// Takes a condemnation back: nothing was deleted.
    pub(crate) fn pardon(&mut self, containers: &[ContainerNo]) {
        containers.iter().for_each(|number| {
            self.condemned.remove(number);
        });
    }

    /// Of what drains, only `containers` still do.
    pub(crate) fn drain_only(&mut self, containers: &[ContainerNo]) {
        let containers: FxHashSet<_> = containers.iter().collect();
        self.draining.retain(|number| containers.contains(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ContainerNo = ContainerNo(1);
    const TWO: ContainerNo = ContainerNo(2);

    #[test]
    fn what_a_session_was_promised_is_not_condemned() {
        let mut pins = Pins::default();
        let session = pins.begin(None);
        assert!(pins.pin(session, ONE));
        assert_eq!(pins.condemn(&[ONE, TWO]), [TWO]);
        assert!(!pins.pin(session, TWO), "what is condemned is not promised");
        pins.end(session, true);
        assert_eq!(pins.condemn(&[ONE]), [ONE]);
    }

    #[test]
    fn what_drains_is_promised_to_nobody_else() {
        let mut pins = Pins::default();
        let before = pins.begin(None);
        assert!(pins.pin(before, ONE) && pins.condemn(&[ONE]).is_empty());
        let after = pins.begin(None);
        assert!(!pins.pin(after, ONE), "it would never be free");
        assert!(pins.pin(before, ONE), "who relies on it goes on to do so");
        pins.end(before, true);
        assert!(!pins.is_pinned(ONE));
        pins.drain_only(&[]);
        assert!(pins.pin(after, ONE), "nobody wants it any more");
    }

    #[test]
    fn what_a_session_writes_is_unsettled_and_what_others_wrote_after_it_is_not() {
        let mut pins = Pins::default();
        let (open, other) = (pins.begin(None), pins.begin(None));
        pins.writes(open, ONE);
        pins.writes(other, TWO);
        pins.end(other, true);
        assert_eq!(pins.unsettled(), FxHashSet::from_iter([ONE]));
        assert_eq!(pins.first_unsettled(Some(open)), None);
        pins.end(open, false);
        assert_eq!(pins.first_unsettled(None), Some(ONE), "it left something behind");
        pins.settled();
        assert!(pins.unsettled().is_empty());
    }
}
