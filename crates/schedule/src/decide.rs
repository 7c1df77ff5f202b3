//! Whether a run starts now, later, or not at all.
//!
//! Who runs a schedule remembers one time, up to which all runs are settled: started, or told as
//! missed. Each decision looks at what is due since then. So a run starts once, however often one
//! asks; what did not start is told, however long nobody asked; and a clock that goes back finds
//! everything settled.

use crate::schedule::{Level, Missed, Schedule};
use crate::timetable::{Occurrence, Timetable};
use clock::Reading;

/// So many missed runs are told at once; the next decision tells the next ones.
pub const MISSED_MAX: usize = 1000;

/// What is known of a source and its schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// All runs due up to this time are settled. At first, the time from which on the schedule
    /// applies.
    pub settled_secs: i64,
    /// Whether a run of the source has not ended, whoever started it.
    pub is_running: bool,
    /// The last run, if it failed.
    pub failed: Option<Failed>,
    /// When the last complete backup was received, whoever started it.
    pub last_complete_secs: Option<i64>,
    /// Whether the node is connected.
    pub is_seen: bool,
}

/// A run that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The time at which it was due, or started.
    pub due_secs: i64,
    /// How often it was started.
    pub attempts: u32,
    /// When it ended.
    pub ended_secs: i64,
}

/// What is to be done. Its parts belong into one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Runs that did not start in their time and never will: to be recorded as missed.
    pub missed: Vec<Occurrence>,
    /// The time up to which all runs are settled then. To be stored with what is recorded, and, if a
    /// run is due, with its start.
    pub settled_secs: i64,
    /// What follows.
    pub next: Next,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A run starts now.
    Due(Start),
    /// Nothing happens before this time. Then, ask again.
    NotBefore(i64),
    /// Nothing happens before something else does.
    Waiting(Waiting),
}

/// A run that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// When it was due.
    pub due_secs: i64,
    /// When it may start at the latest: a job that still waits then gives up.
    pub until_secs: i64,
    /// What it reads.
    pub level: Level,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Whether it makes up for runs that were missed.
    pub is_late: bool,
}

/// What a schedule waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// For the end of a run of the same source.
    Running,
    /// For the node to connect.
    NotSeen,
    /// For somebody who starts it by hand.
    Manual,
    /// For nothing: no run is due any more.
    Over,
}

impl Waiting {
    /// The reason, as people read it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Running => "another run of the source has not ended",
            Self::NotSeen => "the node is not connected",
            Self::Manual => "the schedule is started by hand only",
            Self::Over => "the schedule has no further run",
        }
    }
}

impl Timetable {
    /// What is to be done now. `key` names node, source and schedule: starts of different keys are
    /// spread by the jitter.
    pub fn decide(&self, key: &str, now: Reading, known: &Situation) -> Decision {
        let now = now.secs;
        let unsettled =
            |next: Next| Decision { missed: Vec::new(), settled_secs: known.settled_secs, next };
        if known.is_running {
            return unsettled(Next::Waiting(Waiting::Running));
        }
        if self.schedule().older_than.is_some() {
            return unsettled(self.by_age(now, known));
        }
        if self.schedule().is_manual() {
            return unsettled(Next::Waiting(Waiting::Manual));
        }
        let due: Vec<Occurrence> = self
            .occurrences(known.settled_secs)
            .take_while(|one| one.due_secs <= now)
            .take(MISSED_MAX + 1)
            .collect();
        match due.split_last() {
            None => unsettled(self.after_all(key, now, known)),
            Some((_, missed)) if due.len() > MISSED_MAX => told(missed.to_vec(), now),
            Some((last, missed)) => self.of_last(key, now, *last, missed.to_vec(), known),
        }
    }

    /// Everything is settled: a failed run again, or the next one.
    fn after_all(&self, key: &str, now: i64, known: &Situation) -> Next {
        let next = self.next(known.settled_secs.max(now));
        let retry = known.failed.and_then(|failed| self.retry(failed, next, now));
        let start = next.map(|next| Next::NotBefore(self.start_secs(key, &next)));
        retry.or(start).unwrap_or(Next::Waiting(Waiting::Over))
    }

