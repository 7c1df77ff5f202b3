//! Restores that ended before all was durable: by a power cut, files may have their lengths and times
//! and no data.

use crate::testkit::build::noise;
use crate::testkit::faulty::{FaultyStorage, Plan};
use crate::testkit::{Heard, NAME, PASSWORD, TestFolder, Tree, assert_same, snapshot};
use pipeline::backup::Progress;
use pipeline::restore::{self, RestoreOptions, RestoreReport};
use pipeline::{Error, UnlockedRepository};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::SnapshotRef;

/// Bytes of a small file. All of them are some dozen records: a restore that is stopped at one of the first has most
/// before it.
const SMALL: usize = 12_000;
/// All files of the source together.
const BYTES: u64 = 2_000 * SMALL as u64 + 400_000;

struct Lab {
    folder: TestFolder,
    name: SnapshotRef,
    tree: Tree,
}

impl Lab {
    fn new() -> Self {
        let folder = TestFolder::new();
        for number in 0..2_000u64 {
            folder.write(&format!("d{}/{number:04}", number % 5), &noise(number, SMALL));
        }
        folder.write("large", &noise(7, 400_000));
        let tree = folder.state();
        let name = folder.backup(&folder.init()).snapshot;
        Self { folder, name, tree }
    }

    fn target(&self) -> PathBuf {
        self.folder.at("target")
    }

    fn restore(&self, progress: &Progress, plan: &Arc<Plan>) -> pipeline::Result<RestoreReport> {
        let storage = FaultyStorage::new(&self.folder.repository(), plan);
        let repository = UnlockedRepository::open(storage, PASSWORD).unwrap().with_cache_bytes(0);
        let snapshot = snapshot(&repository, self.name).unwrap();
        let options = RestoreOptions { threads: 2, ..RestoreOptions::default() };
        restore::run(
            &repository,
            &snapshot,
            b"",
            &self.target(),
            &options,
            progress,
            &Heard::default(),
        )
    }

    /// Begins a restore that is stopped in the middle.
    fn cut_short(&self) {
        let progress = Arc::new(Progress::default());
        let (stopped, done) = (progress.clone(), self.target().join(NAME).join("d0"));
        let plan = Plan::watched(Box::new(move |call| {
            let written = || std::fs::read_dir(&done).map_or(0, |names| names.count());
            if call.verb == "read" && written() > 5 {
                stopped.cancel.store(true, Ordering::Relaxed);
            }
        }));
        assert!(matches!(self.restore(&progress, &plan), Err(Error::Cancelled)));
        assert!(progress.bytes.load(Ordering::Relaxed) < BYTES, "what is planned is not done");
    }

    fn markers(&self) -> usize {
        let is_marker = |name: String| name.starts_with(".icecore-restore-");
        let names = std::fs::read_dir(self.target()).unwrap();
        names
            .filter(|it| is_marker(it.as_ref().unwrap().file_name().into_string().unwrap()))
            .count()
    }

    /// Files that are there, in all of their length.
    fn finished(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for directory in ["d0", "d1", "d2", "d3", "d4"] {
            let Ok(names) = std::fs::read_dir(self.target().join(NAME).join(directory)) else {
                continue;
            };
            found.extend(names.map(|entry| entry.unwrap().path()));
        }
        found.retain(|path| std::fs::metadata(path).unwrap().len() == SMALL as u64);
        found
    }

    fn assert_whole(&self) {
        assert_same(&self.tree, &Tree::of(&self.target().join(NAME)));
        assert_eq!(self.markers(), 0);
    }
}

/// Content becomes zeros; length and time stay.
fn lose_data(file: &Path) {
    let modified = std::fs::metadata(file).unwrap().modified().unwrap();
    std::fs::write(file, [0; SMALL]).unwrap();
    std::fs::File::open(file).unwrap().set_modified(modified).unwrap();
}

/// Review finding E3: a resumed restore kept files of zeros as unchanged.
#[test]
fn a_resumed_restore_keeps_no_file_whose_data_a_power_cut_took() {
    let lab = Lab::new();
    lab.cut_short();
    let finished = lab.finished();
    assert!(lab.markers() == 1 && finished.len() > 5, "{} files", finished.len());
    finished.iter().step_by(2).for_each(|file| lose_data(file));
    let report = lab.restore(&Progress::default(), &Plan::none()).unwrap();
    assert!(report.unchanged >= finished.len() as u64 / 2, "the whole ones stay: {report:?}");
    lab.assert_whole();
}

/// Seen: "unchanged" for zeros, and with --delete the marker went, too, so that no later restore could know.
#[test]
fn what_a_restore_of_a_part_left_is_compared_by_a_larger_one() {
    let lab = Lab::new();
    lab.restore(&Progress::default(), &Plan::none()).unwrap();
    let part = lab.target().join(NAME).join("d3");
    let lost = lab.finished().into_iter().find(|file| file.starts_with(&part)).unwrap();
    lose_data(&lost);
    let text = "An icecore restore into this folder is under way or was cut short. Files changed since 1000 (seconds since 1970) may be incomplete\nRestored: 3f2a:d3\n";
    let marker = part.join(".icecore-restore-1-5");
    std::fs::write(&marker, text).unwrap();
    let snapshot = snapshot(&lab.folder.open(), lab.name).unwrap();
    let options = RestoreOptions { delete: true, threads: 2, ..RestoreOptions::default() };
    let (repository, heard) = (lab.folder.open(), Heard::default());
    let report = restore::run(
        &repository,
        &snapshot,
        b"",
        &lab.target(),
        &options,
        &Progress::default(),
        &heard,
    );
    let report = report.unwrap();
    assert_eq!((report.files, report.deleted, report.failed), (1, 0, 0), "{:?}", heard.all());
    assert!(marker.exists() && heard.all().iter().any(|line| line.contains("d3/.icecore-restore")));
    std::fs::remove_file(&marker).unwrap();
    assert!(std::fs::read(&lost).unwrap().iter().any(|byte| *byte != 0));
}

#[test]
fn a_power_cut_between_two_resumed_restores_loses_nothing_either() {
    let lab = Lab::new();
    (0..3).for_each(|_| {
        if !lab.target().exists() || lab.finished().len() < 1_900 {
            lab.cut_short();
        }
        lab.finished().iter().for_each(|file| lose_data(file));
    });
    lab.restore(&Progress::default(), &Plan::none()).unwrap();
    lab.assert_whole();
}

/// Review finding U5: it said from the first second that all was done, at 0 B/s.
#[test]
fn progress_counts_bytes_when_they_are_dealt_with() {
    let lab = Lab::new();
    lab.cut_short();
    let [first, again] = [0, 1].map(|_| {
        let progress = Progress::default();
        lab.restore(&progress, &Plan::none()).unwrap();
        [&progress.bytes, &progress.bytes_read].map(|counter| counter.load(Ordering::Relaxed))
    });
    assert!(first[0] == BYTES && (1..BYTES).contains(&first[1]), "{first:?}");
    assert_eq!(again, [BYTES, 0], "nothing is written");
}

#[test]
fn a_restore_that_ended_well_is_believed_by_times_again() {
    let lab = Lab::new();
    lab.restore(&Progress::default(), &Plan::none()).unwrap();
    lab.assert_whole();
    let report = lab.restore(&Progress::default(), &Plan::none()).unwrap();
    assert_eq!((report.files, report.unchanged), (0, 2_001), "{report:?}");
}
