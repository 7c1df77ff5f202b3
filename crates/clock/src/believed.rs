//! A wall clock that is believed only as far as a second clock confirms it.
//!
//! Expiry deletes by time, so who moves the clock ahead deletes. A schedule runs by time, so a clock
//! that goes back runs twice. The time that rules get
//! - never goes back: if the wall clock does, it stands still or goes on by the second clock;
//! - while the machine runs, leaves the clock that counts since the machine started by no more than
//!   [`STEP_SECS_MAX`] and a thousandth;
//! - after a start of the machine, when only the wall clock knows how long it was off, takes no more
//!   than [`OFF_SECS_MAX`] from it, over several starts too.
//!
//! What lies beyond is a [`Doubt`]: time goes on by the second clock, and the reading says so until
//! the wall clock is right again or somebody confirms it.

use serde::{Deserialize, Serialize};

/// How far the wall clock may be set while the machine runs: ten minutes.
pub const STEP_SECS_MAX: i64 = 10 * 60;
/// How long a machine may have been off until its wall clock must be confirmed: 30 days.
pub const OFF_SECS_MAX: i64 = 30 * 86_400;
/// A clock may run faster or slower by one second in this many.
const DRIFT_ONE_IN: i64 = 1000;
/// A second of running confirms this many seconds of being off. A machine that is on for one hour a
/// day is never in doubt, and who restarts it again and again gains little.
const OFF_SECS_PER_SECOND: i64 = 24;

/// Stands for a start of the machine whose number cannot be read, now or at all. It is another one than
/// that of the last reading only if the machine runs for less long than then: to take it for another one
/// each time would count the time for which the machine runs again and again.
pub const UNKNOWN_BOOT: u128 = 0;

/// What the clocks of the machine say at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// The wall clock.
    pub wall_secs: i64,
    /// Which start of the machine this is: another number after each (the kernel's boot id), or [`UNKNOWN_BOOT`].
    pub boot: u128,
    /// Seconds since that start, counted while the machine sleeps too.
    pub up_secs: i64,
}

/// The time that rules work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time, which is never before that of an earlier reading.
    pub secs: i64,
    /// Why nothing is deleted by it.
    pub doubt: Option<Doubt>,
}

impl Reading {
    /// A reading without doubt.
    pub fn certain(secs: i64) -> Self {
        Self { secs, doubt: None }
    }
}

/// Why nothing is deleted by a reading: the wall clock is not believed, or what else decides is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// It is ahead of what can be, by this many seconds.
    Fast(i64),
    /// It is behind, by this many seconds.
    Slow(i64),
    /// Nothing is known of the time before this start.
    Unreadable,
    /// The rules are not believed: they come from a catalog that lacks changes.
    Catalog,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (secs, side) = match self {
            Self::Fast(secs) => (secs, "ahead of"),
            Self::Slow(secs) => (secs, "behind"),
            Self::Unreadable => {
                return formatter
                    .write_str("the time that was stored in the catalog cannot be read");
            }
            Self::Catalog => {
                return formatter.write_str("the catalog is older than what the server has seen");
            }
        };
        let by = rounded(secs.unsigned_abs());
        write!(
            formatter,
            "the clock of the machine is {by} {side} the time that the program has counted"
        )
    }
}

/// So many seconds, in the largest unit of which there are at least two, rounded down.
fn rounded(secs: u64) -> String {
    let units = [("day", 86_400), ("hour", 3_600), ("minute", 60)];
    let fitting = units.into_iter().find(|(_, unit_secs)| secs / unit_secs >= 2);
    let (unit, unit_secs) = fitting.unwrap_or(("second", 1));
    let count = secs / unit_secs;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// What is remembered from one reading to the next; its holder stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The newest time that was given out.
    believed_secs: i64,
    /// The believed time at `tick`, from which the second clock counts.
    anchor_secs: i64,
    /// The first reading after a start, or the one that somebody confirmed.
    tick: Tick,
    /// The up time of the newest reading.
    up_secs: i64,
    /// Time that only the wall clock knows of, less what running confirmed.
    off_secs: i64,
}

impl Clock {
    /// A clock that knows no earlier time.
    pub fn start(tick: Tick) -> Self {
        Self::anchored(tick.wall_secs, tick)
    }

    fn anchored(secs: i64, tick: Tick) -> Self {
        let up_secs = tick.up_secs;
        Self { believed_secs: secs, anchor_secs: secs, tick, up_secs, off_secs: 0 }
    }

