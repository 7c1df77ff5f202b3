//! In which order containers are rewritten. Mostly all at once; on a disk that is nearly full those
//! in which nothing lives come first, and what they give back makes room for the others.

use super::ReclaimOutcome;
use super::plan::Plan;
use super::rewrite::Rewriter;
use crate::{Error, Result};
use ids::ContainerNo;

/// How much is rewritten before anything is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// All.
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
    pace: Pace,
}

/// Rewrites what is condemned, as far as there is room.
pub(super) fn run(
    rewriter: &mut Rewriter<'_, '_>,
    plan: &Plan,
    condemned: &[ContainerNo],
) -> Result<ReclaimOutcome> {
    let (mut done, mut copied) = (Vec::new(), 0);
    let left = plan.by_life(condemned);
    let mut stages = Stages { pace: pace(rewriter, &left)?, left };
    while !stages.left.is_empty() && rewriter.watch.goes_on() {
        let stage = stages.next(rewriter.room()?);
        match rewriter.rewrite(&stage) {
            Ok(bytes) => {
                copied += bytes;
                stages.left.drain(..stage.len());
                done.extend(stage);
            }
            Err(error) if goes_on(rewriter, &mut stages, &error) => {}
            Err(error) => {
                rewriter.pardon(&stages.spared(&stage, rewriter.is_as_before));
                if error.is_full() && !done.is_empty() {
                    break;
                }
                return Err(error);
            }
        }
    }
    rewriter.pardon(&stages.spared(&[], true));
    let containers_left = stages.left.len() as u64;
    Ok(ReclaimOutcome { containers_left, ..plan.outcome_of(&done, copied) })
}

/// Whether there seems to be room for everything at once.
fn pace(rewriter: &Rewriter<'_, '_>, left: &[(ContainerNo, u64)]) -> Result<Pace> {
    let live: u64 = left.iter().map(|(_, bytes)| bytes).sum();
    let is_enough = rewriter.room()? >= live.saturating_add(rewriter.repository.index_room());
    Ok(if is_enough { Pace::Whole } else { Pace::Parts })
}

/// Whether less at once, or the room that is kept for this, may help.
fn goes_on(rewriter: &Rewriter<'_, '_>, stages: &mut Stages, error: &Error) -> bool {
    let can = error.is_full() && rewriter.is_as_before;
    can && (stages.goes_slower() || rewriter.release_reserve().unwrap_or(false))
}

impl Stages {
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
            Pace::Whole => self.left.len(),
            _ if dead > 0 => dead,
            Pace::Singly => 1,
            Pace::Parts => self.fit(room / 2).max(1),
        }
    }

    fn fit(&self, room: u64) -> usize {
        let mut sum = 0u64;
        let fits = |(_, live): &&(ContainerNo, u64)| {
            sum = sum.saturating_add(*live);
            sum <= room
        };
        self.left.iter().take_while(fits).count()
    }

    /// What is still as it was: all but a `stage` that changed something before it failed.
    fn spared(&self, stage: &[ContainerNo], is_as_before: bool) -> Vec<ContainerNo> {
        let left = self.left.iter().map(|(number, _)| *number);
        left.filter(|number| is_as_before || !stage.contains(number)).collect()
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
        Stages { left, pace }
    }

    #[test]
    fn with_little_room_the_dead_go_first() {
        let numbers = |stage: Vec<ContainerNo>| stage.iter().map(|it| it.0).collect::<Vec<_>>();
        let all = [(7, 0), (9, 0), (2, 10), (8, 20), (1, 50)];
        assert_eq!(numbers(stages(Pace::Whole, &all).next(0)), [1, 2, 7, 8, 9]);
        assert_eq!(numbers(stages(Pace::Parts, &all).next(1 << 20)), [7, 9]);
        let alive = &all[2..];
        assert_eq!(numbers(stages(Pace::Parts, alive).next(60)), [2, 8], "half of the room");
        assert_eq!(numbers(stages(Pace::Parts, alive).next(0)), [2], "never nothing");
        assert_eq!(numbers(stages(Pace::Singly, alive).next(1 << 20)), [2]);
    }

    #[test]
    fn it_goes_slower_twice() {
        let mut stages = stages(Pace::Whole, &[(1, 1)]);
        assert!(stages.goes_slower() && stages.goes_slower());
        assert!(!stages.goes_slower());
    }
}
