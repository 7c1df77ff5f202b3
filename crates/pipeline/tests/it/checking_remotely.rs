//! A check by who has no more of the repository than a server's answers: it finds what a check beside the containers
//! finds of what snapshots need, and what a server makes up.

use crate::remote::Far;
use crate::testkit::build::{noise, small_tree};
use crate::testkit::{TestFolder, checked, init_with_parity};
use pipeline::UnlockedRepository;
use pipeline::backup::Progress;
use pipeline::check::{self, CheckOptions, CheckReport};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use store::SnapshotRef;

/// Three snapshots, each with a file of its own.
fn made(folder: &TestFolder, repository: &UnlockedRepository) -> Vec<SnapshotRef> {
    small_tree(&folder.source(), 1);
    let day = |day: u64| {
        folder.write(&format!("day {day}"), &noise(day, 300_000));
        folder.backup(repository).snapshot
    };
    (1..=3).map(day).collect()
}

fn seen(folder: &TestFolder, percent: Option<f64>) -> CheckReport {
    let (_, repository) = Far::of(folder);
    let options = CheckOptions { read_data_percent: percent, ..CheckOptions::default() };
    check::run(&repository, &options, &Progress::default()).unwrap()
}

fn paths(report: &CheckReport) -> BTreeSet<Vec<u8>> {
    report.damages.iter().flat_map(|damage| damage.paths.clone()).collect()
}

/// The files of containers, the largest first.
fn containers(folder: &TestFolder) -> Vec<PathBuf> {
    let files = folder.files().into_iter().filter(|name| name.starts_with("containers/"));
    let mut files: Vec<_> = files.map(|name| folder.repository().join(name)).collect();
    files.sort_by_key(|file| std::cmp::Reverse(std::fs::metadata(file).unwrap().len()));
    files
}

