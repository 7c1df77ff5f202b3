//! Deleting where names fold: what the snapshot has may be listed under another name.

use crate::testing::*;
use crate::{Overwrite, SnapshotNames, Target, TargetOptions};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// An NTFS whose driver lists all names in lower case, and finds them in any; `None` where that is
/// not possible.
fn folding(folder: &TestFolder) -> Option<Mount> {
    let image = folder.folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkntfs").args(["-q", "-F"]).arg(&image).output().ok()?;
    made.status.success().then_some(())?;
    let arguments = ["-o", "ignore_case,permissions", image.to_str()?];
    Mount::with("lowntfs-3g", &arguments, &folder.root())
}

/// What is extraneous in a directory if the snapshot has these names there; taken out of it, or
/// only looked at in a dry run. Each path, and how many objects went with it.
fn deleted(target: &Target, directory: &str, of_snapshot: &[&str]) -> BTreeSet<(String, u64)> {
    let mut names = SnapshotNames::default();
    of_snapshot.iter().for_each(|name| names.insert(name.as_bytes()));
    let others = target.extraneous_beside(directory.as_bytes(), &names).unwrap();
    let others: Vec<_> = others.map(|path| path.unwrap()).collect();
    let remove = |path: Vec<u8>| {
        let removed = target.remove(&path, None);
        assert_eq!(removed.problem, None);
        (String::from_utf8(path).unwrap(), removed.objects)
    };
    others.into_iter().map(remove).collect()
}

fn set<const N: usize>(all: [(&str, u64); N]) -> BTreeSet<(String, u64)> {
    all.map(|(path, objects)| (path.to_owned(), objects)).into()
}

/// Seen: `README` was restored, listed as `readme`, and deleted because the snapshot has no `readme`.
#[test]
fn what_was_restored_and_is_listed_in_another_case_is_not_deleted() {
    let folder = TestFolder::new();
    let Some(_mount) = folding(&folder) else {
        return testkit::skip("lowntfs-3g cannot be mounted here");
    };
    let target = folder.target(Overwrite::Always);
    let parent = target.parent_of(b"README").unwrap();
    target.small_file(&parent, &file("README", 0o644), b"").unwrap();
    target.directory(&directory("Docs", 0o755)).unwrap();
    let below = target.parent_of(b"Docs/Guide").unwrap();
    target.small_file(&below, &file("Docs/Guide", 0o644), b"").unwrap();
    for path in ["STRANGER", "docs/Stranger", "More/x"] {
        fs::create_dir_all(folder.at(path).parent().unwrap()).unwrap();
        fs::write(folder.at(path), "").unwrap();
    }
    assert!(folder.names("").contains("readme"), "{:?}", folder.names(""));
    let rehearsal =
        folder.target_with(TargetOptions { dry_run: true, ..options(Overwrite::Always) });
    for target in [rehearsal, target] {
        let below = deleted(&target, "Docs", &["Guide"]);
        assert_eq!(below, set([("Docs/stranger", 1)]));
        let top = deleted(&target, "", &["Docs", "README", "not selected"]);
        assert_eq!(top, set([("more", 2), ("stranger", 1)]));
    }
    assert_eq!(folder.names(""), ["docs", "readme"].map(str::to_owned).into());
    assert_eq!(folder.names("docs"), ["guide"].map(str::to_owned).into());
}

#[test]
fn a_further_link_of_a_restored_file_is_deleted_where_names_do_not_fold() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::Always);
    restore(&target, &file("README", 0o644), b"abc");
    fs::hard_link(folder.at("README"), folder.at("readme")).unwrap();
    let gone = set([("readme", 1)]);
    assert_eq!(deleted(&target, "", &["README", "not there"]), gone);
    assert_eq!(folder.names(""), ["README"].map(str::to_owned).into());
    assert_eq!(deleted(&target, "missing", &["x"]), set([]));
}
