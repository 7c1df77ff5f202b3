//! Who may do what.

use crate::testkit::build::small_tree;
use crate::testkit::{CHEAP, PASSWORD, TestFolder, assert_clean, checked};
use crypto::{Role, SlotSecret};
use pipeline::{Error, UnlockedRepository};

const OTHER: SlotSecret<'static> = SlotSecret::Password(b"other");

fn lab() -> (TestFolder, UnlockedRepository) {
    let place = TestFolder::new();
    small_tree(&place.source(), 1);
    let repository = place.init();
    (place, repository)
}

fn open(place: &TestFolder, secret: SlotSecret<'_>) -> pipeline::Result<UnlockedRepository> {
    UnlockedRepository::open(place.storage(), secret)
}

#[test]
fn a_wrong_password_opens_nothing() {
    let (place, _) = lab();
    assert!(matches!(open(&place, OTHER), Err(Error::WrongKey)));
    assert!(matches!(open(&place, SlotSecret::Recovery([7; 32])), Err(Error::WrongKey)));
}

#[test]
fn a_write_only_key_backs_up_and_reads_nothing() {
    let (place, repository) = lab();
    place.backup(&repository);
    repository.add_key(Role::WriteOnly, OTHER, CHEAP, "agent").unwrap();
    let writer = open(&place, OTHER).unwrap();
    place.write("later", b"what only the writer has seen, and more than fits an entry, so a chunk");
    let before = place.state();
    let done = place.backup(&writer);
    assert!(done.report.chunks_new <= 2, "what is stored is not sent again: {:#?}", done.report);
    let again = place.backup(&writer);
    assert_eq!(again.report.chunks_new, 0);

    let target = place.at("target");
    let denied = crate::testkit::restore_to(&writer, done.snapshot, &target);
    assert!(matches!(denied, Err(Error::WriteOnly)), "{denied:?}");
    assert!(matches!(checked(&writer), Err(Error::WriteOnly)));
    assert!(matches!(writer.reader_keys(), Err(Error::WriteOnly)));
    let denied = writer.add_key(Role::Full, SlotSecret::Password(b"x"), CHEAP, "mine");
    assert!(matches!(denied, Err(Error::NeedsFullKey)));
    let first = writer.slots().unwrap()[0].0;
    assert!(matches!(writer.remove_key(first), Err(Error::NeedsFullKey)));

    place.assert_restores(&place.open(), done.snapshot, &before);
    place.assert_restores(&place.open(), again.snapshot, &before);
    assert_clean(&place.open());
}

#[test]
fn a_removed_key_opens_nothing_and_what_it_wrote_stays() {
    let (place, repository) = lab();
    let id = repository.add_key(Role::Full, OTHER, CHEAP, "leaver").unwrap();
    let before = place.state();
    let done = place.backup(&open(&place, OTHER).unwrap());
    repository.remove_key(id).unwrap();
    assert!(matches!(open(&place, OTHER), Err(Error::WrongKey)));
    assert!(matches!(repository.remove_key(id), Err(Error::KeyNotFound(_))));
    place.assert_restores(&place.open(), done.snapshot, &before);
    assert_clean(&place.open());
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
    let (place, repository) = lab();
    let before = place.state();
    let done = place.backup(&repository);
    let text = crypto::recovery_to_text(&[9; 32]);
    repository.add_key(Role::Full, SlotSecret::Recovery([9; 32]), CHEAP, "paper").unwrap();
    let secret = crypto::recovery_from_text(&text).unwrap();
    let recovered = open(&place, SlotSecret::Recovery(secret)).unwrap();
    place.assert_restores(&recovered, done.snapshot, &before);
    recovered.remove_key(repository.slot.id).unwrap();
    assert!(matches!(open(&place, PASSWORD), Err(Error::WrongKey)));
}

#[test]
fn two_keys_build_on_each_others_snapshots() {
    let (place, repository) = lab();
    place.backup(&repository);
    repository.add_key(Role::Full, OTHER, CHEAP, "second").unwrap();
    let second = place.backup(&open(&place, OTHER).unwrap());
    assert_eq!(second.report.objects_backed_up, 0, "{:#?}", second.report);
    place.assert_restores(&place.open(), second.snapshot, &place.state());
}

#[test]
fn a_damaged_slot_does_not_keep_another_from_opening() {
    let (place, repository) = lab();
    let id = repository.add_key(Role::Full, OTHER, CHEAP, "second").unwrap();
    let path = place.repository().join(format!("keys/{id}"));
    std::fs::write(&path, b"garbage").unwrap();
    assert!(open(&place, PASSWORD).is_ok());
    assert!(open(&place, OTHER).is_err());
}

#[test]
fn a_repository_is_made_once() {
    let (place, _) = lab();
    let options = pipeline::unlocked::InitOptions { kdf: CHEAP, ..Default::default() };
    let again = UnlockedRepository::init(place.storage(), OTHER, options);
    assert!(matches!(again, Err(Error::Repository(store::Error::Exists { .. }))));
    assert!(open(&place, PASSWORD).is_ok());
}

fn lose_config(place: &TestFolder) {
    let names = repository::config::NAMES;
    names.iter().for_each(|name| std::fs::remove_file(place.repository().join(name)).unwrap());
}

/// Its slots are signed by a root key that nobody has any more.
#[test]
fn an_init_that_was_killed_before_its_config_leaves_no_key_behind() {
    let place = TestFolder::new();
    drop(place.init());
    lose_config(&place);
    small_tree(&place.source(), 1);
    let repository = place.init();
    place.backup(&repository);
    assert_clean(&repository);
    // Where something was stored, the config is what was lost: its keys stay.
    let slots = repository.local().unwrap().key_slots().unwrap().len();
    lose_config(&place);
    let again = place.init();
    assert_eq!((slots, again.local().unwrap().key_slots().unwrap().len()), (1, 2));
}
