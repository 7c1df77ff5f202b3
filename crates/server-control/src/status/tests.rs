//! What the status has an alarm for.

use super::*;
use crate::Control;
use crate::protection::tests::{put_on_storage_server, shown_of};
use api::jobs::{JobState, Progress};
use api::protection::ProtectionState;
use catalog::jobs::{Ending, NewJob};
use catalog::upkeep::DomainUpkeep;

fn faults(control: &Control) -> Vec<String> {
    control.status.now().unwrap().catalog_faults
}

/// Seen: status had no alarm, and everything on it was "protected".
#[test]
fn a_revoked_storage_server_that_has_domains_is_an_alarm_and_they_are_unprotected() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    put_on_storage_server(&control, "disk", "web");
    assert_eq!((control.status.now().unwrap().alarms, faults(&control)), (0, vec![]));
    control.storage_servers.revoke("admin", &"disk".parse().unwrap()).unwrap();
    let [fault] = &faults(&control)[..] else { panic!("{:?}", faults(&control)) };
    assert!(fault.contains("'disk' is revoked and has 1 domain: "), "{fault}");
    assert!(fault.contains("icecore server token disk --storage"), "{fault}");
    assert_eq!(control.status.now().unwrap().alarms, 1);
    let (state, reason) = shown_of(&control, "web");
    assert_eq!(state, ProtectionState::Unprotected);
    assert!(reason.contains("'disk', which is revoked"), "{reason}");
}

#[test]
fn a_storage_server_that_is_away_is_told_once_it_is_no_restart() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    ["disk", "other"].iter().for_each(|name| put_on_storage_server(&control, name, name));
    let all = control.catalog.storage_servers().unwrap();
    assert_eq!(control.status.away(&all), None, "the server has just started");
    let other = tempfile::tempdir().unwrap();
    let parts = crate::open::Parts::open(other.path(), &[]).unwrap();
    let late = |secs| {
        let since = Instant::now().checked_sub(Duration::from_secs(secs)).unwrap();
        let made = Arc::new(MadeRepositories::new(&parts));
        let upkeep = control.upkeep.clone();
        ServerStatus { since, ..ServerStatus::new(&parts, made, upkeep) }.away(&all)
    };
    assert_eq!(late(30), None);
    let told = "2 of 2 storage servers are away: icecore server storage-servers";
    assert_eq!(late(61).as_deref(), Some(told));
}

/// Seen: copies failed for weeks, and status said nothing.
#[test]
fn alarms_of_upkeep_are_an_alarm_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    crate::scheduler::tests::enroll(&control.catalog, "web");
    assert_eq!(faults(&control), [""; 0]);
    let [node, domain, kind, what] = ["", "web", "upkeep", "reclaim"];
    let id = control.catalog.begin_job(NewJob { node, domain, kind, what, begun: 1 }).unwrap();
    let (state, progress) = (JobState::Failed, &Progress::default());
    let (snapshot, error, cause, cancelled, report) = (None, None, None, false, "");
    let ending = Ending { ended: 2, state, progress, snapshot, error, cause, cancelled, report };
    let came = DomainUpkeep {
        domain: domain.to_owned(),
        task: what.to_owned(),
        upkeep: String::new(),
        job: id,
        ended: 2,
        state,
        position: 0,
        damaged: 0,
        alarm: Some("it failed".to_owned()),
    };
    control.catalog.end_upkeep_job(id, ending, &came).unwrap();
    assert_eq!(faults(&control), ["upkeep has 1 alarm: icecore server upkeep status"]);
}
