//! Random schedules against a second implementation, and a server that runs them while it is
//! switched off, killed and given wrong clocks. `ICECORE_MODEL_RUNS` sets how many runs there are.

#[path = "model/spec.rs"]
mod spec;

use clock::{Clock, Tick};
use jiff::tz::TimeZone;
use schedule::{Decision, Failed, Next, Occurrence, Schedule, Situation, Start, Timetable};
use spec::{Every, Spec};
use std::collections::BTreeSet;
use testkit::Random;
use testkit::calendar::DAY;

/// A schedule that can be meant, and its timetable.
fn any(random: &mut Random) -> (Spec, Timetable) {
    loop {
        let spec = Spec::any(random);
        let Ok(schedule) = toml::from_str::<Schedule>(&spec.text()) else { continue };
        if schedule.is_manual() {
            continue;
        }
        let zone = TimeZone::posix(spec.zone.posix).unwrap();
        return (spec, Timetable::new(schedule, zone).unwrap());
    }
}

#[test]
fn runs_are_due_when_the_words_say_so() {
    let mut compared = 0;
    for seed in testkit::seeds(4000) {
        let mut random = Random::new(seed);
        let (spec, timetable) = any(&mut random);
        // The periods at both ends may lie in the days only in part.
        let (margin, days) = match spec.every {
            Every::Minutes(_) => (0, 3),
            Every::Opening => (2, 20),
            Every::Days(_) => (8, 20),
            Every::Weeks(_) | Every::Months(_) => (65, 70),
        };
        let begin = spec::begin(&mut random);
        let after = spec::midnight(spec.zone, begin) - 1 + random.signed(DAY);
        let end = spec::midnight(spec.zone, begin + days);
        let is_meant = |due: i64| due > after && due < end;
        let mut expected = spec.runs(begin - margin..begin + days + margin);
        expected.retain(|(due, _)| is_meant(*due));
        let found: Vec<_> = timetable
            .occurrences(after)
            .take_while(|one| is_meant(one.due_secs))
            .map(|one| (one.due_secs, one.until_secs))
            .collect();
        assert_eq!(found, expected, "seed {seed}: {}{spec:?}", spec.text());
        compared += found.len();
    }
    assert!(compared > 0, "no schedule had a run");
}

#[test]
fn no_run_is_doubled_or_silently_missed_whatever_happens() {
    let (mut started, mut missed) = (0, 0);
    for seed in testkit::seeds(1500) {
        let mut server = Server::new(seed);
        server.live();
        server.settle();
        (started, missed) = (started + server.started.len(), missed + server.missed.len());
    }
    assert!(started > 0 && missed > 0, "{started} started, {missed} missed: the test sees nothing");
}

/// A server with one schedule of one source. Times of the world are those of no clock.
struct Server {
    random: Random,
    seed: u64,
    spec: Spec,
    timetable: Timetable,
    clock: Clock,
    world_secs: i64,
    /// What the wall clock shows beyond the time of the world.
    wrong_secs: i64,
    boot: u128,
    up_since: i64,
    begin: i64,
    now: i64,
    known: Situation,
    /// The run, and when it ends.
    running: Option<(Start, i64)>,
    /// Names of occurrences.
    started: BTreeSet<i64>,
    missed: BTreeSet<i64>,
}

