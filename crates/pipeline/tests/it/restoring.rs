//! Restoring parts, and into what is there already.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::{NAME, TestFolder, Tree, assert_same, restore_with};
use pipeline::UnlockedRepository;
use pipeline::restore::{RestoreOptions, RestoreReport};
use restore::Overwrite;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use store::SnapshotRef;

struct Lab {
    folder: TestFolder,
    repository: UnlockedRepository,
    name: SnapshotRef,
    tree: Tree,
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        small_tree(&folder.source(), 1);
        let repository = folder.init();
        let tree = folder.state();
        let name = folder.backup(&repository).snapshot;
        Self { folder, repository, name, tree }
    }

    fn target(&self) -> PathBuf {
        self.folder.at("target")
    }

    fn restore(&self, subpath: &str, options: RestoreOptions) -> RestoreReport {
        let (report, heard) =
            restore_with(&self.repository, self.name, subpath.as_bytes(), &self.target(), &options)
                .unwrap();
        assert_eq!((report.failed, &heard), (0, &Vec::new()), "{report:#?}");
        report
    }

    fn restored(&self) -> Tree {
        Tree::of(&self.target().join(NAME))
    }

    /// Restores all into the target.
    fn fill(&self) {
        self.restore("", RestoreOptions::default());
        assert_same(&self.tree, &self.restored());
    }

    fn at(&self, name: &str) -> PathBuf {
        self.target().join(NAME).join(name)
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_directory_of_a_snapshot_lands_in_the_target_itself() {
    let lab = Lab::new();
    lab.restore("tree/dir1", RestoreOptions::default());
    let found = Tree::of(&lab.target());
    for name in ["file1", "file4"] {
        let mut expected = lab.tree.get(&format!("dir1/{name}")).clone();
        let mut found = found.get(name).clone();
        // The other name of file1 is not in this directory.
        [&mut expected, &mut found].into_iter().for_each(|object| object.forget("links"));
        assert_eq!(expected, found);
    }
    assert_eq!(found.0.len(), 3);
}

#[test]
fn a_file_of_a_snapshot_lands_in_the_target() {
    let lab = Lab::new();
    lab.restore("tree/dir0/file3", RestoreOptions::default());
    let found = Tree::of(&lab.target());
    assert_eq!(found.0.len(), 2);
    let whole = [found.get("file3"), lab.tree.get("dir0/file3")].map(|object| {
        let mut object = object.clone();
        object.forget("links");
        object
    });
    assert_eq!(whole[0], whole[1]);
}

#[test]
fn a_path_that_is_not_there_is_an_error() {
    let lab = Lab::new();
    let missing = restore_with(
        &lab.repository,
        lab.name,
        b"tree/no",
        &lab.target(),
        &RestoreOptions::default(),
    );
    assert!(matches!(missing, Err(pipeline::Error::PathNotFound(path)) if path == "tree/no"));
}

#[test]
fn only_what_is_included_comes_with_the_parents_that_it_needs() {
    let lab = Lab::new();
    lab.restore("", RestoreOptions { include: words("file3"), ..RestoreOptions::default() });
    let found = lab.restored();
    assert_eq!(found.get("dir0/file3"), lab.tree.get("dir0/file3"));
    assert_eq!(found.get("dir0"), lab.tree.get("dir0"), "parents have their attributes too");
    assert_eq!(found.0.len(), 3);
}

#[test]
fn what_is_excluded_stays_out() {
    let lab = Lab::new();
    lab.restore("", RestoreOptions { exclude: words("dir1 tiny"), ..RestoreOptions::default() });
    let found = lab.restored();
    let gone = |path: &[u8]| path.starts_with(b"dir1") || path == b"tiny";
    let mut expected = lab.tree.clone().without(gone);
    let mut links = found.clone();
    [&mut expected, &mut links]
        .into_iter()
        .for_each(|tree| tree.0.values_mut().for_each(|object| object.forget("links")));
    assert_same(&expected, &links);
}

#[test]
fn a_further_name_alone_is_a_whole_file() {
    let lab = Lab::new();
    lab.restore("", RestoreOptions { include: words("other-name"), ..RestoreOptions::default() });
    assert_eq!(
        std::fs::read(lab.at("other-name")).unwrap(),
        std::fs::read(lab.folder.source().join("dir1/file1")).unwrap()
    );
    assert_eq!(std::fs::metadata(lab.at("other-name")).unwrap().nlink(), 1);
}

#[test]
fn a_second_restore_writes_nothing() {
    let lab = Lab::new();
    lab.fill();
    let report = lab.restore("", RestoreOptions::default());
    assert_eq!((report.files, report.bytes), (0, 0), "{report:#?}");
    assert_same(&lab.tree, &lab.restored());
}

#[test]
fn a_resumed_restore_writes_only_what_is_missing_or_differs() {
    let lab = Lab::new();
    lab.fill();
    std::fs::remove_file(lab.at("dir2/file5")).unwrap();
    std::fs::write(lab.at("dir0/file3"), b"cut short").unwrap();
    let report = lab.restore("", RestoreOptions::default());
    assert_eq!(report.files, 2, "{report:#?}");
    assert_same(&lab.tree, &lab.restored());
}

#[test]
fn attributes_of_unchanged_files_are_put_right() {
    let lab = Lab::new();
    lab.fill();
    std::fs::set_permissions(lab.at("dir0/file3"), PermissionsExt::from_mode(0o777)).unwrap();
    lab.restore("", RestoreOptions::default());
    assert_same(&lab.tree, &lab.restored());
}

#[test]
fn a_broken_link_group_is_joined_again() {
    let lab = Lab::new();
    lab.fill();
    let bytes = std::fs::read(lab.at("other-name")).unwrap();
    std::fs::remove_file(lab.at("other-name")).unwrap();
    std::fs::write(lab.at("other-name"), bytes).unwrap();
    lab.restore("", RestoreOptions::default());
    assert_same(&lab.tree, &lab.restored());
}

#[test]
fn never_keeps_what_is_there_and_always_replaces_it() {
    let lab = Lab::new();
    lab.fill();
    std::fs::write(lab.at("tiny"), b"mine").unwrap();
    std::fs::remove_file(lab.at("empty")).unwrap();
    let report = lab
        .restore("", RestoreOptions { overwrite: Overwrite::Never, ..RestoreOptions::default() });
    assert!(report.kept > 0, "{report:#?}");
    assert_eq!(std::fs::read(lab.at("tiny")).unwrap(), b"mine");
    assert!(lab.at("empty").exists(), "what is missing is written");
    let report = lab
        .restore("", RestoreOptions { overwrite: Overwrite::Always, ..RestoreOptions::default() });
    assert_eq!(report.unchanged, 0, "{report:#?}");
    assert_same(&lab.tree, &lab.restored());
}

#[test]
fn always_replaces_what_only_looks_equal() {
    let lab = Lab::new();
    lab.fill();
    let path = lab.at("dir0/file3");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let length = std::fs::metadata(&path).unwrap().len() as usize;
    std::fs::write(&path, noise(99, length)).unwrap();
    std::fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    lab.restore("", RestoreOptions { overwrite: Overwrite::Always, ..RestoreOptions::default() });
    assert_same(&lab.tree, &lab.restored());
}

#[test]
fn delete_removes_what_the_snapshot_does_not_have() {
    let lab = Lab::new();
    lab.fill();
    crate::testkit::build::write(&lab.target(), "tree/dir0/more/deep", b"x");
    crate::testkit::build::write(&lab.target(), "tree/more", b"x");
    std::fs::remove_file(lab.at("tiny")).unwrap();
    std::fs::create_dir_all(lab.at("tiny/in the way")).unwrap();
    let report = lab.restore("", RestoreOptions { delete: true, ..RestoreOptions::default() });
    assert!(report.deleted >= 2, "{report:#?}");
    assert_same(&lab.tree, &lab.restored());
}

#[test]
fn without_delete_strangers_stay() {
    let lab = Lab::new();
    lab.fill();
    crate::testkit::build::write(&lab.target(), "tree/dir0/more", b"x");
    lab.restore("", RestoreOptions::default());
    assert!(lab.at("dir0/more").exists());
}

/// restic: `--delete` touches only what is selected.
#[test]
fn delete_leaves_alone_what_was_not_selected() {
    let lab = Lab::new();
    lab.fill();
    lab.restore(
        "",
        RestoreOptions { delete: true, exclude: words("tiny"), ..RestoreOptions::default() },
    );
    assert!(
        lab.at("tiny").exists(),
        "an excluded file of the snapshot was deleted from the target"
    );
    lab.restore(
        "",
        RestoreOptions { delete: true, include: words("dir0"), ..RestoreOptions::default() },
    );
    assert!(lab.at("dir1/file1").exists(), "what was not included was deleted from the target");
}

#[test]
fn restoring_one_file_with_delete_leaves_its_neighbors_alone() {
    let lab = Lab::new();
    crate::testkit::build::write(&lab.target(), "precious", b"x");
    lab.restore("tree/dir0/file3", RestoreOptions { delete: true, ..RestoreOptions::default() });
    assert!(
        lab.target().join("precious").exists(),
        "--delete with a file as subpath emptied the target"
    );
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_be_done() {
    let lab = Lab::new();
    let would = lab.restore("", RestoreOptions { dry_run: true, ..RestoreOptions::default() });
    assert!(!lab.target().exists() || std::fs::read_dir(lab.target()).unwrap().next().is_none());
    let did = lab.restore("", RestoreOptions::default());
    assert_eq!(
        (would.files, would.directories, would.bytes, would.links),
        (did.files, did.directories, did.bytes, did.links)
    );
    std::fs::write(lab.at("tiny"), b"mine").unwrap();
    crate::testkit::build::write(&lab.target(), "tree/more", b"x");
    let before = lab.restored();
    lab.restore("", RestoreOptions { dry_run: true, delete: true, ..RestoreOptions::default() });
    assert_same(&before, &lab.restored());
}

/// Seen: a dry run said "already there and equal" of the further names of a file that a restore replaces.
#[test]
fn a_dry_run_foretells_what_becomes_of_further_names() {
    let folder = TestFolder::new();
    folder.write("a", b"one");
    for name in ["b", "c"] {
        std::fs::hard_link(folder.source().join("a"), folder.source().join(name)).unwrap();
    }
    let repository = folder.init();
    let (name, target) = (folder.backup(&repository).snapshot, folder.at("target"));
    let run = |dry_run| {
        let options = RestoreOptions { dry_run, ..RestoreOptions::default() };
        let (report, heard) = restore_with(&repository, name, b"", &target, &options).unwrap();
        assert_eq!((report.failed, &heard), (0, &Vec::new()), "{report:#?}");
        (report.files, report.links, report.unchanged)
    };
    assert_eq!((run(true), run(false)), ((1, 2, 0), (1, 2, 0)));
    assert_eq!((run(true), run(false)), ((0, 0, 3), (0, 0, 3)));
    std::fs::write(target.join(NAME).join("b"), b"other").unwrap();
    assert_eq!((run(true), run(false)), ((1, 2, 0), (1, 2, 0)));
}

#[test]
fn verify_finds_a_file_that_somebody_changed() {
    let lab = Lab::new();
    lab.fill();
    let path = lab.at("dir0/file3");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let length = std::fs::metadata(&path).unwrap().len() as usize;
    std::fs::write(&path, noise(99, length)).unwrap();
    std::fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    let options = RestoreOptions { verify: true, ..RestoreOptions::default() };
    let (report, heard) =
        restore_with(&lab.repository, lab.name, b"", &lab.target(), &options).unwrap();
    assert_eq!(report.differing, 1, "{heard:?}");
    assert!(heard[0].contains("dir0/file3"), "{heard:?}");
}

/// Seen: files of several chunks counted as restored, and sparse ones that begin with a hole as nothing.
#[test]
fn a_dry_run_counts_large_files_as_they_would_be_restored() {
    let folder = TestFolder::new();
    folder.write("large", &noise(1, 3 << 20));
    folder.write("of one chunk", &noise(2, 3_000));
    let holes = std::fs::File::create(folder.source().join("holes")).unwrap();
    holes.set_len(64 << 20).unwrap();
    std::os::unix::fs::FileExt::write_at(&holes, b"end", (64 << 20) - 3).unwrap();
    let repository = folder.init();
    let (name, target) = (folder.backup(&repository).snapshot, folder.at("target"));
    let run = |dry_run, overwrite| {
        let options = RestoreOptions { dry_run, overwrite, ..RestoreOptions::default() };
        let (report, heard) = restore_with(&repository, name, b"", &target, &options).unwrap();
        assert_eq!((report.failed, &heard), (0, &Vec::new()), "{report:#?}");
        (report.files, report.bytes, report.kept, report.unchanged)
    };
    let bytes = (3 << 20) + 3_000 + (64 << 20);
    for (overwrite, expected) in [
        (Overwrite::IfChanged, (3, bytes, 0, 0)),
        (Overwrite::IfChanged, (0, 0, 0, 3)),
        (Overwrite::Never, (0, 0, 3, 0)),
        (Overwrite::IfNewer, (0, 0, 3, 0)),
        (Overwrite::Always, (3, bytes, 0, 0)),
    ] {
        assert_eq!(run(true, overwrite), expected, "{overwrite:?}, a dry run");
        assert_eq!(run(false, overwrite), expected, "{overwrite:?}");
    }
}
