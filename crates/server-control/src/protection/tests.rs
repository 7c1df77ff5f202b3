//! Every kind of node there can be: each is listed, and none is called better than it is.

use super::*;
use crate::Control;
use crate::scheduler::tests::{EXPIRES, enroll};
use api::jobs::JobState;
use api::retention::UnreadDomain;
use catalog::jobs::{Ending, NewJob};
use catalog::objects::ObjectChange;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: i64 = 1_000_000;
const HOUR: i64 = 3_600;

const NODES: [&str; 9] =
    ["bare", "cron", "good", "late", "broken", "fresh", "paused", "retired", "manual"];

fn site() -> Vec<(&'static str, &'static str, serde_json::Value)> {
    let promised = |nodes: &[&str], more: serde_json::Value| {
        let mut body = json!({"nodes": nodes, "paths": ["/etc"], "promise": "26 hours", "schedules": ["daily"]});
        let more = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(more);
        body
    };
    let covered = ["good", "late", "broken", "fresh", "paused", "retired", "ghost"];
    let logs = json!({"source": {"logs": {"paths": ["/var/log"]}}});
    vec![
        ("schedule", "daily", json!({"at": "22:00"})),
        ("node", "paused", json!({"paused": {"reason": "it moves"}})),
        ("group", "nobody", json!({"labels": {"role": "none"}})),
        ("policy", "daily", promised(&covered, json!({}))),
        ("policy", "empty", json!({"groups": ["nobody"], "paths": ["/etc"]})),
        ("policy", "hand", json!({"nodes": ["manual"], "paths": ["/etc"]})),
        ("policy", "two", promised(&["good"], logs)),
    ]
}

/// A backup of a node: of a policy, if the catalog has a job for it, or of its own.
fn back_up(control: &Control, node: &str, begun: i64, state: JobState) {
    let new = NewJob { node, domain: node, kind: "backup", what: "", begun };
    let id = control.catalog.begin_job(new).unwrap();
    end(control, id, begun + 60, state);
}

fn end(control: &Control, id: u64, ended: i64, state: JobState) {
    let progress = &api::jobs::Progress::default();
    let (snapshot, error, cause, cancelled, report) = (Some("5a"), None, None, false, "{}");
    let end = Ending { ended, state, progress, snapshot, error, cause, cancelled, report };
    control.catalog.end_job(id, end).unwrap();
}

/// A backup of the policy `daily` that began then.
fn by_policy(control: &Control, node: &str, begun: i64, state: JobState) {
    of_class(control, node, ("daily", "/etc", "standard"), (begun, state));
}

/// A backup of a policy, its source and class.
fn of_class(
    control: &Control,
    node: &str,
    (policy, source, class): (&str, &str, &str),
    (begun, state): (i64, JobState),
) {
    let paths = vec!["/etc".to_owned()];
    let task = api::commands::NewBackup::of(node.parse().unwrap(), paths);
    let plan = serde_json::from_value(json!({
        "policy": policy, "source": source, "unit": "default", "priority": 50,
        "due": "1970-01-01T00:00:00Z", "attempt": 1, "late": false, "runs": 1,
        "source_name": "main", "class": class
    }));
    let run = catalog::schedules::NewRun {
        node: node.into(),
        domain: node.into(),
        plan: plan.unwrap(),
        task: api::commands::Task::Backup(task),
    };
    let by = catalog::By { who: "test", now_secs: begun };
    let id = control.catalog.queue_run(by, &run).unwrap().unwrap();
    control.catalog.start_run(by, id).unwrap().unwrap();
    end(control, id, begun + 60, state);
}

fn control() -> (tempfile::TempDir, Arc<Control>) {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    NODES.iter().for_each(|node| enroll(&control.catalog, node));
    let put = |(kind, name, body)| ObjectChange::put(kind, name, body);
    let changes: Vec<_> = site().into_iter().map(put).collect();
    control.catalog.change_objects(crate::by("test"), 0, &changes).unwrap();
    control.start_what_is_due_at(NOW).unwrap();
    (folder, control)
}

