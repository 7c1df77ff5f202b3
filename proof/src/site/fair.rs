//! Whether the queue was fair: who waits for a slot is not overtaken by who has a lower priority, nor twice by the same
//! node.

use super::declared::UNITS;
use super::reach::Reach;
use api::jobs::Job;
use std::collections::{BTreeMap, BTreeSet};

/// Times have whole seconds: what happens within one of another is at the same time.
const SECOND: i64 = 1;

/// A job that waited for a slot and got one.
pub(super) struct Wait {
    job: u64,
    node: String,
    unit: String,
    priority: i64,
    /// Since when only a slot was missing.
    from: i64,
    /// When it got one.
    to: i64,
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { job, node, unit, priority, from, to } = self;
        write!(
            f,
            "job {job} of {node} (unit {unit}, priority {priority}), which waited from {from} to {to},"
        )
    }
}

/// How long jobs waited for a slot in one unit.
#[derive(Debug)]
pub(super) struct Fairness {
    pub(super) unit: &'static str,
    pub(super) waits: usize,
    pub(super) median_secs: i64,
    pub(super) max_secs: i64,
    /// Jain's index over the mean waits of the nodes: 1 if all wait equally long.
    pub(super) index: f64,
}

/// Every start of a job, with how long it waited for its slot. Jobs whose priority or turn somebody changed say
/// nothing.
pub(super) fn waits(
    reach: &Reach,
    jobs: &[Job],
    touched: &BTreeSet<u64>,
) -> Result<Vec<Wait>, String> {
    let mut waits = Vec::new();
    for job in jobs.iter().filter(|job| !touched.contains(&job.id)) {
        let Some(plan) = &job.plan else { continue };
        let log = reach.log(job.id)?;
        let Some(at) = log.iter().position(|entry| entry.code == "started") else { continue };
        let (node, unit) = (job.node.clone(), plan.unit.clone());
        let to = log[at].time;
        // A job that waited last for its agent or node was not waiting for a slot until then.
        let last = log[..at].iter().rfind(|entry| entry.code.starts_with("waits-for"));
        let from = last.filter(|entry| entry.code == "waits-for-slot").map_or(to, |it| it.time);
        waits.push(Wait { job: job.id, node, unit, priority: plan.priority, from, to });
    }
    Ok(waits)
}

/// `kills` of the server in milliseconds: after one the turns begin anew.
pub(super) fn all(waits: &[Wait], kills: &[i64]) -> Result<Vec<Fairness>, String> {
    UNITS.iter().map(|(unit, _)| of_unit(unit, waits, kills)).collect()
}

fn of_unit(unit: &'static str, waits: &[Wait], kills: &[i64]) -> Result<Fairness, String> {
    let here: Vec<_> = waits.iter().filter(|wait| wait.unit == unit).collect();
    for wait in &here {
        is_fair(wait, &here, kills)?;
    }
    let mut secs: Vec<_> = here.iter().map(|wait| wait.to - wait.from).collect();
    secs.sort_unstable();
    let (waits, median_secs) = (secs.len(), secs.get(secs.len() / 2).copied().unwrap_or(0));
    let max_secs = secs.last().copied().unwrap_or(0);
    Ok(Fairness { unit, waits, median_secs, max_secs, index: index(&means(&here)) })
}

/// Who was started while this job waited for nothing but a slot.
fn is_fair(wait: &Wait, others: &[&Wait], kills: &[i64]) -> Result<(), String> {
    let meanwhile = wait.from + SECOND + 1..wait.to - SECOND;
    let turns =
        1 + kills.iter().filter(|kill| (wait.from..=wait.to).contains(&(*kill / 1000))).count();
    let mut started: BTreeMap<&str, usize> = BTreeMap::new();
    for other in others.iter().filter(|other| meanwhile.contains(&other.to)) {
        if other.priority < wait.priority {
            return Err(format!("{other} started before {wait}"));
        }
        if other.priority == wait.priority {
            *started.entry(other.node.as_str()).or_default() += 1;
        }
    }
    match started.iter().find(|(_, count)| **count > turns) {
        Some((node, count)) => Err(format!("{node} started {count} jobs before {wait}")),
        None => Ok(()),
    }
}

/// The mean wait of each node.
fn means(waits: &[&Wait]) -> Vec<f64> {
    let mut nodes: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for wait in waits {
        let (sum, count) = nodes.entry(wait.node.as_str()).or_default();
        (*sum, *count) = (*sum + wait.to - wait.from, *count + 1);
    }
    nodes.values().map(|(sum, count)| *sum as f64 / *count as f64).collect()
}

/// Jain's index. Nobody waits: that is fair.
fn index(means: &[f64]) -> f64 {
    let (sum, squares) =
        means.iter().fold((0.0, 0.0), |(sum, squares), one| (sum + one, squares + one * one));
    if squares == 0.0 { 1.0 } else { sum * sum / (squares * means.len() as f64) }
}
