//! Those who flood, drip, hoard and lie, all at once, while an honest machine backs up: it loses at most a fifth of its
//! rate. Backups alone and under attack take turns in one run, and the median of the pairs counts: what else the
//! machine does meets both. While the median is too low, more pairs are made, up to a number, and within a time.

use crate::hostile::raw::{self, Raw, sealer, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use api::enroll::{EnrollReply, EnrollRequest, Role};
use api::status::{Done, Status};
use ids::ObjectId;
use protocol::Packet;
use protocol::frame::Header;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// What an honest backup stores in one round.
const BYTES: usize = 24 << 20;
/// Pairs of a backup alone and one under attack, whose median counts.
const PAIRS_MIN: usize = 5;
/// When fewer say no: a machine that is busy with other things spoils some.
const PAIRS_MAX: usize = 11;
/// An honest machine keeps at least so much of its rate.
const KEPT: f64 = 0.8;
/// All of it ends within this time.
const WITHIN: Duration = Duration::from_secs(300);
const DRIPPERS: usize = 4;
/// A body that is begun and does not come.
const BODY_BYTES: usize = 8 << 20;
const STRANGERS: usize = 300;

struct Scene {
    server: Whole,
    honest: Machine,
    /// Those of each attack: who was revoked attacks no more.
    hostile: Vec<Vec<Machine>>,
}

impl Scene {
    async fn set() -> Self {
        more_files();
        let server = Whole::start().await;
        let honest = server.node("honest", "honest", Role::Full).await;
        let mut hostile = Vec::new();
        // All of them now: who guesses tokens keeps everybody on this machine from enrolling.
        for round in 0..PAIRS_MAX {
            let mut of_round = Vec::new();
            for number in 0..=DRIPPERS {
                let name = format!("hostile-{round}-{number}");
                of_round.push(server.node(&name, &name, Role::Full).await);
            }
            hostile.push(of_round);
        }
        Self { server, honest, hostile }
    }

    /// Seconds of an honest backup of something new.
    async fn backup(&self) -> f64 {
        let mut bytes = vec![0; BYTES];
        getrandom::fill(&mut bytes).unwrap();
        self.honest.write("file", &bytes);
        let begun = Instant::now();
        self.honest.backup().await;
        begun.elapsed().as_secs_f64()
    }

    /// How much of the rate is kept: seconds alone over seconds under attack.
    async fn pair(&self, round: usize) -> f64 {
        let alone = self.backup().await;
        let attack = self.attack(&self.hostile[round]).await;
        let attacked = self.backup().await;
        let status: Status = self.server.admin().get("/status").await.unwrap();
        assert!(status.running > DRIPPERS as u64, "the hostile ones have no sessions");
        drop(attack);
        self.end(&self.hostile[round]).await;
        let kept = alone / attacked;
        say(&format!("{alone:.2} s alone, {attacked:.2} s under attack: {kept:.2} kept"));
        kept
    }

    /// Nothing of what they had stays: the next backup is alone.
    async fn end(&self, hostile: &[Machine]) {
        for machine in hostile {
            let path = format!("/nodes/{}/revoke", machine.identity.agent.node);
            let _: Done = self.server.admin().post(&path, &()).await.unwrap();
        }
    }

    /// Everything hostile at once, until it is dropped.
    async fn attack(&self, hostile: &[Machine]) -> JoinSet<()> {
        let mut attack = JoinSet::new();
        let (drippers, hoarder) = hostile.split_at(DRIPPERS);
        for dripper in drippers {
            for _ in 0..8 {
                attack.spawn(drip(Raw::opened(dripper).await, dripper.clone()));
            }
        }
        attack.spawn(hoard(hoarder[0].clone()));
        attack.spawn(lie(hoarder[0].clone()));
        let address = (self.honest.identity.server.host.clone(), self.honest.identity.server.port);
        let ca = self.server.folder("data").join("ca/ca.pem");
        let ca = std::fs::read_to_string(ca).unwrap();
        let tls = pki::client::client_config(&ca, None, pki::ALPN_HTTP).unwrap();
        attack.spawn(crowd(Arc::new(tls), address));
        attack.spawn(guess(self.server.admin()));
        // Until all is taken that can be.
        tokio::time::sleep(Duration::from_secs(4)).await;
        attack
    }
}

/// Begins a session and a large record, and sends of it as little as is borne.
async fn drip(mut raw: Raw, machine: Machine) {
    let (_, ring) = stolen_keys(&machine, &mut raw).await;
    raw.send(&raw::begin(&sealer(&ring))).await;
    raw.next().await;
    let kind = Packet::Append { record: Vec::new() }.frame(1)[0];
    let header = Header { kind, request: 1, body_bytes: BODY_BYTES };
    raw.send_bytes(&header.encode()).await;
    loop {
        raw.send_bytes(&[0; 16 << 10]).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// Takes all connections that a node may have, and promises all that it may.
async fn hoard(machine: Machine) {
    let mut held = Vec::new();
    for number in 0..15u8 {
        let mut raw = Raw::opened(&machine).await;
        let (_, ring) = stolen_keys(&machine, &mut raw).await;
        raw.send(&raw::begin(&sealer(&ring))).await;
        raw.next().await;
        for round in 0..8u8 {
            let id = |at: u16| {
                let mut id = [number; 24];
                id[..3].copy_from_slice(&[round, at as u8, (at >> 8) as u8]);
                ObjectId(id)
            };
            raw.ask(&Packet::Claim { ids: (0..16_000).map(id).collect() }).await;
        }
        held.push(raw);
    }
    for _ in 0..40 {
        held.push(Raw::connect(&machine).await);
    }
    std::future::pending::<()>().await;
}

/// Says what is no packet, what may not come, and what is longer than it says, again and again.
async fn lie(machine: Machine) {
    loop {
        let mut raw = Raw::connect(&machine).await;
        raw.send_bytes(&[0xff; 64]).await;
        let mut raw = Raw::connect(&machine).await;
        raw.send(&raw::hello()).await;
        raw.send(&Packet::Commit { manifest: vec![0; 100] }).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Holds all places that nobody needs a certificate for, and comes back when it is sent away.
async fn crowd(tls: Arc<rustls::ClientConfig>, address: (String, u16)) {
    let mut held = std::collections::VecDeque::new();
    loop {
        let Ok(tcp) = TcpStream::connect((address.0.as_str(), address.1)).await else { continue };
        let name = "localhost".try_into().unwrap();
        if let Ok(mut stream) = TlsConnector::from(tls.clone()).connect(name, tcp).await {
            let _ = stream.write_all(b"GET /api/v1/openapi.json HTTP/1.1\r\n").await;
            held.push_back(stream);
        }
        if held.len() > STRANGERS {
            held.pop_front();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Tries tokens that nobody made.
async fn guess(client: access::Client) {
    let request = EnrollRequest {
        secret: "07".repeat(16),
        request: "none".to_owned(),
        slot_secret: "00".repeat(32),
        version: "1".to_owned(),
        privacy: Default::default(),
    };
    loop {
        let _ = client.post::<EnrollReply>("/enroll", &request).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn more_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Says it where a test that passes is silent, too.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "hoarding: {line}");
}

/// The median of as many pairs as it takes.
async fn kept() -> f64 {
    let scene = Scene::set().await;
    scene.backup().await; // the first one makes the repository's files
    let mut pairs = Vec::new();
    for round in 0..PAIRS_MAX {
        pairs.push(scene.pair(round).await);
        if pairs.len() >= PAIRS_MIN && median(pairs.clone()) >= KEPT {
            break;
        }
    }
    say(&format!(
        "{:.2} of the rate kept, the median of {} pairs",
        median(pairs.clone()),
        pairs.len()
    ));
    median(pairs)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_backup_keeps_four_fifths_of_its_rate_under_attack() {
    let _alone = crate::ALONE.lock().await;
    let kept = tokio::time::timeout(WITHIN, kept()).await.expect("it takes too long");
    assert!(kept >= KEPT, "{kept:.2} of the rate was kept, less than {KEPT}");
}
