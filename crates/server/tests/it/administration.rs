//! What an administrator does, over real TLS: grants and their keys, jobs, limits, commands, the audit log.

use crate::hostile::raw::{Raw, open};
use crate::hostile::server::Whole;
use crate::rig::{Rig, new_token};
use access::{Client, Error, Identity};
use api::commands::{CommandState, CommandUpdate, NewRestore, NodeCommand, NodeCommands};
use api::domains::{Domains, Grant, Grants, Snapshots};
use api::enroll::{IssuedKey, NewKey, NewToken, Role};
use api::jobs::{Job, JobState, Jobs};
use api::limits::Limit;
use api::nodes::Nodes;
use api::status::{Audit, Done, Status};
use protocol::Packet;
use server_contract::access_control::{AccessControl, JobEnd, JobStatus, Node};
use std::path::Path;

async fn enroll(rig: &Rig, new: NewToken) -> (Client, Node) {
    let agent = rig.folder(new.node.as_str());
    let made = rig.token(new).await;
    access::enroll::enroll(&rig.url, &made.token, &agent, false).await.unwrap();
    let client = Client::of(&Identity::load(&agent).unwrap()).unwrap();
    (client, rig.control.admit(&rig.peer(&agent)).unwrap())
}

fn refused(error: Error) -> api::Failure {
    match error {
        Error::Server(failure) => failure,
        other => panic!("no answer: {other}"),
    }
}

fn opens(folder: &Path, secret: [u8; 32]) -> bool {
    let storage = repository::local::LocalStorage::open(folder).unwrap();
    let slots = repository::keys::key_slots(&storage).unwrap();
    let secret = crypto::SlotSecret::Recovery(secret);
    slots.iter().any(|(_, slot)| {
        crypto::open_slot(slot, secret).is_ok_and(|(_, ring)| ring.reader.is_some())
    })
}

#[tokio::test]
async fn a_granted_node_gets_a_key_and_loses_it_with_the_grant() {
    let rig = Rig::start().await;
    let (_, web) = enroll(&rig, new_token("web")).await;
    let (spare_client, spare) = enroll(&rig, new_token("spare")).await;
    let folder = rig.control.access(&web, None).unwrap().path;
    let new = NewKey { domain: "web".parse().unwrap(), slot_secret: "07".repeat(32) };
    let failure = refused(spare_client.post::<IssuedKey>("/node/keys", &new).await.unwrap_err());
    assert_eq!(failure.name, "not-allowed");
    assert!(rig.control.access(&spare, Some("web")).is_err());
    assert!(!opens(&folder, [7; 32]));

    let (node, domain) = ("spare".parse().unwrap(), "web".parse().unwrap());
    let grant = Grant { node, domain, until: None };
    let _: Done = rig.admin().post("/grants", &grant).await.unwrap();
    let made: IssuedKey = spare_client.post("/node/keys", &new).await.unwrap();
    assert_eq!(made.until, None);
    let access = rig.control.access(&spare, Some("web")).unwrap();
    assert_eq!((access.may_read, access.may_write, access.may_init), (true, false, false));
    assert!(opens(&folder, [7; 32]));

    let _: Done = rig.admin().delete("/grants/spare/web").await.unwrap();
    assert!(!opens(&folder, [7; 32]));
    assert!(rig.control.access(&spare, Some("web")).is_err());
    let grants: Grants = rig.admin().get("/grants").await.unwrap();
    assert!(grants.grants.is_empty());
}

