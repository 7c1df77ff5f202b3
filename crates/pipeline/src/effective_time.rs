//! The time that a snapshot counts for. Its own time comes from the clock of a node, or from a
//! user; the order in which the snapshots of a source were created comes from the repository. If
//! the two contradict each other, the age is unknown and the snapshot is suspect: it satisfies no
//! retention rule, pushes no other snapshot out, and is forgotten only by name.
//!
//! If a server gave a receipt, its clock decides.
//!
//! Pure: the caller passes the current time.

use crate::receipts::ReceiptStatus;
use format::entry::Time;
use format::manifest::Head;
use std::collections::BTreeMap;

/// How far clocks may differ: a day.
const CLOCKS_SECS: i64 = 86_400;
/// How far a clock that is corrected may go back: ten minutes.
const SET_RIGHT_SECS: i64 = 600;

/// The time that a snapshot counts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectiveTime {
    /// This time: its own, or, if the clock was corrected meanwhile, that of the snapshot before.
    Known(Time),
    /// None, because its time contradicts the order of the snapshots; the reason.
    Suspect(String),
}

impl EffectiveTime {
    /// The time, if it is known.
    pub fn time(&self) -> Option<Time> {
        match self {
            Self::Known(time) => Some(*time),
            Self::Suspect(_) => None,
        }
    }
}

/// The position of a snapshot in the order in which snapshots were created. A change of tags
/// rewrites a snapshot, which keeps the position of the original.
pub fn creation_order(head: &Head) -> (u64, u64) {
    (head.original.map_or(head.sequence, |(_, number)| number), head.sequence)
}

/// When the backup started, by the clock of the node.
pub fn recorded_time(head: &Head) -> Time {
    Time { secs: head.time_secs, nanos: head.time_nanos }
}

/// The effective times of the snapshots with these heads, which may be of several sources.
pub fn effective_times(heads: &[(Head, ReceiptStatus)], now_secs: i64) -> Vec<EffectiveTime> {
    let mut sources: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, (head, _)) in heads.iter().enumerate() {
        sources.entry(head.source.0).or_default().push(at);
    }
    let mut times = vec![None; heads.len()];
    for mut of_source in sources.into_values() {
        of_source.sort_by_key(|at| creation_order(&heads[*at].0));
        let mut newest = None;
        for at in of_source {
            let (head, received) = &heads[at];
            times[at] = Some(next(recorded_time(head), received, &mut newest, now_secs));
        }
    }
    times.into_iter().flatten().collect()
}

/// The effective time of the next snapshot of a source, after one of the time `newest`.
fn next(
    own: Time,
    received: &ReceiptStatus,
    newest: &mut Option<Time>,
    now_secs: i64,
) -> EffectiveTime {
    let effective = match received {
        ReceiptStatus::Untrusted => suspect("no known server signed its receipt"),
        ReceiptStatus::Valid { times: Some((begun, received)), .. } => {
            by_receipt(own, *begun, *received)
        }
        ReceiptStatus::Valid { times: None, .. } | ReceiptStatus::Absent => by_order(own, *newest),
    };
    let is_future = |time: Time| time.secs > now_secs.saturating_add(CLOCKS_SECS);
    match effective {
        EffectiveTime::Known(time) if is_future(time) || is_future(own) => {
            suspect("its time is in the future")
        }
        EffectiveTime::Known(time) => {
            *newest = (*newest).max(Some(time));
            effective
        }
        EffectiveTime::Suspect(_) => effective,
    }
}

fn suspect(why: &str) -> EffectiveTime {
    EffectiveTime::Suspect(why.to_owned())
}

/// The time of the server, if that of the node is close to it.
fn by_receipt(own: Time, begun: Time, received: Time) -> EffectiveTime {
    let earliest = begun.secs.saturating_sub(CLOCKS_SECS);
    let latest = received.secs.saturating_add(CLOCKS_SECS);
    if (earliest..=latest).contains(&own.secs) {
        return EffectiveTime::Known(received);
    }
    suspect("its time and the time of its receipt differ by more than a day")
}

