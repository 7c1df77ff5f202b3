//! A node that was let in and lies about jobs: those of others, its own, and how much it did. It changes no job of
//! another node, a job of its own claims no snapshot that it did not make, and what it says spoils no report.

use crate::hostile::raw::{Raw, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use api::commands::{KILLED, what_of};
use api::enroll::Role;
use api::jobs::{Job, JobCause, JobState, Jobs, StartPolicy, StartedPolicy};
use api::reports::{Capacity, Costs};
use api::sites::{ApplySite, SiteChange};
use api::status::Done;
use protocol::Packet;
use protocol::packet::{PathBytes, Purpose};
use std::time::Duration;

/// Packets of a flood.
const FLOOD: u64 = 20_000;

struct Scene {
    server: Whole,
    web: Machine,
    evil: Machine,
}

impl Scene {
    /// Two nodes with a policy each.
    async fn set() -> Self {
        let server = Whole::start().await;
        let web = server.node("web", "web", Role::Full).await;
        let evil = server.node("evil", "evil", Role::Full).await;
        let text = "[policy.all]\nnodes = [\"web\", \"evil\"]\npaths = [\"/data\"]\n".to_owned();
        let site = ApplySite { text, version: None, dry_run: false };
        let _: SiteChange = server.admin().post("/site", &site).await.unwrap();
        Self { server, web, evil }
    }

    async fn job(&self, id: u64) -> Job {
        self.server.admin().get(&format!("/jobs/{id}")).await.unwrap()
    }

    /// Starts the policy on a node whose agent is `agent`: its job, and the command of it.
    async fn start(&self, node: &str, agent: &mut Raw) -> (u64, u64) {
        let wanted = StartPolicy { node: Some(node.parse().unwrap()), ..StartPolicy::default() };
        let started: StartedPolicy =
            self.server.admin().post("/policies/all/start", &wanted).await.unwrap();
        let job = started.jobs[0].job.unwrap();
        // A session that has just ended may keep its node busy for a moment.
        while self.job(job).await.state != JobState::Running {
            let control = self.server.control.clone();
            tokio::task::spawn_blocking(move || control.start_what_is_due()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        match agent.next().await {
            Some(Packet::Command { command, .. }) => (job, command),
            other => panic!("{other:?}"),
        }
    }
}

async fn agent(machine: &Machine) -> Raw {
    let mut raw = Raw::greeted(machine).await;
    let open = Packet::Open { domain: String::new(), purpose: Purpose::Agent };
    assert!(matches!(raw.ask(&open).await, Packet::Opened { .. }));
    raw
}

fn done(command: u64, is_complete: bool, said: &str) -> Packet {
    Packet::CommandDone { command, is_complete, report: said.as_bytes().to_vec() }
}

/// Begins a session that says what it is of.
async fn begin(machine: &Machine, what: &str) -> Raw {
    let mut raw = Raw::opened(machine).await;
    let (_, ring) = stolen_keys(machine, &mut raw).await;
    let record = PathBytes(sealer(&ring).session_record().to_bytes());
    let begin = Packet::Begin { base: None, what: what.to_owned(), record };
    assert!(matches!(raw.ask(&begin).await, Packet::Begun { .. }));
    raw
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_ends_no_job_of_another_whatever_it_says_of_its_command() {
    let scene = Scene::set().await;
    let (mut honest, mut hostile) = (agent(&scene.web).await, agent(&scene.evil).await);
    let (job, command) = scene.start("web", &mut honest).await;
    scene.web.write("file", b"of the web");
    let other = scene.web.backup().await.id.to_string();
    let killed = format!("name \"{KILLED}\"");
    let snapshot = format!("snapshot_id \"{other}\"");
    for said in ["", &killed, &snapshot] {
        for is_complete in [true, false] {
            hostile.ask(&done(command, is_complete, said)).await;
            assert_eq!(scene.job(job).await.state, JobState::Running, "{said}");
        }
    }
    // Nor does it take the job by saying that its session is the one of that command.
    let mut forged = begin(&scene.evil, &what_of(command)).await;
    assert_eq!(scene.job(job).await.node, "web");
    let newest: Jobs = scene.server.admin().get("/jobs?node=evil").await.unwrap();
    assert!(newest.jobs[0].plan.is_none(), "a job of its own, of no policy: {:?}", newest.jobs[0]);
    // A session of the job is not ended by others either.
    let _session = begin(&scene.web, &what_of(command)).await;
    for said in ["", &killed] {
        hostile.ask(&done(command, false, said)).await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(scene.job(job).await.state, JobState::Running);
    forged.ask(&Packet::Finish { is_complete: true, report: Vec::new() }).await;
    assert_eq!(scene.job(job).await.state, JobState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_snapshot_proves_no_new_job() {
    let scene = Scene::set().await;
    scene.evil.write("file", b"made once");
    let old = scene.evil.backup().await.id.to_string();
    // Its job is over once its session is.
    let admin = scene.server.admin();
    let jobs: Jobs = admin.get("/jobs?node=evil&state=running").await.unwrap();
    for job in jobs.jobs {
        let _: Done = admin.post(&format!("/jobs/{}/cancel", job.id), &()).await.unwrap();
    }
    let mut lazy = agent(&scene.evil).await;
    let (job, command) = scene.start("evil", &mut lazy).await;
    lazy.ask(&done(command, true, &format!("snapshot_id \"{old}\""))).await;
    let ended = scene.job(job).await;
    assert_eq!((ended.state, ended.cause), (JobState::Failed, Some(JobCause::NoSnapshot)));
    assert_eq!(ended.snapshot, None, "that of another job is none of this one");
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_that_a_node_makes_up_spoil_no_job_and_no_report() {
    let scene = Scene::set().await;
    for _ in 0..3 {
        let mut raw = begin(&scene.evil, "much").await;
        let (stage, path) = ("\u{1b}[2J".repeat(1000), PathBytes(vec![0xff; 4000]));
        let (objects, bytes, bytes_read) = (u64::MAX, u64::MAX, u64::MAX);
        let lie = Packet::Progress { objects, bytes, bytes_read, stage, path };
        raw.send(&lie).await;
        let report = r#"{"report":{"objects_inspected":18446744073709551615,"bytes_processed":18446744073709551615,
            "bytes_transferred":18446744073709551615,"elapsed_secs":1e300,"cost":{"user_secs":1e300,"system_secs":1e300}}}"#;
        let report = report.as_bytes().to_vec();
        raw.ask(&Packet::Finish { is_complete: true, report }).await;
    }
    let admin = scene.server.admin();
    let jobs: Jobs = admin.get("/jobs?node=evil").await.unwrap();
    let states: Vec<_> = jobs.jobs.iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Complete; 3]);
    assert!(jobs.jobs.iter().all(|job| job.snapshot.is_none()), "what it says is no snapshot");
    let _: Costs = admin.get("/reports/costs").await.unwrap();
    let capacity: Capacity = admin.get("/reports/capacity").await.unwrap();
    assert!(capacity.rows.iter().any(|row| row.node == "evil"));
    for path in ["/protection", "/reports/backups", "/reports/causes", "/sessions"] {
        let _: serde_json::Value = admin.get(path).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_reports_and_progress_keep_nobody_waiting() {
    let scene = Scene::set().await;
    let mut raw = begin(&scene.evil, "much").await;
    let mut hostile = agent(&scene.evil).await;
    let flood = tokio::spawn(async move {
        for number in 0..FLOOD {
            let (stage, path) = ("store".to_owned(), PathBytes(number.to_le_bytes().to_vec()));
            let (objects, bytes, bytes_read) = (number, number, number);
            raw.send(&Packet::Progress { objects, bytes, bytes_read, stage, path }).await;
            if number % 20 == 0 {
                hostile.ask(&done(number, false, &"x".repeat(10_000))).await;
            }
        }
    });
    let begun = std::time::Instant::now();
    for round in 0..3u8 {
        scene.web.write("file", &[round; 1000]);
        scene.web.backup().await;
        let _: Jobs = scene.server.admin().get("/jobs").await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let is_over = flood.is_finished();
    flood.abort();
    println!("three backups in {:?}; the flood was over before: {is_over}", begun.elapsed());
    // None of its reports was of a command of its own: nothing was written.
    let commands: api::commands::NodeCommands =
        scene.server.admin().get("/commands").await.unwrap();
    assert!(commands.commands.is_empty());
}
