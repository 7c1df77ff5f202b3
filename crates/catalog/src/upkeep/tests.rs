//! What is due is queued once, goes on after a restart, and its result stays.

use super::*;
use crate::testing::{BY, On, on_both};
use api::jobs::Progress;

fn wanted(task: &str, schedule: Option<&str>) -> NewUpkeepJob {
    let [upkeep, domain] = ["default", "web"].map(str::to_owned);
    let (schedule, task) = (schedule.map(str::to_owned), task.to_owned());
    NewUpkeepJob { upkeep, schedule, domain, task, until: Some(900), to: None }
}

fn due(before: Option<i64>, settled: i64, tasks: &[&str]) -> UpkeepSettlement {
    let [upkeep, schedule, domain] = ["default", "weekly", "web"].map(str::to_owned);
    let key = UpkeepKey { upkeep, schedule, domain };
    let jobs = tasks.iter().map(|task| wanted(task, Some("weekly"))).collect();
    UpkeepSettlement { key, before, settled, jobs }
}

fn ended<'a>(state: JobState, progress: &'a Progress) -> Ending<'a> {
    let (snapshot, error, cause, cancelled, report) = (None, None, None, false, "{}");
    Ending { ended: 500, state, progress, snapshot, error, cause, cancelled, report }
}

fn came(job: u64, position: u64, alarm: Option<&str>) -> DomainUpkeep {
    let (domain, task, alarm) = ("web".to_owned(), "check".to_owned(), alarm.map(str::to_owned));
    let (state, damaged) = (JobState::Complete, u64::from(alarm.is_some()));
    let upkeep = String::new();
    DomainUpkeep { domain, task, upkeep, job, ended: 500, state, position, damaged, alarm }
}

fn a_run_is_settled_with_its_jobs_and_once(on: On) {
    let (_folder, catalog) = on.catalog();
    let first = due(None, 100, &["reclaim", "check"]);
    let queued = catalog.settle_upkeep(100, std::slice::from_ref(&first)).unwrap();
    assert_eq!(queued.len(), 2);
    assert_eq!(catalog.settle_upkeep(100, &[first]).unwrap(), [0; 0], "the same again");
    let open = catalog.open_upkeep_jobs().unwrap();
    assert_eq!(open[0].wanted, wanted("reclaim", Some("weekly")));
    assert_eq!((open[1].job.kind.as_str(), open[1].job.domain.as_str()), ("check", "web"));
    let again = catalog.settle_upkeep(200, &[due(Some(100), 200, &["check"])]).unwrap();
    assert_eq!(again, [0; 0], "a task of an upkeep has one open job in a domain");
    assert_eq!(catalog.upkeep_states().unwrap()[0].1, 200);
    let by_hand = [wanted("reclaim", None), wanted("other", None)];
    let by_hand = catalog.queue_upkeep(BY, &by_hand).unwrap();
    assert!(by_hand[0].is_none() && by_hand[1].is_some());
    assert_eq!(catalog.audit_entries(None, 9).unwrap().len(), 1);
}

/// Two copies of a domain are two tasks, and neither hides how the other one went.
fn each_upkeep_has_jobs_and_copies_of_its_own(on: On) {
    let (_folder, catalog) = on.catalog();
    let of = |upkeep: &str, task: &str| {
        let upkeep = upkeep.to_owned();
        NewUpkeepJob { upkeep, ..wanted(task, None) }
    };
    let all = [of("a", "copy"), of("b", "copy"), of("a", "check"), of("b", "check")];
    let queued = catalog.queue_upkeep(BY, &all).unwrap();
    assert!(queued.iter().all(Option::is_some), "{queued:?}");
    assert_eq!(catalog.queue_upkeep(BY, &all).unwrap(), [None; 4], "each once");
    let progress = Progress::default();
    for (wanted, id) in all.iter().zip(queued) {
        let id = id.unwrap();
        catalog.start_upkeep_job(300, id).unwrap();
        let alarm = (wanted.upkeep == "a").then_some("lost");
        let (upkeep, task) = (wanted.outcome_of().to_owned(), wanted.task.clone());
        let came = DomainUpkeep { upkeep, task, ..came(id, 0, alarm) };
        catalog.end_upkeep_job(id, ended(JobState::Complete, &progress), &came).unwrap();
    }
    let known = catalog.domain_upkeep().unwrap();
    let known: Vec<_> =
        known.iter().map(|it| (&*it.task, &*it.upkeep, it.alarm.is_some())).collect();
    assert_eq!(known, [("check", "", false), ("copy", "a", true), ("copy", "b", false)]);
}

