//! In which order containers are rewritten, and how many at once: each stage is durable by itself and gives its space
//! back before the next begins. On a disk that is nearly full, containers in which nothing lives come first, and what
//! they give back makes room for the others.

use super::ReclaimOutcome;
use super::plan::Plan;
use super::rewrite::Rewriter;
use crate::{Error, Repository, Result};
use ids::ContainerNo;
use rustc_hash::FxHashSet;

/// What a stage copies at most, in containers: 256 MiB.
const CONTAINERS: u64 = 4;
/// Each stage writes the index anew. It copies as many times the bytes of that, if this is more: so the index costs
/// at most an eighth of what is copied.
const INDEXES: u64 = 8;

/// How much is rewritten before anything is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// A whole stage.
    Whole,
    /// First where nothing lives, then as much as fits into half of the room.
    Parts,
    /// First where nothing lives, then one container after the other.
    Singly,
}

/// What is still to be rewritten.
struct Stages {
    /// Containers with the bytes that live in them by estimate, the fewest first.
    left: Vec<(ContainerNo, u64)>,
    /// Those that sessions have pinned.
    draining: Vec<ContainerNo>,
    pace: Pace,
    /// What a stage copies at most.
    bytes_max: u64,
}

/// Rewrites what is planned, as far as there is room and no session relies on it.
pub(super) fn run(rewriter: &mut Rewriter<'_, '_>, plan: &Plan) -> Result<ReclaimOutcome> {
    let candidates = plan.candidates();
    rewriter.cold = plan.cold();
    rewriter.drain_only(&candidates);
    let mut stages = Stages::new(rewriter, plan.by_life(&candidates))?;
    let (mut done, mut copied) = (Vec::new(), 0);
    while stages.goes_on(rewriter, plan) {
        let stage = stages.next(rewriter.room()?);
        let mut condemned = rewriter.condemn(&stage)?;
        stages.set_aside(&stage, &condemned);
        let revived = rewriter.revived(&condemned)?;
        rewriter.pardon(&revived);
        stages.remove(&revived);
        condemned.retain(|number| !revived.contains(number));
        if condemned.is_empty() {
            continue;
        }
        match rewriter.rewrite(&condemned) {
            Ok(bytes) => {
                copied += bytes;
                stages.remove(&condemned);
                done.extend(condemned);
            }
            Err(error) => {
                if rewriter.is_as_before {
                    rewriter.pardon(&condemned);
                }
                if stages.can_go_on(rewriter, &error) {
                    continue;
                }
                if error.is_full() && !done.is_empty() {
                    break;
                }
                return Err(error);
            }
        }
    }
    let containers_left = stages.left.len() as u64;
    Ok(ReclaimOutcome { containers_left, ..plan.outcome_of(&done, copied) })
}

/// Bytes that a stage copies at most.
fn bytes_max(repository: &Repository) -> u64 {
    let containers = CONTAINERS.saturating_mul(repository.container_bytes());
    // Tests make containers small, so that little data makes many stages.
    if repository.is_stepwise() {
        return containers;
    }
    containers.max(INDEXES.saturating_mul(repository.index_room()))
}

impl Stages {
    fn new(rewriter: &Rewriter<'_, '_>, left: Vec<(ContainerNo, u64)>) -> Result<Self> {
        let bytes_max = bytes_max(rewriter.repository);
        let live: u64 = left.iter().map(|(_, bytes)| bytes).sum();
        let needed = live.min(bytes_max).saturating_add(rewriter.repository.index_room());
        let pace = if rewriter.room()? >= needed { Pace::Whole } else { Pace::Parts };
        Ok(Self { left, draining: Vec::new(), pace, bytes_max })
    }

    /// Whether there is more to do, and nobody ends it. What has drained meanwhile comes last.
    fn goes_on(&mut self, rewriter: &Rewriter<'_, '_>, plan: &Plan) -> bool {
        if self.left.is_empty() {
            let free: FxHashSet<_> = rewriter.unpinned(&self.draining).into_iter().collect();
            self.draining.retain(|number| !free.contains(number));
            self.left = plan.by_life(&free.into_iter().collect::<Vec<_>>());
        }
        !self.left.is_empty() && rewriter.watch.goes_on()
    }

