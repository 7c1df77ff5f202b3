//! Quotas against nodes that do not care, over real TLS: what is refused is not stored, by any way.

use crate::hostile::raw::{Raw, append, begin, record, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use api::enroll::Role;
use api::quotas::{QuotaState, Quotas};
use api::sites::{PutObject, SiteChange};
use ids::ObjectId;
use protocol::Packet;
use protocol::fault::Code;
use seal::Sealer;
use server_contract::uses::stored_bytes;
use std::path::PathBuf;
use std::time::Duration;

/// For so long a server goes by the quotas that it read.
const HEARD_WITHIN: Duration = Duration::from_millis(1_200);
/// What is measured is believed for so long, once somebody was refused.
const FORGOTTEN_AFTER: Duration = Duration::from_millis(2_500);
const CHUNK_BYTES: usize = 100_000;

async fn set(server: &Whole, name: &str, body: serde_json::Value) {
    let path = format!("/objects/quota/{name}");
    let put = PutObject { version: None, body, dry_run: false };
    let _: SiteChange = server.admin().put(&path, &put).await.unwrap();
    tokio::time::sleep(HEARD_WITHIN).await;
}

async fn of(server: &Whole, name: &str) -> api::quotas::Quota {
    let all: Quotas = server.admin().get("/quotas").await.unwrap();
    all.quotas.into_iter().find(|quota| quota.name == name).unwrap()
}

fn on_disk(server: &Whole, domain: &str) -> u64 {
    stored_bytes(&server.folder("data/pool/domains").join(domain)).unwrap()
}

/// A session that stores records of its own making.
struct Greedy {
    raw: Raw,
    name: ([u8; 16], [u8; 16]),
    sealer: Sealer,
    number: u64,
}

impl Greedy {
    async fn begin(machine: &Machine, first: u64) -> Self {
        let mut raw = Raw::opened(machine).await;
        let (_, ring) = stolen_keys(machine, &mut raw).await;
        let sealer = sealer(&ring);
        let name = raw.begin(&sealer).await;
        Self { raw, name, sealer, number: first }
    }

    /// Stores one more record; the fault, if it is refused.
    async fn store(&mut self) -> Result<(), (Code, String)> {
        self.number += 1;
        let mut id = ObjectId([0; 24]);
        id.0[..8].copy_from_slice(&self.number.to_le_bytes());
        let bytes: Vec<u8> = (0..CHUNK_BYTES as u64)
            .map(|at| (at ^ self.number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
            .collect();
        match self.raw.ask(&append(&record(&self.sealer, id, &bytes))).await {
            Packet::Stored { .. } => Ok(()),
            Packet::Fault { code, message, .. } => Err((Code::from_number(code), message)),
            other => panic!("{other:?}"),
        }
    }

    /// Stores until it is refused.
    async fn store_all(mut self) -> (Self, String) {
        loop {
            if let Err((code, message)) = self.store().await {
                assert_eq!(code, Code::NoSpace, "{message}");
                return (self, message);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_that_store_what_they_can_do_not_exceed_a_quota() {
    const BYTES: u64 = 3 << 20;
    let server = Whole::start().await;
    let machine = server.node("greedy", "greedy", Role::Full).await;
    machine.write("file", b"honest");
    let honest = machine.backup().await;
    set(&server, "q", serde_json::json!({"bytes": "3M", "nodes": ["greedy"]})).await;
    let [one, two] = [Greedy::begin(&machine, 0).await, Greedy::begin(&machine, 1 << 20).await];
    let ((mut one, message), (_two, _)) = tokio::join!(one.store_all(), two.store_all());
    assert!(message.contains("the quota 'q' has no room"), "{message}");
    let (code, _) = one.store().await.unwrap_err();
    assert_eq!(code, Code::NoSpace, "the stream stays broken");
    let stored = on_disk(&server, "greedy");
    assert!((BYTES - 3 * CHUNK_BYTES as u64..=BYTES).contains(&stored), "{stored}");
    assert_eq!(machine.restored(honest, "file").await, b"honest");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_begins_where_a_quota_is_used_up_and_others_are_left_alone() {
    let server = Whole::start().await;
    let machine = server.node("full", "full", Role::Full).await;
    let other = server.node("other", "other", Role::Full).await;
    machine.write("file", b"honest");
    let honest = machine.backup().await;
    set(&server, "small", serde_json::json!({"bytes": "1", "domains": ["full"]})).await;
    assert_eq!(of(&server, "small").await.state, QuotaState::Full);
    let mut raw = Raw::opened(&machine).await;
    let (_, ring) = stolen_keys(&machine, &mut raw).await;
    let refused = raw.is_refused(&begin(&sealer(&ring)), Code::NoSpace).await;
    assert!(refused.contains("the quota 'small' is used up"), "{refused}");
    assert_eq!(machine.restored(honest, "file").await, b"honest");
    other.write("file", b"another");
    other.backup().await;
}

/// Two nodes that share a quota, and a file in place of the containers of one: nobody knows what that domain stores.
struct Unmeasurable {
    server: Whole,
    machine: Machine,
    containers: PathBuf,
}

impl Unmeasurable {
    async fn start() -> Self {
        let server = Whole::start().await;
        let machine = server.node("web", "web", Role::Full).await;
        let lost = server.node("lost", "lost", Role::Full).await;
        lost.write("file", b"x");
        lost.backup().await;
        let body = serde_json::json!({"bytes": "1T", "nodes": ["web", "lost"]});
        set(&server, "both", body).await;
        machine.write("file", b"x");
        machine.backup().await;
        let containers = server.folder("data/pool/domains/lost/containers");
        Self { server, machine, containers }
    }

    async fn spoil(&self) {
        std::fs::rename(&self.containers, self.containers.with_extension("aside")).unwrap();
        std::fs::write(&self.containers, "no directory").unwrap();
        tokio::time::sleep(FORGOTTEN_AFTER).await;
        let shown = of(&self.server, "both").await;
        assert_eq!((shown.state, shown.used_bytes), (QuotaState::Unknown, None));
    }

    fn mend(&self) {
        std::fs::remove_file(&self.containers).unwrap();
        std::fs::rename(self.containers.with_extension("aside"), &self.containers).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_whose_use_nobody_can_measure_lets_nothing_in() {
    let all = Unmeasurable::start().await;
    all.spoil().await;
    let mut raw = Raw::opened(&all.machine).await;
    let (_, ring) = stolen_keys(&all.machine, &mut raw).await;
    let refused = raw.is_refused(&begin(&sealer(&ring)), Code::Busy).await;
    assert!(refused.contains("'lost', and nobody knows how much it stores"), "{refused}");
    assert_eq!(raw.is_left().await, None, "who comes back asks again");
    let stored = on_disk(&all.server, "web");
    all.machine.write("file", &vec![7; 1 << 20]);
    let waiting = tokio::spawn({
        let machine = all.machine.clone();
        async move { machine.backup().await }
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waiting.is_finished(), "it waits until it is known");
    assert_eq!(on_disk(&all.server, "web"), stored);
    all.mend();
    waiting.await.unwrap();
}

/// Before, the session ended as if the disk were full, whatever room there was.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_a_time_in_which_nobody_knows_what_a_quota_has_left() {
    let all = Unmeasurable::start().await;
    let mut session = Greedy::begin(&all.machine, 0).await;
    session.store().await.unwrap();
    all.spoil().await;
    let (code, message) = session.store().await.unwrap_err();
    assert_eq!(code, Code::Busy, "{message}");
    assert_eq!(session.raw.is_left().await, None);
    all.mend();
    tokio::time::sleep(FORGOTTEN_AFTER).await;
    session.raw = Raw::greeted(&all.machine).await;
    let (name, secret) = session.name;
    let attach = Packet::Attach { session: name, secret, stream: 0 };
    let attached = session.raw.ask(&attach).await;
    assert!(matches!(attached, Packet::Attached { applied: 1 }), "{}", attached.name());
    session.store().await.unwrap();
}
