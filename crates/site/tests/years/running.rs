//! The runs of one node: each is started once, or told as missed.

use crate::declared::{self, Declared};
use clock::Reading;
use schedule::{Failed, Missed, Next, Situation, Start, Timetable};
use std::collections::BTreeSet;
use testkit::Random;

/// The schedule of a node, and what has become of its runs.
pub(crate) struct Runs {
    timetable: Timetable,
    begin: i64,
    known: Situation,
    /// The run, and when it ends in the time of the world.
    running: Option<(Start, i64)>,
    /// When to ask again, by the clock.
    wake_secs: i64,
    /// What the clock is ahead of the world.
    ahead_secs: i64,
    started: BTreeSet<i64>,
    pub(crate) missed: BTreeSet<i64>,
    pub(crate) retried: usize,
}

impl Runs {
    pub(crate) fn new(declared: &Declared, begin: i64) -> Self {
        let schedule = declared.site.schedules["due"].clone();
        let zone = declared::zones(&schedule.zone.0).unwrap();
        Self {
            timetable: Timetable::new(schedule, zone).unwrap(),
            begin,
            known: Situation { settled_secs: begin, is_seen: true, ..Situation::default() },
            running: None,
            wake_secs: begin,
            ahead_secs: 0,
            started: BTreeSet::new(),
            missed: BTreeSet::new(),
            retried: 0,
        }
    }

    /// When something happens next, in the time of the world: within a day, because clocks change.
    pub(crate) fn next_secs(&self, world_secs: i64) -> i64 {
        let next = match &self.running {
            Some((_, ends)) => *ends,
            None => self.wake_secs - self.ahead_secs,
        };
        next.min(world_secs + crate::DAY)
    }

    pub(crate) fn is_over(&self, world_secs: i64) -> bool {
        self.running.as_ref().is_some_and(|(_, ends)| *ends <= world_secs)
    }

    pub(crate) fn fail_all(&mut self, now_secs: i64) {
        let Some((start, _)) = self.running.take() else { return };
        let (due_secs, attempts) = (start.due_secs, start.attempt);
        self.known.failed = Some(Failed { due_secs, attempts, ended_secs: now_secs });
    }

    pub(crate) fn succeed(&mut self, now_secs: i64) {
        self.running = None;
        (self.known.failed, self.known.last_complete_secs) = (None, Some(now_secs));
    }

    /// Asks until nothing more is to be done now.
    pub(crate) fn tick(&mut self, node: &str, now: Reading, world_secs: i64, random: &mut Random) {
        self.ahead_secs = now.secs - world_secs;
        loop {
            self.known.is_running = self.running.is_some();
            let decision = self.timetable.decide(node, now, &self.known);
            assert!(decision.settled_secs >= self.known.settled_secs, "what is settled stays so");
            self.known.settled_secs = decision.settled_secs;
            for one in &decision.missed {
                assert!(!self.started.contains(&one.due_secs), "{one:?} is missed and was started");
                assert!(self.missed.insert(one.due_secs), "{one:?} is missed twice");
            }
            match decision.next {
                Next::Due(start) => self.start(start, now, world_secs + random.signed(5 * 3600)),
                Next::NotBefore(secs) if secs <= now.secs => continue,
                Next::NotBefore(secs) => self.wake_secs = secs,
                Next::Waiting(_) => self.wake_secs = i64::MAX,
            }
            return;
        }
    }

    fn start(&mut self, start: Start, now: Reading, ends: i64) {
        assert!(self.running.is_none(), "{start:?}: two runs at once");
        assert!((start.due_secs..start.until_secs).contains(&now.secs), "{start:?}: not in time");
        assert!(!self.missed.contains(&start.due_secs), "{start:?}: was missed");
        let skips = self.timetable.schedule().missed == Missed::Skip;
        assert!(!(skips && start.is_late), "{start:?}: makes up for what was to be skipped");
        let is_new = self.started.insert(start.due_secs);
        assert_eq!(is_new, start.attempt == 1, "{start:?}: started twice, or again before it was");
        self.retried += usize::from(!is_new);
        self.running = Some((start, ends));
    }

    /// Every run that was due up to what is settled was started or told, and nothing else was.
    pub(crate) fn settle(&self, seed: u64) {
        let until = self.known.settled_secs;
        let due = self.timetable.occurrences(self.begin).map(|one| one.due_secs);
        let expected: BTreeSet<i64> = due.take_while(|due| *due <= until).collect();
        let found: BTreeSet<i64> = self.started.union(&self.missed).copied().collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}