    /// Those of `stage` that were not condemned wait until their sessions end.
    fn set_aside(&mut self, stage: &[ContainerNo], condemned: &[ContainerNo]) {
        let condemned: FxHashSet<_> = condemned.iter().collect();
        let pinned = stage.iter().copied().filter(|number| !condemned.contains(number));
        let pinned: Vec<_> = pinned.collect();
        self.remove(&pinned);
        self.draining.extend(pinned);
    }

    fn remove(&mut self, containers: &[ContainerNo]) {
        let gone: FxHashSet<_> = containers.iter().collect();
        self.left.retain(|(number, _)| !gone.contains(number));
    }

    /// Whether less at once, or the room that is kept for this, may help.
    fn can_go_on(&mut self, rewriter: &Rewriter<'_, '_>, error: &Error) -> bool {
        let can = error.is_full() && rewriter.is_as_before;
        can && (self.goes_slower() || rewriter.release_reserve().unwrap_or(false))
    }

    /// What is rewritten next, while so many bytes are free.
    fn next(&self, room: u64) -> Vec<ContainerNo> {
        let mut stage: Vec<_> =
            self.left.iter().take(self.count(room)).map(|(number, _)| *number).collect();
        stage.sort_unstable();
        stage
    }

    fn count(&self, room: u64) -> usize {
        let dead = self.left.iter().filter(|(_, live)| *live == 0).count();
        match self.pace {
            Pace::Whole => self.fit(self.bytes_max).max(1),
            _ if dead > 0 => dead,
            Pace::Singly => 1,
            Pace::Parts => self.fit(self.bytes_max.min(room / 2)).max(1),
        }
    }

    fn fit(&self, bytes: u64) -> usize {
        let mut sum = 0u64;
        let fits = |(_, live): &&(ContainerNo, u64)| {
            sum = sum.saturating_add(*live);
            sum <= bytes
        };
        self.left.iter().take_while(fits).count()
    }

    /// Takes less at once; `false` when it does so already.
    fn goes_slower(&mut self) -> bool {
        let slower = match self.pace {
            Pace::Whole => Pace::Parts,
            Pace::Parts | Pace::Singly => Pace::Singly,
        };
        std::mem::replace(&mut self.pace, slower) != slower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(pace: Pace, left: &[(u64, u64)]) -> Stages {
        let left = left.iter().map(|(number, live)| (ContainerNo(*number), *live)).collect();
        Stages { left, draining: Vec::new(), pace, bytes_max: 100 }
    }

    const ALL: [(u64, u64); 6] = [(7, 0), (9, 0), (2, 10), (8, 20), (1, 50), (3, 60)];

    fn numbers(stage: Vec<ContainerNo>) -> Vec<u64> {
        stage.iter().map(|it| it.0).collect()
    }

    #[test]
    fn a_stage_copies_no_more_than_its_bytes() {
        let mut stages = stages(Pace::Whole, &ALL);
        let first = stages.next(0);
        assert_eq!(numbers(first.clone()), [1, 2, 7, 8, 9]);
        stages.remove(&first);
        assert_eq!(numbers(stages.next(0)), [3]);
        stages.bytes_max = 1;
        assert_eq!(numbers(stages.next(0)), [3], "never nothing");
    }

    #[test]
    fn with_little_room_the_dead_go_first() {
        assert_eq!(numbers(stages(Pace::Parts, &ALL).next(1 << 20)), [7, 9]);
        let alive = &ALL[2..];
        assert_eq!(numbers(stages(Pace::Parts, alive).next(60)), [2, 8], "half of the room");
        assert_eq!(numbers(stages(Pace::Parts, alive).next(0)), [2], "never nothing");
        assert_eq!(numbers(stages(Pace::Singly, alive).next(1 << 20)), [2]);
    }

    #[test]
    fn what_is_pinned_is_set_aside() {
        let mut stages = stages(Pace::Whole, &ALL[..3]);
        let [pinned, free] = [7, 9].map(ContainerNo);
        stages.set_aside(&[pinned, free], &[free]);
        assert_eq!(stages.draining, [pinned]);
        assert_eq!(numbers(stages.next(0)), [2, 9]);
    }

    #[test]
    fn it_goes_slower_twice() {
        let mut stages = stages(Pace::Whole, &[(1, 1)]);
        assert!(stages.goes_slower() && stages.goes_slower());
        assert!(!stages.goes_slower());
    }
}
