//! Who may sign: keys that were removed, lists that are lost or of the past, and roles.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::forge::{Forge, file};
use crate::testkit::{
    CHEAP, PASSWORD, TestFolder, assert_clean, checked, rebuilt, repaired, snapshot,
};
use crypto::{Role, SlotSecret};
use ids::KeyId;
use pipeline::{Error, UnlockedRepository};
use repository::keys::KEY_LIST;
use std::path::PathBuf;

const OTHER: SlotSecret<'static> = SlotSecret::Password(b"other");

struct Lab {
    folder: TestFolder,
    owner: UnlockedRepository,
    other: KeyId,
}

impl Lab {
    fn new(role: Role) -> Self {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        let owner = folder.init();
        folder.backup(&owner);
        let other = owner.add_key(role, OTHER, CHEAP, "other").unwrap();
        Self { folder, owner, other }
    }

    fn open(&self) -> pipeline::Result<UnlockedRepository> {
        UnlockedRepository::open(self.folder.storage(), OTHER)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.repository().join(name)
    }

    fn slot(&self) -> PathBuf {
        self.file(&format!("keys/{}", self.other))
    }
}

#[test]
fn a_removed_key_stays_in_the_list_with_the_last_number_that_it_may_have_signed() {
    let lab = Lab::new(Role::WriteOnly);
    let before = lab.owner.known_signer(lab.other).unwrap().unwrap();
    assert!(before.is_live() && before.may_sign(u64::MAX) && !before.bound);
    let last = lab.folder.backup(&lab.open().unwrap()).snapshot;
    lab.owner.remove_key(lab.other).unwrap();
    let after = lab.owner.known_signer(lab.other).unwrap().unwrap();
    assert_eq!(after.valid_up_to, Some(last.sequence));
    assert_eq!((after.verify_key, after.label.as_str()), (before.verify_key, "other"));
    assert_eq!(lab.folder.open().known_signer(lab.other).unwrap(), Some(after));
    assert_eq!(lab.owner.known_signer(KeyId([7; 8])).unwrap(), None, "a stranger");
}

/// The thief keeps what a key opened, and gets at the storage after it was removed.
#[test]
fn what_a_removed_or_unknown_key_signs_counts_for_nothing_and_what_it_signed_before_does() {
    let lab = Lab::new(Role::WriteOnly);
    let thief = lab.open().unwrap();
    let before = lab.folder.backup(&thief).snapshot;
    lab.owner.remove_key(lab.other).unwrap();
    let late = Forge::new(&thief).publish_leaf(&[file("a", b"late")]);
    let unknown = Forge::new(&thief).signed_as(KeyId([7; 8])).publish_leaf(&[file("a", b"?")]);
    let repository = lab.folder.open();
    for (name, why) in [(late, "was removed before"), (unknown, "no key of this repository")] {
        match snapshot(&repository, name) {
            Err(Error::Untrusted { why: said, .. }) => assert!(said.contains(why), "{said}"),
            read => panic!("{read:?}"),
        }
    }
    let damages = checked(&repository).unwrap().damages;
    assert_eq!(damages.len(), 2, "{damages:#?}");
    lab.folder.assert_restores(&repository, before, &lab.folder.state());
    let next = snapshot(&repository, lab.folder.backup(&repository).snapshot).unwrap();
    assert_eq!(next.head.previous, before.id, "nobody builds on them");
}

