//! A domain of several nodes: each source belongs to the node that made its newest snapshot, and no other node
//! publishes for it.

use crate::hostile::raw::{Forged, NOBODYS, Raw, sealer_of_now, stolen_keys};
use crate::hostile::server::{Machine, Whole};
use access::Identity;
use api::enroll::{IssuedToken, NewToken, Role};
use api::status::Done;
use ids::ObjectId;
use protocol::Packet;
use protocol::fault::Code;
use std::sync::Arc;
use std::time::Duration;

/// A server with a domain `team` of two nodes.
pub(crate) struct Scene {
    pub(crate) server: Whole,
    pub(crate) web: Machine,
    pub(crate) db: Machine,
}

impl Scene {
    pub(crate) async fn set() -> Self {
        let server = Whole::start().await;
        let web = server.node("web", "team", Role::Full).await;
        let db = server.node("db", "team", Role::Full).await;
        web.write("file", b"of web");
        db.write("file", b"of db");
        Self { server, web, db }
    }

    /// The source of the newest snapshot.
    pub(crate) fn newest_source(&self) -> ObjectId {
        self.server.newest_head("team").source
    }

    pub(crate) async fn revoke(&self, node: &str) {
        let path = format!("/nodes/{node}/revoke");
        let _: Done = self.server.admin().post(&path, &()).await.unwrap();
    }

    /// `machine` with a new certificate and a new key, in the same name.
    pub(crate) async fn enrolled_again(&self, machine: &Machine) -> Machine {
        let node = machine.identity.agent.node.clone();
        let folder = self.server.folder(node.as_str());
        let domain = Some("team".parse().unwrap());
        let new = NewToken { domain, ..NewToken::of(node) };
        let made: IssuedToken = self.server.admin().post("/tokens", &new).await.unwrap();
        let url = self.server.control.address();
        access::enroll::enroll(&url, &made.token, &folder, true).await.unwrap();
        let identity = Arc::new(Identity::load(&folder).unwrap());
        assert_ne!(identity.agent.key, machine.identity.agent.key, "its key is a new one");
        Machine { identity, source: machine.source.clone() }
    }
}

/// A session of `machine`, ready to commit for any source.
pub(crate) struct Forger {
    /// What it says is stored: a snapshot without a root is not published.
    pub(crate) root: ObjectId,
    pub(crate) raw: Raw,
    ring: crypto::KeyRing,
    key: ids::KeyId,
    sealer: seal::Sealer,
    repository: [u8; 16],
}

impl Forger {
    pub(crate) async fn new(machine: &Machine) -> Self {
        let mut raw = Raw::opened(machine).await;
        let (key, ring) = stolen_keys(machine, &mut raw).await;
        let sealer = sealer_of_now(&mut raw, &ring).await;
        raw.begin(&sealer).await;
        let text = machine.identity.agent.repository.clone().unwrap();
        let repository = data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap();
        let (root, repository) = (NOBODYS, repository.try_into().unwrap());
        Self { root, raw, ring, key, sealer, repository }
    }

    pub(crate) async fn commit_for(&mut self, source: ObjectId) -> Packet {
        let sequence = self.raw.number().await;
        let (repository, writer) = (self.repository, self.key);
        let (sealer, ring) = (&self.sealer, &self.ring);
        let forged = Forged { root: self.root, sealer, ring, repository, writer, sequence, source };
        self.raw.ask(&forged.commit()).await
    }
}