impl Server {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (spec, timetable) = any(&mut random);
        let begin = spec::midnight(spec.zone, spec::begin(&mut random));
        let clock = Clock::start(Tick { wall_secs: begin, boot: 0, up_secs: 0 });
        let known = Situation { settled_secs: begin, is_seen: true, ..Situation::default() };
        Self {
            random,
            seed,
            spec,
            timetable,
            clock,
            world_secs: begin,
            wrong_secs: 0,
            boot: 0,
            up_since: begin,
            begin,
            now: begin,
            known,
            running: None,
            started: BTreeSet::new(),
            missed: BTreeSet::new(),
        }
    }

    fn live(&mut self) {
        for _ in 0..150 {
            self.world_secs += match self.random.below(8) {
                0..=3 => self.random.signed(600),
                4..=6 => self.random.signed(3 * 3600),
                _ => self.random.signed(2 * DAY),
            };
            match self.random.below(16) {
                0 => self.wrong_secs = self.random.signed(20 * DAY) - 10 * DAY,
                1 => self.wrong_secs = 0,
                2 | 3 => self.restart(),
                _ => {}
            }
            self.end_run();
            self.tick();
        }
    }

    /// Off for a while; a run that was going on has failed.
    fn restart(&mut self) {
        self.world_secs += self.random.signed(4 * DAY);
        (self.boot, self.up_since) = (self.boot + 1, self.world_secs);
        if let Some((start, _)) = self.running.take() {
            self.failed(start);
        }
    }

    fn end_run(&mut self) {
        let is_over = |(_, ends): &mut (Start, i64)| *ends <= self.world_secs;
        let Some((start, _)) = self.running.take_if(is_over) else { return };
        if self.random.one_in(3) {
            self.failed(start);
        } else {
            (self.known.failed, self.known.last_complete_secs) = (None, Some(self.now));
        }
    }

    fn failed(&mut self, start: Start) {
        let (due_secs, attempts) = (start.due_secs, start.attempt);
        self.known.failed = Some(Failed { due_secs, attempts, ended_secs: self.now });
    }

    /// The server looks at its schedule until nothing more is to be done now.
    fn tick(&mut self) {
        let wall_secs = self.world_secs + self.wrong_secs;
        let up_secs = self.world_secs - self.up_since;
        let reading = self.clock.read(Tick { wall_secs, boot: self.boot, up_secs });
        self.now = reading.secs;
        loop {
            self.known.is_running = self.running.is_some();
            let before = self.known;
            let decision = self.timetable.decide("node", reading, &before);
            self.carry_out(&decision);
            if !matches!(decision.next, Next::NotBefore(secs) if secs <= self.now) {
                self.is_right(&before, &decision);
                return;
            }
        }
    }

    fn carry_out(&mut self, decision: &Decision) {
        assert!(decision.settled_secs >= self.known.settled_secs, "seed {}", self.seed);
        self.known.settled_secs = decision.settled_secs;
        for one in &decision.missed {
            self.once(one.due_secs, "missed");
            self.missed.insert(one.due_secs);
        }
        if let Next::Due(start) = decision.next {
            self.start(start);
        }
    }

    fn start(&mut self, start: Start) {
        let context = format!("seed {}: {start:?} at {}", self.seed, self.now);
        assert!(self.running.is_none(), "{context}: two runs at once");
        assert!(
            start.due_secs <= self.now && self.now < start.until_secs,
            "{context}: not in time"
        );
        assert!(self.spec.is_open(self.now), "{context}: outside of the windows");
        if start.attempt == 1 {
            self.once(start.due_secs, "started");
            self.started.insert(start.due_secs);
        } else {
            let failed = self.known.failed.expect("a retry follows a failure");
            assert!(start.attempt <= 4 && start.attempt == failed.attempts + 1, "{context}");
            assert!(self.now >= failed.ended_secs + 300, "{context}: retried too early");
            assert!(self.started.contains(&start.due_secs), "{context}: of no run");
        }
        let longest = *self.random.pick(&[600, 3600, DAY]);
        self.running = Some((start, self.world_secs + self.random.signed(longest)));
    }

    fn once(&self, due: i64, what: &str) {
        let is_new = !self.started.contains(&due) && !self.missed.contains(&due);
        assert!(is_new, "seed {}: {due} is {what} after it was settled", self.seed);
    }

    /// Nobody waits for what could start now.
    fn is_right(&self, before: &Situation, decision: &Decision) {
        if matches!(decision.next, Next::Due(_))
            || before.is_running
            || !self.spec.is_open(self.now)
        {
            return;
        }
        let is_due = |one: &Occurrence| one.due_secs <= self.now;
        let last = self.timetable.occurrences(before.settled_secs).take_while(is_due).last();
        let Some(last) = last else { return };
        let is_late = self.now >= last.until_secs;
        let must_start = if is_late { !self.spec.skips } else { true };
        assert!(!must_start, "seed {}: {last:?} should start at {}", self.seed, self.now);
    }

    /// What is settled was started or told, each once; nothing else was.
    fn settle(&self) {
        let until = self.known.settled_secs;
        let all = self.timetable.occurrences(self.begin).map(|one| one.due_secs);
        let expected: BTreeSet<i64> = all.take_while(|due| *due <= until).collect();
        let found: BTreeSet<i64> = self.started.union(&self.missed).copied().collect();
        assert_eq!(found, expected, "seed {}", self.seed);
        assert_eq!(self.started.len() + self.missed.len(), found.len(), "seed {}", self.seed);
    }
}
