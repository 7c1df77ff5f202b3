use crate::commands::Commands;
use crate::open::Parts;
use crate::scheduler::tests::enroll;
use crate::{by, now_secs};
use api::commands::{CommandState, NewBackup, NewRestore, Task};
use api::domains::Grant;
use clock::Doubt;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CATALOG: &str = "catalog.sqlite";

/// Opens the server in `place`, and begins as a start does.
fn open(place: &TempDir) -> Parts {
    let parts = Parts::open(place.path(), &[]).unwrap();
    parts.begin().unwrap();
    parts
}

fn doubt(parts: &Parts) -> Option<Doubt> {
    parts.clock.read().unwrap().doubt
}

fn change(parts: &Parts, what: &str) {
    parts.catalog.audit_note(by("admin"), "test", what, "").unwrap();
    parts.mark.note();
}

/// The files of the catalog in `place`: SQLite has several.
fn files(place: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(CATALOG) && !name.ends_with("lock")
    };
    all.filter(is_it).collect()
}

/// A copy of the catalog of a server that does not run.
pub(crate) fn copied(place: &TempDir) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in files(place.path()) {
        fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
    }
    copy
}

/// Replaces the catalog of a server that does not run; `None` loses it.
pub(crate) fn replace(place: &TempDir, with: Option<&TempDir>) {
    files(place.path()).iter().for_each(|file| fs::remove_file(file).unwrap());
    for file in with.iter().flat_map(|copy| files(copy.path())) {
        fs::copy(&file, place.path().join(file.file_name().unwrap())).unwrap();
    }
}

/// A server that had changes since a copy of its catalog.
fn with_older_copy() -> (TempDir, TempDir) {
    let place = tempfile::tempdir().unwrap();
    drop(open(&place));
    let copy = copied(&place);
    let parts = open(&place);
    assert_eq!((doubt(&parts), parts.mark.faults()), (None, vec![]), "nothing is older");
    change(&parts, "hold");
    drop(parts);
    (place, copy)
}

#[test]
fn a_catalog_from_an_older_copy_counts_only_when_somebody_confirms_it() {
    let (place, copy) = with_older_copy();
    replace(&place, Some(&copy));
    let parts = open(&place);
    assert_eq!(doubt(&parts), Some(Doubt::Catalog));
    let [fault] = &parts.mark.faults()[..] else { panic!("one fault") };
    assert!(fault.contains("it lacks all changes from 2"), "{fault}");
    assert!(fault.contains("icecore server catalog confirm"), "{fault}");
    assert!(fault.contains("revoke again whoever was revoked since"), "{fault}");
    assert!(parts.mark.allows_forget().is_err());
    // It gets more entries than the one that was seen, and still is not that one.
    (0..20).for_each(|_| change(&parts, "more"));
    drop(parts);
    let parts = open(&place);
    assert_eq!(doubt(&parts), Some(Doubt::Catalog));
    assert_eq!(parts.mark.faults(), std::slice::from_ref(fault), "also after a restart");
    let done = parts.mark.confirm(by("admin"), now_secs()).unwrap();
    assert_eq!(done.ended, std::slice::from_ref(fault));
    assert_eq!((doubt(&parts), parts.mark.faults()), (None, vec![]));
    assert!(parts.mark.allows_forget().is_ok());
    let [newest, _] = parts.catalog.audit_marks(0).unwrap();
    assert_eq!(newest.map(|newest| newest.id), Some(done.entries));
    assert_eq!(parts.catalog.audit_entries(None, 1).unwrap()[0].action, "catalog.confirm");
    drop(parts);
    assert_eq!(doubt(&open(&place)), None);
}

/// Entries that somebody else has added since make it as long, and no newer.
/// One command ends both doubts, and lets whoever was revoked since in again: that is said.
#[test]
fn an_older_catalog_without_the_list_of_the_revoked_says_what_comes_first() {
    let (place, copy) = with_older_copy();
    replace(&place, Some(&copy));
    std::fs::remove_file(place.path().join("revoked")).unwrap();
    let faults = open(&place).mark.faults();
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[2].contains("icecore server revoke NODE"), "{faults:?}");
}