/// Copies and older backups of the repository have them still: there they would count for nothing.
#[test]
fn a_removed_key_keeps_the_numbers_of_snapshots_that_were_forgotten_and_gets_no_later_one() {
    for (forgotten, last) in [(1..2, 2), (0..2, 2), (0..0, 2)] {
        let lab = Lab::new(Role::ReadWrite);
        lab.folder.backup(&lab.open().unwrap());
        let names = lab.owner.store.snapshots().unwrap();
        assert_eq!(names.iter().map(|name| name.sequence).collect::<Vec<_>>(), [1, 2]);
        let thief = lab.open().unwrap();
        lab.owner.forget(&names[forgotten]).unwrap();
        let more = SlotSecret::Recovery([9; 32]);
        let more = lab.owner.add_key(Role::WriteOnly, more, CHEAP, "more").unwrap();
        // One after the other in one process: no number comes to the second one by the removal of the first.
        for id in [lab.other, more] {
            lab.owner.remove_key(id).unwrap();
            assert_eq!(lab.owner.known_signer(id).unwrap().unwrap().valid_up_to, Some(last));
        }
        let late = Forge::new(&thief).publish_leaf(&[file("a", b"late")]);
        assert_eq!(late.sequence, last + 1);
        let read = snapshot(&lab.folder.open(), late);
        assert!(matches!(read, Err(Error::Untrusted { .. })), "{read:?}");
    }
}

/// A number counts once its snapshot can appear: it may be given, and the backup not yet be over.
#[test]
fn a_key_is_removed_after_a_running_backup_and_not_before_its_number() {
    let lab = Lab::new(Role::ReadWrite);
    let writer = lab.open().unwrap();
    let running = Forge::new(&writer);
    let refused = lab.owner.remove_key(lab.other);
    assert!(refused.is_err() && lab.owner.known_signer(lab.other).unwrap().unwrap().is_live());
    let done = running.publish_leaf(&[file("a", b"before")]);
    lab.owner.remove_key(lab.other).unwrap();
    let removed = lab.owner.known_signer(lab.other).unwrap().unwrap();
    assert_eq!(removed.valid_up_to, Some(done.sequence));
    assert!(snapshot(&lab.folder.open(), done).is_ok());
}

#[test]
fn a_bound_key_signs_for_its_node_alone() {
    let lab = Lab::new(Role::Reader);
    let secret = |byte| SlotSecret::Recovery([byte; 32]);
    let mine = lab.owner.add_key_of_node(Role::ReadWrite, secret(1), CHEAP, "node").unwrap();
    lab.owner.add_key_of_node(Role::ReadWrite, secret(2), CHEAP, "web").unwrap();
    assert!(lab.owner.known_signer(mine).unwrap().unwrap().may_sign_for("node"));
    let own =
        lab.folder.backup(&UnlockedRepository::open(lab.folder.storage(), secret(1)).unwrap());
    assert!(snapshot(&lab.owner, own.snapshot).is_ok());
    let others =
        lab.folder.backup(&UnlockedRepository::open(lab.folder.storage(), secret(2)).unwrap());
    let read = snapshot(&lab.owner, others.snapshot);
    assert!(matches!(read, Err(Error::Untrusted { .. })), "{read:?}");
}

/// The storage keeps a copy of all files; the thief has the password.
#[test]
fn a_slot_that_is_put_back_after_its_removal_signs_nothing() {
    for role in [Role::WriteOnly, Role::ReadWrite, Role::Full] {
        let lab = Lab::new(role);
        let slot = std::fs::read(lab.slot()).unwrap();
        lab.owner.remove_key(lab.other).unwrap();
        assert!(matches!(lab.open(), Err(Error::WrongKey)));
        std::fs::write(lab.slot(), slot).unwrap();
        let denied = lab.folder.try_backup(&lab.open().unwrap());
        assert!(matches!(denied, Err(Error::KeyRemoved(id)) if id == lab.other), "{denied:?}");
        let report = checked(&lab.folder.open()).unwrap();
        assert!(report.notes.iter().any(|note| note.what.contains("key remove")), "{report:#?}");
        lab.owner.remove_key(lab.other).unwrap();
        assert!(!lab.slot().exists());
        assert_clean(&lab.folder.open());
    }
}

