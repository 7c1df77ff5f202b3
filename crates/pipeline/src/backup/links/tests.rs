//! Names of which one was met before a change of the file and the other one after it, in a second backup.

use super::*;
use crate::backup::batch::{Batch, Item};
use crate::backup::merge::Merge;
use crate::backup::previous::{newest, previous_pages};
use crate::backup::reorder::tests::{Silent, options, repository};
use capture::walk::{Walk, WalkEvent};

/// What a second backup makes of the names of one file, if it meets one of them as `later` leaves it.
fn second_backup(changed: &str, later: impl Fn(&mut Row)) -> Vec<(String, &'static str)> {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("a"), b"text").unwrap();
    std::fs::hard_link(source.join("a"), source.join("b")).unwrap();
    let (repository, mut options) = (repository(place.path()), options(&source));
    options.read.window.0 = std::time::Duration::ZERO;
    let progress = crate::backup::Progress::default();
    crate::backup::run(&repository, &options, &progress, &Silent).unwrap();
    let previous = newest(&repository, &options, &Silent).unwrap();
    let pages = previous_pages(&repository, &options, previous.as_ref(), &Silent).unwrap();
    let mut merge = Merge::new(&options, pages.as_ref(), previous.map(|it| it.head), None, &[]);
    let mut walk = Walk::start(&options.roots, options.walk.clone()).unwrap();
    let mut batch = Batch::default();
    while let Some(event) = walk.next() {
        let WalkEvent::Entry(found) = event else { panic!("{event:?}") };
        let mut row = found.row.clone();
        if found.path == changed.as_bytes() {
            later(&mut row);
        }
        merge.entry(&WalkEntry { row: &row, ..found }, &mut batch, &Silent).unwrap();
    }
    merge.end(&mut batch, &Silent).unwrap();
    let told = |item: Item| match item {
        Item::Unchanged(entry) => (entry, "unchanged"),
        Item::Job(job) => (job.entry, "read"),
        Item::Link(job) => (job.entry, if job.is_unchanged { "known name" } else { "name" }),
        _ => panic!("neither taken over nor to be read"),
    };
    let all = batch.take().into_iter().map(told);
    all.map(|(entry, what)| (String::from_utf8(entry.path).unwrap(), what)).collect()
}

fn written(row: &mut Row) {
    row.size += 5;
    row.mtime.secs += 1;
    row.ctime.secs += 1;
}

fn two(a: &'static str, b: &'static str) -> Vec<(String, &'static str)> {
    vec![("a".to_owned(), a), ("b".to_owned(), b)]
}

#[test]
fn names_of_a_file_that_is_at_rest_are_taken_over() {
    assert_eq!(second_backup("none", |_| {}), two("unchanged", "unchanged"));
}

#[test]
fn what_was_met_before_a_change_is_a_name_of_what_was_met_after_it() {
    assert_eq!(second_backup("a", written), two("read", "known name"));
}

#[test]
fn what_was_met_after_a_change_is_taken_over_with_what_was_met_before_it() {
    let has_birth = std::cell::Cell::new(false);
    let later = |row: &mut Row| {
        has_birth.set(row.birth.is_some());
        written(row);
    };
    let met = second_backup("b", later);
    let expected =
        if has_birth.get() { two("unchanged", "unchanged") } else { two("unchanged", "read") };
    assert_eq!(met, expected);
}

/// What was in one place in the previous snapshot need not be so now.
#[test]
fn what_has_more_names_than_before_is_read() {
    let other = |row: &mut Row| {
        written(row);
        row.links += 1;
    };
    assert_eq!(second_backup("b", other), two("unchanged", "read"));
}
