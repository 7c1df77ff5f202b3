//! Somebody who may write to the target swaps its folders for symlinks while a restore runs with
//! the rights of another, as fast as he can: nothing that the symlinks lead to changes.

use crate::testkit::build::{noise, set_mtime, set_xattr, write};
use crate::testkit::{Heard, TestFolder, Tree, assert_same, snapshot};
use ::restore::Overwrite;
use pipeline::backup::Progress;
use pipeline::restore::{self, RestoreOptions};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the race goes on.
const RACE: Duration = Duration::from_secs(3);
/// The most, when little has happened by then.
const PATIENCE: Duration = Duration::from_secs(120);

/// Folders of the source that are swapped, the deeper one too.
const SWAPPED: [&str; 3] = ["d", "d/sub", "e"];

/// What a restore has to do in there: contents, links, attributes, times, modes, owners.
fn source(root: &Path) {
    for directory in SWAPPED {
        for number in 0..6 {
            write(root, format!("{directory}/file{number}"), &noise(number, 6_000));
            set_xattr(
                &root.join(format!("{directory}/file{number}")),
                "user.mark",
                b"of the snapshot",
            );
        }
        write(root, format!("{directory}/tiny"), b"tiny");
        fs::hard_link(
            root.join(format!("{directory}/file0")),
            root.join(format!("{directory}/link0")),
        )
        .unwrap();
        symlink("file1", root.join(format!("{directory}/symlink"))).unwrap();
        fs::set_permissions(root.join(directory), Permissions::from_mode(0o751)).unwrap();
        set_mtime(&root.join(directory), 1_000_000, 5);
    }
}

/// The same names as in the source, with other content: who follows a symlink hits one.
fn canaries(root: &Path) {
    for directory in ["", "sub"] {
        for name in ["file0", "file1", "file5", "tiny", "link0", "symlink", "canary"] {
            write(root, format!("{directory}/{name}").trim_start_matches('/'), b"alive");
        }
    }
}

/// All of it, change times too: those of what was touched differ.
fn look(root: &Path) -> (Tree, Vec<(String, i64, i64)>) {
    let change = |name: String| {
        let stat = fs::symlink_metadata(root.join(&name)).unwrap();
        (name, stat.ctime(), stat.ctime_nsec())
    };
    let names = crate::testkit::files_below(root).into_iter().chain(["".into(), "sub".into()]);
    (Tree::of(root), names.map(change).collect())
}

/// Swaps one folder after the other for a symlink and back, until told to stop.
fn race(target: &Path, out: &Path, stop: &AtomicBool, swaps: &AtomicU64) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let directory = target.join(SWAPPED[number % SWAPPED.len()]);
        let (aside, link) = (target.join("aside"), target.join("way-out"));
        let _ = symlink(out, &link);
        if fs::rename(&directory, &aside).and_then(|()| fs::rename(&link, &directory)).is_ok() {
            swaps.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::yield_now();
        let _ = fs::remove_file(&directory);
        let _ = fs::rename(&aside, &directory);
    }
}

#[test]
fn folders_swapped_for_symlinks_during_a_whole_restore_lead_nowhere() {
    let folder = TestFolder::on_disk();
    source(&folder.source());
    let repository = folder.init();
    let made = folder.backup(&repository).snapshot;
    let (target, out) = (folder.at("target"), folder.at("outside"));
    canaries(&out);
    let before = look(&out);
    let (stop, swaps, begun) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    let (inside, mut rounds, mut written) = (target.join(crate::testkit::NAME), 0u64, 0u64);
    let snapshot = snapshot(&repository, made).unwrap();
    let run = |options: &RestoreOptions| {
        restore::run(
            &repository,
            &snapshot,
            b"",
            &target,
            options,
            &Progress::default(),
            &Heard::default(),
        )
    };
    std::thread::scope(|scope| {
        scope.spawn(|| race(&inside, &out, &stop, &swaps));
        let has_raced =
            |rounds, written| rounds > 5 && written > 50 && swaps.load(Ordering::Relaxed) > 50;
        // A machine that does much else takes longer to meet as often.
        while begun.elapsed() < RACE || !has_raced(rounds, written) && begun.elapsed() < PATIENCE {
            rounds += 1;
            let overwrite = [Overwrite::Always, Overwrite::IfChanged][(rounds % 2) as usize];
            let options = RestoreOptions {
                overwrite,
                delete: rounds.is_multiple_of(3),
                verify: rounds.is_multiple_of(4),
                no_sync: true,
                threads: 2,
                ..RestoreOptions::default()
            };
            // It may fail: the racer takes folders away.
            written += run(&options).map_or(0, |report| report.files);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (tree, times) = look(&out);
    assert_same(&before.0, &tree);
    assert_eq!(before.1, times, "something outside was touched");
    assert!(rounds > 5 && written > 50, "{rounds} rounds, {written} files");
    assert!(swaps.load(Ordering::Relaxed) > 50, "{} swaps", swaps.load(Ordering::Relaxed));
    // And once nobody interferes, all is as it should be.
    let _ = fs::remove_dir_all(&inside);
    let report =
        run(&RestoreOptions { overwrite: Overwrite::Always, ..RestoreOptions::default() }).unwrap();
    assert_eq!(report.failed, 0);
    assert_same(&folder.state(), &Tree::of(&inside));
}