#[test]
fn a_key_that_a_running_process_holds_signs_nothing_once_it_was_removed() {
    let lab = Lab::new(Role::ReadWrite);
    let open = lab.open().unwrap();
    lab.folder.backup(&open);
    lab.owner.remove_key(lab.other).unwrap();
    assert!(matches!(lab.folder.try_backup(&open), Err(Error::KeyRemoved(_))));
}

#[test]
fn an_older_list_is_not_believed_by_who_has_seen_a_newer_one() {
    let lab = Lab::new(Role::ReadWrite);
    let old: Vec<_> = KEY_LIST.map(|name| std::fs::read(lab.file(name)).unwrap()).into();
    lab.owner.remove_key(lab.other).unwrap();
    let seen = lab.folder.open();
    let version = seen.key_list().unwrap().version();
    KEY_LIST.iter().zip(old).for_each(|(name, list)| std::fs::write(lab.file(name), list).unwrap());
    assert_eq!(seen.known_signer(KeyId([7; 8])).unwrap(), None, "looks again");
    assert!(!seen.known_signer(lab.other).unwrap().unwrap().is_live());
    assert_eq!(seen.key_list().unwrap().version(), version);
    let fresh = lab.folder.open().key_list().unwrap().version();
    assert_eq!(fresh, version - 1, "who remembers nothing cannot tell: docs/CRYPTO.md says so");
}

#[test]
fn one_lost_or_damaged_file_of_those_that_stand_twice_costs_nothing_and_is_written_again() {
    for name in [KEY_LIST[0], KEY_LIST[1], "config", "config.copy"] {
        for is_lost in [true, false] {
            let lab = Lab::new(Role::ReadWrite);
            let good = std::fs::read(lab.file(name)).unwrap();
            match is_lost {
                true => std::fs::remove_file(lab.file(name)).unwrap(),
                false => std::fs::write(lab.file(name), &good[..good.len() / 2]).unwrap(),
            }
            lab.folder.backup(&lab.open().unwrap());
            let report = checked(&lab.folder.open()).unwrap();
            assert_eq!(report.damages.len(), 1, "{report:#?}");
            assert!(report.damages[0].what.contains(name) && report.damages[0].healable);
            let report = repaired(&lab.folder.open()).unwrap();
            assert_eq!((report.damages.as_slice(), report.repaired.len()), (&[][..], 1));
            assert_eq!(std::fs::read(lab.file(name)).unwrap(), good, "{name}");
        }
    }
}

#[test]
fn without_any_list_nobody_signs_until_a_full_key_makes_it_anew() {
    let lab = Lab::new(Role::ReadWrite);
    let done = lab.folder.backup(&lab.open().unwrap());
    let version = lab.owner.key_list().unwrap().version();
    KEY_LIST.iter().for_each(|name| std::fs::remove_file(lab.file(name)).unwrap());
    assert!(matches!(lab.folder.try_backup(&lab.open().unwrap()), Err(Error::NoKeyList)));
    assert!(matches!(lab.folder.open().known_signer(lab.other), Err(Error::NoKeyList)));
    assert!(matches!(checked(&lab.folder.open()), Err(Error::NoKeyList)));
    assert!(matches!(repaired(&lab.folder.open()), Err(Error::NoKeyList)), "nothing to copy");
    let denied = pipeline::rebuild::run(lab.folder.storage(), OTHER, false);
    assert!(matches!(denied, Err(Error::NeedsFullKey)), "{denied:?}");
    assert!(rebuilt(&lab.folder).key_list_restored);
    assert!(!rebuilt(&lab.folder).key_list_restored);
    let now = lab.folder.open();
    assert!(now.key_list().unwrap().version() > version, "an old list is older than it");
    lab.folder.assert_restores(&now, done.snapshot, &lab.folder.state());
    lab.folder.backup(&lab.open().unwrap());
    assert_clean(&lab.folder.open());
}

