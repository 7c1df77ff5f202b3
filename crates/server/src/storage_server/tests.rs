//! A storage server and what it is told, without a network.

use super::*;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A control server that says what it was told to say.
#[derive(Default)]
struct Told {
    answers: Mutex<Vec<Result<Value, ()>>>,
    asked: Mutex<Vec<(String, Value)>>,
}

impl ControlServer for Told {
    fn post(&self, path: &str, body: Value) -> Result<Value, ControlServerError> {
        self.asked.lock().push((path.to_owned(), body));
        let mut answers = self.answers.lock();
        match if answers.is_empty() { Err(()) } else { answers.remove(0) } {
            Ok(answer) => Ok(answer),
            Err(()) => Err(ControlServerError::Unreachable("nobody there".to_owned())),
        }
    }
}

fn storage_server(answers: Vec<Value>) -> (tempfile::TempDir, Arc<Told>, Arc<StorageServer>) {
    let place = tempfile::tempdir().unwrap();
    let told = Arc::new(Told::default());
    *told.answers.lock() = answers.into_iter().map(Ok).collect();
    let folder = Folder::open_storage(place.path(), &"disk".parse().unwrap()).unwrap();
    let storage_server = StorageServer::new(folder, told.clone()).unwrap();
    (place, told, storage_server)
}

fn facts(node: &str) -> pki::Facts {
    let (serial, common_name) = ("4a".to_owned(), node.to_owned());
    pki::Facts { serial, common_name, not_before_secs: 0, not_after_secs: i64::MAX }
}

const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

#[test]
fn a_node_is_admitted_limited_and_thrown_out_as_told() {
    let (_place, told, storage_server) = storage_server(vec![
        json!({"limits": [5, 6]}),
        json!({"revoked": [], "limits": [[7, 8]], "jobs": []}),
        json!({"revoked": ["4a"], "limits": [[7, 8]], "jobs": []}),
    ]);
    let node = storage_server.admit_node(&facts("web"), HOME).unwrap();
    assert_eq!(storage_server.bandwidth(&node, HOME), [5, 6]);
    storage_server.admit_node(&facts("web"), HOME).unwrap();
    assert_eq!(told.asked.lock().len(), 1, "a fresh answer is believed");
    storage_server.heartbeat().unwrap();
    assert_eq!((storage_server.bandwidth(&node, HOME), node.is_revoked()), ([7, 8], false));
    storage_server.heartbeat().unwrap();
    assert!(node.is_revoked());
    let refused = storage_server.admit_node(&facts("web"), HOME).unwrap_err();
    assert!(refused.is_transient, "nobody could be asked");
}

#[test]
fn a_node_is_told_to_retry_while_the_control_server_is_unreachable() {
    let (_place, _, storage_server) = storage_server(Vec::new());
    assert!(storage_server.admit_node(&facts("web"), HOME).unwrap_err().is_transient);
    let node = Node { name: "web".into(), serial: "4a".into(), revoked: Arc::default() };
    assert!(storage_server.access(&node, None).unwrap_err().is_transient);
    assert!(!storage_server.access(&node, Some("../x")).unwrap_err().is_transient);
}

#[test]
fn a_node_is_told_to_retry_while_its_domain_is_being_moved() {
    let busy = ControlServerError::NotNow("the domain 'web' is being moved".to_owned());
    assert!(refusal(&busy).is_transient);
    let (message, hint) = Default::default();
    assert!(!refusal(&ControlServerError::Refused { message, hint }).is_transient);
}

#[test]
fn the_end_of_a_job_is_told_until_it_was_heard() {
    let told = json!({"revoked": [], "limits": [], "jobs": [{"job": 9, "cancelled": true}]});
    let (_place, asked, storage_server) = storage_server(vec![told.clone()]);
    let node = Node { name: "web".into(), serial: "4a".into(), revoked: Arc::default() };
    let job = storage_server.job_begins(&node, "web", "backup", "/");
    storage_server.heartbeat().unwrap();
    assert!(storage_server.is_cancelled(job));
    storage_server.job_ends(
        job,
        &JobEnd::Complete { snapshot: Some("s".into()), is_partial: false },
        "{}",
    );
    storage_server.job_ends(job, &JobEnd::Lost, "");
    assert!(storage_server.heartbeat().is_err());
    asked.answers.lock().extend([Ok(told), Ok(json!({"revoked": [], "limits": [], "jobs": []}))]);
    storage_server.heartbeat().unwrap();
    storage_server.heartbeat().unwrap();
    let asked = asked.asked.lock();
    let heartbeats = asked.iter().filter(|it| it.0 == "/storage-server/heartbeat");
    let jobs: Vec<Value> = heartbeats.map(|it| it.1["jobs"].clone()).collect();
    assert_eq!(jobs[2][0]["job"], 9);
    assert_eq!(jobs[2][0]["end"]["state"], "complete");
    assert_eq!(jobs[3], json!([]), "{jobs:?}");
}