/// The node `node` with a backup in its domain, which lies on the storage server `storage`.
pub(crate) fn put_on_storage_server(control: &Control, storage: &str, node: &str) {
    let (storage, domain): (api::Name, api::Name) =
        (storage.parse().unwrap(), node.parse().unwrap());
    let (by, hash) = (crate::by("test"), pki::fingerprint(storage.as_str().as_bytes()));
    let expires = by.now_secs + 1_000;
    control.catalog.add_storage_server_token(by, &hash, &storage, expires).unwrap();
    let answer = api::storage_servers::EnrollStorageServerReply {
        storage: storage.clone(),
        certificate: String::new(),
        ca_certificate: String::new(),
        expires: 0,
    };
    let certificate = catalog::certificates::Certificate {
        serial: storage.to_string(),
        not_before: 0,
        not_after: expires,
    };
    let new = catalog::storage_servers::StorageServerEnrollment {
        token: &hash,
        request: &[9; 32],
        answer: &answer,
        certificate: &certificate,
        names: &[],
        version: "1",
    };
    control.catalog.enroll_storage_server(by, new).unwrap();
    enroll(&control.catalog, node);
    let before = control.catalog.domain(&domain).unwrap().unwrap();
    let after = catalog::domains::Domain { storage: Some(storage), ..before.clone() };
    control.catalog.place_domain(by, &before, &after).unwrap();
    back_up(control, node, by.now_secs - HOUR, JobState::Complete);
}

/// How well the only source of a node is protected now.
pub(crate) fn shown_of(control: &Control, node: &str) -> (ProtectionState, String) {
    let filter = ProtectionFilter { node: Some(node.to_owned()), ..Default::default() };
    let source = control.protection.now(&filter).unwrap().sources.remove(0);
    (source.state, source.reason)
}

static NONE: BTreeMap<String, Arc<Vec<::retention::Facts>>> = BTreeMap::new();

/// No repository can be read: what jobs said counts.
fn unread() -> GoodSnapshots<'static> {
    let error = String::new();
    let unread = NODES.map(|node| UnreadDomain { domain: node.to_owned(), error: error.clone() });
    GoodSnapshots::new(&NONE, &unread)
}

fn shown(control: &Control, filter: &ProtectionFilter) -> Vec<(String, ProtectionState)> {
    let all = control.protection.at(NOW, &unread(), filter).unwrap().sources;
    let name = |one: &SourceProtection| {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        format!("{} {} {}", text(&one.node), text(&one.policy), text(&one.source))
    };
    let mut shown: Vec<_> = all.iter().map(|one| (name(one), one.state)).collect();
    shown.sort();
    shown
}

#[test]
fn nobody_is_left_out_and_nobody_is_called_better_than_it_is() {
    use ProtectionState as State;
    let (_folder, control) = control();
    back_up(&control, "cron", NOW - HOUR, JobState::Complete);
    by_policy(&control, "good", NOW - 2 * HOUR, JobState::Complete);
    by_policy(&control, "late", NOW - 27 * HOUR, JobState::Complete);
    by_policy(&control, "late", NOW - HOUR, JobState::Partial);
    by_policy(&control, "broken", NOW - 3 * HOUR, JobState::Complete);
    by_policy(&control, "broken", NOW - HOUR, JobState::Failed);
    by_policy(&control, "retired", NOW - HOUR, JobState::Complete);
    let retired = "retired".parse().unwrap();
    control.catalog.revoke_node(crate::by("test"), &retired).unwrap();
    let expected = [
        ("- empty -", State::AtRisk),
        ("bare - -", State::Unprotected),
        ("broken daily main", State::AtRisk),
        ("cron - -", State::NoPromise),
        ("fresh daily main", State::New),
        ("ghost daily main", State::Unprotected),
        ("good daily main", State::Protected),
        ("good two logs", State::New),
        ("good two main", State::New),
        ("late daily main", State::Unprotected),
        ("manual hand main", State::Unprotected),
        ("paused daily main", State::Paused),
        ("retired daily main", State::Unprotected),
    ];
    let expected = expected.map(|(name, state)| (name.to_owned(), state));
    assert_eq!(shown(&control, &ProtectionFilter::default()), expected);
    let empty = GoodSnapshots::new(&NONE, &[]);
    let gone = control.protection.at(NOW, &empty, &ProtectionFilter::default()).unwrap();
    let is_good = |one: &&SourceProtection| one.state <= State::NoPromise && one.snapshot.is_some();
    assert_eq!(gone.sources.iter().find(is_good), None, "their repositories have no snapshot");
    let filter = ProtectionFilter { node: Some("good".into()), ..ProtectionFilter::default() };
    assert_eq!(shown(&control, &filter).len(), 3);
    let filter = ProtectionFilter { state: Some(State::Paused), ..filter };
    assert_eq!(shown(&control, &filter).len(), 0);
}