/// Made by who holds the storage, and another repository's full key.
#[test]
fn a_list_of_another_repository_vouches_for_nobody() {
    let (lab, stranger) = (Lab::new(Role::ReadWrite), Lab::new(Role::ReadWrite));
    for name in KEY_LIST {
        std::fs::copy(stranger.file(name), lab.file(name)).unwrap();
    }
    assert!(matches!(lab.folder.open().known_signer(lab.other), Err(Error::NoKeyList)));
    assert!(matches!(lab.folder.open().known_signer(stranger.other), Err(Error::NoKeyList)));
}

#[test]
fn a_read_only_key_restores_and_can_change_nothing() {
    let lab = Lab::new(Role::Reader);
    let before = lab.folder.state();
    let name = lab.folder.open().store.snapshots().unwrap()[0];
    let reader = lab.open().unwrap();
    lab.folder.assert_restores(&reader, name, &before);
    assert_clean(&reader);
    assert!(matches!(lab.folder.try_backup(&reader), Err(Error::ReadOnly)));
    assert!(matches!(reader.forget(&[name]), Err(Error::ReadOnly)));
    assert!(matches!(reader.add_key(Role::Reader, OTHER, CHEAP, ""), Err(Error::NeedsFullKey)));
    assert!(matches!(reader.remove_key(lab.owner.slot.id), Err(Error::NeedsFullKey)));
    assert_eq!(lab.owner.known_signer(lab.other).unwrap(), None, "it signs nothing");
    lab.owner.remove_key(lab.other).unwrap();
    assert!(matches!(lab.open(), Err(Error::WrongKey)));
}

#[test]
fn a_read_write_key_backs_up_and_restores_and_makes_no_keys() {
    let lab = Lab::new(Role::ReadWrite);
    let open = lab.open().unwrap();
    lab.folder.write("later", &noise(5, 9000));
    let done = lab.folder.backup(&open);
    lab.folder.assert_restores(&open, done.snapshot, &lab.folder.state());
    lab.folder.assert_restores(&lab.folder.open(), done.snapshot, &lab.folder.state());
    assert!(matches!(open.add_key(Role::ReadWrite, OTHER, CHEAP, ""), Err(Error::NeedsFullKey)));
    assert!(matches!(open.remove_key(lab.owner.slot.id), Err(Error::NeedsFullKey)));
    assert!(open.certifier().is_err());
}

#[test]
fn the_last_full_key_cannot_be_removed_whoever_else_reads() {
    let lab = Lab::new(Role::ReadWrite);
    let first = lab.owner.slot.id;
    assert!(matches!(lab.owner.remove_key(first), Err(Error::Usage(_))));
    let second = SlotSecret::Recovery([4; 32]);
    lab.owner.add_key(Role::Full, second, CHEAP, "paper").unwrap();
    lab.owner.remove_key(first).unwrap();
    assert!(matches!(
        UnlockedRepository::open(lab.folder.storage(), PASSWORD),
        Err(Error::WrongKey)
    ));
}

/// The storage may not choose how files are cut: small chunks tell which files these are.
#[test]
fn settings_that_the_root_key_did_not_sign_are_not_believed() {
    let lab = Lab::new(Role::WriteOnly);
    let good = *lab.owner.local().unwrap().config();
    let other = Lab::new(Role::Full);
    let theirs = *other.owner.local().unwrap().config();
    for forged in [
        store::Config { chunk_bytes: [1024, 2048, 4096], ..good },
        good.with_parity(5),
        store::Config { privacy: 3 - good.privacy, ..good },
        store::Config { optional: 1, ..good },
        store::Config { signature: theirs.signature, ..good },
    ] {
        repository::config::write(&forged, &*lab.folder.storage()).unwrap();
        for secret in [OTHER, PASSWORD] {
            let opened = UnlockedRepository::open(lab.folder.storage(), secret).map(|_| ());
            assert!(matches!(opened, Err(Error::ForgedConfig)), "{opened:?} {forged:?}");
        }
    }
    repository::config::write(&good, &*lab.folder.storage()).unwrap();
    lab.folder.backup(&lab.open().unwrap());
}
