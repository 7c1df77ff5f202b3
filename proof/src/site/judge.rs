//! Whether what the server says of its jobs is what the data proves.

use super::declared::{GONE, MORE_SLOTS, UNITS, period};
use api::jobs::{Job, JobState};
use api::retention::RetainedSnapshot;
use std::collections::{BTreeMap, BTreeSet};

/// Clocks of jobs have whole seconds.
const SECOND: i64 = 1;
/// A snapshot whose server was killed before it noted the end of the job: so long before the kill at most.
const BEFORE_KILL_SECS: i64 = 10;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) states: BTreeMap<String, u64>,
    /// Snapshots of backups that a kill of the server interrupted after they were durable.
    pub(super) orphans: u64,
    /// Backups that no policy has: an agent was killed before it could tell of a command, and did it again.
    pub(super) again: u64,
    /// Runs of schedules that were settled, and of these those that were missed.
    pub(super) due: u64,
    pub(super) missed: u64,
}

/// No unit runs more jobs than it has slots, and no node two.
pub(super) fn slots_are_kept(running: &[Job]) -> Result<(), String> {
    let mut units: BTreeMap<&str, usize> = BTreeMap::new();
    let mut nodes = BTreeMap::new();
    for job in running {
        let Some(plan) = &job.plan else { continue };
        *units.entry(plan.unit.as_str()).or_default() += 1;
        if let Some(other) = nodes.insert(job.node.as_str(), job.id) {
            return Err(format!("{} runs the jobs {other} and {} at once", job.node, job.id));
        }
    }
    let most =
        |name: &str| UNITS.iter().find(|row| row.0 == name).map_or(0, |row| row.1 + MORE_SLOTS);
    match units.iter().find(|(unit, used)| **used > most(unit)) {
        Some((unit, used)) => Err(format!("unit {unit} runs {used} jobs at once")),
        None => Ok(()),
    }
}

/// All jobs, once everything is quiet. `kills` of the server in milliseconds; schedules were stopped at `stopped`.
pub(super) fn all(
    jobs: &[Job],
    snapshots: &[RetainedSnapshot],
    kills: &[i64],
    stopped: i64,
) -> Result<Found, String> {
    let mut found = Found::default();
    for job in jobs {
        *found.states.entry(format!("{:?}", job.state).to_lowercase()).or_default() += 1;
    }
    found.again = backups(jobs).filter(|job| job.plan.is_none()).count() as u64;
    found.orphans = states_are_proven(jobs, snapshots, kills)?;
    nothing_ran_twice(jobs)?;
    (found.due, found.missed) = no_run_is_missed_silently(jobs, stopped)?;
    Ok(found)
}

fn backups(jobs: &[Job]) -> impl Iterator<Item = &Job> {
    jobs.iter().filter(|job| job.kind == "backup")
}

/// A job that ended well has a snapshot of its own; any other has none. How many snapshots are of no job.
fn states_are_proven(
    jobs: &[Job],
    snapshots: &[RetainedSnapshot],
    kills: &[i64],
) -> Result<u64, String> {
    let by_id: BTreeMap<_, _> = snapshots.iter().map(|one| (one.id.as_str(), one)).collect();
    let mut claimed = BTreeMap::new();
    for job in backups(jobs) {
        if job.state.is_open() {
            return Err(format!("job {} has not ended: {job:?}", job.id));
        }
        is_proven(job, &by_id)?;
        if let Some(id) = &job.snapshot
            && let Some(other) = claimed.insert(id.as_str(), job.id)
        {
            return Err(format!("the jobs {other} and {} have the same snapshot", job.id));
        }
    }
    let orphans = snapshots.iter().filter(|one| !claimed.contains_key(one.id.as_str()));
    let mut count = 0;
    for orphan in orphans {
        let is_of_kill = |kill: &i64| {
            (kill / 1000 - BEFORE_KILL_SECS..=kill / 1000 + SECOND).contains(&orphan.received)
        };
        if !kills.iter().any(is_of_kill) {
            return Err(format!("no job made the snapshot {orphan:?}"));
        }
        count += 1;
    }
    Ok(count)
}