    /// The time at `tick`.
    pub fn read(&mut self, tick: Tick) -> Reading {
        if self.is_restart(tick) {
            self.restart(tick);
        } else if self.tick.boot == UNKNOWN_BOOT {
            self.tick.boot = tick.boot;
        }
        let ran = tick.up_secs.saturating_sub(self.up_secs).max(0);
        self.up_secs = self.up_secs.max(tick.up_secs);
        self.off_secs =
            self.off_secs.saturating_sub(ran.saturating_mul(OFF_SECS_PER_SECOND)).max(0);
        let since_anchor = self.up_secs.saturating_sub(self.tick.up_secs);
        let counted = self.anchor_secs.saturating_add(since_anchor);
        let (secs, doubt) = confirmed(tick.wall_secs, counted, since_anchor);
        self.believed_secs = self.believed_secs.max(secs);
        Reading { secs: self.believed_secs, doubt }
    }

    fn is_restart(&self, tick: Tick) -> bool {
        match (self.tick.boot, tick.boot) {
            (UNKNOWN_BOOT, _) | (_, UNKNOWN_BOOT) => tick.up_secs < self.up_secs,
            (before, now) => before != now,
        }
    }

    /// The machine was started again: it was off for as long as the wall clock says, within bounds.
    fn restart(&mut self, tick: Tick) {
        // It runs for so long at least, and nobody can say otherwise.
        let least = self.believed_secs.saturating_add(tick.up_secs.max(0));
        let off = tick.wall_secs.saturating_sub(least).max(0);
        let total = self.off_secs.saturating_add(off);
        let is_believed = total <= OFF_SECS_MAX;
        self.off_secs = if is_believed { total } else { self.off_secs };
        self.anchor_secs = if is_believed { least.saturating_add(off) } else { least };
        (self.tick, self.up_secs) = (tick, tick.up_secs);
    }

    /// An administrator says that the wall clock is right. Time still does not go back: where it was ahead before, the
    /// reading is in doubt until the wall clock has caught up.
    pub fn confirm(&mut self, tick: Tick) -> Reading {
        *self = Self::anchored(self.believed_secs.max(tick.wall_secs), tick);
        self.read(tick)
    }
}