/// Whether a snapshot of the time `own` is suspect, without a receipt, behind one of the time `newest`.
pub(crate) fn is_before(own: Time, newest: Time) -> bool {
    matches!(by_order(own, Some(newest)), EffectiveTime::Suspect(_))
}

/// Its own time, if it is not before that of an older one.
fn by_order(own: Time, newest: Option<Time>) -> EffectiveTime {
    let before = newest.unwrap_or(own);
    if own.secs < before.secs.saturating_sub(SET_RIGHT_SECS) {
        return suspect("it is dated before an older snapshot of its source");
    }
    EffectiveTime::Known(own.max(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipts::Labels;

    const DAY: i64 = 86_400;
    const NOW: i64 = 1000 * DAY;

    fn times(secs: &[i64]) -> Vec<Option<i64>> {
        let mut newest = None;
        let time = |secs: &i64| Time { secs: *secs, nanos: 0 };
        let all = secs
            .iter()
            .map(|secs| next(time(secs), &ReceiptStatus::Absent, &mut newest, NOW).time());
        all.map(|time| time.map(|time| time.secs)).collect()
    }

    #[test]
    fn what_is_dated_before_an_older_one_is_suspect() {
        assert_eq!(times(&[0, DAY, 0, 2 * DAY]), [Some(0), Some(DAY), None, Some(2 * DAY)]);
    }

    #[test]
    fn the_future_is_suspect_and_later_snapshots_stand_by_themselves() {
        assert_eq!(times(&[0, NOW + 2 * DAY, DAY]), [Some(0), None, Some(DAY)]);
    }

    #[test]
    fn a_clock_that_is_corrected_makes_nothing_suspect_and_moves_nothing_into_the_past() {
        assert_eq!(times(&[DAY, DAY - 600, DAY + 5]), [Some(DAY), Some(DAY), Some(DAY + 5)]);
        assert_eq!(times(&[DAY, DAY - 601]), [Some(DAY), None]);
    }

    /// The first of a source may be dated as it likes: nothing is there that it could contradict.
    #[test]
    fn a_source_may_begin_in_the_past_but_not_fall_back_into_it() {
        assert_eq!(times(&[-5 * DAY, 0, -DAY]), [Some(-5 * DAY), Some(0), None]);
        assert_eq!(times(&[i64::MIN, i64::MIN]), [Some(i64::MIN), Some(i64::MIN)]);
    }

    /// The server's clock decides, for what is near it; a fake of days ago is none of these days.
    #[test]
    fn a_receipt_dates_a_snapshot_and_an_own_time_far_from_it_is_suspect() {
        let time = |secs| Time { secs, nanos: 0 };
        let by = |begun: i64, at: i64| ReceiptStatus::Valid {
            node: "web".into(),
            times: Some((time(begun), time(at))),
            labels: Labels::default(),
        };
        let mut newest = None;
        let mut dated = |own, received: &ReceiptStatus| {
            next(time(own), received, &mut newest, NOW).time().map(|time| time.secs)
        };
        assert_eq!(dated(5 * DAY, &by(5 * DAY, 5 * DAY + 60)), Some(5 * DAY + 60));
        assert_eq!(dated(5 * DAY, &by(6 * DAY, 9 * DAY)), Some(9 * DAY), "a run of three days");
        assert_eq!(dated(7 * DAY, &by(9 * DAY, 9 * DAY)), None);
        assert_eq!(dated(11 * DAY, &by(9 * DAY, 9 * DAY + 5)), None);
        assert_eq!(dated(9 * DAY + 9, &ReceiptStatus::Untrusted), None);
        assert_eq!(dated(NOW + 3 * DAY, &by(NOW + 3 * DAY, NOW + 3 * DAY)), None);
        // One without a receipt is held against the receipts before it.
        assert_eq!(dated(8 * DAY, &ReceiptStatus::Absent), None);
        let doubtful =
            ReceiptStatus::Valid { node: "web".into(), times: None, labels: Labels::default() };
        assert_eq!(dated(8 * DAY, &doubtful), None);
        assert_eq!(dated(10 * DAY, &doubtful), Some(10 * DAY));
    }
}