fn flip(file: &PathBuf, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x20;
    std::fs::remove_file(file).unwrap();
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_good_repository_is_good_from_afar_and_all_that_is_read_was_sent_for() {
    let folder = TestFolder::new();
    made(&folder, &folder.init());
    let near = checked(&folder.open()).unwrap();
    let structure = seen(&folder, None);
    assert_eq!((structure.damages.len(), structure.gaps, structure.bytes_read), (0, 0, 0));
    assert_eq!(
        (structure.snapshots, structure.pages, structure.chunks),
        (near.snapshots, near.pages, near.chunks)
    );
    assert!(structure.left_out.contains(&"containers"));
    let (far, repository) = Far::of(&folder);
    let options = CheckOptions { read_data_percent: Some(100.0), ..CheckOptions::default() };
    let report = check::run(&repository, &options, &Progress::default()).unwrap();
    assert_eq!(report.damages, []);
    assert!(report.bytes_read > 900_000, "{}", report.bytes_read);
    assert_eq!(far.left(), 0);
    assert!(far.reads.load(Ordering::Relaxed) > 2);
    assert!(
        check::run(&repository, &CheckOptions { repair: true, ..options }, &Progress::default())
            .is_err()
    );
}

/// No content: all that is read is pages, of long names that have nothing in common.
#[test]
fn pages_are_sent_for_and_a_check_waits_for_few_answers() {
    let folder = TestFolder::new();
    for number in 0..12_000u64 {
        let name: String = noise(number, 100).iter().map(|byte| format!("{byte:02x}")).collect();
        folder.write(&format!("empty{}/{name}", number % 90), b"");
    }
    let repository = folder.init();
    folder.backup(&repository);
    folder.write("one more", b"");
    folder.backup(&repository);
    let (far, repository) = Far::of(&folder);
    far.trips();
    let report = check::run(&repository, &CheckOptions::default(), &Progress::default()).unwrap();
    let (trips, reads) = (far.trips(), far.reads.load(Ordering::Relaxed));
    assert_eq!((report.damages.len(), far.left()), (0, 0));
    assert!(report.pages > 50 && reads > 0, "{report:?}");
    assert!(trips < 20, "{trips} round trips for {} pages in {reads} records", report.pages);
}

#[test]
fn damage_is_found_with_the_snapshots_and_paths_that_it_concerns() {
    let folder = TestFolder::new();
    made(&folder, &folder.init());
    for file in containers(&folder) {
        let folder = folder.copied();
        let text = file.to_str().unwrap();
        let file = folder.repository().join(&text[text.find("containers/").unwrap()..]);
        let length = std::fs::metadata(&file).unwrap().len() as usize;
        flip(&file, length / 2);
        let (near, far) = (checked(&folder.open()).unwrap(), seen(&folder, Some(100.0)));
        assert_eq!(far.damaged_snapshots(), near.damaged_snapshots(), "{}", file.display());
        assert_eq!(paths(&far), paths(&near), "{}", file.display());
        assert!(!far.damages.is_empty());
    }
}

#[test]
fn a_container_that_was_dropped_is_missed() {
    let folder = TestFolder::new();
    made(&folder, &folder.init());
    std::fs::remove_file(&containers(&folder)[0]).unwrap();
    let report = seen(&folder, Some(100.0));
    assert!(!report.damaged_snapshots().is_empty() && !paths(&report).is_empty(), "{report:?}");
}

/// Records that are good, in the place of others: as no disk does it.
#[test]
fn a_server_that_gives_other_records_is_found_out() {
    let folder = TestFolder::new();
    made(&folder, &folder.init());
    let (far, repository) = Far::of(&folder);
    let options = CheckOptions { read_data_percent: Some(100.0), ..CheckOptions::default() };
    check::run(&repository, &options, &Progress::default()).unwrap();
    let mut locations: Vec<_> = far.wanted.lock().keys().copied().collect();
    locations.sort_unstable();
    assert!(locations.len() > 1, "{locations:?} make no test");
    for [one, other] in locations.array_windows::<2>() {
        let (far, repository) = Far::of(&folder);
        far.instead.lock().insert(*one, *other);
        let report = check::run(&repository, &options, &Progress::default()).unwrap();
        assert!(!report.damaged_snapshots().is_empty(), "{one:?} is {other:?}: {report:?}");
    }
}

#[test]
fn snapshots_that_are_gone_leave_gaps_and_forged_ones_are_damage() {
    let folder = TestFolder::new();
    let names = made(&folder, &folder.init());
    let file = |name: SnapshotRef| {
        folder.repository().join(format!("snapshots/{:010x}-{}", name.sequence, name.id))
    };
    let kept = std::fs::read(file(names[1])).unwrap();
    std::fs::remove_file(file(names[1])).unwrap();
    let report = seen(&folder, None);
    assert_eq!((report.gaps, report.damages.len()), (1, 0));
    // Under the name of another: what a server replays is not what was asked for.
    std::fs::write(file(names[1]), std::fs::read(file(names[0])).unwrap()).unwrap();
    assert_eq!(seen(&folder, None).damaged_snapshots(), [names[1].id.to_string()]);
    std::fs::write(file(names[1]), kept).unwrap();
    assert_eq!((seen(&folder, None).gaps, seen(&folder, None).damages.len()), (0, 0));
    folder.open().forget(&names[..1]).unwrap();
    assert_eq!((seen(&folder, None).gaps, seen(&folder, None).damages.len()), (1, 0));
}

#[test]
fn what_parity_makes_good_is_told_and_costs_no_snapshot() {
    let folder = TestFolder::new();
    made(&folder, &init_with_parity(folder.storage(), 20));
    let file = &containers(&folder)[0];
    let length = std::fs::metadata(file).unwrap().len() as usize;
    flip(file, length / 3);
    let report = seen(&folder, Some(100.0));
    assert!(!report.damages.is_empty() && report.damages.iter().all(|damage| damage.healable));
    assert_eq!(report.damaged_snapshots(), Vec::<String>::new());
}

#[test]
fn a_share_of_the_containers_is_a_share() {
    let folder = TestFolder::new();
    let repository = folder.init();
    (0..9).for_each(|_| drop(made(&folder, &repository)));
    let (some, all) = (seen(&folder, Some(40.0)), seen(&folder, Some(100.0)));
    assert_eq!(all.containers_read, all.containers);
    assert!(some.containers_read < all.containers && some.bytes_read < all.bytes_read);
}
