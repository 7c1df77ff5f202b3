//! Key epochs of a managed domain: what is stored after a node was revoked, or a grant withdrawn, its
//! key cannot read, with all of the storage neither.

use crate::hostile::raw::{self, Raw, sealer, stolen_keys};
use crate::hostile::server::{Machine, Quiet, Whole, options};
use access::Client;
use api::domains::Grant;
use api::enroll::{IssuedKey, NewKey, Role};
use api::status::Done;
use crypto::SlotSecret;
use ids::KeyEpoch;
use pipeline::backup::{self, Progress};
use pipeline::manifest::ManifestReader;
use pipeline::{Error, UnlockedRepository};
use protocol::fault::Code;
use remote::Purpose;
use repository::local::LocalStorage;
use repository::snapshots::SnapshotRef;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

struct Scene {
    server: Whole,
    web: Machine,
    db: Machine,
}

impl Scene {
    async fn set() -> Self {
        let server = Whole::start().await;
        let web = server.node("web", "team", Role::Full).await;
        let db = server.node("db", "team", Role::Full).await;
        web.write("file", b"of web");
        db.write("file", b"of db");
        Self { server, web, db }
    }

    async fn revoke(&self, node: &str) {
        let path = format!("/nodes/{node}/revoke");
        let _: Done = self.server.admin().post(&path, &()).await.unwrap();
    }

    /// What lies in the folder of keys.
    fn slots(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let folder = self.server.folder("data/pool/domains/team/keys");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
    }

    /// Puts back what was removed since `before`, as a thief does with a copy of the pool.
    fn put_back(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        for (file, bytes) in before.iter().filter(|(file, _)| !file.exists()) {
            std::fs::write(file, bytes).unwrap();
        }
    }

    /// Whether `secret` reads `name`, with all that lies on the server.
    async fn reads(&self, secret: [u8; 32], name: SnapshotRef) -> bool {
        let folder = self.server.folder("data/pool/domains/team");
        let read = move || {
            let storage = Arc::new(LocalStorage::open(&folder).unwrap());
            let archive = UnlockedRepository::open(storage, SlotSecret::Recovery(secret)).unwrap();
            match ManifestReader::new(&archive).unwrap().read(name) {
                Ok(_) => true,
                Err(Error::LaterEpoch { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    async fn epoch(&self) -> KeyEpoch {
        let db = self.db.clone();
        let list = move || db.archive(Purpose::Read).key_list().unwrap().epoch();
        tokio::task::spawn_blocking(list).await.unwrap()
    }
}

fn secret_of(machine: &Machine) -> [u8; 32] {
    *machine.identity.slot_secret.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_node_reads_nothing_that_is_stored_after_it() {
    let scene = Scene::set().await;
    let log = scene.server.node("log", "team", Role::WriteOnly).await;
    log.write("file", b"of log");
    let before = scene.db.backup().await;
    let slots = scene.slots();
    scene.revoke("web").await;
    scene.put_back(&slots);
    assert_eq!(scene.epoch().await, KeyEpoch(1));
    scene.db.write("file", b"what nobody stored before");
    let after = [scene.db.backup().await, log.backup().await];
    assert!(scene.reads(secret_of(&scene.web), before).await);
    for name in after {
        assert!(!scene.reads(secret_of(&scene.web), name).await);
        assert!(scene.reads(secret_of(&scene.db), name).await);
    }
    assert_eq!(scene.db.restored(after[0], "file").await, b"what nobody stored before");
    assert_eq!(scene.db.restored(after[1], "file").await, b"of log");
    assert_eq!(scene.db.restored(before, "file").await, b"of db");
}

/// It looked at the keys before one was removed, and begins after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_an_old_key_epoch_is_refused_and_begun_again() {
    let scene = Scene::set().await;
    let mut raw = Raw::opened(&scene.db).await;
    let (_, ring) = stolen_keys(&scene.db, &mut raw).await;
    let db = scene.db.clone();
    let open = move || {
        let archive = db.archive(Purpose::Backup);
        assert_eq!(archive.key_list().unwrap().epoch(), KeyEpoch(0));
        archive
    };
    let archive = tokio::task::spawn_blocking(open).await.unwrap();
    scene.revoke("web").await;
    raw.is_refused(&raw::begin(&sealer(&ring)), Code::KeysChanged).await;
    let source = scene.db.source.clone();
    let back_up = move || {
        let options = options(&source, "db");
        backup::run(&archive, &options, &Progress::default(), &Quiet).unwrap().snapshot
    };
    let name = tokio::task::spawn_blocking(back_up).await.unwrap();
    assert_eq!(scene.db.restored(name, "file").await, b"of db");
    assert!(!scene.server.snapshots("team").is_empty());
    let (_, file) = scene.server.snapshots("team").pop().unwrap();
    let session = format::record::split(&file).unwrap();
    assert_eq!(crypto::session::epoch_of(session.clear), Some(KeyEpoch(1)));
}

/// Each command of the granted node asks for a key.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_granted_a_domain_keeps_one_key_until_the_grant_ends_and_reads_nothing_later() {
    let scene = Scene::set().await;
    let guest = scene.server.node("guest", "guest", Role::Full).await;
    let (node, domain) = ("guest".parse().unwrap(), "team".parse().unwrap());
    let grant = Grant { node, domain, until: None };
    let _: Done = scene.server.admin().post("/grants", &grant).await.unwrap();
    let client = Client::of(&guest.identity).unwrap();
    let mut made = Vec::new();
    for byte in ["01", "02", "03"] {
        let domain = "team".parse().unwrap();
        let new = NewKey { domain, slot_secret: byte.repeat(32) };
        let key: IssuedKey = client.post("/node/keys", &new).await.unwrap();
        made.push(key.key);
    }
    assert!(made.iter().all(|key| *key == made[0]), "each command asks for one: {made:?}");
    assert_eq!(scene.epoch().await, KeyEpoch(0), "and takes nothing from anybody");
    let before = scene.db.backup().await;
    assert!(scene.reads([3; 32], before).await);
    let slots = scene.slots();
    let _: Done = scene.server.admin().delete("/grants/guest/team").await.unwrap();
    scene.put_back(&slots);
    assert_eq!(scene.epoch().await, KeyEpoch(1));
    scene.db.write("file", b"later");
    let after = scene.db.backup().await;
    assert!(scene.reads([3; 32], before).await && !scene.reads([3; 32], after).await);
    assert!(scene.reads(secret_of(&scene.web), after).await);
}
