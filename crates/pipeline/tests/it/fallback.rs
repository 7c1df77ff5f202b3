//! Reading from copies: which of them answers for what is lost, and when none may.

use crate::testkit::build::{noise, small_tree};
use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::{PASSWORD, TestFolder, Tree};
use format::record::RecordKind;
use ids::{ContainerNo, ObjectId};
use pipeline::UnlockedRepository;
use pipeline::copy::{self, CopyOptions};
use pipeline::progress::Progress;
use repository::fallback::{Copy, WithCopies};
use repository::local::LocalStorage;
use repository::storage::Storage;
use repository::{Repository, container};
use std::path::Path;
use std::sync::Arc;
use store::{SnapshotRef, Store};

/// A repository with two snapshots, a copy from before the second one, and one from after it.
struct Lab {
    first: TestFolder,
    copies: [TestFolder; 2],
    made: Vec<(SnapshotRef, Tree)>,
}

fn storage(folder: &TestFolder) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(&folder.repository()).unwrap())
}

fn opened(folder: &TestFolder) -> Arc<Repository> {
    Arc::new(Repository::open(storage(folder)).unwrap())
}

fn damage(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 8;
    std::fs::write(path, bytes).unwrap();
}

impl Lab {
    fn new() -> Self {
        let (first, copies) = (TestFolder::new(), [TestFolder::new(), TestFolder::new()]);
        small_tree(&first.source(), 1);
        let (repository, mut made) = (first.init(), Vec::new());
        for (copy, bytes) in copies.iter().zip([300_000, 150_000]) {
            first.write("changing", &noise(bytes as u64, bytes));
            let tree = first.state();
            made.push((first.backup(&repository).snapshot, tree));
            std::fs::create_dir_all(copy.repository()).unwrap();
            let (options, progress) = (CopyOptions::default(), Progress::default());
            copy::run(&opened(&first), &storage(copy), &options, &progress).unwrap();
        }
        Self { first, copies, made }
    }

    fn copies(&self) -> Vec<Copy> {
        let copy = |folder: &TestFolder| {
            let storage = storage(folder);
            Copy::new("a copy".into(), Box::new(move || Ok(storage.clone())))
        };
        self.copies.iter().map(copy).collect()
    }

    fn roots(&self) -> Vec<ObjectId> {
        let first = opened(&self.first);
        let root = |(name, _): &(SnapshotRef, Tree)| first.snapshot(*name).unwrap().head.root;
        self.made.iter().map(root).collect()
    }
}

#[test]
fn what_one_copy_lacks_the_next_one_has_and_what_nobody_has_is_not_missing() {
    let lab = Lab::new();
    let roots = lab.roots();
    let index = lab.first.files().into_iter().filter(|name| name.starts_with("index/run-"));
    for run in index {
        damage(&lab.first.repository().join(run), 200);
    }
    let first = opened(&lab.first);
    let [older, both] = [1, 2].map(|count| {
        let copies = lab.copies().into_iter().take(count).collect();
        WithCopies::new(first.clone(), copies).locate(&roots)
    });
    assert!(both.unwrap().iter().all(Option::is_some));
    assert!(older.is_err(), "the first place may have it: {older:?}");
}

#[test]
fn a_list_that_cannot_be_reached_is_no_older_one() {
    let lab = Lab::new();
    let list = |plan: Arc<Plan>| {
        let faulty = FaultyStorage::new(&lab.first.repository(), &plan);
        let first = Arc::new(Repository::open(faulty).unwrap());
        let with = WithCopies::new(first, lab.copies());
        (with.snapshots(), with.uses().len())
    };
    let (away, used) = list(Plan::away_on("list", "snapshots"));
    assert!(away.is_err() && used == 0, "the newest would seem to be another one: {away:?}");
    let (damaged, used) = list(Plan::failing_on("list", "snapshots"));
    assert!(damaged.is_ok() && used == 1, "and it is said: {damaged:?}");
}

#[test]
fn a_session_key_that_is_lost_comes_from_a_copy() {
    let lab = Lab::new();
    let first = opened(&lab.first);
    let victim = ContainerNo(1);
    let rows = first.container(victim).unwrap().rows().unwrap();
    let file = lab.first.repository().join(container::name(victim));
    for row in rows.iter().filter(|row| row.has_kind(RecordKind::Session)) {
        damage(&file, (row.offset + row.length) as usize - 20);
    }
    let (old, _) = &lab.made[0];
    std::fs::remove_file(lab.first.repository().join(old.path())).unwrap();
    let first = Repository::open(storage(&lab.first)).unwrap();
    let (unlocked, _) =
        UnlockedRepository::open_with_copies(first, lab.copies(), PASSWORD).unwrap();
    let (name, tree) = &lab.made[1];
    lab.first.assert_restores(&unlocked, *name, tree);
}
