//! Jobs whose start or end the catalog did not take.

use super::*;
use crate::Control;

/// A job that runs, and whose start the catalog did not take.
fn runs_unwritten(jobs: &Jobs, number: u64) -> JobNo {
    let id = UNWRITTEN | number;
    jobs.running.add(
        serde_json::from_value(serde_json::json!({
            "id": id, "node": "web", "domain": "web", "kind": "backup", "what": "/etc",
            "begun": "2026-06-01T00:00:00Z", "state": "running", "cancelled": false,
            "progress": Progress::default()
        }))
        .unwrap(),
    );
    id
}

/// Seen: a backup that began while the disk of the catalog was full was in no list, report or map.
#[test]
fn a_job_whose_start_was_not_written_is_entered_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    let jobs = &control.jobs;
    let snapshot = Some("5a".repeat(16));
    let end = JobEnd::Complete { snapshot: snapshot.clone(), is_partial: false };
    jobs.end(runs_unwritten(jobs, 1), &end, "{}");
    let listed = jobs.history(&JobFilter::default()).unwrap().jobs;
    let [job] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((job.state, &job.snapshot, &*job.what), (JobState::Complete, &snapshot, "/etc"));
    assert!(job.id < UNWRITTEN, "a number of the catalog");
    assert!(jobs.catalog.has_snapshot("web", &"5a".repeat(16)).unwrap());
    // The catalog takes the end later.
    let id = runs_unwritten(jobs, 2);
    let job = jobs.running.take(id).unwrap().job;
    let (state, progress) = (JobState::Partial, &Progress::default());
    let (ended, report, cancelled) = (job.begun + 60, "", false);
    let (snapshot, error, cause) = (None, None, None);
    let ending = Ending { ended, state, progress, snapshot, error, cause, cancelled, report };
    jobs.unwritten.keep(id, Some(&job), &ending);
    jobs.write_ends_again();
    jobs.write_ends_again();
    let listed = jobs.history(&JobFilter::default()).unwrap().jobs;
    assert_eq!((listed.len(), listed[0].state), (2, JobState::Partial), "once");
}

#[test]
fn a_report_that_is_left_out_is_told_in_the_log_of_its_job() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    let (jobs, report) = (&control.jobs, format!("\"{}\"", "x".repeat(REPORT_BYTES_MAX - 2)));
    let end = JobEnd::Failed("it failed".to_owned());
    let ended = (0..65).map(|_| {
        let id = jobs.begin("bad", "bad", "backup", "/");
        jobs.end(id, &end, &report);
        let log = jobs.catalog.job_log(id).unwrap();
        log.iter().any(|entry| entry.code == "report-left-out")
    });
    let ended: Vec<bool> = ended.collect();
    assert_eq!((ended.iter().filter(|told| **told).count(), ended[64]), (1, true));
}

#[test]
fn a_job_that_cannot_be_repeated_or_suspended_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    let (jobs, end) = (&control.jobs, JobEnd::Failed(String::new()));
    let id = jobs.begin("web", "web", "backup", "/");
    let no = |done: Result<()>| done.unwrap_err().to_string();
    let retry = || no(jobs.retry("admin", id).map(drop));
    assert_eq!(retry(), format!("job {id} cannot be repeated: it has not ended"));
    jobs.end(id, &end, "");
    assert_eq!(retry(), format!("job {id} cannot be repeated: no policy wants it"));
    let told = "cannot be suspended: only a job of a policy can, while it waits or runs";
    assert_eq!(no(jobs.suspend("admin", id)), format!("job {id} {told}"));
    assert!(no(jobs.retry("admin", id + 1).map(drop)).contains("there is no job"));
}
