//! What is settled is settled once, and what ends is remembered where the next decision looks.

use super::*;
use crate::testing::{BY, On, on_both};
use crate::tests::fill;
use api::commands::{CommandState, NewBackup};
use api::jobs::Progress;

fn key(schedule: &str) -> ScheduleKey {
    let [policy, node, source] = ["daily", "web", "/etc"].map(str::to_owned);
    ScheduleKey { policy, schedule: schedule.to_owned(), node, source }
}

fn run(schedule: Option<&str>, due: i64, runs: u32) -> NewRun {
    let paths = vec!["/etc".to_owned()];
    let task = Task::Backup(NewBackup::of("web".parse().unwrap(), paths));
    let plan = JobPlan {
        policy: "daily".into(),
        schedule: schedule.map(str::to_owned),
        source: "/etc".into(),
        source_name: "main".into(),
        class: "short".into(),
        unit: "disk".into(),
        priority: 5,
        due,
        until: Some(due + 3600),
        attempt: 1,
        late: runs > 1,
        runs,
    };
    NewRun { node: "web".into(), domain: "web".into(), plan, task }
}

fn with_nodes(on: On) -> (tempfile::TempDir, Catalog) {
    let (folder, catalog) = on.catalog();
    fill(&catalog);
    (folder, catalog)
}

/// Settles everything up to `settled`, with a run that starts.
fn start(catalog: &Catalog, schedule: &str, [before, settled]: [i64; 2]) -> Settled {
    let (key, run) = (key(schedule), run(Some(schedule), settled, 1));
    let before = (before > 0).then_some(before);
    let new = Settlement { key: &key, before, settled, missed: None, start: Some(&run) };
    catalog.settle(settled, &[new]).unwrap().remove(0)
}

fn end(catalog: &Catalog, id: u64, state: JobState, ended: i64) {
    let (progress, snapshot, report) = (&Progress::default(), Some("5a"), "{}");
    let (error, cause, cancelled) = (None, None, false);
    let end = Ending { ended, state, progress, snapshot, error, cause, cancelled, report };
    catalog.end_job(id, end).unwrap();
}

/// Seen: it waited for ever.
fn what_waits_for_a_node_ends_with_it_and_nothing_else(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let Settled::Done(Some(id)) = start(&catalog, "a", [0, 100]) else { panic!("not queued") };
    catalog.suspend_queued(BY, id).unwrap();
    let other = NewRun { node: "db".into(), domain: "db".into(), ..run(Some("a"), 100, 1) };
    let key = ScheduleKey { node: "db".into(), ..key("a") };
    let new =
        Settlement { key: &key, before: None, settled: 100, missed: None, start: Some(&other) };
    let settled = catalog.settle(100, &[new]).unwrap().remove(0);
    let Settled::Done(Some(others)) = settled else { panic!("not queued: {settled:?}") };
    catalog.remove_node(BY, &"web".parse().unwrap()).unwrap();
    let job = catalog.job(id).unwrap();
    assert_eq!(
        (job.state, job.error.as_deref()),
        (JobState::Cancelled, Some("the node was removed"))
    );
    assert_eq!(catalog.job(others).unwrap().state, JobState::Queued);
}

fn a_run_is_settled_with_its_job_and_once(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let Settled::Done(Some(id)) = start(&catalog, "a", [0, 100]) else { panic!("not queued") };
    let job = catalog.job(id).unwrap();
    assert_eq!((job.state, job.plan), (JobState::Queued, Some(run(Some("a"), 100, 1).plan)));
    assert_eq!(catalog.schedule_states().unwrap()[0].settled, 100);
    assert_eq!(start(&catalog, "a", [0, 100]), Settled::Stale, "the same again");
    assert_eq!(start(&catalog, "a", [100, 200]), Settled::Stale, "the first one waits still");
    assert_eq!(catalog.schedule_states().unwrap()[0].settled, 100);
    assert_eq!(catalog.open_runs().unwrap().len(), 1);
}

fn two_schedules_and_a_start_by_hand_never_have_two_jobs_of_one_source(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let Settled::Done(Some(id)) = start(&catalog, "a", [0, 100]) else { panic!("not queued") };
    let by_hand = run(None, 100, 1);
    assert_eq!(start(&catalog, "b", [0, 100]), Settled::Stale);
    assert_eq!(catalog.queue_run(BY, &by_hand).unwrap(), None);
    catalog.start_run(BY, id).unwrap().unwrap();
    assert_eq!(start(&catalog, "b", [0, 100]), Settled::Stale, "it runs");
    assert_eq!(catalog.queue_run(BY, &by_hand).unwrap(), None);
    end(&catalog, id, JobState::Complete, 150);
    assert!(catalog.queue_run(BY, &by_hand).unwrap().is_some());
    assert_eq!(start(&catalog, "b", [0, 100]), Settled::Stale);
}

