//! Signatures, and the names of keys: who may write a little, or may change the files, speaks for
//! nobody else.

use crate::testkit::build::small_tree;
use crate::testkit::forge::{Forge, file};
use crate::testkit::{CHEAP, Heard, PASSWORD, TestFolder, checked, rebuilt, snapshot};
use crypto::{KeyMaterial, Role, SlotSecret};
use format::record::RecordKind;
use ids::{KeyId, ObjectId, RepositoryId};
use pipeline::backup::{self, Progress};
use pipeline::manifest::source_id;
use pipeline::select::{self, SelectBy, SnapshotSelector};
use pipeline::{Error, KeyError, UnlockedRepository};
use std::path::PathBuf;
use store::{Config, SnapshotRef};

const AGENT: SlotSecret<'static> = SlotSecret::Password(b"agent");

/// A repository with a snapshot of its owner, and an agent that may only write.
struct Lab {
    folder: TestFolder,
    owner: UnlockedRepository,
    agent: UnlockedRepository,
    made: SnapshotRef,
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        let owner = folder.init();
        owner.add_key(Role::WriteOnly, AGENT, CHEAP, "agent").unwrap();
        let agent = UnlockedRepository::open(folder.storage(), AGENT).unwrap();
        let made = folder.backup(&owner).snapshot;
        Self { folder, owner, agent, made }
    }

    fn slot(&self, id: KeyId) -> PathBuf {
        self.folder.repository().join(format!("keys/{id}"))
    }

    /// Stores a slot that the usual password opens; its id consists of bytes of this value.
    fn add_slot(&self, material: &KeyMaterial, id: u8) {
        let new = crypto::NewSlot::new(Role::Full, "evil", 0, ids::KeyEpoch(0));
        let slot = crypto::create_slot(material, &new, PASSWORD, CHEAP, &mut filled_with(id));
        let slot = slot.unwrap();
        std::fs::write(self.slot(crypto::slot_info(&slot).unwrap().id), slot).unwrap();
    }

    fn lose_all_snapshots(&self) {
        for name in self.folder.files().iter().filter(|name| name.starts_with("snapshots/")) {
            std::fs::remove_file(self.folder.repository().join(name)).unwrap();
        }
    }
}

#[test]
fn a_snapshot_that_somebody_else_signed_is_forged() {
    let lab = Lab::new();
    let forge = Forge::new(&lab.agent).signed_as(lab.owner.slot.id);
    let name = forge.publish_leaf(&[file("a", b"of the agent")]);
    let read = snapshot(&lab.folder.open(), name);
    assert!(matches!(&read, Err(Error::Untrusted { id, .. }) if *id == name.id), "{read:?}");
    lab.lose_all_snapshots();
    let report = rebuilt(&lab.folder);
    assert_eq!((report.forged, report.snapshots_restored, report.snapshots), (1, 1, 1));
}

#[test]
fn a_head_that_was_made_for_another_body_is_forged() {
    let lab = Lab::new();
    let forge = Forge::new(&lab.owner).for_body(ObjectId([7; 24]).with_type(true));
    let name = forge.publish_leaf(&[file("a", b"x")]);
    let read = snapshot(&lab.folder.open(), name);
    assert!(matches!(&read, Err(Error::Untrusted { id, .. }) if *id == name.id), "{read:?}");
}

/// Else a rebuild would leave out what nobody forgot who may.
#[test]
fn a_tombstone_that_somebody_else_signed_buries_nothing() {
    let lab = Lab::new();
    bury(&lab, lab.owner.slot.id);
    let report = rebuilt(&lab.folder);
    assert_eq!((report.snapshots_restored, report.snapshots), (1, 1));
    lab.folder.assert_restores(&lab.folder.open(), lab.made, &lab.folder.state());
}

/// Else who gives space back without keys would give up what nobody forgot who may.
#[test]
fn without_keys_a_tombstone_of_a_stranger_gives_nothing_up() {
    let lab = Lab::new();
    bury(&lab, KeyId([9; 8]));
    let options = repository::reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted: false,
    };
    let refused = pipeline::keyless::reclaim(lab.owner.local().unwrap(), "test", options);
    let is_refused = matches!(&refused, Err(Error::Usage(why)) if why.contains("nobody forgot"));
    assert!(is_refused, "{refused:?}");
    rebuilt(&lab.folder);
    lab.folder.assert_restores(&lab.folder.open(), lab.made, &lab.folder.state());
}

/// Forgets the snapshot with a tombstone that says `writer` and that the agent signed.
fn bury(lab: &Lab, writer: KeyId) {
    let (repository, agent) = (&lab.owner, &lab.agent);
    let clear = [&writer.0[..], &lab.made.id.0].concat();
    let repository_id = repository.local().unwrap().config().repository;
    let message = [&b"icecore 2026 tombstone v1"[..], &repository_id.0, &clear].concat();
    let clear = [&clear[..], &agent.keys.writer.sign(&message).unwrap()].concat();
    let sealer = seal::Sealer::new(&agent.keys.writer, [9; 80], crypto::Cipher::fastest());
    let mut packer = seal::BlockCompressor::new(seal::Level::Fixed(1)).unwrap();
    let tombstone = sealer.seal_single(RecordKind::Tombstone, &clear, b"", &mut packer).unwrap();
    let lease = agent.lease("bury").unwrap();
    let local = agent.local().unwrap();
    local.forget(&lease, &[lab.made], &sealer.session_record(), &tombstone).unwrap();
}

/// Then it would vouch for what that one signed.
#[test]
fn a_slot_under_the_name_of_another_vouches_for_nothing() {
    let lab = Lab::new();
    let forge = Forge::new(&lab.agent);
    let name = forge.publish_leaf(&[file("a", b"of the agent")]);
    std::fs::copy(lab.slot(lab.owner.slot.id), lab.slot(lab.agent.slot.id)).unwrap();
    let repository = lab.folder.open();
    assert_eq!(repository.slots().unwrap().len(), 1);
    snapshot(&repository, name).unwrap();
}

