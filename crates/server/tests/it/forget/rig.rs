//! A domain whose keys only its nodes know: two nodes, and a key of every kind.

use crate::hostile::server::{Machine, Quiet, Whole, options};
use api::enroll::{KeyMode, Role};
use api::nodes::{ForgetPermission, ForgetScope};
use api::status::{Audit, Done};
use crypto::{KdfParams, KeyMaterial, KeyRing, NewSlot, SignedKeyList, SlotSecret};
use format::manifest::TOMBSTONE_CONTEXT;
use format::record::RecordKind;
use ids::{KeyId, SnapshotId};
use pipeline::UnlockedRepository;
use pipeline::backup::{self, Progress};
use pipeline::environment::Environment;
use pipeline::unlocked::InitOptions;
use protocol::Packet;
use protocol::packet::PathBytes;
use remote::{Purpose, Remote};
use repository::snapshots::SnapshotRef;
use seal::{BlockCompressor, Level};

/// What opens each key.
pub(crate) const FULL: [u8; 32] = [1; 32];
pub(crate) const REMOVED: [u8; 32] = [2; 32];
pub(crate) const WRITER: [u8; 32] = [3; 32];
pub(crate) const READ_WRITE: [u8; 32] = [4; 32];

pub(crate) struct Vault {
    pub(crate) server: Whole,
    pub(crate) db: Machine,
    pub(crate) peer: Machine,
    pub(crate) repository: [u8; 16],
}

impl Vault {
    /// Nobody may forget yet.
    pub(crate) async fn set() -> Self {
        let server = Whole::start().await;
        let mut machines = Vec::new();
        for name in ["db", "peer"] {
            machines.push(server.node_with(name, "vault", Role::Full, KeyMode::Client).await);
        }
        let (peer, db) = (machines.pop().unwrap(), machines.pop().unwrap());
        let target = db.target();
        let made = tokio::task::spawn_blocking(move || make(&target)).await.unwrap();
        let folder = server.folder("data/pool/domains/vault");
        let list = {
            let domain = server.shared.domains.open(&folder).unwrap();
            let list = domain.repository.key_list().unwrap().unwrap();
            SignedKeyList::verify(&list, &made.0.root_verify_key(), made.0.repository).unwrap()
        };
        let list = crypto::KeyList::clone(&list).without_keys(&[made.1], 0, 9);
        let list = list.sign(&made.0, &[], &mut |bytes| bytes.fill(7)).unwrap();
        server.shared.domains.open(&folder).unwrap().put_key_list(&list).unwrap();
        Self { server, db, peer, repository: made.0.repository.0 }
    }

    pub(crate) async fn allow(&self, node: &str, scope: ForgetScope) {
        let path = format!("/nodes/{node}/forget");
        let _: Done = self.server.admin().post(&path, &ForgetPermission { scope }).await.unwrap();
    }

    /// What the audit list says of forgetting, the newest first.
    pub(crate) async fn audit(&self) -> Vec<(String, String)> {
        let audit: Audit = self.server.admin().get("/audit?limit=1000").await.unwrap();
        assert_eq!(audit.broken_at, None);
        let of = audit.entries.into_iter().filter(|entry| entry.action == "snapshot.forget");
        of.map(|entry| (entry.who, entry.detail)).collect()
    }

    pub(crate) fn containers(&self) -> usize {
        let folder = self.server.folder("data/pool/domains/vault/containers");
        let shards = std::fs::read_dir(folder).unwrap();
        shards.map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap().count()).sum()
    }

    /// The names of the files of snapshots.
    pub(crate) fn listed(&self) -> Vec<String> {
        let files = self.server.snapshots("vault").into_iter();
        files.map(|(path, _)| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }
}