fn is_proven(job: &Job, by_id: &BTreeMap<&str, &RetainedSnapshot>) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("{why}: {job:?}"));
    let has_snapshot = matches!(job.state, JobState::Complete | JobState::Partial);
    let Some(id) = &job.snapshot else {
        return if has_snapshot { wrong("it has no snapshot") } else { Ok(()) };
    };
    if !has_snapshot {
        return wrong("it did not end well and has a snapshot");
    }
    let Some(one) = by_id.get(id.as_str()) else { return wrong("its snapshot does not exist") };
    if one.is_partial != (job.state == JobState::Partial) {
        return wrong("its snapshot is in another state");
    }
    let while_it_ran = job.begun - SECOND..=job.ended.unwrap_or(i64::MAX) + SECOND;
    if one.node != job.node || !while_it_ran.contains(&one.received) {
        return Err(format!("{one:?} is none of {job:?}"));
    }
    let policy = job.plan.as_ref().map_or("", |plan| plan.policy.as_str());
    if one.policy != policy {
        return Err(format!("{one:?} is of another policy than {job:?}"));
    }
    Ok(())
}

/// Whether a job ran, and did not only wait.
fn ran(job: &Job) -> bool {
    let states = [JobState::Complete, JobState::Partial, JobState::Failed];
    job.plan.is_some() && states.contains(&job.state)
}

/// Jobs of a node follow each other.
fn nothing_ran_twice(jobs: &[Job]) -> Result<(), String> {
    let mut of_node: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
    for job in backups(jobs).filter(|job| ran(job)) {
        of_node.entry(job.node.as_str()).or_default().push(job);
    }
    for of_one in of_node.values_mut() {
        of_one.sort_by_key(|job| job.begun);
        for pair in of_one.windows(2) {
            if pair[0].ended.unwrap_or(i64::MAX) > pair[1].begun + SECOND {
                return Err(format!("two jobs of a node at once: {pair:?}"));
            }
        }
    }
    Ok(())
}

/// A schedule of a policy for one source of a node.
type Line<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Each run of each schedule is one job, or was told as missed, from the first one on: how many, and how many were
/// missed. What was due while the source had an open job when the schedules ended was never settled.
fn no_run_is_missed_silently(jobs: &[Job], stopped: i64) -> Result<(u64, u64), String> {
    let mut lines: BTreeMap<Line<'_>, Vec<(&Job, i64)>> = BTreeMap::new();
    for job in backups(jobs) {
        let Some(plan) = &job.plan else { continue };
        let Some(schedule) = plan.schedule.as_deref().filter(|_| plan.attempt == 1) else {
            continue;
        };
        let Some(period) = period(schedule) else { continue };
        let line = (plan.policy.as_str(), schedule, job.node.as_str(), plan.source.as_str());
        let dues = (0..i64::from(plan.runs)).map(|at| plan.due + at * period);
        lines.entry(line).or_default().extend(dues.map(|due| (job, due)));
    }
    let (mut count, mut missed) = (0, 0);
    for (line, dues) in &mut lines {
        dues.sort_by_key(|(_, due)| *due);
        count += dues.len() as u64;
        missed += dues.iter().filter(|(job, _)| job.state == JobState::Missed).count() as u64;
        is_whole(line, dues, jobs, stopped)?;
    }
    Ok((count, missed))
}

fn is_whole(
    line: &Line<'_>,
    dues: &[(&Job, i64)],
    jobs: &[Job],
    stopped: i64,
) -> Result<(), String> {
    let period = period(line.1).unwrap_or(1);
    for pair in dues.windows(2) {
        let gap = pair[1].1 - pair[0].1;
        // While the policy was away, nothing was due.
        if gap == period || (gap > period && line.0 == GONE) {
            continue;
        }
        return Err(format!("{line:?}: {gap} s between {pair:?}"));
    }
    let Some((_, last)) = dues.last() else { return Ok(()) };
    let was_busy = |job: &&Job| {
        job.node == line.2
            && job.plan.as_ref().is_some_and(|plan| plan.source == line.3)
            && job.ended.is_none_or(|ended| ended >= stopped - 2 * SECOND)
    };
    // A minute for the jitter, the tick and a server that is away.
    if *last + 2 * period + 60 >= stopped || line.0 == GONE || jobs.iter().any(|job| was_busy(&job))
    {
        return Ok(());
    }
    Err(format!("{line:?}: nothing is told of the runs after {last} until {stopped}"))
}

/// Sources that were backed up, by node.
pub(super) fn sources(jobs: &[Job]) -> usize {
    let key = |job: &Job| Some((job.node.clone(), job.plan.as_ref()?.source.clone()));
    let well = backups(jobs).filter(|job| job.state == JobState::Complete);
    well.filter_map(key).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests;