/// A receipt without the lock that a policy wants could not be made good later.
#[test]
fn there_is_no_receipt_before_the_control_server_said_what_it_says() {
    let unknown =
        json!({"is_known": false, "policy": "", "source": "", "class": "", "lock_secs": null});
    let heard = json!({"revoked": [], "limits": [], "jobs": []});
    let (_place, told, storage_server) = storage_server(vec![
        unknown.clone(),
        heard.clone(),
        unknown.clone(),
        unknown,
        heard,
        json!({"is_known": true, "policy": "p", "source": "s", "class": "c", "lock_secs": 60}),
    ]);
    assert!(
        storage_server.labels(7).unwrap_err().is_transient,
        "not known, even after a heartbeat"
    );
    let labels = storage_server.labels(7).unwrap();
    assert_eq!((labels.policy.as_str(), labels.lock_secs), ("p", Some(60)));
    let asked = told.asked.lock().last().cloned().unwrap();
    assert_eq!((asked.0.as_str(), &asked.1["number"]), ("/storage-server/labels", &json!(7)));
    assert!(storage_server.labels(7).unwrap_err().is_transient, "nobody answers");
}

#[test]
fn a_backup_whose_control_server_goes_away_gets_the_lock_that_was_told_before() {
    let heard = json!({"revoked": [], "limits": [], "jobs": [{"job": 9, "cancelled": false}]});
    let labels =
        json!({"is_known": true, "policy": "p", "source": "s", "class": "c", "lock_secs": 60});
    let (_place, _, storage_server) = storage_server(vec![heard, labels]);
    let node = Node { name: "web".into(), serial: "4a".into(), revoked: Arc::default() };
    let job = storage_server.job_begins(&node, "web", "backup", "/");
    storage_server.heartbeat().unwrap();
    assert_eq!(storage_server.labels(job).unwrap().lock_secs, Some(60));
}

/// Its policy was removed, or the control server started anew and does not know what it promised.
#[test]
fn a_lock_that_was_promised_when_a_job_began_holds_when_nobody_wants_it_any_more() {
    let heard = json!({"revoked": [], "limits": [], "jobs": [{"job": 9, "cancelled": false}]});
    let labels = |secs: Option<u64>| json!({"is_known": true, "policy": "p", "source": "s", "class": "c", "lock_secs": secs});
    let (_place, _, storage_server) = storage_server(vec![heard, labels(Some(60)), labels(None)]);
    let node = Node { name: "web".into(), serial: "4a".into(), revoked: Arc::default() };
    let job = storage_server.job_begins(&node, "web", "backup", "/");
    storage_server.heartbeat().unwrap();
    assert_eq!(storage_server.labels(job).unwrap().lock_secs, Some(60));
}

#[test]
fn only_the_control_server_has_its_permissions() {
    let (_place, _, storage_server) = storage_server(Vec::new());
    let node = |name: &str| Node { name: name.into(), serial: "1".into(), revoked: Arc::default() };
    assert!(
        storage_server.is_control_server(&node(CONTROL_SERVER))
            && !storage_server.is_control_server(&node("icecore"))
    );
    assert!(CONTROL_SERVER.parse::<Name>().is_err(), "no node can have its name");
    let access = storage_server.access(&node(CONTROL_SERVER), Some("web")).unwrap();
    assert!(access.may_init && !access.may_write);
    assert!(storage_server.access(&node(CONTROL_SERVER), None).is_err());
    assert!(storage_server.access(&node(CONTROL_SERVER), Some("../web")).is_err());
}