#[tokio::test]
async fn a_key_of_a_grant_goes_when_its_time_is_over() {
    let rig = Rig::start().await;
    let (_, web) = enroll(&rig, new_token("web")).await;
    let (spare, _) = enroll(&rig, new_token("spare")).await;
    let folder = rig.control.access(&web, None).unwrap().path;
    let (node, domain) = ("spare".parse().unwrap(), "web".parse().unwrap());
    let until = jiff::Timestamp::now().as_second() + 6;
    let grant = Grant { node, domain, until: Some(until) };
    let _: Done = rig.admin().post("/grants", &grant).await.unwrap();
    let new = NewKey { domain: grant.domain, slot_secret: "07".repeat(32) };
    let _: IssuedKey = spare.post("/node/keys", &new).await.unwrap();
    rig.control.housekeeping();
    assert!(opens(&folder, [7; 32]));
    while jiff::Timestamp::now().as_second() <= until {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    rig.control.housekeeping();
    assert!(!opens(&folder, [7; 32]));
}

#[tokio::test]
async fn a_write_only_node_reads_not_even_its_own_domain() {
    let rig = Rig::start().await;
    let new = NewToken { role: Some(Role::WriteOnly), ..new_token("web") };
    let (client, node) = enroll(&rig, new).await;
    assert!(!rig.control.access(&node, None).unwrap().may_read);
    let new = NewKey { domain: "web".parse().unwrap(), slot_secret: "07".repeat(32) };
    assert_eq!(refused(client.post::<IssuedKey>("/node/keys", &new).await.unwrap_err()).code, 13);
}

#[tokio::test]
async fn nodes_of_one_domain_share_a_repository_and_no_key() {
    let rig = Rig::start().await;
    let domain = Some("shared".parse().unwrap());
    let (_, one) = enroll(&rig, NewToken { domain: domain.clone(), ..new_token("one") }).await;
    let (_, two) = enroll(&rig, NewToken { domain, ..new_token("two") }).await;
    let (one, two) = (rig.control.access(&one, None), rig.control.access(&two, None));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.path, two.path);
    assert_ne!(one.key, two.key);
    let domains: Domains = rig.admin().get("/domains").await.unwrap();
    assert_eq!(domains.domains.len(), 1);
    assert_eq!(domains.domains[0].nodes.len(), 2);
    let snapshots: Snapshots = rig.admin().get("/snapshots?domain=shared").await.unwrap();
    assert!(snapshots.snapshots.is_empty() && snapshots.damaged == 0);
}

#[tokio::test]
async fn a_job_is_seen_while_it_runs_and_afterwards() {
    let rig = Rig::start().await;
    let (_, web) = enroll(&rig, new_token("web")).await;
    let begun = std::time::Instant::now();
    let job = rig.control.job_begins(&web, "web", "backup", "/etc");
    let status = |objects| JobStatus {
        objects,
        bytes: 1000 * objects,
        path: b"/etc/\xff".to_vec(),
        stage: "store".into(),
        ..JobStatus::default()
    };
    rig.control.job_is_at(job, &status(1));
    tokio::time::sleep(std::time::Duration::from_millis(1_000)).await;
    rig.control.job_is_at(job, &status(101));
    let slowest = 50.0 / begun.elapsed().as_secs_f64();
    let Jobs { jobs, .. } = rig.admin().get("/sessions").await.unwrap();
    let shown = &jobs[0];
    assert_eq!((shown.progress.objects, shown.progress.path.as_str()), (101, "/etc/\\xff"));
    assert!(
        shown.objects_per_sec.is_some_and(|rate| (slowest..150.0).contains(&rate)),
        "{shown:?}"
    );
    assert!(!rig.control.is_cancelled(job));
    let path = format!("/jobs/{job}");
    let _: Done = rig.admin().post(&format!("{path}/cancel"), &()).await.unwrap();
    assert!(rig.control.is_cancelled(job));
    rig.control.job_ends(job, &JobEnd::Failed("cancelled".into()), "{\"x\":1}");
    let ended: Job = rig.admin().get(&path).await.unwrap();
    assert_eq!((ended.state, ended.cancelled), (JobState::Cancelled, true));
    assert_eq!((ended.progress.objects, ended.report.as_deref()), (101, Some("{\"x\":1}")));
    let Jobs { jobs, .. } = rig.admin().get("/sessions").await.unwrap();
    assert!(jobs.is_empty());
    let Jobs { jobs, next } =
        rig.admin().get("/jobs?state=cancelled&node=web&limit=1").await.unwrap();
    assert_eq!((jobs.len(), next), (1, Some(job)));
    let failed = rig.admin().post::<Done>(&format!("{path}/cancel"), &()).await.unwrap_err();
    assert!(refused(failed).message.contains("has ended already"));
}

async fn numbers(rig: &Rig) -> Vec<u64> {
    let Jobs { jobs, .. } = rig.admin().get("/jobs").await.unwrap();
    jobs.iter().map(|job| job.id).collect()
}