fn a_move_says_where_to_and_how(on: On) {
    let (_folder, catalog) = on.catalog();
    for (interrupt, bytes_per_sec) in [(false, None), (true, None), (false, Some(50 << 20))] {
        let to = Some(MoveTo { pool: "fast".parse().unwrap(), interrupt, bytes_per_sec });
        let task = format!("move {interrupt} {bytes_per_sec:?}");
        let new = NewUpkeepJob { to, until: None, ..wanted(&task, None) };
        catalog.queue_upkeep(BY, std::slice::from_ref(&new)).unwrap();
        let open = catalog.open_upkeep_jobs().unwrap().pop().unwrap();
        assert_eq!((open.wanted, &*open.job.what), (new, "to fast"));
    }
}

fn a_job_that_ran_when_the_server_stopped_waits_again(on: On) {
    let (_folder, catalog) = on.catalog();
    let id = catalog.queue_upkeep(BY, &[wanted("check", None)]).unwrap()[0].unwrap();
    assert!(catalog.start_upkeep_job(300, id).unwrap());
    assert!(!catalog.start_upkeep_job(300, id).unwrap(), "once");
    assert_eq!(catalog.requeue_upkeep_jobs().unwrap(), 1);
    assert_eq!(catalog.lose_running_jobs(400).unwrap(), 0);
    assert_eq!(catalog.open_upkeep_jobs().unwrap()[0].job.state, JobState::Queued);
}

fn a_job_that_has_ended_does_not_wait_again(on: On) {
    let (_folder, catalog) = on.catalog();
    let id = catalog.queue_upkeep(BY, &[wanted("check", None)]).unwrap()[0].unwrap();
    assert!(!catalog.requeue_upkeep_job(id).unwrap(), "it waits still");
    catalog.start_upkeep_job(300, id).unwrap();
    assert!(catalog.requeue_upkeep_job(id).unwrap());
    assert!(catalog.start_upkeep_job(400, id).unwrap(), "it begins again");
    let progress = Progress::default();
    catalog.end_upkeep_job(id, ended(JobState::Complete, &progress), &came(id, 7, None)).unwrap();
    assert!(!catalog.requeue_upkeep_job(id).unwrap());
    assert_eq!(catalog.job(id).unwrap().state, JobState::Complete);
}

fn how_far_a_job_is_outlives_the_server(on: On) {
    let (_folder, catalog) = on.catalog();
    let check = wanted("check", None);
    let id = catalog.queue_upkeep(BY, std::slice::from_ref(&check)).unwrap()[0].unwrap();
    let noted = |at| {
        catalog.note_upkeep_position(id, &check, at).unwrap();
        let all = catalog.domain_upkeep().unwrap();
        (all.len(), all[0].position, all[0].ended, all[0].damaged)
    };
    catalog.start_upkeep_job(300, id).unwrap();
    assert_eq!(noted(5), (1, 5, 0, 0));
    assert_eq!(noted(9), (1, 9, 0, 0));
    let progress = Progress::default();
    let (end, damage) = (ended(JobState::Complete, &progress), came(id, 7, Some("damage")));
    catalog.end_upkeep_job(id, end, &damage).unwrap();
    catalog.note_upkeep_position(id, &check, 11).unwrap();
    let known = &catalog.domain_upkeep().unwrap()[0];
    let expected = DomainUpkeep { position: 11, ..damage };
    assert_eq!(*known, expected, "what it found before stays known");
}

fn what_came_of_a_job_is_recorded_and_once(on: On) {
    let (_folder, catalog) = on.catalog();
    let id = catalog.queue_upkeep(BY, &[wanted("check", None)]).unwrap()[0].unwrap();
    catalog.start_upkeep_job(300, id).unwrap();
    let progress = Progress::default();
    let (end, alarm) = (ended(JobState::Complete, &progress), came(id, 7, Some("damage")));
    catalog.end_upkeep_job(id, end, &alarm).unwrap();
    assert_eq!(catalog.domain_upkeep().unwrap(), std::slice::from_ref(&alarm));
    assert!(catalog.open_upkeep_jobs().unwrap().is_empty());
    catalog.end_upkeep_job(id, end, &came(id, 9, None)).unwrap();
    assert_eq!(catalog.domain_upkeep().unwrap(), [alarm], "an ended job does not change");
    let next = catalog.queue_upkeep(BY, &[wanted("check", None)]).unwrap()[0].unwrap();
    catalog.start_upkeep_job(600, next).unwrap();
    catalog.end_upkeep_job(next, end, &came(next, 9, None)).unwrap();
    assert_eq!(catalog.domain_upkeep().unwrap(), [came(next, 9, None)]);
}

on_both![
    a_run_is_settled_with_its_jobs_and_once,
    each_upkeep_has_jobs_and_copies_of_its_own,
    a_move_says_where_to_and_how,
    a_job_that_ran_when_the_server_stopped_waits_again,
    a_job_that_has_ended_does_not_wait_again,
    how_far_a_job_is_outlives_the_server,
    what_came_of_a_job_is_recorded_and_once,
];
