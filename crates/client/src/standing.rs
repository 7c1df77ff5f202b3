//! What time a snapshot counts for. Its own time is what the clock of a node said, or what somebody
//! wrote there; the order in which a source's snapshots were made is not theirs to choose. Where both
//! contradict each other nobody knows the age, so such a snapshot is held back: no rule is satisfied
//! by it, nothing is pushed out by it, and it is not forgotten unless somebody names it.
//!
//! Pure: what time it is, is the caller's to say.

use format::entry::Time;
use format::manifest::Head;
use std::collections::BTreeMap;

/// Clocks may differ by so much, and no more: a day.
const CLOCKS_SECS: i64 = 86_400;
/// A clock that is set right goes back by so much: ten minutes.
const SET_RIGHT_SECS: i64 = 600;

/// What time a snapshot counts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// This one: its own, or, when the clock was set right meanwhile, that of the one before.
    Dated(Time),
    /// None, since its time contradicts the order in which snapshots were made.
    HeldBack(String),
}

impl Standing {
    /// The time that it counts for.
    pub fn time(&self) -> Option<Time> {
        match self {
            Self::Dated(time) => Some(*time),
            Self::HeldBack(_) => None,
        }
    }
}

/// The place of a snapshot in the order in which snapshots were made. A change of tags makes a new
/// record of an old snapshot, which keeps the old one's place.
pub fn place(head: &Head) -> (u64, u64) {
    (head.original.map_or(head.sequence, |(_, number)| number), head.sequence)
}

/// What its own clock said when the backup began.
pub fn time(head: &Head) -> Time {
    Time { secs: head.time_secs, nanos: head.time_nanos }
}

/// The standing of each of the snapshots with these heads, which may be of several sources.
pub fn all(heads: &[Head], now_secs: i64) -> Vec<Standing> {
    let mut sources: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, head) in heads.iter().enumerate() {
        sources.entry(head.source.0).or_default().push(at);
    }
    let mut standings = vec![None; heads.len()];
    for mut of_source in sources.into_values() {
        of_source.sort_by_key(|at| place(&heads[*at]));
        let mut newest = None;
        for at in of_source {
            standings[at] = Some(next(time(&heads[at]), &mut newest, now_secs));
        }
    }
    standings.into_iter().flatten().collect()
}

/// The standing of the next snapshot of a source, made after one of the time `newest`.
fn next(own: Time, newest: &mut Option<Time>, now_secs: i64) -> Standing {
    if own.secs > now_secs.saturating_add(CLOCKS_SECS) {
        return Standing::HeldBack("its time is not yet come".into());
    }
    let before = newest.unwrap_or(own);
    if own.secs < before.secs.saturating_sub(SET_RIGHT_SECS) {
        return Standing::HeldBack("it is dated before an older snapshot of its source".into());
    }
    let time = own.max(before);
    *newest = Some(time);
    Standing::Dated(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;
    const NOW: i64 = 1000 * DAY;

    fn standings(secs: &[i64]) -> Vec<Option<i64>> {
        let mut newest = None;
        let time = |secs: &i64| Time { secs: *secs, nanos: 0 };
        let all = secs.iter().map(|secs| next(time(secs), &mut newest, NOW).time());
        all.map(|time| time.map(|time| time.secs)).collect()
    }

    #[test]
    fn what_is_dated_before_an_older_one_is_held_back() {
        assert_eq!(standings(&[0, DAY, 0, 2 * DAY]), [Some(0), Some(DAY), None, Some(2 * DAY)]);
    }

    #[test]
    fn the_future_is_held_back_and_later_snapshots_stand_by_themselves() {
        assert_eq!(standings(&[0, NOW + 2 * DAY, DAY]), [Some(0), None, Some(DAY)]);
    }

    #[test]
    fn a_clock_that_is_set_right_holds_nothing_back_and_moves_nothing_into_the_past() {
        assert_eq!(standings(&[DAY, DAY - 600, DAY + 5]), [Some(DAY), Some(DAY), Some(DAY + 5)]);
        assert_eq!(standings(&[DAY, DAY - 601]), [Some(DAY), None]);
    }

    /// The first of a source may be dated as it likes: nothing is there that it could contradict.
    #[test]
    fn a_source_may_begin_in_the_past_but_not_fall_back_into_it() {
        assert_eq!(standings(&[-5 * DAY, 0, -DAY]), [Some(-5 * DAY), Some(0), None]);
        assert_eq!(standings(&[i64::MIN, i64::MIN]), [Some(i64::MIN), Some(i64::MIN)]);
    }
}