#[test]
fn nodes_whose_certificate_has_expired_are_unprotected() {
    let (_folder, control) = control();
    back_up(&control, "cron", EXPIRES - HOUR, JobState::Complete);
    for (time, count) in [(EXPIRES - 1, 0), (EXPIRES, 1)] {
        let filter = ProtectionFilter { node: Some("cron".into()), ..ProtectionFilter::default() };
        let all = control.protection.at(time, &unread(), &filter).unwrap().sources;
        let has_expired = |one: &&SourceProtection| {
            one.state == ProtectionState::Unprotected && one.reason.contains("has expired")
        };
        assert_eq!(all.iter().filter(has_expired).count(), count, "{all:?}");
    }
}

#[test]
fn each_class_of_a_source_is_listed_and_measured_by_the_promise() {
    use ProtectionState as State;
    let (_folder, control) = control();
    let rules = json!([
        {"include": ["/srv/log/**"], "class": "short"}, {"include": ["/opt/**"], "class": "other"}
    ]);
    let keeps =
        json!({"long": {"keep_last": 9}, "short": {"keep_last": 3}, "other": {"keep_last": 1}});
    let policy = json!({
        "nodes": ["fresh"], "paths": ["/srv"], "promise": "26 hours", "retention": "classes", "class": "long",
        "classes": rules, "schedules": ["daily"]
    });
    let changes = [
        ObjectChange::put("retention", "classes", json!({"class": keeps})),
        ObjectChange::put("policy", "parted", policy),
    ];
    control.catalog.change_objects(crate::by("test"), 1, &changes).unwrap();
    of_class(&control, "fresh", ("parted", "/srv", "long"), (NOW - HOUR, JobState::Complete));
    let short = "/srv\nclass short";
    of_class(&control, "fresh", ("parted", short, "short"), (NOW - 27 * HOUR, JobState::Complete));
    let filter = ProtectionFilter { policy: Some("parted".into()), ..ProtectionFilter::default() };
    let shown = control.protection.at(NOW, &unread(), &filter).unwrap().sources;
    let rows: Vec<_> = shown.iter().map(|one| (one.class.as_deref(), one.state)).collect();
    assert_eq!(rows, [(Some("short"), State::Unprotected), (None, State::Protected)]);
    assert!(shown.iter().all(|one| one.promise_secs == Some(26 * HOUR)), "{shown:?}");
}

#[test]
fn the_worst_come_first_and_hand_started_ones_say_so() {
    let (_folder, control) = control();
    let all = control.protection.at(NOW, &unread(), &ProtectionFilter::default()).unwrap().sources;
    let states: Vec<_> = all.iter().map(|one| one.state).collect();
    assert!(states.is_sorted_by(|a, b| a >= b), "{states:?}");
    let manual: Vec<_> = all.iter().filter(|one| one.is_manual).collect();
    let names: Vec<_> = manual.iter().filter_map(|one| one.node.as_deref()).collect();
    assert_eq!(names, ["bare", "cron", "manual"]);
}

/// Without it, everything that it names would be left out.
#[test]
fn a_site_that_is_not_understood_is_no_site_without_sources() {
    let (_folder, control) = control();
    let put = ObjectChange::put("policy", "new", json!({"from_the_future": 1}));
    control.catalog.change_objects(crate::by("test"), 1, &[put]).unwrap();
    assert!(control.protection.at(NOW, &unread(), &ProtectionFilter::default()).is_err());
}

/// A clock that jumped makes nobody look worse or better without saying so.
#[test]
fn ages_are_counted_by_the_believed_clock_and_a_doubt_is_told() {
    let folder = tempfile::tempdir().unwrap();
    drop(Control::open(folder.path(), &[]).unwrap());
    let year = 365 * 86_400;
    let behind = clock::Tick { wall_secs: crate::now_secs() - year, boot: 1, up_secs: 5 };
    let stopped = serde_json::to_string(&clock::Clock::start(behind)).unwrap();
    let location = catalog::Location::file(folder.path().join("catalog.sqlite"));
    Catalog::open(&location).unwrap().set_clock(&stopped).unwrap();
    let control = Control::open(folder.path(), &[]).unwrap();
    let told = control.protection.now(&ProtectionFilter::default()).unwrap();
    assert!(told.doubt.is_some() && told.time < crate::now_secs() - 300 * 86_400, "{told:?}");
    // In its own words: a second may have gone by, and both count it.
    assert!(control.status.now().unwrap().clock_doubt.is_some(), "an alarm, too");
    control.retention.confirm_clock("admin").unwrap();
    let told = control.protection.now(&ProtectionFilter::default()).unwrap();
    assert!(told.doubt.is_none() && told.time > crate::now_secs() - 60, "{told:?}");
    assert_eq!(control.status.now().unwrap().clock_doubt, None);
}
