//! A clock that never goes back. While the server runs it follows the monotonic clock; the clock on the
//! wall corrects it little by little. Where both part, one of them is wrong, and until it is known which
//! one, times are doubtful.
//!
//! Pure: both clocks are parameters.

/// Clocks may part by so much from one look to the next: a minute.
const DRIFT_SECS: i64 = 60;
/// After so long without another jump the wall clock is believed again: a day.
const STEADY_SECS: i64 = 86_400;
/// A server that gave no receipt for so long may have been off, or its clock is wrong: 60 days.
const SILENCE_SECS: i64 = 60 * 86_400;

/// What time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Seconds since 1970.
    pub(super) secs: i64,
    /// Whether it may be wrong.
    pub(super) is_doubtful: bool,
}

/// The clock.
pub(super) struct Clock {
    /// The last time that was given, in this run or before.
    last: i64,
    /// A time, and what the monotonic clock showed then.
    anchor: Option<(i64, i64)>,
    /// By how much the wall clock is ahead since a jump, and when that began by the monotonic clock.
    jump: Option<(i64, i64)>,
}

impl Clock {
    /// A clock after `last`; 0 when it never gave a time.
    pub(super) fn new(last: i64) -> Self {
        Self { last, anchor: None, jump: None }
    }

    /// What time it is when the clocks show `wall` and `monotonic`.
    pub(super) fn read(&mut self, wall: i64, monotonic: i64) -> Moment {
        let expected = self.expected(wall, monotonic);
        let ahead = wall.saturating_sub(expected);
        let agrees = ahead.abs() <= DRIFT_SECS && self.jump.is_none();
        let is_back = ahead.abs() <= DRIFT_SECS && self.is_back_from_a_jump(ahead);
        if agrees || is_back || self.is_steady(ahead, monotonic) {
            self.jump = None;
            self.last = self.last.max(wall);
            self.anchor = Some((self.last, monotonic));
            // Behind what was given already: nothing is known but that it is later.
            let is_doubtful = self.last.saturating_sub(wall) > DRIFT_SECS;
            return Moment { secs: self.last, is_doubtful };
        }
        self.last = self.last.max(expected);
        Moment { secs: self.last, is_doubtful: true }
    }

    /// What it should be by the monotonic clock; at the first look, by what is known.
    fn expected(&mut self, wall: i64, monotonic: i64) -> i64 {
        let (secs, at) = *self.anchor.get_or_insert_with(|| {
            let is_far = self.last > 0 && wall.saturating_sub(self.last) > SILENCE_SECS;
            let is_before = wall < self.last.saturating_sub(DRIFT_SECS);
            if is_far {
                // Off for long, or wrong: the wall clock is all there is, and is watched first.
                self.jump = Some((0, monotonic));
            }
            (if is_before { self.last } else { wall.max(self.last) }, monotonic)
        });
        secs.saturating_add(monotonic.saturating_sub(at))
    }

    /// Whether a jump was undone.
    fn is_back_from_a_jump(&self, ahead: i64) -> bool {
        self.jump.is_some_and(|(by, _)| by != 0) && ahead.abs() <= DRIFT_SECS
    }

    /// Whether the wall clock, since it jumped ahead, has gone on as the monotonic one for long. Notes
    /// a jump. One that jumped back is not believed until it has caught up: time never goes back.
    fn is_steady(&mut self, ahead: i64, monotonic: i64) -> bool {
        match self.jump {
            Some((by, since)) if (ahead - by).abs() <= DRIFT_SECS => {
                by >= 0 && monotonic.saturating_sub(since) >= STEADY_SECS
            }
            _ => {
                self.jump = Some((ahead, monotonic));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;
    const NOW: i64 = 20_000 * DAY;

    fn good(secs: i64) -> Moment {
        Moment { secs, is_doubtful: false }
    }

    fn doubtful(secs: i64) -> Moment {
        Moment { secs, is_doubtful: true }
    }

    #[test]
    fn it_follows_clocks_that_agree_and_never_goes_back() {
        let mut clock = Clock::new(0);
        assert_eq!(clock.read(NOW, 0), good(NOW));
        assert_eq!(clock.read(NOW + 100, 100), good(NOW + 100));
        assert_eq!(clock.read(NOW + 70, 101), good(NOW + 100), "set right by half a minute");
        assert_eq!(clock.read(NOW + 131, 162), good(NOW + 131));
    }

    #[test]
    fn a_jump_forward_is_doubtful_and_believed_after_a_day() {
        let mut clock = Clock::new(0);
        clock.read(NOW, 0);
        let jumped = NOW + 300 * DAY;
        assert_eq!(clock.read(jumped, 10), doubtful(NOW + 10), "it goes on as the monotonic one");
        assert_eq!(clock.read(jumped + DAY - 20, DAY - 10), doubtful(NOW + DAY - 10));
        assert_eq!(clock.read(jumped + DAY, DAY + 10), good(jumped + DAY));
    }

    #[test]
    fn a_jump_that_is_undone_leaves_no_trace() {
        for jump in [300 * DAY, -300 * DAY] {
            let mut clock = Clock::new(0);
            clock.read(NOW, 0);
            assert_eq!(clock.read(NOW + jump, 10), doubtful(NOW + 10));
            assert_eq!(clock.read(NOW + 20, 20), good(NOW + 20));
        }
    }

    #[test]
    fn a_jump_back_is_doubtful_until_the_clock_has_caught_up() {
        let mut clock = Clock::new(0);
        clock.read(NOW, 0);
        assert_eq!(clock.read(NOW - 30 * DAY, 10), doubtful(NOW + 10));
        assert_eq!(clock.read(NOW - 28 * DAY, 2 * DAY + 10), doubtful(NOW + 2 * DAY + 10));
        assert_eq!(clock.read(NOW + 3 * DAY, 3 * DAY), good(NOW + 3 * DAY));
    }

    #[test]
    fn a_restart_with_a_clock_that_went_back_goes_on_from_the_last_time() {
        let mut clock = Clock::new(NOW);
        assert_eq!(clock.read(NOW - DAY, 0), doubtful(NOW));
        assert_eq!(clock.read(NOW - DAY + 50, 50), doubtful(NOW + 50));
    }

    #[test]
    fn a_restart_after_long_is_doubtful_for_a_day() {
        let mut clock = Clock::new(NOW);
        let later = NOW + 100 * DAY;
        assert_eq!(clock.read(later, 0), doubtful(later));
        assert_eq!(clock.read(later + DAY, DAY), good(later + DAY));
        assert_eq!(Clock::new(NOW).read(NOW + 10 * DAY, 0), good(NOW + 10 * DAY));
    }

    /// Whatever both clocks show, no time is before one that was given.
    #[test]
    fn whatever_happens_time_never_goes_back() {
        let mut state = 7_u64;
        let mut random = |below: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) as i64) % below
        };
        for _ in 0..200 {
            let (mut last, mut wall, mut monotonic) = (0, NOW, 0);
            let mut clock = Clock::new(0);
            for _ in 0..200 {
                let step = random(5_000);
                (wall, monotonic) = (wall + step, monotonic + step);
                match random(12) {
                    0 => wall += random(400 * DAY),
                    1 => wall -= random(400 * DAY),
                    2 => (clock, monotonic) = (Clock::new(last), 0),
                    _ => {}
                }
                let moment = clock.read(wall, monotonic);
                assert!(moment.secs >= last, "{moment:?} after {last}");
                last = moment.secs;
            }
        }
    }
}
