//! Jobs that wait as administrators want.

use super::*;
use crate::jobs::Ending;
use crate::schedules::NewRun;
use crate::testing::{BY, On, on_both};
use crate::tests::fill;
use api::commands::{NewBackup, Task};
use api::jobs::{JobPlan, Progress};

fn queued(catalog: &Catalog) -> u64 {
    let task = Task::Backup(NewBackup::of("web".parse().unwrap(), vec!["/etc".into()]));
    let plan = JobPlan {
        policy: "daily".into(),
        schedule: None,
        source: "/etc".into(),
        source_name: "main".into(),
        class: "short".into(),
        unit: "disk".into(),
        priority: 5,
        due: 7,
        until: Some(9),
        attempt: 1,
        late: false,
        runs: 1,
    };
    let run = NewRun { node: "web".into(), domain: "web".into(), plan, task };
    catalog.queue_run(BY, &run).unwrap().unwrap()
}

fn end(catalog: &Catalog, id: u64, state: JobState) {
    let (progress, snapshot, report) = (&Progress::default(), None, "{}");
    let (error, cause, cancelled) = (Some("why"), None, false);
    let end = Ending { ended: 30, state, progress, snapshot, error, cause, cancelled, report };
    catalog.end_job(id, end).unwrap();
}

fn a_suspended_job_keeps_its_source_and_waits_for_whoever_resumes_it(on: On) {
    let (_folder, catalog) = on.catalog();
    fill(&catalog);
    let id = queued(&catalog);
    assert!(catalog.suspend_queued(BY, id).unwrap() && !catalog.suspend_queued(BY, id).unwrap());
    assert_eq!(catalog.start_run(BY, id).unwrap(), None, "nobody starts it");
    assert_eq!(catalog.open_runs().unwrap()[0].job.state, JobState::Suspended);
    assert!(catalog.set_priority(BY, id, 90).unwrap());
    assert!(catalog.retry(BY, id).is_err(), "it has not ended");
    assert!(catalog.resume_suspended(BY, id).unwrap());
    let plan = catalog.job(id).unwrap().plan.unwrap();
    assert_eq!((plan.priority, plan.until), (90, None));

    let command = catalog.start_run(BY, id).unwrap().unwrap();
    assert!(!catalog.set_priority(BY, id, 1).unwrap(), "it runs");
    end(&catalog, id, JobState::Suspended);
    let job = catalog.job(id).unwrap();
    assert_eq!((job.state, job.ended, job.error), (JobState::Suspended, None, None));
    assert!(catalog.open_commands("web").unwrap().is_empty(), "{command}");
    assert!(catalog.resume_suspended(BY, id).unwrap());
    assert!(catalog.start_run(BY, id).unwrap().unwrap() > command, "a command of its own");
}

fn an_ended_job_is_done_again_as_it_was_and_beside_no_other(on: On) {
    let (_folder, catalog) = on.catalog();
    fill(&catalog);
    let id = queued(&catalog);
    catalog.start_run(BY, id).unwrap();
    end(&catalog, id, JobState::Failed);
    let again = catalog.retry(BY, id).unwrap().unwrap();
    let plan = |id| catalog.job(id).unwrap().plan.unwrap();
    let expected = JobPlan { due: BY.now_secs, until: None, ..plan(id) };
    assert_eq!(plan(again), expected);
    assert_eq!(catalog.retry(BY, id).unwrap(), None, "its source has a job that waits");
    assert!(catalog.retry(BY, 999).is_err());
}

on_both! {
    a_suspended_job_keeps_its_source_and_waits_for_whoever_resumes_it,
    an_ended_job_is_done_again_as_it_was_and_beside_no_other,
}