    /// The failed run again, if its time comes before that of the next one.
    fn retry(&self, failed: Failed, next: Option<Occurrence>, now: i64) -> Option<Next> {
        let ready = ready_secs(self.schedule(), failed)?;
        let start = self.open_from(ready.max(now));
        let until_secs = next.map_or(i64::MAX, |next| next.due_secs);
        if start >= until_secs {
            return None;
        }
        let (attempt, due_secs) = (failed.attempts.saturating_add(1), failed.due_secs);
        let due =
            Start { due_secs, until_secs, level: self.schedule().level, attempt, is_late: false };
        Some(if start <= now { Next::Due(due) } else { Next::NotBefore(start) })
    }

    /// The newest of those that are due; the older ones are missed.
    fn of_last(
        &self,
        key: &str,
        now: i64,
        last: Occurrence,
        mut missed: Vec<Occurrence>,
        known: &Situation,
    ) -> Decision {
        let settled = missed.last().map_or(known.settled_secs, |one| one.due_secs);
        let is_late = now >= last.until_secs;
        let earliest = if is_late { now } else { self.start_secs(key, &last).max(now) };
        let following = self.next(last.due_secs);
        if is_late && self.schedule().missed == Missed::Skip {
            missed.push(last);
            let next = following.map(|next| Next::NotBefore(self.start_secs(key, &next)));
            let next = next.unwrap_or(Next::Waiting(Waiting::Over));
            return Decision { missed, settled_secs: last.due_secs, next };
        }
        let start = self.open_from(earliest);
        if start > now {
            let next = following.map_or(start, |next| next.due_secs.min(start));
            return Decision { missed, settled_secs: settled, next: Next::NotBefore(next) };
        }
        let until_secs = match following {
            Some(next) if is_late => next.due_secs,
            None if is_late => i64::MAX,
            _ => last.until_secs,
        };
        let (due_secs, level) = (last.due_secs, self.schedule().level);
        let start = Start { due_secs, until_secs, level, attempt: 1, is_late };
        Decision { missed, settled_secs: due_secs, next: Next::Due(start) }
    }

    /// Whenever the node is seen and its last complete backup is too old.
    fn by_age(&self, now: i64, known: &Situation) -> Next {
        let age = self.schedule().older_than.map_or(0, clock::Span::signed_secs);
        let old = known.last_complete_secs.map_or(now, |last| last.saturating_add(age));
        // A failure puts it off; however many there were, it does not end.
        let put_off = known.failed.map_or(now, |failed| {
            let ready = ready_secs(self.schedule(), failed);
            let at_most = self.schedule().retry.at_most.signed_secs();
            ready.unwrap_or(failed.ended_secs.saturating_add(at_most))
        });
        let start = self.open_from(old.max(put_off).max(now));
        if start > now {
            return Next::NotBefore(start);
        }
        if !known.is_seen {
            return Next::Waiting(Waiting::NotSeen);
        }
        let attempt = known.failed.map_or(1, |failed| failed.attempts.saturating_add(1));
        let level = self.schedule().level;
        Next::Due(Start { due_secs: now, until_secs: i64::MAX, level, attempt, is_late: false })
    }

    /// When a run starts: later than it is due by a part of the jitter, inside the window that is
    /// open then.
    pub fn start_secs(&self, key: &str, occurrence: &Occurrence) -> i64 {
        let jitter = self.schedule().jitter.map_or(0, clock::Span::signed_secs);
        let open = (occurrence.closes_secs - occurrence.due_secs - 1).max(0);
        let most = jitter.min(open).unsigned_abs();
        let share = hash(key, occurrence.due_secs) % (most + 1);
        occurrence.due_secs.saturating_add_unsigned(share)
    }
}

/// A part of very many missed runs. The others are told at once, not after a pause.
fn told(missed: Vec<Occurrence>, now: i64) -> Decision {
    let settled_secs = missed.last().map_or(now, |one| one.due_secs);
    Decision { missed, settled_secs, next: Next::NotBefore(now) }
}

/// When a failed run may start again, if it may.
fn ready_secs(schedule: &Schedule, failed: Failed) -> Option<i64> {
    let retry = schedule.retry;
    let doublings = failed.attempts.saturating_sub(1).min(62);
    let pause = retry.after.secs().saturating_mul(1 << doublings).min(retry.at_most.secs());
    (failed.attempts <= retry.times).then(|| failed.ended_secs.saturating_add_unsigned(pause))
}

/// Spreads keys and times evenly (FNV-1a, and the mixer of SplitMix64). It decides when backups
/// start, so it must not change with a library.
fn hash(key: &str, secs: i64) -> u64 {
    let bytes = key.bytes().chain(secs.to_le_bytes());
    let fnv = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
