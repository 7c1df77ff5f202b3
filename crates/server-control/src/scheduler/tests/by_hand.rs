//! Backups that an administrator starts.

use super::*;

#[test]
fn a_start_by_hand_names_the_nodes_for_which_nothing_starts() {
    let nodes = ["web", "gone", "other"];
    let body = json!({"nodes": ["web", "gone", "new"], "paths": ["/etc"]});
    let rig = Rig::new(&nodes, &[("policy", "daily", body)]);
    let control = rig.control();
    control.catalog.revoke_node(crate::by("test"), &"gone".parse().unwrap()).unwrap();
    let by = catalog::By { who: "test", now_secs: rig.now };
    let start = |node: Option<&str>| {
        let node = node.map(|node| node.parse().unwrap());
        control.scheduler.start(by, "daily", &wanted(node, true))
    };
    let started = start(None).unwrap();
    let left: Vec<_> = started.skipped.iter().map(|it| (&*it.node, &*it.reason)).collect();
    assert_eq!(left, [("gone", "it is revoked"), ("new", "it is not enrolled")]);
    assert_eq!(started.jobs.len(), 1);
    assert_eq!(start(Some("web")).unwrap().skipped, []);
    let refused = start(Some("gone")).unwrap_err().to_string();
    assert!(refused.ends_with("on the node 'gone'; gone: it is revoked"), "{refused}");
}

#[test]
fn a_start_by_hand_waits_its_turn_and_never_runs_beside_a_scheduled_one() {
    let mut rig = hourly("always");
    rig.after(0);
    let start = |rig: &Rig, dry| {
        let by = By { who: "admin", now_secs: rig.now };
        rig.control().scheduler.start(by, "daily", &wanted(None, dry)).unwrap().jobs.remove(0).job
    };
    assert_eq!(start(&rig, true), None);
    assert!(rig.jobs().is_empty(), "a dry run");
    let job = start(&rig, false).unwrap();
    assert_eq!(start(&rig, false), None, "it waits still");
    rig.after(3600);
    assert_eq!(rig.states(), [JobState::Running]);
    rig.control().jobs.cancel("admin", job).unwrap();
    assert_eq!(rig.states(), [JobState::Cancelled]);
    assert_eq!(rig.command("web"), None, "its node does not do it later");
    rig.after(10).after(10);
    assert_eq!(rig.states(), [JobState::Cancelled, JobState::Running]);
    let by = By { who: "admin", now_secs: rig.now };
    assert!(rig.control().scheduler.start(by, "nothing", &wanted(None, false)).is_err());
    let nobody = "nobody".parse().unwrap();
    assert!(rig.control().scheduler.start(by, "daily", &wanted(Some(nobody), false)).is_err());
}
