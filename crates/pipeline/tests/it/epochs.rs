//! Key epochs: who can read what is stored after a key was removed.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::{
    CHEAP, PASSWORD, SMALL_CHUNKS, TestFolder, Tree, assert_clean, checked, init, rebuilt,
    snapshot, stride,
};
use crypto::session::epoch_of;
use crypto::{Cipher, LAST_KEY_EPOCH, Role, SealedSession, SlotSecret};
use format::record::{HEADER_BYTES, RecordKind};
use ids::{KeyEpoch, KeyId, SessionId};
use pipeline::keyring::KeyRemoval;
use pipeline::{Error, UnlockedRepository, rebuild};
use repository::keys::KEY_LIST;
use seal::{BlockCompressor, Level, Sealer};
use simulation::Random;
use simulation::disk::{Disk, Fault, Faults};
use std::path::PathBuf;
use std::sync::Arc;
use store::SnapshotRef;

/// What opens the key number `number`.
fn secret(number: u8) -> SlotSecret<'static> {
    SlotSecret::Recovery([number; 32])
}

/// A repository of a full key and some others, with one snapshot.
struct Lab {
    folder: TestFolder,
    owner: UnlockedRepository,
    keys: Vec<KeyId>,
    first: (SnapshotRef, Tree),
}

impl Lab {
    fn new(roles: &[Role]) -> Self {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        let owner = folder.init();
        let first = (folder.backup(&owner).snapshot, folder.state());
        let mut lab = Self { folder, owner, keys: Vec::new(), first };
        roles.iter().for_each(|role| lab.add(*role));
        lab
    }

    fn add(&mut self, role: Role) {
        let secret = secret(self.keys.len() as u8);
        self.keys.push(self.owner.add_key(role, secret, CHEAP, "a key").unwrap());
    }

    fn open(&self, number: usize) -> UnlockedRepository {
        UnlockedRepository::open(self.folder.storage(), secret(number as u8)).unwrap()
    }

    fn slot(&self, number: usize) -> PathBuf {
        self.folder.repository().join(format!("keys/{}", self.keys[number]))
    }

    /// Removes a key; the thief keeps its slot and puts it back.
    fn rob(&self, number: usize) -> KeyRemoval {
        let slot = std::fs::read(self.slot(number)).unwrap();
        let removed = self.owner.remove_key(self.keys[number]).unwrap();
        std::fs::write(self.slot(number), slot).unwrap();
        removed
    }

    /// A snapshot of something new, which nobody has stored before.
    fn store(&self, repository: &UnlockedRepository, seed: u64) -> (SnapshotRef, Tree) {
        self.folder.write("new", &noise(seed, 70_000));
        (self.folder.backup(repository).snapshot, self.folder.state())
    }

    fn lose_lists(&self) {
        for name in KEY_LIST {
            std::fs::remove_file(self.folder.repository().join(name)).unwrap();
        }
    }

    fn assert_reads(&self, repository: &UnlockedRepository, stored: &(SnapshotRef, Tree)) {
        repository.local().unwrap().refresh().unwrap();
        self.folder.assert_restores(repository, stored.0, &stored.1);
    }

    fn epoch(&self) -> KeyEpoch {
        self.folder.open().key_list().unwrap().epoch()
    }
}

fn assert_closed(repository: &UnlockedRepository, stored: &(SnapshotRef, Tree)) {
    let read = snapshot(repository, stored.0);
    assert!(matches!(read, Err(Error::LaterEpoch { .. })), "{read:?}");
}

/// All that a thief can have: the secret, the slot, and the storage before and after.
#[test]
fn a_removed_key_reads_what_was_stored_before_and_nothing_after() {
    for role in [Role::Reader, Role::ReadWrite] {
        let lab = Lab::new(&[role]);
        let before = lab.store(&lab.owner, 7);
        let removed = lab.rob(0);
        assert_eq!(removed.begins, Some(KeyEpoch(1)));
        assert!(!removed.still_reads);
        let after = lab.store(&lab.owner, 8);
        let thief = lab.open(0);
        lab.assert_reads(&thief, &lab.first);
        lab.assert_reads(&thief, &before);
        assert_closed(&thief, &after);
        // No record of it opens either, wherever it lies.
        let damages = checked(&thief).map(|report| report.damages);
        assert!(damages.is_err() || !damages.unwrap().is_empty(), "{role:?}");
        lab.assert_reads(&lab.owner, &after);
        lab.assert_reads(&lab.folder.open(), &before);
    }
}

/// It holds the secret of the domain: documents say so, and the command does.
#[test]
fn a_removed_full_key_begins_an_epoch_and_computes_its_secret() {
    let lab = Lab::new(&[Role::Full]);
    let removed = lab.rob(0);
    assert_eq!((removed.role, removed.begins), (Some(Role::Full), Some(KeyEpoch(1))));
    let after = lab.store(&lab.owner, 8);
    lab.assert_reads(&lab.open(0), &after);
}