/// Whether `name` does not count, for a reason with these words.
fn is_untrusted(repository: &UnlockedRepository, name: SnapshotRef, why: &str) -> bool {
    matches!(snapshot(repository, name), Err(Error::Untrusted { why: said, .. }) if said.contains(why))
}

/// Who has a key makes a snapshot of a source of its own, and says inside that it is another's.
#[test]
fn a_snapshot_that_names_another_source_than_it_was_made_for_counts_for_nothing() {
    let lab = Lab::new();
    let own = source_id(&lab.agent, "agent", &["/tree".into()]);
    let forge = Forge::new(&lab.agent).of_source(own).at(4_000_000_000);
    let name = forge.publish_leaf(&[file("a", b"of the agent")]);
    let repository = lab.folder.open();
    assert!(is_untrusted(&repository, name, "another source"));
    let latest = SnapshotSelector { by: SelectBy::Latest(0), node: None };
    let mut notes = Vec::new();
    let found = select::find(&repository, &latest, select::SnapshotFilter::ANY, &mut |text| {
        notes.push(text.to_owned())
    })
    .unwrap();
    assert_eq!(found.snapshot.name, lab.made);
    // It counts for nothing: nobody has to doubt what was found.
    assert_eq!(found.unread, []);
    assert!(notes[0].contains(&name.id.to_string()) && notes[0].contains("untrusted"), "{notes:?}");
    let damages = checked(&repository).unwrap().damages;
    assert!(damages.iter().any(|damage| damage.what.contains("untrusted")), "{damages:?}");
    // It is removed by its name, and by nothing else.
    repository.forget(&[name]).unwrap();
    assert_eq!(checked(&repository).unwrap().damages, []);
}

/// What a backup builds on decides which files it does not read.
#[test]
fn no_backup_builds_on_a_newest_snapshot_that_nobody_known_signed() {
    let lab = Lab::new();
    let source = source_id(&lab.owner, "node", &["/tree".into()]);
    let forge = Forge::new(&lab.agent).signed_as(KeyId([7; 8])).of_source(source);
    let root = snapshot(&lab.owner, lab.made).unwrap().head.root;
    let fake = forge.publish(root, 0);
    for (repository, builds_on) in [(&lab.owner, Some(lab.made.id)), (&lab.agent, None)] {
        let heard = Heard::default();
        let run = backup::run(repository, &lab.folder.options(), &Progress::default(), &heard);
        let name = run.unwrap().snapshot;
        let previous = snapshot(&lab.owner, name).unwrap().head.previous;
        assert_ne!(previous, fake.id);
        assert!(builds_on.is_none_or(|made| made == previous));
        if builds_on.is_some() {
            assert!(
                heard.all().iter().any(|line| line.contains("not built upon")),
                "{:?}",
                heard.all()
            );
        }
    }
}

/// Who may change the files and knows the password, which is used elsewhere too.
#[test]
fn a_slot_with_keys_of_somebody_else_opens_nothing() {
    let lab = Lab::new();
    let mut material = KeyMaterial::generate(&mut filled_with(5));
    material.repository = lab.owner.local().unwrap().config().repository;
    // Whichever is met first: one comes before the slot of the owner, and one behind it.
    lab.add_slot(&material, 0);
    lab.add_slot(&material, 0xff);
    let opened = UnlockedRepository::open(lab.folder.storage(), PASSWORD).unwrap();
    assert_eq!(opened.slot.id, lab.owner.slot.id);
    std::fs::remove_file(lab.slot(lab.owner.slot.id)).unwrap();
    let refused = UnlockedRepository::open(lab.folder.storage(), PASSWORD).err().unwrap();
    let is_bad = |error: &Error| {
        matches!(error, Error::Crypto(KeyError { source: crypto::Error::BadSignature, .. }))
    };
    assert!(is_bad(&refused), "{refused}");
}

/// Who has a full key can certify one; it must not make two repositories trust each other.
#[test]
fn a_slot_that_the_same_root_certified_for_another_repository_opens_nothing() {
    let lab = Lab::new();
    let mut material = lab.owner.keys.certifier.clone().unwrap();
    material.repository = RepositoryId([9; 16]);
    lab.add_slot(&material, 0);
    let opened = UnlockedRepository::open(lab.folder.storage(), PASSWORD).unwrap();
    assert_eq!(opened.slot.id, lab.owner.slot.id);
    std::fs::remove_file(lab.slot(lab.owner.slot.id)).unwrap();
    let refused = UnlockedRepository::open(lab.folder.storage(), PASSWORD).err().unwrap();
    let own = lab.owner.slot.id;
    assert!(matches!(&refused, Error::KeysMissing(keys) if keys[..] == [own]), "{refused}");
}

fn filled_with(byte: u8) -> impl FnMut(&mut [u8]) {
    move |bytes| bytes.fill(byte)
}

#[test]
fn a_slot_of_another_repository_opens_nothing_also_with_its_root_key_in_the_config() {
    let (lab, other) = (Lab::new(), Lab::new());
    let root_key = other.owner.local().unwrap().config().root_key;
    let config = Config { root_key, ..*lab.owner.local().unwrap().config() };
    repository::config::write(&config, &*lab.folder.storage()).unwrap();
    std::fs::remove_file(lab.slot(lab.owner.slot.id)).unwrap();
    let id = other.owner.slot.id;
    std::fs::copy(other.slot(id), lab.slot(id)).unwrap();
    assert!(UnlockedRepository::open(lab.folder.storage(), PASSWORD).is_err());
}
