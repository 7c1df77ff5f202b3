//! Pages of a snapshot that cannot be read: what lies behind them is listed, found and restored, and what is missing is
//! named.

use crate::testkit::{PASSWORD, TestFolder, restore_with, snapshot};
use format::entry::Entry;
use format::record::RecordKind;
use pipeline::browse::{self, find};
use pipeline::manifest::Snapshot;
use pipeline::pages::{LostPage, PageReader};
use pipeline::restore::RestoreOptions;
use pipeline::{Error, UnlockedRepository};
use repository::check::open_container;
use store::SnapshotRef;

/// In the middle of a directory that takes many pages.
const FOUND: &[u8] = b"tree/b/file1500";
const FILES: usize = 3000;

/// Two snapshots. The pages of the first are lost: of the second, these are most, but for the one with [`FOUND`] and
/// the root page. The entry of `tree/b` is lost, too.
struct Lab {
    folder: TestFolder,
    repository: UnlockedRepository,
    made: [SnapshotRef; 2],
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        (0..FILES).for_each(|number| folder.write(&format!("b/file{number:04}"), b"content"));
        let repository = folder.init();
        let first = folder.backup(&repository).snapshot;
        folder.write("b/file1500", b"another content");
        let made = [first, folder.backup(&repository).snapshot];
        lose_first_pages(&folder, &repository);
        let repository = UnlockedRepository::open(folder.storage(), PASSWORD).unwrap();
        Self { folder, repository, made }
    }

    fn pages(&self) -> PageReader<'_> {
        PageReader::new(&self.repository).unwrap()
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.made.iter().map(|name| snapshot(&self.repository, *name).unwrap()).collect()
    }
}

/// Damages every record of pages in the first container that has any.
fn lose_first_pages(folder: &TestFolder, repository: &UnlockedRepository) {
    let local = repository.local().unwrap();
    for file in local.containers().unwrap() {
        let opened = open_container(local, file.number, &mut Vec::new()).unwrap().unwrap();
        let mut rows = opened.rows;
        rows.retain(|row| row.has_kind(RecordKind::Pages));
        if rows.is_empty() {
            continue;
        }
        let is_it = |name: &String| name.ends_with(&format!("{}.ice", file.number));
        let name = folder.files().into_iter().find(is_it).unwrap();
        let path = folder.repository().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        rows.iter().for_each(|row| bytes[(row.offset + row.length) as usize - 40] ^= 1);
        std::fs::write(&path, bytes).unwrap();
        return;
    }
    panic!("no pages");
}

fn is_found(entry: &Entry) -> bool {
    entry.path == FOUND
}

/// What a visit of `path` brought, and what it lost.
fn below(lab: &Lab, path: &[u8]) -> pipeline::Result<(Vec<Entry>, Vec<LostPage>)> {
    let (mut entries, mut lost) = (Vec::new(), Vec::new());
    browse::below(&lab.pages(), &lab.snapshots()[1], path, &mut lost, |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok((entries, lost))
}

fn children(lab: &Lab, path: &[u8]) -> (Vec<Entry>, Vec<LostPage>) {
    let (mut entries, mut lost) = (Vec::new(), Vec::new());
    browse::ls::children(&lab.pages(), &lab.snapshots()[1], path, &mut lost, |entry| {
        entries.push(entry);
        Ok(())
    })
    .unwrap();
    (entries, lost)
}

#[test]
fn behind_a_lost_page_everything_is_listed_and_what_is_missing_is_named() {
    let lab = Lab::new();
    for path in [&b""[..], b"tree", b"tree/b"] {
        let (entries, lost) = below(&lab, path).unwrap();
        assert!(entries.iter().any(is_found) && entries.len() < FILES, "{}", entries.len());
        assert!(entries.is_sorted_by(|a, b| a.path < b.path));
        let named = lost.iter().filter(|page| page.text.contains("entries from here on")).count();
        assert!(named > 1 && named == lost.len(), "{lost:#?}");
    }
}

#[test]
fn a_directory_whose_own_entry_is_lost_is_listed() {
    let lab = Lab::new();
    let (entries, lost) = children(&lab, b"tree/b");
    assert!(entries.iter().any(is_found) && !lost.is_empty(), "{lost:#?}");
    for (path, child) in [(&b""[..], &b"tree"[..]), (b"tree", b"tree/b")] {
        let (entries, lost) = children(&lab, path);
        assert!(entries.is_empty(), "{entries:#?}");
        let is_it = |page: &LostPage| page.first == child && page.text.contains("what lies below");
        assert!(lost.iter().any(is_it), "{lost:#?}");
    }
}

/// Behind all that is lost, it is not in the snapshot; where a page is lost, nobody knows.
#[test]
fn what_no_lost_page_can_name_is_not_in_the_snapshot() {
    let lab = Lab::new();
    let refused = below(&lab, b"tree/b/file1500+").unwrap_err();
    assert!(matches!(refused, Error::PathNotFound(_)), "{refused}");
    let (entries, lost) = below(&lab, b"tree/b/file0000").unwrap();
    assert!(entries.is_empty() && lost.len() == 1, "{lost:#?}");
}

#[test]
fn a_search_finds_what_can_be_read_and_names_what_cannot() {
    let lab = Lab::new();
    let (snapshots, mut lost) = (lab.snapshots(), Vec::new());
    let found = find::versions(&lab.pages(), &snapshots, &is_found, &mut lost).unwrap();
    let [version] = &found[..] else { panic!("{found:#?}") };
    let names: Vec<_> = version.snapshots.iter().map(|snapshot| snapshot.id()).collect();
    assert_eq!(names, [lab.made[1].id]);
    let of = |name: SnapshotRef| {
        lost.iter().filter(move |unread| unread.snapshot.id() == name.id).count()
    };
    assert!(of(lab.made[0]) == 1 && of(lab.made[1]) > 1, "{lost:#?}");
}

/// Only with `--include` did it come back.
#[test]
fn a_directory_whose_own_entry_is_lost_is_restored() {
    let lab = Lab::new();
    let include = RestoreOptions { include: vec!["/tree/b".into()], ..Default::default() };
    let named = RestoreOptions { paths: vec![b"tree/b".to_vec()], ..Default::default() };
    let plain = RestoreOptions::default();
    let restored = |subpath: &[u8], below: &str, options: &RestoreOptions| {
        let target = tempfile::tempdir_in(lab.folder.temp.path()).unwrap();
        let (report, heard) =
            restore_with(&lab.repository, lab.made[1], subpath, target.path(), options).unwrap();
        assert!(report.failed > 0 && !heard.is_empty(), "{report:#?}");
        let directory = target.path().join(below);
        let content = std::fs::read(directory.join("file1500")).unwrap();
        assert_eq!(content, b"another content");
        std::fs::read_dir(directory).unwrap().filter(|it| it.is_ok()).count()
    };
    let all = restored(b"", "tree/b", &include);
    assert_eq!(restored(b"", "tree/b", &named), all);
    // The directory of the target is not empty when a restore is not whole: its own files begin with a dot.
    assert!(restored(b"tree/b", "", &plain) >= all);
}