#[test]
fn a_removed_write_only_key_begins_no_epoch() {
    let lab = Lab::new(&[Role::WriteOnly]);
    let removed = lab.rob(0);
    assert_eq!((removed.role, removed.begins), (Some(Role::WriteOnly), None));
    assert_eq!(lab.epoch(), KeyEpoch(0));
}

#[test]
fn keys_that_stay_read_old_and_new_and_write_to_those_that_stay() {
    let lab = Lab::new(&[Role::Reader, Role::ReadWrite, Role::WriteOnly, Role::Reader]);
    let [reader, both, writer] = [lab.open(0), lab.open(1), lab.open(2)];
    lab.assert_reads(&reader, &lab.first);
    lab.rob(3);
    let stored = [&writer, &both, &lab.owner].map(|repository| lab.store(repository, 3));
    let mut later = lab.open(2);
    // Processes that run, and those that begin now.
    for repository in [&reader, &both, &lab.open(0), &lab.open(1), &lab.folder.open()] {
        stored.iter().chain([&lab.first]).for_each(|stored| lab.assert_reads(repository, stored));
        assert_clean(repository);
    }
    let thief = lab.open(3);
    stored.iter().for_each(|stored| assert_closed(&thief, stored));
    // Once more, and a key that is made in the new epoch.
    let mut lab = lab;
    lab.rob(1);
    lab.add(Role::Reader);
    later = std::mem::replace(&mut later, lab.open(2));
    let last = lab.store(&later, 9);
    assert_eq!(lab.epoch(), KeyEpoch(2));
    for repository in [&reader, &lab.open(0), &lab.open(4), &lab.folder.open()] {
        lab.assert_reads(repository, &last);
        lab.assert_reads(repository, &stored[0]);
        lab.assert_reads(repository, &lab.first);
    }
    assert_closed(&lab.open(1), &last);
    assert_closed(&both, &last);
}

#[test]
fn a_removed_slot_that_is_put_back_gets_no_secret_at_the_next_removal() {
    let lab = Lab::new(&[Role::Reader, Role::ReadWrite]);
    lab.rob(0);
    lab.rob(1);
    assert!(lab.slot(0).exists());
    let stored = lab.store(&lab.owner, 8);
    assert_closed(&lab.open(0), &stored);
    assert_closed(&lab.open(1), &stored);
    // Its removal once more begins no epoch: nobody loses anything.
    assert_eq!(lab.owner.remove_key(lab.keys[0]).unwrap().begins, None);
    assert_eq!(lab.epoch(), KeyEpoch(2));
}

/// The storage hid the slot of a key that stays.
#[test]
fn a_key_that_got_no_secret_is_named_and_gets_it_with_the_next_change() {
    let mut lab = Lab::new(&[Role::Reader, Role::Reader]);
    let hidden = std::fs::read(lab.slot(0)).unwrap();
    std::fs::remove_file(lab.slot(0)).unwrap();
    lab.owner.remove_key(lab.keys[1]).unwrap();
    std::fs::write(lab.slot(0), hidden).unwrap();
    let stored = lab.store(&lab.owner, 8);
    assert_closed(&lab.open(0), &stored);
    let report = checked(&lab.folder.open()).unwrap();
    let (key, notes) = (lab.keys[0].to_string(), &report.notes);
    assert!(notes.iter().any(|note| note.what.contains(&key)), "{notes:#?}");
    lab.add(Role::WriteOnly);
    lab.assert_reads(&lab.open(0), &stored);
    assert_clean(&lab.folder.open());
}

/// Whoever was removed and has the storage could drop the list, so that it is created again.
#[test]
fn without_any_list_a_new_one_begins_a_later_epoch_than_anything_shows() {
    let lab = Lab::new(&[Role::Reader, Role::Reader]);
    let slot = std::fs::read(lab.slot(0)).unwrap();
    lab.owner.remove_key(lab.keys[0]).unwrap();
    let middle = lab.store(&lab.owner, 5);
    lab.lose_lists();
    assert!(rebuilt(&lab.folder).key_list_restored);
    assert_eq!(lab.epoch(), KeyEpoch(2));
    let last = lab.store(&lab.folder.open(), 6);
    for repository in [lab.open(1), lab.folder.open()] {
        for stored in [&lab.first, &middle, &last] {
            lab.assert_reads(&repository, stored);
        }
        assert_clean(&repository);
    }
    std::fs::write(lab.slot(0), slot).unwrap();
    assert_closed(&lab.open(0), &middle);
    assert_closed(&lab.open(0), &last);
}

#[test]
fn a_stale_key_list_is_found_and_replaced_and_ends_in_a_later_epoch() {
    let lab = Lab::new(&[Role::Reader]);
    let old = KEY_LIST.map(|name| {
        let path = lab.folder.repository().join(name);
        (path.clone(), std::fs::read(path).unwrap())
    });
    lab.rob(0);
    lab.store(&lab.owner, 5);
    old.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    let damages = checked(&lab.folder.open()).unwrap().damages;
    assert!(damages.iter().any(|damage| damage.what.contains("icecore rebuild")), "{damages:#?}");
    assert!(rebuilt(&lab.folder).key_list_restored);
    assert_eq!(lab.epoch(), KeyEpoch(2));
    assert_eq!(checked(&lab.folder.open()).unwrap().damages, []);
}