#[tokio::test]
async fn old_jobs_are_deleted_once_a_day_and_never_while_they_run() {
    let rig = Rig::start().await;
    let (_, web) = enroll(&rig, new_token("web")).await;
    let begin = |rig: &Rig| rig.control.job_begins(&web, "web", "backup", "/etc");
    let (old, running) = (begin(&rig), begin(&rig));
    rig.control.job_ends(old, &JobEnd::Complete { snapshot: None, is_partial: false }, "{}");
    rig.control.housekeeping();
    assert_eq!(numbers(&rig).await, [running, old], "400 days are not over");
    let rig = rig.restart().await;
    rig.control.keep_jobs(0);
    let goes_on = begin(&rig);
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    rig.control.housekeeping();
    assert_eq!(numbers(&rig).await, [goes_on], "the other one ran when the server stopped");
    let Audit { entries, broken_at, .. } = rig.admin().get("/audit").await.unwrap();
    assert_eq!((entries[0].action.as_str(), broken_at), ("job.delete", None));
    rig.control.job_ends(goes_on, &JobEnd::Lost, "");
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    rig.control.housekeeping();
    assert_eq!(numbers(&rig).await, [goes_on], "once a day");
}

#[tokio::test]
async fn a_limit_holds_at_once_for_whom_it_is_meant() {
    let rig = Rig::start().await;
    let (_, web) = enroll(&rig, new_token("web")).await;
    let at = "10.1.2.3".parse().unwrap();
    assert_eq!(rig.control.bandwidth(&web, at), [0, 0]);
    let limit = Limit {
        id: None,
        node: None,
        network: Some("10.0.0.0/8".into()),
        days: None,
        hours: None,
        up: 5_000,
        down: 7_000,
    };
    let added: Limit = rig.admin().post("/limits", &limit).await.unwrap();
    assert_eq!(rig.control.bandwidth(&web, at), [5_000, 7_000]);
    assert_eq!(rig.control.bandwidth(&web, "192.0.2.1".parse().unwrap()), [0, 0]);
    let bad = Limit { network: Some("10/8".into()), ..limit };
    assert_eq!(refused(rig.admin().post::<Limit>("/limits", &bad).await.unwrap_err()).code, 2);
    let _: Done = rig.admin().delete(&format!("/limits/{}", added.id.unwrap())).await.unwrap();
    assert_eq!(rig.control.bandwidth(&web, at), [0, 0]);
}

/// Each connection is told, also one that began when nothing was limited any more, and each once.
#[tokio::test(flavor = "multi_thread")]
async fn every_connection_of_a_node_is_told_its_limits_and_that_there_are_none() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Raw::opened(&web).await);
    }
    let limit = Limit {
        id: None,
        node: Some("web".parse().unwrap()),
        network: None,
        days: None,
        hours: None,
        up: 50_000,
        down: 70_000,
    };
    let added: Limit = server.admin().post("/limits", &limit).await.unwrap();
    // Whoever comes now sets what the node may use, before the others are told.
    let mut late = Raw::greeted(&web).await;
    late.ask(&open("")).await;
    for connection in &mut all {
        assert_eq!(told_limits(connection).await, [0, 0]);
    }
    all.push(late);
    for connection in &mut all {
        assert_eq!(told_limits(connection).await, [50_000, 70_000]);
    }
    let _: Done = server.admin().delete(&format!("/limits/{}", added.id.unwrap())).await.unwrap();
    let mut after = Raw::greeted(&web).await;
    after.ask(&open("")).await;
    all.push(after);
    for connection in &mut all {
        assert_eq!(told_limits(connection).await, [0, 0]);
    }
}