#[test]
fn an_older_copy_that_went_on_elsewhere_is_another_catalog() {
    let (place, copy) = with_older_copy();
    replace(&place, Some(&copy));
    let location = catalog::Location::file(place.path().join(CATALOG));
    let elsewhere = catalog::Catalog::open(&location).unwrap();
    (0..50).for_each(|_| elsewhere.audit_note(by("admin"), "test", "other", "").unwrap());
    drop(elsewhere);
    let parts = open(&place);
    assert_eq!(doubt(&parts), Some(Doubt::Catalog));
    assert!(parts.mark.faults()[0].contains("another one"), "{:?}", parts.mark.faults());
}

#[test]
fn a_catalog_that_began_anew_may_lack_holds() {
    let (place, _) = with_older_copy();
    replace(&place, None);
    let parts = open(&place);
    assert_eq!(doubt(&parts), Some(Doubt::Catalog));
    parts.mark.confirm(by("admin"), now_secs()).unwrap();
    assert_eq!(doubt(&parts), None);
}

#[test]
fn a_mark_that_is_lost_or_damaged_is_a_doubt_and_a_new_server_makes_one() {
    for is_lost in [true, false] {
        let (place, _) = with_older_copy();
        let mark = place.path().join(super::FILE);
        let whole = fs::read(&mark).unwrap();
        match is_lost {
            true => fs::remove_file(&mark).unwrap(),
            false => fs::write(&mark, &whole[..whole.len() / 2]).unwrap(),
        }
        for _ in 0..2 {
            let parts = open(&place);
            assert_eq!(doubt(&parts), Some(Doubt::Catalog));
            let fault = parts.mark.faults().remove(0);
            let what =
                if is_lost { "catalog-mark was missing" } else { "catalog-mark was damaged" };
            assert!(fault.contains(what), "{fault}");
        }
        let parts = open(&place);
        parts.mark.confirm(by("admin"), now_secs()).unwrap();
        drop(parts);
        assert_eq!(doubt(&open(&place)), None);
    }
}

/// A server of a version before has neither file, and its catalog does not say that it should.
#[test]
fn a_server_without_a_mark_gets_one_when_it_starts() {
    let new = tempfile::tempdir().unwrap();
    drop(Parts::open(new.path(), &[]).unwrap());
    fs::remove_file(new.path().join(super::FILE)).unwrap();
    fs::remove_file(new.path().join("revoked")).unwrap();
    let before = tempfile::tempdir().unwrap();
    let location = catalog::Location::file(before.path().join(CATALOG));
    drop(catalog::Catalog::open(&location).unwrap());
    replace(&new, Some(&before));
    let parts = open(&new);
    assert_eq!((doubt(&parts), parts.mark.faults()), (None, vec![]));
    assert!(new.path().join(super::FILE).exists() && new.path().join("revoked").exists());
    drop(parts);
    fs::remove_file(new.path().join(super::FILE)).unwrap();
    assert_eq!(doubt(&open(&new)), Some(Doubt::Catalog), "from then on it has to be there");
}

/// A token of an older catalog may have been used since; whoever has it enrolls nothing.
#[test]
fn tokens_of_an_older_catalog_enroll_nobody() {
    let place = tempfile::tempdir().unwrap();
    let parts = open(&place);
    parts
        .catalog
        .add_storage_server_token(by("admin"), &[7; 32], &"disk".parse().unwrap(), i64::MAX)
        .unwrap();
    drop(parts);
    let copy = copied(&place);
    let parts = open(&place);
    let use_ = |parts: &Parts| parts.catalog.storage_server_token(&[7; 32], &[1; 32], now_secs());
    assert!(use_(&parts).is_ok());
    change(&parts, "hold");
    drop(parts);
    replace(&place, Some(&copy));
    let parts = open(&place);
    assert!(use_(&parts).is_err());
}

