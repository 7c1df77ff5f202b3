//! The clock by which locks end. It counts the time for which it saw the machine run, and asks the
//! wall clock for one thing only: for how long the machine was off, within a credit. Nobody can confirm
//! it, set it or doubt it: it is a time that has passed at least.
//!
//! [`crate::Clock`] is for rules, which stop when it is in doubt and go on when somebody confirms it.
//! Who could confirm the time could end every lock.

use crate::Tick;

/// For how much time off the wall clock is believed at once: three days.
pub const CREDIT_SECS_MAX: i64 = 3 * 86_400;

/// The clock of the locks of one repository. A second of running gives back one second of credit, so
/// a machine that runs for half of the time loses none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockClock {
    secs: i64,
    boot: u128,
    up_secs: i64,
    credit_secs: i64,
}

impl LockClock {
    /// Length of [`LockClock::encode`].
    pub const BYTES: usize = 40;

    /// A clock that shows what the wall clock shows: for a repository without locks.
    pub fn start(tick: Tick) -> Self {
        let (secs, boot, up_secs) = (tick.wall_secs, tick.boot, tick.up_secs);
        Self { secs, boot, up_secs, credit_secs: CREDIT_SECS_MAX }
    }

    /// A clock that knows only that it is not before `secs`.
    pub fn not_before(secs: i64, tick: Tick) -> Self {
        Self { secs, boot: tick.boot, up_secs: tick.up_secs, credit_secs: 0 }
    }

    /// The time at `tick`, in seconds since 1970: never before that of an earlier reading.
    pub fn read(&mut self, tick: Tick) -> i64 {
        if tick.boot == self.boot {
            let ran = tick.up_secs.saturating_sub(self.up_secs).max(0);
            self.secs = self.secs.saturating_add(ran);
            self.credit_secs = self.credit_secs.saturating_add(ran).min(CREDIT_SECS_MAX);
            self.up_secs = self.up_secs.max(tick.up_secs);
            return self.secs;
        }
        let off = tick.wall_secs.saturating_sub(self.secs).clamp(0, self.credit_secs);
        self.secs = self.secs.saturating_add(off);
        self.credit_secs -= off;
        (self.boot, self.up_secs) = (tick.boot, tick.up_secs);
        self.secs
    }

    /// Whether so much was counted since `before` that it should be stored.
    pub fn differs_from(&self, before: &Self, secs: i64) -> bool {
        self.boot != before.boot || self.secs.saturating_sub(before.secs) >= secs
    }

    /// Its state, to be stored.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let numbers = [self.secs, self.up_secs, self.credit_secs].map(i64::to_le_bytes);
        let mut bytes = [0; Self::BYTES];
        let (first, last) = bytes.split_at_mut(numbers.as_flattened().len());
        first.copy_from_slice(numbers.as_flattened());
        last.copy_from_slice(&self.boot.to_le_bytes());
        bytes
    }

    /// The clock with this state; `None` for a credit that no clock gives.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<8>().0.split_at_checked(3)?;
        let [secs, up_secs, credit_secs] = *numbers else { return None };
        let boot = u128::from_le_bytes(rest.as_flattened().try_into().ok()?);
        let [secs, up_secs, credit_secs] = [secs, up_secs, credit_secs].map(i64::from_le_bytes);
        let is_possible = (0..=CREDIT_SECS_MAX).contains(&credit_secs);
        is_possible.then_some(Self { secs, boot, up_secs, credit_secs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;
    const NOW: i64 = 20_000 * DAY;
    const YEARS: i64 = 3650 * DAY;

    fn tick(wall: i64, boot: u128, up: i64) -> Tick {
        Tick { wall_secs: NOW + wall, boot, up_secs: up }
    }

    /// The times at ticks `(wall, boot, up)`, less `NOW`.
    fn readings(ticks: &[(i64, u128, i64)]) -> Vec<i64> {
        let mut clock = LockClock::start(tick(0, 1, 0));
        ticks.iter().map(|&(wall, boot, up)| clock.read(tick(wall, boot, up)) - NOW).collect()
    }

    #[test]
    fn while_the_machine_runs_the_wall_clock_says_nothing() {
        let ticks = [(60, 1, 60), (YEARS, 1, 120), (-YEARS, 1, 180), (240, 1, 240)];
        assert_eq!(readings(&ticks), [60, 120, 180, 240]);
    }

    #[test]
    fn the_wall_clock_is_believed_for_three_days_off_and_not_for_years() {
        assert_eq!(readings(&[(2 * DAY, 2, 60)]), [2 * DAY]);
        assert_eq!(readings(&[(YEARS, 2, 60), (YEARS, 3, 60)]), [3 * DAY, 3 * DAY]);
        assert_eq!(readings(&[(-YEARS, 2, 60), (60, 2, 120)]), [0, 60]);
    }

    /// What was not believed at first is, little by little: a long time off only delays.
    #[test]
    fn after_weeks_off_it_catches_up_while_the_machine_runs() {
        let day = |at: i64| {
            [
                ((20 + at) * DAY, at as u128 + 2, 0),
                ((20 + at) * DAY + DAY / 2, at as u128 + 2, DAY / 2),
            ]
        };
        let times = readings(&(0..60).flat_map(day).collect::<Vec<_>>());
        assert_eq!(times[0], 3 * DAY);
        assert!(times.is_sorted() && times[119] > 60 * DAY, "{times:?}");
    }

    #[test]
    fn a_machine_with_a_long_uptime_ends_no_lock_of_a_repository_that_moved_there() {
        assert_eq!(readings(&[(60, 7, YEARS)]), [60]);
    }

    #[test]
    fn one_that_knows_only_a_lower_bound_counts_from_there() {
        let mut clock = LockClock::not_before(NOW - 5 * DAY, tick(YEARS, 1, 50));
        assert_eq!(clock.read(tick(YEARS, 1, 60)), NOW - 5 * DAY + 10);
        assert_eq!(clock.read(tick(YEARS, 2, 0)), NOW - 5 * DAY + 20, "ten seconds of credit");
    }

    #[test]
    fn its_state_is_read_back() {
        let clock = LockClock { secs: -1, boot: 7 << 100, up_secs: 3, credit_secs: 4 };
        assert_eq!(LockClock::decode(&clock.encode()), Some(clock));
        for credit_secs in [-1, CREDIT_SECS_MAX + 1, i64::MIN, i64::MAX] {
            assert_eq!(LockClock::decode(&LockClock { credit_secs, ..clock }.encode()), None);
        }
    }

    /// Whatever the wall clock shows, and however often the machine is started.
    #[test]
    fn nobody_gains_more_than_the_credit_and_as_much_again_as_it_ran() {
        let mut state = 7_u64;
        let mut random = |below: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) as i64) % below
        };
        for _ in 0..500 {
            let mut clock = LockClock::start(tick(0, 0, 0));
            let (mut boot, mut up, mut ran, mut before) = (0, 0, 0, NOW);
            for _ in 0..60 {
                let passed = random(5000);
                (up, ran) = (up + passed, ran + passed);
                if random(4) == 0 {
                    (boot, up) = (boot + 1, random(YEARS));
                }
                let now = clock.read(tick(random(YEARS) - DAY, boot, up));
                assert!(now >= before, "time went back");
                before = now;
                assert!(now - NOW <= CREDIT_SECS_MAX + 2 * ran, "{} s after {ran} s", now - NOW);
            }
        }
    }
}