fn missed_runs_are_one_entry_that_says_how_many(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let (key, missed, last) = (key("a"), run(Some("a"), 100, 17), run(Some("a"), 900, 1));
    let (missed, start) = (Some(&missed), Some(&last));
    let new = Settlement { key: &key, before: None, settled: 900, missed, start };
    let settled = catalog.settle(950, &[new]).unwrap();
    let [Settled::Done(Some(id))] = settled[..] else { panic!("{settled:?}") };
    let missed = catalog.job(id - 1).unwrap();
    assert_eq!((missed.state, missed.cause), (JobState::Missed, Some(JobCause::NotStarted)));
    assert_eq!((missed.plan.unwrap().runs, missed.ended), (17, Some(950)));
}

fn a_started_job_is_a_node_command_that_outlives_the_server(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let Settled::Done(Some(id)) = start(&catalog, "a", [0, 100]) else { panic!("not queued") };
    let command = catalog.start_run(BY, id).unwrap().unwrap();
    assert_eq!(catalog.start_run(BY, id).unwrap(), None, "it starts once");
    assert_eq!(catalog.open_commands("web").unwrap()[0].id, command);
    assert_eq!(catalog.lose_running_jobs(500).unwrap(), 0);
    let open = catalog.open_runs().unwrap();
    assert_eq!((open[0].job.state, open[0].command), (JobState::Running, Some(command)));
    end(&catalog, id, JobState::Lost, 600);
    let closed = catalog.commands(1).unwrap().remove(0);
    assert_eq!(closed.state, CommandState::Failed, "nobody does it later");
    assert!(catalog.open_runs().unwrap().is_empty());
}

fn a_failure_is_remembered_until_the_next_start_and_a_success_with_its_time(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let failed = || catalog.schedule_states().unwrap()[0].failed;
    for (at, state) in
        [(100, JobState::Failed), (200, JobState::Partial), (300, JobState::Complete)]
    {
        let before = if at == 100 { 0 } else { at - 100 };
        let Settled::Done(Some(id)) = start(&catalog, "a", [before, at]) else { panic!("stale") };
        assert_eq!(failed(), None);
        catalog.start_run(BY, id).unwrap().unwrap();
        end(&catalog, id, state, at + 10);
        let expected = FailedRun { due: 100, attempts: 1, ended: 110 };
        assert_eq!(failed(), (state == JobState::Failed).then_some(expected));
        let source = catalog.source_states().unwrap().pop();
        let known = source.map(|source| (source.last_complete, source.last_backup));
        let expected = match state {
            JobState::Partial => Some((None, Some(210))),
            JobState::Complete => Some((Some(310), Some(310))),
            _ => None,
        };
        assert_eq!(known, expected, "{state:?}");
    }
}

fn a_job_that_waits_is_cancelled_or_missed_and_then_never_starts(on: On) {
    let (_folder, catalog) = with_nodes(on);
    let Settled::Done(Some(id)) = start(&catalog, "a", [0, 100]) else { panic!("not queued") };
    let how = (JobState::Cancelled, JobCause::Cancelled);
    assert!(catalog.end_queued(BY, id, how, "cancelled").unwrap());
    assert!(!catalog.end_queued(BY, id, how, "cancelled").unwrap());
    assert_eq!(catalog.start_run(BY, id).unwrap(), None);
    assert!(catalog.open_commands("web").unwrap().is_empty());
    assert_eq!(catalog.audit_entries(None, 1).unwrap()[0].action, "job.cancel");
    catalog.drop_schedules(&[key("a")]).unwrap();
    assert!(catalog.schedule_states().unwrap().is_empty());
}

on_both![
    a_run_is_settled_with_its_job_and_once,
    what_waits_for_a_node_ends_with_it_and_nothing_else,
    two_schedules_and_a_start_by_hand_never_have_two_jobs_of_one_source,
    missed_runs_are_one_entry_that_says_how_many,
    a_started_job_is_a_node_command_that_outlives_the_server,
    a_failure_is_remembered_until_the_next_start_and_a_success_with_its_time,
    a_job_that_waits_is_cancelled_or_missed_and_then_never_starts,
];