/// The wall clock, if it is near what the second clock counted `since` the anchor.
fn confirmed(wall: i64, counted: i64, since: i64) -> (i64, Option<Doubt>) {
    let allowed = STEP_SECS_MAX.saturating_add(since / DRIFT_ONE_IN);
    let off = wall.saturating_sub(counted);
    match off {
        _ if off > allowed => (counted, Some(Doubt::Fast(off))),
        _ if off < -allowed => (counted, Some(Doubt::Slow(-off))),
        _ => (wall, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;
    const NOW: i64 = 20_000 * DAY;

    #[test]
    fn by_how_much_a_clock_is_wrong_is_told_in_units_that_people_use() {
        let told = Doubt::Fast(20 * DAY).to_string();
        let counted = "the time that the program has counted";
        assert_eq!(told, format!("the clock of the machine is 20 days ahead of {counted}"));
        let all =
            [1, 119, 120, 7_199, 7_200, 2 * DAY - 1, 2 * DAY].map(|secs| rounded(secs as u64));
        let expected = [
            "1 second",
            "119 seconds",
            "2 minutes",
            "119 minutes",
            "2 hours",
            "47 hours",
            "2 days",
        ];
        assert_eq!(all, expected);
    }

    fn tick(wall: i64, boot: u128, up: i64) -> Tick {
        Tick { wall_secs: NOW + wall, boot, up_secs: up }
    }

    /// The believed times of ticks `(wall, boot, up)`, less `NOW`, and whether each is in doubt.
    fn readings(ticks: &[(i64, u128, i64)]) -> Vec<(i64, bool)> {
        let mut clock = Clock::start(tick(0, 1, 0));
        let read = |&(wall, boot, up): &(i64, u128, i64)| {
            let reading = clock.read(tick(wall, boot, up));
            (reading.secs - NOW, reading.doubt.is_some())
        };
        ticks.iter().map(read).collect()
    }

    #[test]
    fn a_clock_that_jumps_ahead_while_the_machine_runs_is_not_believed() {
        let ticks = [(60, 1, 60), (120 + 40 * DAY, 1, 120), (180, 1, 180)];
        assert_eq!(readings(&ticks), [(60, false), (120, true), (180, false)]);
    }

    #[test]
    fn a_clock_that_goes_back_moves_no_time_back_and_stops_none() {
        let ticks = [(60, 1, 60), (-300, 1, 120), (-40 * DAY, 1, 1200), (1300, 1, 1300)];
        assert_eq!(readings(&ticks), [(60, false), (60, false), (1200, true), (1300, false)]);
    }

    /// Seen: a server that had no descriptor left for a moment could not read the number, and took the whole time for
    /// which the machine ran as time that had gone by; nothing expired for as long.
    #[test]
    fn a_start_whose_number_cannot_be_read_is_no_other_start() {
        let up = 100 * DAY;
        let mut clock = Clock::start(tick(0, 7, up));
        for (at, boot) in [(60, UNKNOWN_BOOT), (120, 7), (180, UNKNOWN_BOOT), (240, 7)] {
            let reading = clock.read(tick(at, boot, up + at));
            assert_eq!((reading.secs - NOW, reading.doubt), (at, None), "{at}");
        }
        // It is seen all the same, and the number counts once it is there.
        let reading = clock.read(tick(300, UNKNOWN_BOOT, 30));
        assert_eq!((reading.secs - NOW, reading.doubt), (300, None));
        assert_eq!(clock.read(tick(360, 8, 90)).secs - NOW, 360);
        assert_eq!(clock.read(tick(DAY, 9, 5000)).secs - NOW, DAY);
        // Nor does each start of the server count where no start of the machine has a number.
        let mut clock = Clock::start(tick(0, UNKNOWN_BOOT, up));
        let reading = clock.read(tick(60, UNKNOWN_BOOT, up + 60));
        assert_eq!((reading.secs - NOW, reading.doubt), (60, None));
    }

    /// Ten steps of nine minutes are a jump too.
    #[test]
    fn a_clock_that_creeps_is_believed_no_further_than_one_that_jumps() {
        let ticks: Vec<_> = (1..=10).map(|at| (at * 540, 1, at)).collect();
        let last = *readings(&ticks).last().unwrap();
        assert!(last.0 <= STEP_SECS_MAX + 10 && last.1, "{last:?}");
    }

    #[test]
    fn a_machine_may_be_off_for_weeks_and_not_for_months_at_once_or_in_parts() {
        assert_eq!(readings(&[(20 * DAY, 2, 60)]), [(20 * DAY, false)]);
        assert_eq!(readings(&[(40 * DAY, 2, 60)]), [(60, true)]);
        let parts = [(20 * DAY, 2, 60), (40 * DAY, 3, 60)];
        assert_eq!(readings(&parts), [(20 * DAY, false), (20 * DAY + 60, true)]);
    }

    #[test]
    fn a_machine_that_is_on_for_an_hour_a_day_is_never_in_doubt() {
        let ticks: Vec<_> = (1..=400)
            .flat_map(|day: i64| {
                let boot = day as u128 + 1;
                [(day * DAY, boot, 30), (day * DAY + 3600, boot, 3630)]
            })
            .collect();
        assert!(readings(&ticks).iter().all(|(_, doubt)| !doubt));
    }

    #[test]
    fn what_is_confirmed_is_believed_from_then_on() {
        let mut clock = Clock::start(tick(0, 1, 0));
        assert!(clock.read(tick(90 * DAY, 1, 60)).doubt.is_some());
        assert_eq!(clock.confirm(tick(90 * DAY, 1, 61)), Reading::certain(NOW + 90 * DAY));
        assert_eq!(clock.read(tick(90 * DAY + 9, 1, 70)), Reading::certain(NOW + 90 * DAY + 9));
    }

    /// Whatever the clocks say: time does not go back, and gains no more than the bounds allow.
    #[test]
    fn no_clock_makes_time_go_back_or_gain_more_than_its_bounds() {
        let mut state = 7_u64;
        let mut random = |below: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) as i64) % below
        };
        for _ in 0..500 {
            let mut clock = Clock::start(tick(0, 0, 0));
            let (mut boot, mut up, mut ran, mut before, mut boots) = (0, 0, 0, NOW, 0);
            for _ in 0..60 {
                let passed = random(5000);
                (up, ran) = (up + passed, ran + passed);
                if random(6) == 0 {
                    (boot, up, boots) = (boot + 1, random(100), boots + 1);
                    ran += up;
                }
                let reading = clock.read(tick(random(90 * DAY) - 9 * DAY, boot, up));
                assert!(reading.secs >= before, "time went back");
                before = reading.secs;
            }
            let gain = before - NOW - ran;
            let steps = (boots + 1) * (STEP_SECS_MAX + ran / DRIFT_ONE_IN);
            assert!(gain <= OFF_SECS_MAX + ran * OFF_SECS_PER_SECOND + steps, "gained {gain} s");
        }
    }
}
