//! Connections that are not let in, or may not go on: too many of one node, a grant that was taken back, a certificate
//! that ends, a server that stops.

use crate::hostile::lifetime::ending_in;
use crate::hostile::raw::{Raw, begin, hello, open, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use api::domains::Grant;
use api::enroll::Role;
use api::nodes::{Node, Nodes};
use api::status::Done;
use protocol::Packet;
use protocol::fault::Code;
use protocol::packet::Purpose;
use std::time::{Duration, Instant};

/// As `docs/PROTOCOL.md` says.
const CONNECTIONS_MAX: usize = 64;
const SESSIONS_MAX: usize = 16;

/// Longest that anything here takes on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

async fn opened(machine: &Machine, domain: &str, purpose: Purpose) -> Raw {
    let mut raw = Raw::greeted(machine).await;
    let answer = raw.ask(&Packet::Open { domain: domain.to_owned(), purpose }).await;
    assert!(matches!(answer, Packet::Opened { .. }), "{answer:?}");
    raw
}

async fn lives(raw: &mut Raw) -> bool {
    matches!(raw.ask(&Packet::Ping {}).await, Packet::Pong {})
}

/// Waits for what takes a moment.
async fn soon(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_so_many_connections_and_others_go_on() {
    let server = Whole::start().await;
    let greedy = server.node("greedy", "greedy", Role::Full).await;
    let other = server.node("other", "other", Role::Full).await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        held.push(Raw::greeted(&greedy).await);
    }
    let mut late = Raw::connect(&greedy).await;
    late.send(&hello()).await;
    assert_eq!(late.is_left().await, Some(Code::Busy));
    other.write("file", b"of another");
    let name = other.backup().await;
    assert_eq!(other.restored(name, "file").await, b"of another");
    assert!(lives(&mut held[0]).await, "what was there goes on");
    held.pop();
    soon("a place that was given back is there again", async || {
        let mut again = Raw::connect(&greedy).await;
        matches!(again.ask(&hello()).await, Packet::Welcome { .. })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_so_many_sessions_and_the_next_one_waits_for_its_turn() {
    let server = Whole::start().await;
    let busy = server.node("busy", "busy", Role::Full).await;
    let mut raw = Raw::opened(&busy).await;
    let (_, ring) = stolen_keys(&busy, &mut raw).await;
    let mut held = vec![];
    for _ in 0..SESSIONS_MAX {
        let mut raw = Raw::opened(&busy).await;
        raw.begin(&sealer(&ring)).await;
        held.push(raw);
    }
    raw.send(&begin(&sealer(&ring))).await;
    assert_eq!(raw.is_left().await, Some(Code::Busy));
    busy.write("file", b"one more");
    let machine = busy.clone();
    let backup = tokio::spawn(async move { machine.backup().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!backup.is_finished(), "there is no place for it");
    let finish = Packet::Finish { is_complete: false, report: b"{}".to_vec() };
    assert!(matches!(held[0].ask(&finish).await, Packet::Done {}));
    let name = tokio::time::timeout(PATIENCE, backup).await;
    let name = name.expect("it takes the place that was given back").unwrap();
    assert_eq!(busy.restored(name, "file").await, b"one more");
}

/// Each job is a row of the catalog, outside of every quota: a node in a loop made 70 of them a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_begins_so_many_jobs_and_others_go_on() {
    let server = Whole::start().await;
    let busy = server.node("busy", "busy", Role::Full).await;
    let other = server.node("other", "other", Role::Full).await;
    busy.write("file", &[7; 100_000]);
    let name = busy.backup().await;
    let mut raw = Raw::opened(&busy).await;
    let (_, ring) = stolen_keys(&busy, &mut raw).await;
    let shared = &server.shared;
    assert!(shared.jobs.take("busy", 49_990));
    while shared.jobs.take("busy", 1) {}
    raw.send(&begin(&sealer(&ring))).await;
    assert_eq!(raw.is_left().await, Some(Code::Busy));
    let mut restore = Raw::greeted(&busy).await;
    restore.send(&Packet::Open { domain: String::new(), purpose: Purpose::Restore }).await;
    assert_eq!(restore.is_left().await, Some(Code::Busy));
    other.write("file", b"of another");
    let others = other.backup().await;
    assert_eq!(other.restored(others, "file").await, b"of another");
    // One comes back every two seconds.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(busy.restored(name, "file").await, [7; 100_000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_by_a_grant_is_out_when_it_is_taken_back() {
    let server = Whole::start().await;
    server.node("vault", "vault", Role::Full).await;
    let reader = server.node("reader", "reader", Role::Full).await;
    let grant =
        |until| Grant { node: "reader".parse().unwrap(), domain: "vault".parse().unwrap(), until };
    let _: Done = server.admin().post("/grants", &grant(None)).await.unwrap();
    let mut own = opened(&reader, "", Purpose::Restore).await;
    let mut by_grant = opened(&reader, "vault", Purpose::Restore).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(lives(&mut by_grant).await, "the grant is there");
    let _: Done = server.admin().delete("/grants/reader/vault").await.unwrap();
    assert_eq!(by_grant.is_left().await, Some(Code::NotAllowed));
    Raw::greeted(&reader).await.is_refused(&open("vault"), Code::NotAllowed).await;
    // One that ends by its time is the same.
    let soon = jiff::Timestamp::now().as_second() + 5;
    let _: Done = server.admin().post("/grants", &grant(Some(soon))).await.unwrap();
    let mut by_grant = opened(&reader, "vault", Purpose::Restore).await;
    assert_eq!(by_grant.is_left().await, Some(Code::NotAllowed));
    assert!(lives(&mut own).await, "its own domain is its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_ends_ends_who_waits_and_not_who_works() {
    let server = Whole::start().await;
    let old = server.node("old", "old", Role::Full).await;
    let mut lasting = opened(&old, "", Purpose::Agent).await;
    // As long as a busy machine takes for all that has to begin before.
    let old = ending_in(&server, &old, 15);
    let mut waiting = opened(&old, "", Purpose::Agent).await;
    let mut backup = Raw::opened(&old).await;
    let (_, ring) = stolen_keys(&old, &mut backup).await;
    backup.begin(&sealer(&ring)).await;
    let mut restore = opened(&old, "", Purpose::Restore).await;
    assert!(lives(&mut waiting).await);
    assert_eq!(waiting.is_left().await, Some(Code::Busy), "it may have the next one");
    assert!(backup.number().await > 0, "a backup goes on");
    assert!(lives(&mut restore).await, "a restore, too");
    assert!(lives(&mut lasting).await, "a connection with another certificate is none of this");
    let finish = Packet::Finish { is_complete: false, report: b"{}".to_vec() };
    for done in [&mut backup, &mut restore] {
        let answer = done.ask(&finish).await;
        assert!(matches!(answer, Packet::Done {}), "{answer:?}");
        assert_eq!(done.is_left().await, Some(Code::Busy), "what it was for is done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_tells_everybody_and_waits_for_nobody() {
    let mut server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    let mut agent = opened(&web, "", Purpose::Agent).await;
    let mut backup = Raw::opened(&web).await;
    let (_, ring) = stolen_keys(&web, &mut backup).await;
    backup.begin(&sealer(&ring)).await;
    let mut reading = Raw::greeted(&web).await;
    reading.send(&Packet::GetNoise { bytes: 64 << 20 }).await;
    // Who reads nothing, so that the server is in the middle of a frame.
    let mut deaf = Raw::greeted(&web).await;
    deaf.send(&Packet::GetNoise { bytes: 1 << 40 }).await;
    let start = Instant::now();
    let told = async |raw: &mut Raw| (raw.is_left().await, start.elapsed());
    let (agent, backup, reading, ()) =
        tokio::join!(told(&mut agent), told(&mut backup), told(&mut reading), server.stop());
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    for (said, after) in [agent, backup] {
        assert_eq!(said, Some(Code::ShuttingDown));
        assert!(after < PATIENCE, "{after:?}: they were told");
    }
    assert_eq!(reading.0, Some(Code::ShuttingDown), "between two frames");
    let left = tokio::time::timeout(PATIENCE, deaf.is_left()).await;
    assert!(left.is_ok(), "who does not read is cut");
}

async fn listed(server: &Whole) -> Node {
    let Nodes { nodes } = server.admin().get("/nodes").await.unwrap();
    nodes.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_listed_as_it_is() {
    let server = Whole::start().await;
    let web = server.node("web", "web", Role::Full).await;
    assert!(!listed(&server).await.connected, "it was enrolled, and no more");
    let now = || jiff::Timestamp::now().as_second();
    let mut raw = opened(&web, "", Purpose::Agent).await;
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let looked = now();
    let node = listed(&server).await;
    assert!(node.connected && node.last_seen.unwrap() >= looked - 1, "{node:?}");
    assert_eq!(node.address.as_deref(), Some("127.0.0.1"));
    // A session that waits for its node is no connection.
    let (_, ring) = stolen_keys(&web, &mut raw).await;
    raw.begin(&sealer(&ring)).await;
    let ended = now();
    drop(raw);
    soon("it is gone", async || !listed(&server).await.connected).await;
    let left = listed(&server).await.last_seen.unwrap();
    assert!(left >= ended - 1, "it was seen until it left");
    server.control.housekeeping();
    server.control.housekeeping();
    assert_eq!(listed(&server).await.last_seen, Some(left), "the catalog knows it, too");
}
