//! Jobs, and the sessions that do their work: who of them knows when it began and how it ended.

use super::*;

/// The catalog stores that a job begins, and the answer is lost: nobody else knows of it.
#[test]
fn a_job_whose_start_was_stored_without_an_answer_is_that_of_its_session() {
    let mut rig = hourly("always");
    rig.control().agents.disconnected("web");
    rig.after(0).after(3600);
    let job = rig.last().id;
    let jobs = rig.control().jobs.clone();
    let started = |rig: &Rig| rig.control().catalog.start_run(crate::by("test"), job).unwrap();
    let what = what_of(started(&rig).unwrap());
    assert_ne!(jobs.begin("db", "db", "backup", &what), job, "it is another node's");
    assert_ne!(jobs.begin("web", "db", "backup", &what), job, "it is another domain's");
    assert_ne!(jobs.begin("web", "web", "restore", &what), job, "it is a backup");
    assert_eq!(jobs.begin("web", "web", "backup", &what), job);
    assert_ne!(jobs.begin("web", "web", "backup", &what), job, "it has its session");
    jobs.suspend("admin", job).unwrap();
    jobs.end(job, &JobEnd::Failed("ended".into()), "");
    jobs.resume_suspended("admin", job).unwrap();
    let command = started(&rig).unwrap();
    jobs.cancel("admin", job).unwrap();
    assert_eq!(jobs.job(job).unwrap().state, JobState::Cancelled, "without a session");
    assert!(jobs.cancel("admin", job).is_err());
    let late = jobs.begin("web", "web", "backup", &what_of(command));
    assert!(late != job && jobs.is_cancelled(late), "its command is over");
}

/// It had no session when the administrator looked, and has one when its end is to be written.
#[test]
fn a_session_that_begins_while_its_job_is_ended_decides_how_it_ends() {
    for state in [JobState::Cancelled, JobState::Suspended, JobState::Lost] {
        let mut rig = hourly("always");
        rig.after(0).after(3600);
        let command = rig.command("web").unwrap();
        let jobs = rig.control().jobs.clone();
        let job = jobs.begin("web", "web", "backup", &what_of(command));
        let end = crate::jobs::StartedEnd { state, cause: None, snapshot: None, error: None };
        jobs.end_started(job, command, &end);
        assert_eq!(rig.control().catalog.job(job).unwrap().state, JobState::Running, "{state:?}");
        assert_eq!(jobs.is_cancelled(job), state != JobState::Lost);
        jobs.end(job, &complete(), "{}");
        let ended = jobs.job(job).unwrap();
        assert_eq!((ended.state, ended.snapshot.as_deref()), (JobState::Complete, Some("5a")));
    }
}

#[test]
fn a_session_whose_process_was_killed_ends_its_job_at_once() {
    let mut rig = hourly("always");
    rig.after(0).after(3600);
    let command = rig.command("web").unwrap();
    let jobs = rig.control().jobs.clone();
    let job = jobs.begin("web", "web", "backup", &what_of(command));
    let control = rig.control().clone();
    let said = "message \"the process was killed by signal 9\", name \"killed\"";
    control
        .scheduler
        .command_done(&control.domains, ("web", command), false, "name \"failed\"")
        .unwrap();
    assert!(!jobs.is_cancelled(job), "who fails by itself ends its session");
    control.scheduler.command_done(&control.domains, ("web", command), false, said).unwrap();
    assert!(jobs.is_cancelled(job));
    jobs.end(job, &JobEnd::Failed("an administrator cancelled it".into()), "");
    let ended = jobs.job(job).unwrap();
    assert_eq!((ended.state, ended.cause), (JobState::Failed, Some(JobCause::Killed)));
    assert!(ended.error.unwrap().contains("signal 9"));
}
