//! What is known of snapshots, and the trash, on both databases.

use super::*;
use crate::testing::{BY, On, on_both};

fn snapshot(number: u8) -> Facts {
    Facts {
        id: SnapshotId([number; 16]),
        number: number.into(),
        node: "web".to_owned(),
        source: "main".to_owned(),
        policy: "daily".to_owned(),
        class: "standard".to_owned(),
        received_secs: 100 * i64::from(number),
        is_partial: number == 2,
        suspect: (number == 3).then(|| "its clock".to_owned()),
        tags: None,
        locked_until_secs: (number == 1).then_some(500),
        paths: (number == 2).then_some(ObjectId([7; ObjectId::LEN])),
        has_deleted_objects: (number == 2).then_some(true),
        source_deleted_secs: None,
        trashed: None,
    }
}

const TRASHED: Trashed = Trashed { since_secs: 900, by: TrashedBy::Rules };

fn change(number: u8, before: Option<Trashed>, after: Option<Trashed>) -> TrashChange {
    TrashChange { id: snapshot(number).id, before, after }
}

fn entries(catalog: &Catalog) -> Vec<(String, String)> {
    let entries = catalog.audit_entries(None, 9).unwrap();
    entries.into_iter().rev().map(|entry| (entry.action, entry.detail)).collect()
}

fn what_is_noted_is_read_again_and_noting_it_again_changes_nothing(on: On) {
    let (_folder, catalog) = on.catalog();
    let all: Vec<_> = (1..=3).map(snapshot).collect();
    for _ in 0..2 {
        catalog.note_snapshots("web", &all, &[]).unwrap();
        assert_eq!(catalog.snapshots_of("web").unwrap(), all);
    }
    assert!(catalog.snapshots_of("db").unwrap().is_empty());
    catalog.note_snapshots("db", &all[..1], &[]).unwrap();
    assert_eq!(catalog.snapshots().unwrap().len(), 4);
    catalog.note_snapshots("web", &[], &[all[0].id]).unwrap();
    assert_eq!(catalog.snapshots_of("web").unwrap(), all[1..]);
    assert_eq!(catalog.snapshots_of("db").unwrap(), all[..1], "only of that domain");
}

fn the_trash_outlives_what_the_repository_says_again(on: On) {
    let (_folder, catalog) = on.catalog();
    let all: Vec<_> = (1..=3).map(snapshot).collect();
    catalog.note_snapshots("web", &all, &[]).unwrap();
    let named = Trashed { since_secs: 901, by: TrashedBy::NameAtOnce };
    let changes = [change(1, None, Some(TRASHED)), change(3, None, Some(named))];
    assert_eq!(catalog.change_trash(BY, "web", &changes).unwrap().len(), 2);
    catalog.note_snapshots("web", &all, &[]).unwrap();
    let found: Vec<_> =
        catalog.snapshots_of("web").unwrap().into_iter().map(|it| it.trashed).collect();
    assert_eq!(found, [Some(TRASHED), None, Some(named)]);
    let entry = format!("2 snapshots: {} {}", all[0].id, all[2].id);
    assert_eq!(entries(&catalog), [("snapshot.trash".to_owned(), entry)]);
}

fn the_trash_of_an_older_catalog_begins_anew(on: On) {
    let (_folder, catalog) = on.catalog();
    let all: Vec<_> = (1..=3).map(snapshot).collect();
    catalog.note_snapshots("web", &all, &[]).unwrap();
    let at_once = Trashed { since_secs: 901, by: TrashedBy::NameAtOnce };
    let changes = [change(1, None, Some(TRASHED)), change(3, None, Some(at_once))];
    catalog.change_trash(BY, "web", &changes).unwrap();
    assert_eq!(catalog.keep_trash(BY, 5_000).unwrap(), 2);
    let found: Vec<_> =
        catalog.snapshots_of("web").unwrap().into_iter().map(|it| it.trashed).collect();
    let since_secs = 5_000;
    let named = Trashed { since_secs, by: TrashedBy::Name };
    assert_eq!(found, [Some(Trashed { since_secs, ..TRASHED }), None, Some(named)]);
    assert_eq!(entries(&catalog)[1], ("snapshot.keep-trash".to_owned(), "2".to_owned()));
}

/// Somebody else was faster: nothing changes, and no entry says that it did.
fn what_is_not_as_it_was_seen_does_not_change(on: On) {
    let (_folder, catalog) = on.catalog();
    catalog.note_snapshots("web", &[snapshot(1)], &[]).unwrap();
    let put = [change(1, None, Some(TRASHED)), change(2, None, Some(TRASHED))];
    assert_eq!(catalog.change_trash(BY, "web", &put).unwrap(), [snapshot(1).id]);
    assert!(catalog.change_trash(BY, "web", &put).unwrap().is_empty());
    let other = Trashed { since_secs: 899, ..TRASHED };
    let back = [change(1, Some(other), None)];
    assert!(catalog.change_trash(BY, "web", &back).unwrap().is_empty());
    assert_eq!(entries(&catalog).len(), 1);
    let back = [change(1, Some(TRASHED), None)];
    assert_eq!(catalog.change_trash(BY, "web", &back).unwrap().len(), 1);
    assert_eq!(entries(&catalog)[1].0, "snapshot.undelete");
    assert_eq!(catalog.snapshots_of("web").unwrap()[0].trashed, None);
}

fn a_source_is_gone_once_and_can_be_back(on: On) {
    let (_folder, catalog) = on.catalog();
    let text = str::to_owned;
    let gone =
        DeletedSource { node: text("web"), policy: text("p"), source: text("main"), since: 7 };
    catalog.delete_source(BY, &gone).unwrap();
    catalog.delete_source(BY, &DeletedSource { since: 9, ..gone.clone() }).unwrap();
    assert_eq!(catalog.deleted_sources().unwrap(), [gone]);
    assert!(catalog.undelete_source(BY, "web", "p", "main").unwrap());
    assert!(!catalog.undelete_source(BY, "web", "p", "main").unwrap());
    let actions: Vec<_> = entries(&catalog).into_iter().map(|entry| entry.0).collect();
    assert_eq!(actions, ["source.delete", "source.undelete"]);
}

on_both![
    what_is_noted_is_read_again_and_noting_it_again_changes_nothing,
    the_trash_outlives_what_the_repository_says_again,
    the_trash_of_an_older_catalog_begins_anew,
    what_is_not_as_it_was_seen_does_not_change,
    a_source_is_gone_once_and_can_be_back,
];
