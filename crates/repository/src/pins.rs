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
    /// Those of them that the index does not know.
    unindexed: BTreeSet<ContainerNo>,
}

/// The containers that the next state of the index knows, in addition to those that it knows now.
#[derive(Clone, Copy)]
pub(crate) enum Covered<'a> {
    Nothing,
    /// All that a session was given.
    AllOf(SessionNo),
    /// These of a session.
    These(SessionNo, &'a BTreeSet<ContainerNo>),
    /// These of those that were left behind.
    Abandoned(&'a BTreeSet<ContainerNo>),
}

impl Covered<'_> {
    /// Whether `session` was given `number` and the index will know it.
    fn has(&self, session: SessionNo, number: &ContainerNo) -> bool {
        match self {
            Self::AllOf(whole) => *whole == session,
            Self::These(of, numbers) => *of == session && numbers.contains(number),
            Self::Nothing | Self::Abandoned(_) => false,
        }
    }

    /// The same of what was left behind.
    fn has_abandoned(&self, number: &ContainerNo) -> bool {
        matches!(self, Self::Abandoned(numbers) if numbers.contains(number))
    }
}

/// All pins of the process.
#[derive(Default)]
pub(crate) struct Pins {
    sessions: FxHashMap<SessionNo, Pinned>,
    condemned: FxHashSet<ContainerNo>,
    draining: FxHashSet<ContainerNo>,
    next: SessionNo,
    /// Container numbers of sessions that ended without a commit, as far as the index does not know them: the next
    /// lease settles what they left.
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
        let left = ended.filter(|_| !committed).map(|pinned| pinned.unindexed);
        self.abandoned.extend(left.into_iter().flatten());
    }

    /// What abandoned sessions left is in the index now.
    pub(crate) fn settled(&mut self) {
        self.abandoned.clear();
    }

    /// A writer that died left `numbers` behind.
    pub(crate) fn abandon(&mut self, numbers: impl IntoIterator<Item = ContainerNo>) {
        self.abandoned.extend(numbers);
    }

    /// The index knows what `covered` says.
    pub(crate) fn indexed(&mut self, covered: Covered<'_>) {
        for (session, pinned) in &mut self.sessions {
            pinned.unindexed.retain(|number| !covered.has(*session, number));
        }
        self.abandoned.retain(|number| !covered.has_abandoned(number));
    }

    /// The containers of `session` of which the index does not know.
    pub(crate) fn unindexed(&self, session: SessionNo) -> BTreeSet<ContainerNo> {
        self.sessions.get(&session).map(|pinned| pinned.unindexed.clone()).unwrap_or_default()
    }

    /// The containers that `session` writes.
    pub(crate) fn written_by(&self, session: SessionNo) -> BTreeSet<ContainerNo> {
        self.sessions.get(&session).map(|pinned| pinned.writes.clone()).unwrap_or_default()
    }

    /// The containers in which something lies that `session` was told of.
    pub(crate) fn relied_on(&self, session: SessionNo) -> Vec<ContainerNo> {
        let pinned = self.sessions.get(&session);
        pinned.map(|pinned| pinned.containers.iter().copied().collect()).unwrap_or_default()
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
        let pinned = self.sessions.entry(session).or_default();
        pinned.writes.insert(number);
        pinned.unindexed.insert(number);
    }

    /// The containers that sessions write, or left behind.
    pub(crate) fn unsettled(&self) -> FxHashSet<ContainerNo> {
        if !guarded(Guard::OpenContainers) {
            return FxHashSet::default();
        }
        let written = self.sessions.values().flat_map(|pinned| &pinned.writes);
        written.chain(&self.abandoned).copied().collect()
    }

    /// The containers in which something lies that running sessions rely on, or stored themselves.
    pub(crate) fn needed(&self) -> FxHashSet<ContainerNo> {
        if !guarded(Guard::NeededRows) {
            return FxHashSet::default();
        }
        let pinned = self.sessions.values();
        pinned.flat_map(|pinned| pinned.containers.iter().chain(&pinned.writes)).copied().collect()
    }

    /// The lowest of which the index does not know, nor will by `covered`.
    pub(crate) fn first_unindexed(&self, covered: Covered<'_>) -> Option<ContainerNo> {
        if !guarded(Guard::UnfinishedContainers) {
            return None;
        }
        let firsts = self.sessions.iter().filter_map(|(session, pinned)| {
            pinned.unindexed.iter().find(|number| !covered.has(*session, number))
        });
        let left = self.abandoned.iter().find(|number| !covered.has_abandoned(number));
        firsts.chain(left).min().copied()
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

    /// What lay in `gone` lies in `others` now: who relies on any of the former relies on all of the latter.
    pub(crate) fn follow(&mut self, gone: &[ContainerNo], others: &BTreeSet<ContainerNo>) {
        for pinned in self.sessions.values_mut() {
            if gone.iter().any(|number| pinned.containers.contains(number)) {
                pinned.containers.extend(others);
            }
        }
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
    fn who_relies_on_what_was_moved_relies_on_where_it_is() {
        let mut pins = Pins::default();
        let (one, two) = (pins.begin(None), pins.begin(None));
        assert!(pins.pin(one, ONE));
        pins.follow(&[ONE], &BTreeSet::from([TWO]));
        assert_eq!(pins.condemn(&[TWO]), []);
        pins.end(one, true);
        assert_eq!(pins.condemn(&[TWO]), [TWO], "nobody else relied on it");
        pins.end(two, true);
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
        assert_eq!(pins.first_unindexed(Covered::AllOf(open)), None);
        pins.end(open, false);
        assert_eq!(pins.first_unindexed(Covered::Nothing), Some(ONE), "it left something behind");
        pins.settled();
        assert!(pins.unsettled().is_empty());
    }

    #[test]
    fn what_the_index_knows_of_an_open_session_is_unsettled_and_holds_nothing_up() {
        let mut pins = Pins::default();
        let open = pins.begin(None);
        pins.writes(open, ONE);
        pins.writes(open, TWO);
        let one = BTreeSet::from([ONE]);
        assert_eq!(pins.first_unindexed(Covered::Nothing), Some(ONE));
        assert_eq!(pins.first_unindexed(Covered::These(open, &one)), Some(TWO));
        pins.indexed(Covered::These(open, &one));
        assert_eq!(pins.first_unindexed(Covered::Nothing), Some(TWO));
        assert_eq!(
            pins.unsettled(),
            FxHashSet::from_iter([ONE, TWO]),
            "its snapshot may need both"
        );
        pins.end(open, false);
        assert_eq!(pins.unsettled(), FxHashSet::from_iter([TWO]), "the index knows the other");
        pins.indexed(Covered::Abandoned(&BTreeSet::from([TWO])));
        assert_eq!(pins.first_unindexed(Covered::Nothing), None);
    }
}