/// A session record that says it is of the last epoch, by who cannot seal in it, uses up no epochs.
#[test]
fn numbers_that_the_storage_writes_into_records_are_not_believed() {
    let lab = Lab::new(&[Role::Reader]);
    let sealer = Sealer::new(&lab.owner.keys.writer, [9; 80], Cipher::fastest());
    let record = sealer.session_record();
    let mut clear: [u8; SealedSession::LEN] = record.associated[HEADER_BYTES..].try_into().unwrap();
    clear[17..21].copy_from_slice(&LAST_KEY_EPOCH.0.to_le_bytes());
    assert_eq!(epoch_of(&clear), Some(LAST_KEY_EPOCH));
    let session = SessionId::from_slice(&clear[..16]).unwrap();
    let forged = format::record::session_record(session, &clear);
    let mut packer = BlockCompressor::new(Level::Fixed(1)).unwrap();
    let nothing = sealer.seal_single(RecordKind::Tombstone, &[0; 88], b"", &mut packer).unwrap();
    let lease = lab.owner.lease("forgery").unwrap();
    let local = lab.owner.local().unwrap();
    local.forget(&lease, &[lab.first.0], &forged, &nothing).unwrap();
    drop(lease);
    lab.lose_lists();
    assert!(rebuilt(&lab.folder).key_list_restored);
    assert_eq!(lab.epoch(), KeyEpoch(1));
}

#[test]
fn a_list_older_than_the_key_is_refused() {
    let mut lab = Lab::new(&[Role::Reader]);
    let old = KEY_LIST.map(|name| std::fs::read(lab.folder.repository().join(name)).unwrap());
    lab.owner.remove_key(lab.keys[0]).unwrap();
    lab.add(Role::ReadWrite);
    for (name, bytes) in KEY_LIST.iter().zip(old) {
        std::fs::write(lab.folder.repository().join(name), bytes).unwrap();
    }
    let young = lab.open(1);
    assert!(matches!(young.key_list(), Err(Error::OldKeyList { .. })));
    assert!(matches!(lab.folder.try_backup(&young), Err(Error::OldKeyList { .. })));
}

/// A key that reads is removed, and something happens at any step: either it is in use and its epoch
/// goes on, or it is removed and another one has begun.
#[test]
fn a_removal_that_is_cut_off_at_any_step_removes_wholly_or_not_at_all() {
    let (folder, disk) = (TestFolder::new(), Disk::new(Random::new(1), false));
    small_tree(&folder.source(), 1);
    let owner = init(Arc::new(disk.process()), SMALL_CHUNKS);
    let first = (folder.backup(&owner).snapshot, folder.state());
    let gone = owner.add_key(Role::ReadWrite, secret(1), CHEAP, "gone").unwrap();
    owner.add_key(Role::Reader, secret(2), CHEAP, "stays").unwrap();
    drop(owner);
    let open =
        |disk: &Arc<Disk>, secret| UnlockedRepository::open(Arc::new(disk.process()), secret);
    for fault in [Fault::Kill, Fault::PowerCut, Fault::IoError, Fault::DiskFull] {
        for k in (0..).step_by(stride(4) as usize) {
            let copy = disk.copy(Random::new(k));
            copy.arm(Faults::after(k, fault));
            let removed = open(&copy, PASSWORD).and_then(|owner| owner.remove_key(gone));
            let has_fired = copy.disarm();
            let what = format!("{fault:?} at {k}");
            let owner = open(&copy, PASSWORD).expect(&what);
            let list = owner.key_list().expect(&what);
            assert_eq!(list.is_live(gone), list.epoch() == KeyEpoch(0), "{what}");
            assert!(removed.is_err() || !list.is_live(gone), "{what}");
            owner.remove_key(gone).map(drop).or_else(is_gone).expect(&what);
            assert_eq!(owner.key_list().unwrap().epoch(), KeyEpoch(1), "{what}");
            let later = folder.backup(&owner).snapshot;
            for repository in [open(&copy, secret(2)).expect(&what), owner] {
                folder.assert_restores(&repository, first.0, &first.1);
                folder.assert_restores(&repository, later, &folder.state());
            }
            if !has_fired {
                break;
            }
        }
    }
}

fn is_gone(error: Error) -> pipeline::Result<()> {
    if matches!(error, Error::KeyNotFound(_)) { Ok(()) } else { Err(error) }
}

#[test]
fn a_rebuild_with_a_key_that_is_not_full_begins_no_epoch() {
    let lab = Lab::new(&[Role::ReadWrite]);
    lab.lose_lists();
    let denied = rebuild::run(lab.folder.storage(), secret(0), false);
    assert!(matches!(denied, Err(Error::NeedsFullKey)), "{denied:?}");
}
