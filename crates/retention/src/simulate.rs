//! Which snapshots there will be on each of the next days, if the policy and the schedule stay.

use crate::evaluate::{Rules, State};
use crate::facts::{Facts, Trashed, TrashedBy};
use clock::{Reading, civil};
use ids::SnapshotId;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, VecDeque};

/// The future of some snapshots, day by day, without end. Each day ends as if an expiry ran then.
#[derive(Clone, Debug)]
pub struct Simulation<'a> {
    rules: &'a Rules,
    zone: TimeZone,
    day: Date,
    present: Vec<Facts>,
    arrivals: VecDeque<Facts>,
}

/// What exists at the end of a civil day. Snapshots come in the order in which they were received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// The day.
    pub day: Date,
    /// What is kept, for whatever reason.
    pub kept: Vec<SnapshotId>,
    /// What lies in the trash.
    pub trash: Vec<SnapshotId>,
    /// What expired on this day.
    pub expired: Vec<SnapshotId>,
}

/// When a snapshot leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The first day at whose end it lies in the trash; none if it goes without.
    pub trash: Option<Date>,
    /// The day on which it is deleted.
    pub gone: Option<Date>,
}

impl<'a> Simulation<'a> {
    /// Begins with the end of `day` in `zone`. `snapshots` exist now; `arrivals` will be received,
    /// in any order.
    pub fn new(
        rules: &'a Rules,
        zone: TimeZone,
        day: Date,
        mut snapshots: Vec<Facts>,
        mut arrivals: Vec<Facts>,
    ) -> Self {
        snapshots.sort_by_key(|one| std::cmp::Reverse(one.age_order()));
        arrivals.sort_by_key(|one| std::cmp::Reverse(one.age_order()));
        Self { rules, zone, day, present: snapshots, arrivals: arrivals.into() }
    }

    /// When each snapshot goes within so many days. What stays longer has no entry.
    pub fn departures(self, days: usize) -> BTreeMap<SnapshotId, Departure> {
        let mut departures: BTreeMap<SnapshotId, Departure> = BTreeMap::new();
        for today in self.take(days) {
            // It may have come back meanwhile.
            departures.retain(|id, _| !today.kept.contains(id));
            for id in today.trash {
                departures.entry(id).or_insert(Departure { trash: Some(today.day), gone: None });
            }
            for id in today.expired {
                let known = departures.entry(id).or_insert(Departure { trash: None, gone: None });
                known.gone = Some(today.day);
            }
        }
        departures
    }

    fn receive(&mut self, end_secs: i64) {
        while let Some(next) = self.arrivals.pop_front_if(|one| one.received_secs < end_secs) {
            self.present.push(next);
        }
    }

    /// Carries out what the rules say at a time.
    fn expire(&mut self, now_secs: i64) -> Day {
        let verdicts = self.rules.evaluate(&self.present, Reading::certain(now_secs));
        let (day, empty) = (self.day, Vec::new);
        let mut today = Day { day, kept: empty(), trash: empty(), expired: empty() };
        let mut states = verdicts.iter().map(|verdict| verdict.state);
        self.present.retain_mut(|one| match states.next() {
            Some(State::Expired) => {
                today.expired.push(one.id);
                false
            }
            Some(State::Trash { since_secs, .. }) => {
                let by = one.trashed.map_or(TrashedBy::Rules, |trashed| trashed.by);
                one.trashed = Some(Trashed { since_secs, by });
                today.trash.push(one.id);
                true
            }
            _ => {
                // What the rules put there and keep again comes back; what was named does not.
                one.trashed = one.trashed.filter(|trashed| trashed.by != TrashedBy::Rules);
                today.kept.push(one.id);
                true
            }
        });
        today
    }
}

impl Iterator for Simulation<'_> {
    type Item = Day;

    /// The next day; none at the end of the calendar.
    fn next(&mut self) -> Option<Day> {
        let tomorrow = self.day.tomorrow().ok()?;
        let end_secs = civil::start_of_day(&self.zone, tomorrow);
        self.receive(end_secs);
        let today = self.expire(end_secs - 1);
        self.day = tomorrow;
        Some(today)
    }
}
