//! Who may do what.

use crate::testkit::build::small_tree;
use crate::testkit::{CHEAP, PASSWORD, TestFolder, assert_clean, checked};
use crypto::{Role, SlotSecret};
use pipeline::{Error, UnlockedRepository};

const OTHER: SlotSecret<'static> = SlotSecret::Password(b"other");

fn lab() -> (TestFolder, UnlockedRepository) {
    let folder = TestFolder::new();
    small_tree(&folder.source(), 1);
    let repository = folder.init();
    (folder, repository)
}

fn open(folder: &TestFolder, secret: SlotSecret<'_>) -> pipeline::Result<UnlockedRepository> {
    UnlockedRepository::open(folder.storage(), secret)
}

/// It opens none, and reads one again that came wrong.
#[test]
fn the_engine_knows_whether_a_slot_is_as_it_was_written() {
    let (_folder, repository) = lab();
    repository.add_key(Role::WriteOnly, OTHER, CHEAP, "agent").unwrap();
    let slots = repository.local().unwrap().key_slots().unwrap();
    assert!(slots.len() > 1);
    for (_, mut slot) in slots {
        repository::keys::is_slot(&slot).unwrap();
        slot[100] ^= 1;
        assert!(repository::keys::is_slot(&slot).is_err());
    }
}

#[test]
fn a_wrong_password_opens_nothing() {
    let (folder, _) = lab();
    assert!(matches!(open(&folder, OTHER), Err(Error::WrongKey)));
    assert!(matches!(open(&folder, SlotSecret::Recovery([7; 32])), Err(Error::WrongKey)));
}

/// Ids of keys are random: which one opened was a matter of luck.
#[test]
fn a_password_of_several_keys_opens_the_one_that_may_most() {
    let (folder, repository) = lab();
    for _ in 0..5 {
        repository.add_key(Role::WriteOnly, PASSWORD, CHEAP, "agent").unwrap();
    }
    assert_eq!(open(&folder, PASSWORD).unwrap().slot.role, Role::Full);
    let opened = repository.opened_by(PASSWORD).unwrap();
    assert_eq!(opened.map(|slot| slot.id), Some(repository.slot.id));
    assert!(repository.opened_by(OTHER).unwrap().is_none());
}

#[test]
fn a_write_only_key_backs_up_and_reads_nothing() {
    let (folder, repository) = lab();
    folder.backup(&repository);
    repository.add_key(Role::WriteOnly, OTHER, CHEAP, "agent").unwrap();
    let writer = open(&folder, OTHER).unwrap();
    folder
        .write("later", b"what only the writer has seen, and more than fits an entry, so a chunk");
    let before = folder.state();
    let done = folder.backup(&writer);
    assert!(done.report.chunks_new <= 2, "what is stored is not sent again: {:#?}", done.report);
    let again = folder.backup(&writer);
    assert_eq!(again.report.chunks_new, 0);

    let target = folder.at("target");
    let denied = crate::testkit::restore_to(&writer, done.snapshot, &target);
    assert!(matches!(denied, Err(Error::WriteOnly)), "{denied:?}");
    assert!(matches!(checked(&writer), Err(Error::WriteOnly)));
    assert!(matches!(writer.reader_keys(), Err(Error::WriteOnly)));
    let denied = writer.add_key(Role::Full, SlotSecret::Password(b"x"), CHEAP, "mine");
    assert!(matches!(denied, Err(Error::NeedsFullKey)));
    let first = writer.slots().unwrap()[0].0;
    assert!(matches!(writer.remove_key(first), Err(Error::NeedsFullKey)));

    folder.assert_restores(&folder.open(), done.snapshot, &before);
    folder.assert_restores(&folder.open(), again.snapshot, &before);
    assert_clean(&folder.open());
}

#[test]
fn a_removed_key_opens_nothing_and_what_it_wrote_stays() {
    let (folder, repository) = lab();
    let id = repository.add_key(Role::Full, OTHER, CHEAP, "leaver").unwrap();
    let before = folder.state();
    let done = folder.backup(&open(&folder, OTHER).unwrap());
    repository.remove_key(id).unwrap();
    assert!(matches!(open(&folder, OTHER), Err(Error::WrongKey)));
    assert!(matches!(repository.remove_key(id), Err(Error::KeyNotFound(_))));
    folder.assert_restores(&folder.open(), done.snapshot, &before);
    assert_clean(&folder.open());
}

