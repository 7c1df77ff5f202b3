//! The units of work, in the order in which the consumer will need their results.
//!
//! A linked list. The units that a unit creates (for the directories it found) take its position,
//! so the list is always in the order of the walk, with any number of workers: the first pending
//! unit is the one whose result is needed first. Units that are done leave the list, but keep their
//! slot until the consumer takes the result.

/// Number of a unit: its slot.
pub(super) type UnitId = u32;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
enum State<Job, Output> {
    Free,
    Pending(Job),
    Running,
    Done(Output),
}

#[derive(Debug)]
struct Slot<Job, Output> {
    state: State<Job, Output>,
    before: u32,
    after: u32,
}

/// Only the bookkeeping; waiting is done by the scheduler.
#[derive(Debug)]
pub(super) struct Units<Job, Output> {
    slots: Vec<Slot<Job, Output>>,
    free: Vec<u32>,
    first: u32,
    pending: usize,
}

impl<Job, Output> Units<Job, Output> {
    /// One unit to begin with: its number is 0.
    pub(super) fn starting_with(job: Job) -> Self {
        let slot = Slot { state: State::Pending(job), before: NONE, after: NONE };
        Units { slots: vec![slot], free: Vec::new(), first: 0, pending: 1 }
    }

    fn slot(&mut self, id: u32) -> &mut Slot<Job, Output> {
        &mut self.slots[id as usize]
    }

    fn new_slot(&mut self, slot: Slot<Job, Output>) -> u32 {
        match self.free.pop() {
            Some(id) => {
                *self.slot(id) = slot;
                id
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// A new unit right before one that is being worked on.
    pub(super) fn insert_before(&mut self, running: UnitId, job: Job) -> UnitId {
        let before = self.slot(running).before;
        self.insert_between(before, running, job)
    }

    /// A new unit right after one that is being worked on.
    pub(super) fn insert_after(&mut self, running: UnitId, job: Job) -> UnitId {
        let after = self.slot(running).after;
        self.insert_between(running, after, job)
    }

    fn insert_between(&mut self, before: u32, after: u32, job: Job) -> UnitId {
        self.pending += 1;
        let id = self.new_slot(Slot { state: State::Pending(job), before, after });
        self.link(before, id);
        if after != NONE {
            self.slot(after).before = id;
        }
        id
    }

    fn link(&mut self, before: u32, id: u32) {
        match before {
            NONE => self.first = id,
            _ => self.slot(before).after = id,
        }
    }

    /// Takes the first pending unit. `only_first`: only when it is the very first, the one
    /// that the consumer needs next.
    pub(super) fn claim(&mut self, only_first: bool) -> Option<(UnitId, Job)> {
        let mut id = self.first;
        while id != NONE {
            let slot = self.slot(id);
            match std::mem::replace(&mut slot.state, State::Running) {
                State::Pending(job) => {
                    self.pending -= 1;
                    return Some((id, job));
                }
                other => slot.state = other,
            }
            id = if only_first { NONE } else { slot.after };
        }
        None
    }

    /// The unit is done: it leaves the order, its result waits for the consumer.
    pub(super) fn finish(&mut self, id: UnitId, output: Output) {
        let (before, after) = (self.slot(id).before, self.slot(id).after);
        self.link(before, after);
        if after != NONE {
            self.slot(after).before = before;
        }
        self.slot(id).state = State::Done(output);
    }

    /// The result of a unit, once, if it is done.
    pub(super) fn take(&mut self, id: UnitId) -> Option<Output> {
        let slot = self.slot(id);
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Done(output) => {
                self.free.push(id);
                Some(output)
            }
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// Units that nobody works on yet.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Whether the result is there.
    pub(super) fn is_done(&self, id: UnitId) -> bool {
        matches!(self.slots[id as usize].state, State::Done(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_come_before_what_follows_their_parent() {
        let mut units: Units<&str, ()> = Units::starting_with("top");
        let (top, _) = units.claim(false).unwrap();
        units.insert_after(top, "rest of top");
        units.insert_before(top, "a");
        units.insert_before(top, "b");
        units.finish(top, ());
        let (a, job) = units.claim(true).unwrap();
        assert_eq!(job, "a");
        assert!(units.claim(true).is_none());
        let (b, job) = units.claim(false).unwrap();
        assert_eq!(job, "b");
        units.insert_before(b, "b/x");
        units.finish(b, ());
        units.insert_before(a, "a/x");
        units.finish(a, ());
        let order: Vec<_> = std::iter::from_fn(|| units.claim(false).map(|(_, job)| job)).collect();
        assert_eq!(order, ["a/x", "b/x", "rest of top"]);
    }

    #[test]
    fn slots_are_used_again() {
        let mut units: Units<u32, u32> = Units::starting_with(0);
        for round in 0..100 {
            let (id, _) = units.claim(false).unwrap();
            units.insert_before(id, round);
            units.finish(id, round);
            assert!(units.is_done(id));
            assert_eq!(units.take(id), Some(round));
            assert_eq!(units.take(id), None);
        }
        assert!(units.slots.len() <= 2);
    }
}
