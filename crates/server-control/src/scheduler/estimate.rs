//! When jobs that wait for a slot will start. Pure: durations come in as they were measured.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// In how many seconds each waiting job starts, in the order in which they do. `left`: what running jobs still need;
/// `took`: how long the waiting ones took the last time. What depends on a job that was never measured is unknown.
pub(super) fn starts(slots: usize, left: &[Option<i64>], took: &[Option<i64>]) -> Vec<Option<i64>> {
    let mut starts = vec![None; took.len()];
    let Some(left) = left.iter().copied().collect::<Option<Vec<_>>>() else { return starts };
    let mut ends: BinaryHeap<_> = left.into_iter().map(Reverse).collect();
    let mut now = 0;
    for (start, took) in starts.iter_mut().zip(took) {
        while ends.len() >= slots.max(1) {
            now = ends.pop().map_or(now, |Reverse(end)| end.max(now));
        }
        *start = Some(now);
        // Those behind it start when it ends, which nobody knows.
        let Some(took) = took else { break };
        ends.push(Reverse(now + took));
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_starts_when_enough_of_those_before_it_have_ended() {
        let known = |all: &[i64]| all.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(starts(1, &known(&[60]), &known(&[100, 10, 5])), known(&[60, 160, 170]));
        assert_eq!(starts(2, &known(&[60, 30]), &known(&[100, 10, 5])), known(&[30, 60, 70]));
        assert_eq!(starts(2, &known(&[50, 40, 30]), &known(&[1])), known(&[40]), "fewer slots now");
    }

    #[test]
    fn nothing_is_said_where_something_before_it_was_never_measured() {
        assert_eq!(starts(1, &[None], &[Some(5), Some(5)]), [None, None]);
        assert_eq!(starts(1, &[Some(9)], &[None, Some(5)]), [Some(9), None]);
    }
}