#[test]
fn the_last_key_that_reads_cannot_be_removed() {
    let (_place, repository) = lab();
    repository.add_key(Role::WriteOnly, OTHER, CHEAP, "agent").unwrap();
    let first = repository.slot.id;
    assert!(matches!(repository.remove_key(first), Err(Error::Usage(_))));
}

#[test]
fn a_recovery_key_on_paper_opens_everything() {
    let (folder, repository) = lab();
    let before = folder.state();
    let done = folder.backup(&repository);
    let text = crypto::recovery_to_text(&[9; 32]);
    repository.add_key(Role::Full, SlotSecret::Recovery([9; 32]), CHEAP, "paper").unwrap();
    let secret = crypto::recovery_from_text(&text).unwrap();
    let recovered = open(&folder, SlotSecret::Recovery(secret)).unwrap();
    folder.assert_restores(&recovered, done.snapshot, &before);
    recovered.remove_key(repository.slot.id).unwrap();
    assert!(matches!(open(&folder, PASSWORD), Err(Error::WrongKey)));
}

#[test]
fn two_keys_build_on_each_others_snapshots() {
    let (folder, repository) = lab();
    folder.backup(&repository);
    repository.add_key(Role::Full, OTHER, CHEAP, "second").unwrap();
    let second = folder.backup(&open(&folder, OTHER).unwrap());
    assert_eq!(second.report.objects_backed_up, 0, "{:#?}", second.report);
    folder.assert_restores(&folder.open(), second.snapshot, &folder.state());
}

#[test]
fn a_damaged_slot_does_not_keep_another_from_opening() {
    let (folder, repository) = lab();
    let id = repository.add_key(Role::Full, OTHER, CHEAP, "second").unwrap();
    let path = folder.repository().join(format!("keys/{id}"));
    std::fs::write(&path, b"garbage").unwrap();
    assert!(open(&folder, PASSWORD).is_ok());
    assert!(open(&folder, OTHER).is_err());
    assert!(repository.opened_by(OTHER).unwrap().is_none());
}

#[test]
fn a_repository_is_made_once() {
    let (folder, _) = lab();
    let options = pipeline::unlocked::InitOptions { kdf: CHEAP, ..Default::default() };
    let again = UnlockedRepository::init(folder.storage(), OTHER, options);
    assert!(matches!(again, Err(Error::Repository(store::Error::Exists { .. }))));
    assert!(open(&folder, PASSWORD).is_ok());
}

fn lose_config(folder: &TestFolder) {
    let names = repository::config::NAMES;
    names.iter().for_each(|name| std::fs::remove_file(folder.repository().join(name)).unwrap());
}

/// Its slots are signed by a root key that nobody has any more.
#[test]
fn an_init_that_was_killed_before_its_config_leaves_no_key_behind() {
    let folder = TestFolder::new();
    drop(folder.init());
    lose_config(&folder);
    small_tree(&folder.source(), 1);
    let repository = folder.init();
    folder.backup(&repository);
    assert_clean(&repository);
    // Where something was stored, the config is what was lost: its keys stay, and no other config is made.
    let slots = || std::fs::read_dir(folder.repository().join("keys")).unwrap().count();
    drop(repository);
    let before = slots();
    lose_config(&folder);
    let options = pipeline::unlocked::InitOptions { kdf: CHEAP, ..Default::default() };
    let again = UnlockedRepository::init(folder.storage(), PASSWORD, options);
    assert!(matches!(again, Err(Error::Repository(store::Error::Exists { .. }))));
    assert_eq!(slots(), before);
}

/// "A slot's checksum" was all that was said, and there are many slots.
#[test]
fn a_damaged_file_of_a_key_is_named() {
    let folder = TestFolder::new();
    folder.init();
    let is_key = |name: &String| name.starts_with("keys/") && !name.contains("list");
    let key = folder.files().into_iter().find(is_key).unwrap();
    let path = folder.repository().join(&key);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let refused = UnlockedRepository::open(folder.storage(), PASSWORD).err().unwrap();
    assert!(refused.to_string().starts_with(&format!("{key}: ")), "{refused}");
}