/// Makes the repository; the id of the key that is to be removed.
fn make(target: &remote::Endpoint) -> (KeyMaterial, KeyId) {
    let environment = Environment::default();
    let material = pipeline::unlocked::new_material(&environment, InitOptions::default()).unwrap();
    let slot = |role, secret: &[u8; 32]| {
        let new = NewSlot::new(role, "a key", 1, ids::KeyEpoch(0));
        let (secret, kdf) = (SlotSecret::Recovery(*secret), KdfParams::DEFAULT);
        pipeline::unlocked::new_slot(&material, &new, secret, kdf, &environment).unwrap()
    };
    let slots = vec![
        slot(crypto::Role::Full, &FULL),
        slot(crypto::Role::Full, &REMOVED),
        slot(crypto::Role::WriteOnly, &WRITER),
        slot(crypto::Role::ReadWrite, &READ_WRITE),
    ];
    let removed = slots[1].0.id;
    let config = pipeline::unlocked::new_config(&material, InitOptions::default(), 1);
    let keys = pipeline::unlocked::new_keys(&material, slots, &environment).unwrap();
    Remote::connect_or_init(target, Purpose::Backup, || Ok((config, keys))).unwrap();
    (material, removed)
}

/// The repository as `machine` opens it with a key.
pub(crate) fn opened(machine: &Machine, secret: [u8; 32]) -> UnlockedRepository {
    let remote = Remote::connect(&machine.target(), Purpose::Read).unwrap();
    UnlockedRepository::open_store(remote, SlotSecret::Recovery(secret)).unwrap()
}

/// What a key is: its id, and what it does.
pub(crate) async fn ring(machine: &Machine, secret: [u8; 32]) -> (KeyId, KeyRing) {
    let machine = machine.clone();
    let open = move || {
        let archive = opened(&machine, secret);
        (archive.slot.id, archive.keys)
    };
    tokio::task::spawn_blocking(open).await.unwrap()
}

/// A backup of `machine` with the full key.
pub(crate) async fn backed_up(machine: &Machine) -> SnapshotRef {
    backed_up_often(machine, 1).await.remove(0)
}

/// The same `times`, one after the other.
pub(crate) async fn backed_up_often(machine: &Machine, times: usize) -> Vec<SnapshotRef> {
    let machine = machine.clone();
    let back_up = move || {
        let remote = Remote::connect(&machine.target(), Purpose::Backup).unwrap();
        let secret = SlotSecret::Recovery(FULL);
        let archive = UnlockedRepository::open_store(remote.clone(), secret).unwrap();
        let options = options(&machine.source, machine.identity.agent.node.as_str());
        let next = |_| {
            machine.write("file", &rand_bytes());
            let made = backup::run(&archive, &options, &Progress::default(), &Quiet).unwrap();
            remote.finish(true, "").unwrap();
            made.snapshot
        };
        (0..times).map(next).collect()
    };
    tokio::task::spawn_blocking(back_up).await.unwrap()
}

fn rand_bytes() -> [u8; 64] {
    let mut bytes = [0; 64];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

/// Forgets as the command does.
pub(crate) async fn forgotten(
    machine: &Machine,
    secret: [u8; 32],
    names: &[SnapshotRef],
) -> Result<u64, String> {
    let (machine, names) = (machine.clone(), names.to_vec());
    let forget = move || opened(&machine, secret).forget(&names).map_err(|error| error.to_string());
    tokio::task::spawn_blocking(forget).await.unwrap()
}

/// What a forger may choose in a tombstone.
pub(crate) struct Forged<'a> {
    pub(crate) ring: &'a KeyRing,
    pub(crate) writer: KeyId,
    pub(crate) repository: [u8; 16],
    pub(crate) names: Vec<SnapshotId>,
}

impl Forged<'_> {
    /// The clear part: who, what, and the signature.
    pub(crate) fn clear(&self) -> Vec<u8> {
        let mut clear = self.writer.0.to_vec();
        clear.extend(self.names.iter().flat_map(|id| id.0));
        let message = [TOMBSTONE_CONTEXT, &self.repository, &clear].concat();
        [&clear[..], &self.ring.writer.sign(&message).unwrap()].concat()
    }

    pub(crate) fn packet(&self) -> Packet {
        self.packet_of(RecordKind::Tombstone, &self.clear())
    }

    /// Whatever the clear part says.
    pub(crate) fn packet_of(&self, kind: RecordKind, clear: &[u8]) -> Packet {
        let sealer = crate::hostile::raw::sealer(self.ring);
        let mut packer = BlockCompressor::new(Level::Fixed(1)).unwrap();
        let tombstone = sealer.seal_single(kind, clear, b"", &mut packer).unwrap();
        let session = PathBytes(sealer.session_record().to_bytes());
        Packet::Forget { session, tombstone: tombstone.to_bytes() }
    }
}
