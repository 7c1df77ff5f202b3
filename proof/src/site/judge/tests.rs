//! A server that lies is caught.

use super::*;
use api::jobs::{JobPlan, Progress};
use api::retention::SnapshotState;
use serde_json::{Value, json};

/// A job of the policy `policy` that ended well, from `begun` on for ten seconds, but for `lie`.
fn job(id: u64, begun: i64, lie: &Value) -> Job {
    let text = str::to_owned;
    let plan = JobPlan {
        policy: text("policy"),
        schedule: Some(text("minute")),
        source: text("/data"),
        source_name: text("main"),
        class: text("standard"),
        unit: text("tape"),
        priority: 50,
        due: begun,
        until: None,
        attempt: 1,
        late: false,
        runs: 1,
    };
    let job = Job {
        id,
        node: text("web"),
        domain: text("web"),
        kind: text("backup"),
        what: text("/data"),
        begun,
        ended: Some(begun + 10),
        state: JobState::Complete,
        progress: Progress::default(),
        objects_per_sec: None,
        bytes_per_sec: None,
        snapshot: Some(format!("s{id}")),
        error: None,
        cause: None,
        waits: None,
        plan: Some(plan),
        cancelled: false,
        report: None,
    };
    let mut job = serde_json::to_value(job).expect("a job");
    for (key, value) in lie.as_object().into_iter().flatten() {
        job[key] = value.clone();
    }
    serde_json::from_value(job).expect("a job")
}

fn snapshot(id: u64, received: i64) -> RetainedSnapshot {
    let text = str::to_owned;
    RetainedSnapshot {
        id: format!("s{id}"),
        domain: text("web"),
        number: id,
        node: text("web"),
        source: text("main"),
        policy: text("policy"),
        class: text("standard"),
        received,
        is_partial: false,
        state: SnapshotState::Kept,
        until: None,
        trashed: None,
        is_named: false,
        reasons: Vec::new(),
    }
}

/// Two jobs, one after the other, and what becomes of the second and its snapshot.
fn judged(second: &Job, snapshots: &[RetainedSnapshot], kills: &[i64]) -> Result<Found, String> {
    all(&[job(1, 6000, &json!({})), second.clone()], snapshots, kills, 6100)
}

#[test]
fn an_honest_server_passes() {
    let snapshots = [snapshot(1, 6005), snapshot(2, 6065)];
    let found = judged(&job(2, 6060, &json!({})), &snapshots, &[]).expect("nothing is wrong");
    assert_eq!((found.due, found.missed, found.orphans), (2, 0, 0));
}

#[test]
fn states_that_the_data_does_not_prove_are_caught() {
    let (first, second) = (snapshot(1, 6005), snapshot(2, 6065));
    let whole = [first.clone(), second.clone()];
    let lies = [
        json!({"snapshot": null}),
        json!({"snapshot": "s1"}),
        json!({"snapshot": "s3"}),
        json!({"state": "partial"}),
        json!({"state": "failed"}),
        json!({"state": "cancelled", "snapshot": null}),
        json!({"state": "running", "snapshot": null}),
        json!({"node": "db"}),
    ];
    for lie in lies {
        assert!(judged(&job(2, 6060, &lie), &whole, &[]).is_err(), "{lie}");
    }
    let lost = judged(&job(2, 6060, &json!({})), std::slice::from_ref(&first), &[]);
    assert!(lost.is_err_and(|error| error.contains("does not exist")));
    // A kill explains one that nobody knows, and only around its time.
    let failed = job(2, 6060, &json!({"state": "failed", "snapshot": null}));
    assert!(judged(&failed, &whole, &[6_066_000]).is_ok());
    assert!(judged(&failed, &whole, &[6_040_000]).is_err());
}

#[test]
fn two_jobs_at_once_and_runs_that_nobody_tells_are_caught() {
    let snapshots = [snapshot(1, 6005), snapshot(2, 6065), snapshot(3, 6008)];
    let at_once = job(3, 6005, &json!({}));
    assert!(nothing_ran_twice(&[job(1, 6000, &json!({})), at_once.clone()]).is_err());
    assert!(slots_are_kept(&[job(1, 6000, &json!({})), at_once]).is_err());
    let silent =
        all(&[job(1, 6000, &json!({})), job(2, 6120, &json!({}))], &snapshots[..0], &[], 0);
    assert!(silent.is_err());
    let (first, third) = (job(1, 6000, &json!({})), job(2, 6120, &json!({})));
    assert!(no_run_is_missed_silently(&[first.clone(), third], 6200).is_err());
    assert!(no_run_is_missed_silently(&[first.clone(), first.clone()], 6100).is_err());
    assert!(no_run_is_missed_silently(&[first], 7000).is_err(), "and none at the end");
}