/// A grant that was withdrawn since the copy is in it again, and its node would read what was stored since.
#[test]
fn no_grant_of_an_older_catalog_is_good_until_somebody_confirms() {
    let place = tempfile::tempdir().unwrap();
    let parts = open(&place);
    ["web", "spare"].iter().for_each(|node| enroll(&parts.catalog, node));
    let [web, spare]: [api::Name; 2] = ["web", "spare"].map(|name| name.parse().unwrap());
    let new = Grant { node: spare.clone(), domain: web.clone(), until: None };
    parts.catalog.add_grant(by("admin"), &new).unwrap();
    let begins = |parts: &Parts| parts.permissions.may_read(&spare, &web).map(drop);
    let goes_on = |parts: &Parts| parts.permissions.is_granted(&spare, &web);
    assert!(begins(&parts).is_ok() && goes_on(&parts));
    drop(parts);
    let copy = copied(&place);
    let parts = open(&place);
    parts.catalog.remove_grant(by("admin"), &spare, &web).unwrap();
    parts.mark.note();
    drop(parts);
    replace(&place, Some(&copy));
    let parts = open(&place);
    let Err(crate::Error::Refused(why)) = begins(&parts) else { panic!("it reads") };
    assert!(why.message.contains(&Doubt::Catalog.to_string()), "{}", why.message);
    assert!(why.hint.contains("icecore server catalog confirm"), "{}", why.hint);
    assert!(!goes_on(&parts), "a session");
    assert!(parts.permissions.may_read(&web, &web).is_ok(), "its own domain");
    parts.mark.confirm(by("admin"), now_secs()).unwrap();
    assert!(begins(&parts).is_ok() && goes_on(&parts));
}

/// A restore that was done since the copy would overwrite what was changed since; a backup is only made once more.
#[test]
fn a_restore_of_an_older_catalog_is_given_to_nobody() {
    let place = tempfile::tempdir().unwrap();
    let parts = open(&place);
    enroll(&parts.catalog, "web");
    let at = |now_secs| catalog::By { now_secs, ..by("admin") };
    let web: api::Name = "web".parse().unwrap();
    let restore = Task::Restore(NewRestore {
        node: web.clone(),
        domain: None,
        snapshot: "latest".into(),
        paths: vec![],
        target: "/srv/restored".into(),
    });
    let backup = Task::Backup(NewBackup::of(web.clone(), vec!["/etc".into()]));
    let backup = parts.catalog.add_command(at(1_000), &backup).unwrap().id;
    let add = |parts: &Parts, made| parts.catalog.add_command(at(made), &restore).unwrap().id;
    let [_, taken] = [add(&parts, 1_000), add(&parts, 1_000)];
    let state = CommandState::Taken;
    parts.catalog.update_command(by("node"), &web, taken, state, None).unwrap();
    drop(parts);
    let copy = copied(&place);
    let given = |parts: &Parts| {
        let open = Commands::new(parts).open("web").into_iter();
        open.map(|command| command.id).collect::<Vec<_>>()
    };
    let parts = open(&place);
    assert_eq!(given(&parts).len(), 3);
    change(&parts, "hold");
    drop(parts);
    // Whenever it is put back, also beside a server that knows already that it is older.
    for _ in 0..2 {
        replace(&place, Some(&copy));
        let parts = open(&place);
        assert_eq!(given(&parts), [backup]);
        let all = Commands::new(&parts).all().unwrap().commands;
        let failed = all.iter().filter(|one| one.state == CommandState::Failed);
        assert!(failed.clone().all(|one| one.message.as_ref().unwrap().contains("order it again")));
        assert_eq!(failed.count(), 2);
        let old = add(&parts, 1_000);
        assert_eq!(given(&parts), [backup], "one that comes with another copy: {old}");
        let new = Commands::new(&parts).add("admin", &restore).unwrap().id;
        assert_eq!(given(&parts), [backup, new]);
    }
}

/// Its directory is written by others than its catalog: an older mark is no reason to doubt anything.
#[test]
fn a_mark_from_an_older_copy_is_brought_up_to_date() {
    let place = tempfile::tempdir().unwrap();
    drop(open(&place));
    let mark = fs::read(place.path().join(super::FILE)).unwrap();
    let parts = open(&place);
    change(&parts, "hold");
    drop(parts);
    let newer = fs::read(place.path().join(super::FILE)).unwrap();
    assert_ne!(mark, newer);
    fs::write(place.path().join(super::FILE), &mark).unwrap();
    let parts = open(&place);
    assert_eq!(doubt(&parts), None);
    assert_ne!(fs::read(place.path().join(super::FILE)).unwrap(), mark);
}
