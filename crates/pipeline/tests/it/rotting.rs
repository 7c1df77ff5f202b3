//! A restore that removes, from a simulated disk on which something rots at any operation: in the first pass, in the
//! second, or between them. No page is kept in memory, so every pass reads its pages from the disk.

use crate::testkit::build::{small_tree, write};
use crate::testkit::state::differences;
use crate::testkit::{NAME, PASSWORD, SMALL_CHUNKS, TestFolder, Tree, init, restore_with};
use pipeline::UnlockedRepository;
use pipeline::restore::RestoreOptions;
use simulation::Random;
use simulation::disk::{Disk, Fault, Faults};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::SnapshotRef;

/// What is in the target and not in the snapshot.
const STRANGERS: [&str; 3] = ["stranger", "dir0/stranger", "zz"];
/// Fates for each operation: what rots, of all that there is.
const FATES: u64 = 3;

struct Lab {
    folder: TestFolder,
    disk: Arc<Disk>,
    name: SnapshotRef,
    tree: Tree,
}

impl Lab {
    fn new() -> Self {
        let (folder, disk) = (TestFolder::new(), Disk::new(Random::new(1), false));
        small_tree(&folder.source(), 1);
        let repository = init(Arc::new(disk.process()), SMALL_CHUNKS);
        let name = folder.backup(&repository).snapshot;
        let tree = folder.state();
        Self { folder, disk, name, tree }
    }

    /// A target that has all of the snapshot already, with strangers in it.
    fn target(&self) -> PathBuf {
        let target = self.folder.at("target");
        if !target.exists() {
            let repository =
                UnlockedRepository::open(Arc::new(self.disk.process()), PASSWORD).unwrap();
            restore_with(&repository, self.name, b"", &target, &RestoreOptions::default()).unwrap();
        }
        STRANGERS.iter().for_each(|name| write(&target.join(NAME), name, b"x"));
        target
    }

    /// A restore on a copy of the disk on which something rots at operation `k`: whether it did, and whether that was
    /// told.
    fn rots_at(&self, k: u64, fate: u64) -> (bool, bool) {
        let (disk, target) = (self.disk.copy(Random::new(fate)), self.target());
        let repository = UnlockedRepository::open(Arc::new(disk.process()), PASSWORD)
            .unwrap()
            .with_cache_bytes(0);
        disk.arm(Faults::after(k, Fault::BitRot));
        let options = RestoreOptions { delete: true, ..RestoreOptions::default() };
        let restored = restore_with(&repository, self.name, b"", &target, &options);
        let has_fired = disk.disarm();
        let what = format!("rot at {k}, fate {fate}: {restored:?}");
        let stay = strangers(&target);
        let has_lost = !restored.is_ok_and(|(report, _)| report.failed == 0);
        // What was lost may say that they belong there.
        assert_eq!(stay, if has_lost { STRANGERS.len() } else { 0 }, "{what}");
        assert!(has_fired || !has_lost, "{what}");
        take_strangers_away(&target);
        assert_eq!(differing(&self.tree, &target), Vec::<String>::new(), "{what}");
        (has_fired, has_lost)
    }
}

fn strangers(target: &Path) -> usize {
    STRANGERS.iter().filter(|name| target.join(NAME).join(name).exists()).count()
}

fn take_strangers_away(target: &Path) {
    for name in STRANGERS {
        let _ = std::fs::remove_file(target.join(NAME).join(name));
    }
}

/// What differs in the target, but for the times of the folders that strangers came to and went from.
fn differing(tree: &Tree, target: &Path) -> Vec<String> {
    let lines = differences(tree, &Tree::of(&target.join(NAME))).into_iter();
    lines.filter(|line| !line.starts_with(": mtime") && !line.starts_with("dir0: mtime")).collect()
}

/// Pages are lost between the passes of a restore, before them or within: what it cannot read it does not take for
/// what the snapshot does not have.
#[test]
fn what_rots_at_any_operation_of_a_restore_makes_it_remove_nothing() {
    let (lab, mut lost) = (Lab::new(), 0);
    for k in 0.. {
        let all: Vec<_> = (0..FATES).map(|fate| lab.rots_at(k, k * FATES + fate)).collect();
        lost += all.iter().filter(|(_, has_lost)| *has_lost).count();
        if !all.iter().any(|(has_fired, _)| *has_fired) {
            println!("{} runs, in {lost} of them something was lost", k * FATES);
            assert!(lost > 5, "{lost}");
            return;
        }
    }
}