pub(crate) fn is_made(answer: &Packet) -> bool {
    matches!(answer, Packet::Committed { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_publishes_for_a_source_of_another_node() {
    let scene = Scene::set().await;
    // Begun before there was anything: it is looked at when it publishes.
    let mut forger = Forger::new(&scene.db).await;
    scene.web.backup().await;
    let source = scene.newest_source();
    let before = scene.server.snapshots("team");
    match forger.commit_for(source).await {
        Packet::Fault { code, message, hint, .. } => {
            assert_eq!(Code::from_number(code), Code::NotAllowed);
            assert!(message.contains("'web'"), "{message}");
            assert!(hint.contains("--node"), "{hint}");
        }
        other => panic!("{}", other.name()),
    }
    assert_eq!(scene.server.snapshots("team"), before);
    // Who meant well calls its source otherwise, in the same session.
    forger.root = scene.server.newest_head("team").root;
    assert!(is_made(&forger.commit_for(NOBODYS).await));
    scene.web.write("file", b"later");
    let name = scene.web.backup().await;
    assert_eq!(scene.web.restored(name, "file").await, b"later");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_goes_on_with_its_own_sources() {
    let scene = Scene::set().await;
    for machine in [&scene.web, &scene.db, &scene.web, &scene.db] {
        machine.backup().await;
    }
    assert_eq!(scene.server.snapshots("team").len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_enrolled_again_goes_on_with_its_sources() {
    let scene = Scene::set().await;
    scene.web.backup().await;
    let source = scene.newest_source();
    let web = scene.enrolled_again(&scene.web).await;
    web.backup().await;
    assert_eq!(scene.newest_source(), source);
    // And its new key keeps others away.
    assert!(!is_made(&Forger::new(&scene.db).await.commit_for(source).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_of_a_node_that_is_gone_is_nobodys() {
    let scene = Scene::set().await;
    scene.web.backup().await;
    let source = scene.newest_source();
    scene.revoke("web").await;
    let mut forger = Forger::new(&scene.db).await;
    forger.root = scene.server.newest_head("team").root;
    assert!(is_made(&forger.commit_for(source).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_list_that_cannot_be_read_is_told_as_such() {
    let scene = Scene::set().await;
    let mut forger = Forger::new(&scene.web).await;
    for name in ["list", "list.copy"] {
        let list = scene.server.folder("data/pool/domains/team/keys").join(name);
        std::fs::remove_file(&list).unwrap();
        std::fs::create_dir(&list).unwrap();
    }
    match forger.commit_for(NOBODYS).await {
        Packet::Fault { code, message, .. } => {
            assert_eq!(Code::from_number(code), Code::Damaged, "{message}");
        }
        other => panic!("{}", other.name()),
    }
}

async fn enroll(server: &Whole, name: &str) -> Arc<Identity> {
    let (node, domain) = (name.parse().unwrap(), Some("team".parse().unwrap()));
    let new = NewToken { domain, ..NewToken::of(node) };
    let made: IssuedToken = server.admin().post("/tokens", &new).await.unwrap();
    let folder = server.folder(name);
    // Another machine with that name: its secret is its own.
    let _ = std::fs::remove_dir_all(&folder);
    access::enroll::enroll(&server.control.address(), &made.token, &folder, true).await.unwrap();
    Arc::new(Identity::load(&folder).unwrap())
}

/// As many slots as nodes, however often they came and went; and no number of them locks anybody out.
#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_enrollments_leave_the_slots_of_those_that_live_and_lock_nobody_out() {
    let scene = Scene::set().await;
    let made = scene.web.backup().await;
    let keys = scene.server.folder("data/pool/domains/team/keys");
    let slots = || {
        let names = std::fs::read_dir(&keys).unwrap();
        names.filter(|name| name.as_ref().unwrap().file_name().len() == 16).count()
    };
    let mut machine = scene.db.clone();
    for number in 0..300 {
        machine.identity = enroll(&scene.server, &format!("node-{}", number % 200)).await;
    }
    // One that cannot go at once goes with the next housekeeping.
    for _ in 0..150 {
        if slots() == 203 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(slots(), 203, "web, db, the server and two hundred nodes");
    let own = machine.backup().await;
    assert_eq!(machine.restored(own, "file").await, b"of db");
    let again = scene.web.backup().await;
    for name in [made, again] {
        assert_eq!(scene.web.restored(name, "file").await, b"of web");
    }
    scene.revoke("node-7").await;
    scene.revoke("db").await;
    assert_eq!(slots(), 201);
    assert_eq!(scene.web.restored(own, "file").await, b"of db", "what was stored stays");
}
