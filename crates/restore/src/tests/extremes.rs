//! Very deep, very many.

use crate::testing::*;
use crate::{ContentMatch, Overwrite, RestoreOutcome, TargetOptions};

const LEVELS: usize = 3_000;

#[test]
fn a_path_of_3000_levels_is_restored_verified_and_removed() {
    for folder in TestFolder::both() {
        let target = folder.target(Overwrite::IfChanged);
        let deepest = vec![&b"level"[..]; LEVELS].join(&b'/'); // 18 KB, PATH_MAX is 4 KB
        let ends = (1..=LEVELS).map(|level| level * 6 - 1);
        let folders: Vec<_> = ends.map(|end| directory(&deepest[..end], 0o755)).collect();
        for folder in &folders {
            target.directory(folder).unwrap();
        }
        let entry = file([&deepest[..], b"/f"].concat(), 0o644);
        assert_eq!(restore(&target, &entry, b""), RestoreOutcome::Created);
        for folder in folders.iter().rev() {
            target.finish_directory(folder).unwrap();
        }
        for folder in folders.iter().step_by(100) {
            assert_eq!(target.compare_metadata(folder), []);
        }
        assert_eq!(target.match_metadata(&entry), ContentMatch::Equal);
        let rehearsed =
            folder.target_with(TargetOptions { dry_run: true, ..options(Overwrite::Always) });
        let counted = delete_extraneous(&rehearsed, b"", |_| false);
        assert_eq!(counted[0].as_ref().unwrap().1, LEVELS as u64 + 1);
        let removed = delete_extraneous(&target, b"", |_| false);
        assert_eq!(removed[0].as_ref().unwrap().1, LEVELS as u64 + 1);
        assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), 0);
    }
}

#[test]
fn parents_that_nobody_described_are_made_at_any_depth() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::IfChanged);
    let path = vec![&b"x"[..]; LEVELS].join(&b'/');
    assert_eq!(restore(&target, &file(&path, 0o644), b""), RestoreOutcome::Created);
    assert_eq!(folder.look("x").stx_mode & 0o7777, 0o700);
}

#[test]
fn more_directories_than_may_be_open_are_restored_from_several_threads() {
    let folder = TestFolder::new();
    let target = folder.target(Overwrite::IfChanged);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let target = &target;
            scope.spawn(move || {
                for number in 0..2_000 {
                    let path = format!("d{}/s{}/f{thread}-{number}", number % 700, number % 7);
                    restore(target, &file(path, 0o644), b"x");
                }
            });
        }
    });
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < 900, "{open}");
    let count = std::process::Command::new("find").arg(folder.root()).args(["-type", "f"]).output();
    assert_eq!(count.unwrap().stdout.iter().filter(|b| **b == b'\n').count(), 8_000);
}
