//! Several parts of a long run at the same time: each lane takes the next part that nobody has taken.

use super::parts::{Part, What};
use super::record::Record;
use super::{Outcome, minutes};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, RwLock};

/// All parts, and what they share.
struct Lanes<'a, Run> {
    parts: &'a [&'a Part],
    outcomes: Vec<OnceLock<Outcome>>,
    next: AtomicUsize,
    /// Written by a part that must be alone.
    machine: RwLock<()>,
    record: Mutex<Record>,
    run: Run,
}

/// Runs what the run that was stopped has not done, `at_once` parts at the same time. The outcomes are in the order of
/// `parts`.
pub(super) fn run_all<Run: Fn(&Part) -> Outcome + Sync>(
    parts: &[&Part],
    record: Record,
    at_once: u64,
    run: Run,
) -> Result<(Vec<Outcome>, Record), String> {
    let lanes = Lanes {
        parts,
        outcomes: parts.iter().map(|part| before(&record, part)).collect(),
        next: AtomicUsize::new(0),
        machine: RwLock::new(()),
        record: Mutex::new(record),
        run,
    };
    std::thread::scope(|scope| {
        let lane = |_| scope.spawn(|| lanes.take_parts());
        let all: Vec<_> = (0..at_once.max(1)).map(lane).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| "a lane panicked".to_owned())?)
    })?;
    let outcomes: Vec<_> = lanes.outcomes.into_iter().filter_map(OnceLock::into_inner).collect();
    let record = lanes.record.into_inner().map_err(|error| error.to_string())?;
    Ok((outcomes, record))
}

/// How `part` ended in the run that was stopped, if it did.
fn before(record: &Record, part: &Part) -> OnceLock<Outcome> {
    let Some(outcome) = record.outcome(part) else { return OnceLock::new() };
    println!("== {}: {}, in the run that was stopped", part.name, outcome.word());
    outcome.into()
}

impl<Run: Fn(&Part) -> Outcome> Lanes<'_, Run> {
    fn take_parts(&self) -> Result<(), String> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let (Some(part), Some(place)) = (self.parts.get(number), self.outcomes.get(number))
            else {
                return Ok(());
            };
            if place.get().is_none() {
                let outcome = self.run_and_print(part);
                if !matches!(part.what, What::Remembers(_)) {
                    self.record.lock().map_err(|error| error.to_string())?.note(part, &outcome)?;
                }
                let _ = place.set(outcome);
            }
        }
    }

    fn run_and_print(&self, part: &Part) -> Outcome {
        // A poisoned lock guards nothing here: the lane that panicked is told at the end.
        let _alone = part.is_alone.then(|| self.machine.write());
        let _beside = (!part.is_alone).then(|| self.machine.read());
        println!("== {}", part.name);
        let outcome = (self.run)(part);
        println!(
            "== {}: {}, {} ({} min)",
            part.name,
            outcome.word(),
            outcome.said,
            minutes(outcome.seconds)
        );
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::Folder;
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU64;

    const fn part(name: &'static str, is_alone: bool) -> Part {
        Part { name, share: 0, what: What::Whole(&["true"]), is_alone, of: &[] }
    }

    const PARTS: [Part; 5] =
        [part("a", false), part("b", false), part("c", true), part("d", false), part("e", false)];

    fn outcome(part: &Part) -> Outcome {
        let said = part.name.to_owned();
        Outcome { name: part.name, seconds: 1, is_well: true, skipped: Vec::new(), said }
    }

    fn record_in(folder: &Folder) -> Record {
        folder.open("abc", 60)
    }

    fn names(outcomes: &[Outcome]) -> Vec<&str> {
        outcomes.iter().map(|outcome| outcome.name).collect()
    }

    #[test]
    fn parts_run_beside_each_other_but_for_one_that_must_be_alone() {
        let folder = Folder::new("lanes");
        let parts: Vec<&Part> = PARTS.iter().collect();
        let (both, running) = (Barrier::new(2), AtomicU64::new(0));
        let run = |part: &Part| {
            let beside = running.fetch_add(1, Ordering::SeqCst);
            if part.is_alone {
                assert_eq!(beside, 0, "something runs beside {}", part.name);
                std::thread::sleep(std::time::Duration::from_millis(50));
                assert_eq!(running.load(Ordering::SeqCst), 1);
            } else {
                // Ends only when another one runs.
                both.wait();
            }
            running.fetch_sub(1, Ordering::SeqCst);
            outcome(part)
        };
        let outcomes = run_all(&parts, record_in(&folder), 2, run).unwrap().0;
        assert_eq!(names(&outcomes), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn what_remembers_by_itself_is_asked_in_every_run() {
        let folder = Folder::new("lanes-remembers");
        let part = Part { what: What::Remembers(&["true"]), ..part("rows", false) };
        let asked = AtomicU64::new(0);
        let run = |part: &Part| {
            asked.fetch_add(1, Ordering::Relaxed);
            outcome(part)
        };
        let parts = [&part];
        let lanes = |record| Lanes {
            parts: &parts,
            outcomes: vec![before(&record, &part)],
            next: AtomicUsize::new(0),
            machine: RwLock::new(()),
            record: Mutex::new(record),
            run,
        };
        for _ in 0..2 {
            lanes(record_in(&folder)).take_parts().unwrap();
        }
        assert_eq!(asked.into_inner(), 2);
    }

    #[test]
    fn only_what_had_not_ended_runs_again() {
        let folder = Folder::new("lanes-again");
        let parts: Vec<&Part> = PARTS.iter().collect();
        let mut record = record_in(&folder);
        record.note(&PARTS[1], &outcome(&PARTS[1])).unwrap();
        record.note(&PARTS[3], &outcome(&PARTS[3])).unwrap();
        drop(record);
        let ran = Mutex::new(Vec::new());
        let run = |part: &Part| {
            ran.lock().unwrap().push(part.name);
            outcome(part)
        };
        let outcomes = run_all(&parts, record_in(&folder), 1, run).unwrap().0;
        assert_eq!(*ran.lock().unwrap(), ["a", "c", "e"]);
        assert_eq!(names(&outcomes), ["a", "b", "c", "d", "e"]);
    }
}