async fn told_limits(connection: &mut Raw) -> [u64; 2] {
    match connection.next_of_all().await {
        Some(Packet::Limits { up, down, .. }) => [up, down],
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_command_waits_for_its_node_and_no_other_sees_it() {
    let rig = Rig::start().await;
    let (web, _) = enroll(&rig, new_token("web")).await;
    let (other, other_node) = enroll(&rig, new_token("other")).await;
    let seen = rig.control.commands_seen();
    let mut new = NewRestore {
        node: "web".parse().unwrap(),
        domain: Some("other".parse().unwrap()),
        snapshot: "latest".into(),
        paths: vec!["/etc".into()],
        target: "/restored".into(),
    };
    let failure = refused(rig.admin().post::<NodeCommand>("/restores", &new).await.unwrap_err());
    assert!(failure.hint.unwrap().contains("grant web other"));
    new.domain = None;
    let command: NodeCommand = rig.admin().post("/restores", &new).await.unwrap();
    assert_eq!(rig.control.commands_seen(), seen + 1, "who waits for commands looks again");
    let NodeCommands { commands } = web.get("/node/commands").await.unwrap();
    assert_eq!(commands, std::slice::from_ref(&command));
    assert!(rig.control.commands(&other_node).is_empty());
    let path = format!("/node/commands/{}", command.id);
    let update = CommandUpdate { state: CommandState::Done, message: Some("well".into()) };
    assert!(other.post::<Done>(&path, &update).await.is_err());
    let _: Done = web.post(&path, &update).await.unwrap();
    let NodeCommands { commands } = rig.admin().get("/commands").await.unwrap();
    assert_eq!(
        (commands[0].state, commands[0].message.as_deref()),
        (CommandState::Done, Some("well"))
    );
}

#[tokio::test]
async fn nodes_and_strangers_are_no_administrators_and_administrators_no_nodes() {
    let rig = Rig::start().await;
    let (web, _) = enroll(&rig, new_token("web")).await;
    for path in
        ["/nodes", "/status", "/audit", "/jobs", "/sessions", "/grants", "/limits", "/commands"]
    {
        assert_eq!(refused(web.get::<Done>(path).await.unwrap_err()).code, 13, "{path}");
    }
    assert!(web.delete::<Done>("/nodes/web").await.is_err());
    assert!(web.post::<Done>("/nodes/web/revoke", &()).await.is_err());
    assert_eq!(
        refused(rig.admin().get::<NodeCommands>("/node/commands").await.unwrap_err()).code,
        13
    );
    let identity = Identity::load(&rig.folder("web")).unwrap();
    let tls = identity.tls(pki::ALPN_HTTP).unwrap();
    let wrong = Client::new(identity.server, tls).with_token("wrong".to_owned().into());
    for _ in 0..12 {
        assert!(wrong.get::<Status>("/status").await.is_err());
    }
    assert!(
        refused(wrong.get::<Status>("/status").await.unwrap_err()).message.contains("too many")
    );
    let _: Status = rig.admin().get("/status").await.expect("a right token is always good");
}

#[tokio::test]
async fn the_audit_log_tells_who_did_what_and_holds_no_secret() {
    let rig = Rig::start().await;
    let made = rig.token(new_token("web")).await;
    access::enroll::enroll(&rig.url, &made.token, &rig.folder("web"), false).await.unwrap();
    let _: Done = rig.admin().post("/nodes/web/revoke", &()).await.unwrap();
    let audit: Audit = rig.admin().get("/audit").await.unwrap();
    assert_eq!(audit.broken_at, None);
    let actions: Vec<_> = audit.entries.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions[0], "node.unkey", "its key slot went, too");
    assert_eq!(
        actions[1..],
        ["node.revoke", "node.enroll", "domain.add", "token.make", "server.start"]
    );
    assert_eq!((audit.entries[0].who.as_str(), audit.entries[1].who.as_str()), ("server", "admin"));
    let secret = api::Token::parse(&made.token).unwrap().secret_text();
    let text = serde_json::to_string(&audit).unwrap();
    assert!(!text.contains(&secret) && !text.contains(&made.token));
}

#[tokio::test]
async fn a_server_that_starts_again_knows_its_nodes() {
    let rig = Rig::start().await;
    let (web, _) = enroll(&rig, new_token("web")).await;
    let _: NodeCommands = web.get("/node/commands").await.unwrap();
    let last_seen = async |rig: &Rig| {
        let Nodes { nodes } = rig.admin().get("/nodes").await.unwrap();
        nodes[0].last_seen
    };
    let seen = last_seen(&rig).await;
    rig.control.housekeeping();
    let rig = rig.restart().await;
    assert!(seen.is_some() && last_seen(&rig).await == seen, "{seen:?}");
    let identity = Identity::load(&rig.folder("web")).unwrap();
    let tls = identity.tls(pki::ALPN_HTTP).unwrap();
    let web = Client::new(rig.url.parse().unwrap(), tls);
    let _: NodeCommands = web.get("/node/commands").await.unwrap();
    assert!(rig.control.admit(&rig.peer(&rig.folder("web"))).is_ok());
}
