//! Promises that the schedules of a policy cannot keep.

use super::zone;
use api::sites::Mistake;
use schedule::Timetable;
use site::{Policy, Site};

/// Runs of a schedule that are looked at.
const RUNS_MAX: usize = 1_000;
/// How far ahead: long enough for a schedule that runs once a month.
const AHEAD_SECS: i64 = 100 * 86_400;

/// The policies whose runs lie further apart than they promise.
pub(super) fn unkept(site: &Site, now_secs: i64) -> Vec<Mistake> {
    let of = |(name, policy): (&String, &Policy)| {
        let promised = policy.promise?.signed_secs();
        let gap = widest_gap(site, policy, now_secs)?;
        (gap > promised).then(|| Mistake {
            message: format!(
                "policy {name}: its runs are up to {} apart, longer than its promise",
                span(gap)
            ),
            fix: Some("run it more often, or promise less".to_owned()),
            ..Mistake::default()
        })
    };
    site.policies.iter().filter_map(of).collect()
}

/// The longest time between two runs. Nobody knows it of a policy that is started by hand, or when a node is seen.
fn widest_gap(site: &Site, policy: &Policy, now_secs: i64) -> Option<i64> {
    let end_secs = now_secs + AHEAD_SECS;
    let mut due = Vec::new();
    for name in &policy.schedules {
        let schedule = site.schedules.get(name)?;
        if schedule.older_than.is_some() {
            return None;
        }
        let timetable = Timetable::new(schedule.clone(), zone(&schedule.zone.0)?).ok()?;
        let runs = timetable.occurrences(now_secs).map(|run| run.due_secs);
        let before = due.len();
        due.extend(runs.take_while(|secs| *secs < end_secs).take(RUNS_MAX));
        // So many runs are close together: how close, the first of them say.
        let last = due.get(before + RUNS_MAX - 1).copied();
        if last.is_some_and(|last| last < end_secs) {
            return None;
        }
    }
    due.sort_unstable();
    due.windows(2).map(|pair| pair[1] - pair[0]).max()
}

fn span(secs: i64) -> String {
    match secs / 3_600 {
        hours if hours >= 48 => format!("{} days", hours / 24),
        hours => format!("{hours} hours"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(schedule: &str, promise: &str) -> Vec<String> {
        let text = format!(
            "[schedule.s]\n{schedule}\n[policy.p]\npaths = [\"/\"]\nschedules = [\"s\"]\npromise = \"{promise}\"\n"
        );
        let site = site::file::read(&text).unwrap();
        unkept(&site, 20_605 * 86_400).into_iter().map(|mistake| mistake.message).collect()
    }

    #[test]
    fn a_weekly_run_cannot_keep_the_promise_of_a_day() {
        let weekly = "at = \"22:00\"\non = \"monday\"";
        let told = warned(weekly, "26 hours");
        assert!(told[0].contains("up to 7 days apart"), "{told:?}");
        assert!(warned(weekly, "8 days").is_empty());
        assert!(warned("at = \"22:00\"", "26 hours").is_empty());
        assert!(warned("older_than = \"1 day\"", "2 hours").is_empty());
        assert!(warned("every = \"1 minute\"\nwindow = \"always\"", "2 hours").is_empty());
    }
}
