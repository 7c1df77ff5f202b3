//! What all tests need: a folder with a source and a repository, a way to back it up and restore
//! it, and a way to compare trees.

pub(crate) mod alone;
pub(crate) mod build;
pub(crate) mod faulty;
pub(crate) mod forge;
pub(crate) mod state;

use capture::read::{RacyWindow, ReadOptions};
use capture::walk::SourceRoot;
use crypto::{KdfParams, SlotSecret};
use pipeline::backup::{self, BackupMonitor, BackupOutcome, Progress};
use pipeline::manifest::{ManifestReader, Snapshot};
use pipeline::unlocked::{InitOptions, UnlockedRepository};
use pipeline::{check, rebuild, reclaim, restore};
use repository::local::LocalStorage;
use repository::storage::Storage;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::SnapshotRef;
use tempfile::TempDir;

pub(crate) use state::{Tree, assert_same};

pub(crate) const PASSWORD: SlotSecret<'static> = SlotSecret::Password(b"correct horse");
/// Guessing is no threat here, and thousands of openings shall be quick.
pub(crate) const CHEAP: KdfParams = KdfParams { memory_kib: 64, passes: 1, lanes: 1 };
/// Small chunks: trees of a few KiB have structure.
pub(crate) const SMALL_CHUNKS: chunker::Params =
    chunker::Params { min: 1 << 10, average: 4 << 10, max: 16 << 10 };
/// Under which name the source lies in snapshots.
pub(crate) const NAME: &str = "tree";

/// Whether what takes minutes is to be done whole, as at night, and not a slice of it.
pub(crate) fn is_all() -> bool {
    std::env::var("ICECORE_SIMULATED").is_ok_and(|what| what == "all")
}

/// Operations between one fault and the next: `slice`, or one if all are asked for.
pub(crate) fn stride(slice: u64) -> u64 {
    if is_all() { 1 } else { slice }
}

/// Collects what a run complains about.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) lines: parking_lot::Mutex<Vec<String>>,
    /// What a restore removed, and how much with it.
    pub(crate) removed: parking_lot::Mutex<Vec<(String, u64)>>,
}

impl Heard {
    pub(crate) fn all(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// What somebody confirms who saw what was removed, or would be.
    pub(crate) fn confirmed(&self) -> pipeline::restore::ConfirmedRemovals {
        let mut confirmed = pipeline::restore::ConfirmedRemovals::default();
        self.removed.lock().iter().for_each(|(path, count)| confirmed.add(path.as_bytes(), *count));
        confirmed
    }
}

impl BackupMonitor for Heard {
    fn problem(&self, problem: &capture::CaptureProblem) {
        self.lines.lock().push(problem.to_string());
    }

    fn note(&self, text: &str) {
        self.lines.lock().push(format!("note: {text}"));
    }
}

impl restore::RestoreMonitor for Heard {
    fn problem(&self, path: &[u8], text: &str) {
        self.lines.lock().push(format!("{}: {text}", String::from_utf8_lossy(path)));
    }

    fn removed(&self, path: &[u8], objects: u64, _: u64) {
        self.removed.lock().push((String::from_utf8_lossy(path).into_owned(), objects));
    }

    fn note(&self, text: &str) {
        self.lines.lock().push(format!("note: {text}"));
    }
}

/// A scratch directory with a source beside it; gone when dropped.
pub(crate) struct TestFolder {
    pub(crate) temp: TempDir,
}

impl TestFolder {
    /// In memory, where a sync costs nothing.
    pub(crate) fn new() -> Self {
        Self::below(Path::new("/dev/shm"))
    }

    /// On the disk's file system, with all that one has: flags, ACLs, unwritten ranges.
    pub(crate) fn on_disk() -> Self {
        Self::below(Path::new("/tmp"))
    }

    pub(crate) fn below(parent: &Path) -> Self {
        let parent = if parent.is_dir() { parent } else { Path::new("/tmp") };
        let folder = tempfile::Builder::new().prefix("icecore-it-").tempdir_in(parent).unwrap();
        std::fs::create_dir(folder.path().join("source")).unwrap();
        Self { temp: folder }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.at("source")
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.at("repository")
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(LocalStorage::create(&self.repository()).unwrap())
    }

    pub(crate) fn init(&self) -> UnlockedRepository {
        init(self.storage(), SMALL_CHUNKS)
    }

    pub(crate) fn open(&self) -> UnlockedRepository {
        UnlockedRepository::open(self.storage(), PASSWORD).unwrap()
    }

    /// Writes a file of the source, with the directories that it needs.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        build::write(&self.source(), name, bytes);
    }

    pub(crate) fn state(&self) -> Tree {
        Tree::of(&self.source())
    }

    pub(crate) fn backup(&self, repository: &UnlockedRepository) -> BackupOutcome {
        let done = self.try_backup(repository).unwrap();
        assert!(done.report.adds_up(), "{:#?}", done.report);
        done
    }

    pub(crate) fn try_backup(
        &self,
        repository: &UnlockedRepository,
    ) -> pipeline::Result<BackupOutcome> {
        let heard = Heard::default();
        backup::run(repository, &self.options(), &Progress::default(), &heard)
    }

    pub(crate) fn options(&self) -> backup::BackupOptions {
        options(&self.source())
    }

    /// Restores into a new directory, and says what is there.
    pub(crate) fn restored(&self, repository: &UnlockedRepository, name: SnapshotRef) -> Tree {
        let target = tempfile::tempdir_in(self.temp.path()).unwrap();
        let report = restore_to(repository, name, target.path()).unwrap();
        assert_eq!((report.failed, report.differing), (0, 0), "{report:#?}");
        Tree::of(&target.path().join(NAME))
    }

    pub(crate) fn assert_restores(
        &self,
        repository: &UnlockedRepository,
        name: SnapshotRef,
        expected: &Tree,
    ) {
        assert_same(expected, &self.restored(repository, name));
    }

    /// The repository's files, by their names in it.
    pub(crate) fn files(&self) -> Vec<String> {
        files_below(&self.repository())
    }

    /// Bytes of the repository, but for what is kept for a full disk.
    pub(crate) fn bytes(&self) -> u64 {
        let length = |name: &String| self.repository().join(name).metadata().unwrap().len();
        self.files().iter().filter(|name| !name.starts_with("reserve/")).map(length).sum()
    }

    /// Another folder with a copy of the repository and of nothing else.
    pub(crate) fn copied(&self) -> Self {
        let test_folder = Self::below(self.temp.path().parent().unwrap());
        copy_tree(&self.repository(), &test_folder.repository());
        test_folder
    }
}

impl Drop for TestFolder {
    /// Trees may hold what `remove_dir_all` cannot remove.
    fn drop(&mut self) {
        let _ = std::process::Command::new("rm").arg("-rf").arg(self.temp.path()).status();
    }
}

pub(crate) fn init(storage: Arc<dyn Storage>, chunks: chunker::Params) -> UnlockedRepository {
    let options = InitOptions { chunks, kdf: CHEAP, ..InitOptions::default() };
    UnlockedRepository::init(storage, PASSWORD, options).unwrap()
}

pub(crate) fn init_with_parity(storage: Arc<dyn Storage>, percent: u32) -> UnlockedRepository {
    init_as(storage, InitOptions { parity_percent: percent, ..InitOptions::default() })
}

/// A cheap repository with the other settings of `options`.
pub(crate) fn init_as(storage: Arc<dyn Storage>, options: InitOptions) -> UnlockedRepository {
    let options = InitOptions { chunks: SMALL_CHUNKS, kdf: CHEAP, ..options };
    UnlockedRepository::init(storage, PASSWORD, options).unwrap()
}

/// Files that were just written are not read again: the tests write before they back up.
pub(crate) fn options(source: &Path) -> backup::BackupOptions {
    let shown_as = Some(format!("/{NAME}").into_bytes());
    backup::BackupOptions {
        roots: vec![SourceRoot { source: source.as_os_str().as_bytes().to_vec(), shown_as }],
        node: "node".into(),
        paths: vec!["/tree".into()],
        tags: Vec::new(),
        walk: capture::walk::WalkOptions::default(),
        read: ReadOptions { window: RacyWindow(Duration::ZERO), ..ReadOptions::default() },
        threads: 2,
        level: seal::Level::Fixed(1),
        full: false,
        read_since: None,
        ignore_inode: false,
        verify_blocks: false,
        limits: Default::default(),
        checkpoint_after: Default::default(),
        cache: None,
        is_partial: false,
        time: None,
        skip_if_unchanged: false,
        mount_points: Vec::new(),
    }
}

pub(crate) fn snapshot(
    repository: &UnlockedRepository,
    name: SnapshotRef,
) -> pipeline::Result<Snapshot> {
    ManifestReader::new(repository)?.read(name)
}

pub(crate) fn restore_to(
    repository: &UnlockedRepository,
    name: SnapshotRef,
    target: &Path,
) -> pipeline::Result<restore::RestoreReport> {
    restore_with(repository, name, b"", target, &restore::RestoreOptions::default())
        .map(|(report, _)| report)
}

/// Restores, and returns what was complained about as well.
pub(crate) fn restore_with(
    repository: &UnlockedRepository,
    name: SnapshotRef,
    subpath: &[u8],
    target: &Path,
    options: &restore::RestoreOptions,
) -> pipeline::Result<(restore::RestoreReport, Vec<String>)> {
    let options = restore::RestoreOptions { no_sync: true, threads: 2, ..options.clone() };
    let (snapshot, heard) = (snapshot(repository, name)?, Heard::default());
    let progress = Progress::default();
    let report = restore::run(repository, &snapshot, subpath, target, &options, &progress, &heard)?;
    Ok((report, heard.all()))
}

pub(crate) fn checked(repository: &UnlockedRepository) -> pipeline::Result<check::CheckReport> {
    let options = check::CheckOptions { read_data_percent: Some(100.0), threads: 2, repair: false };
    check::run(repository, &options, &Progress::default())
}

/// Repairs what can be, and checks all data.
pub(crate) fn repaired(repository: &UnlockedRepository) -> pipeline::Result<check::CheckReport> {
    let options = check::CheckOptions { read_data_percent: Some(100.0), threads: 2, repair: true };
    check::run(repository, &options, &Progress::default())
}

pub(crate) fn assert_clean(repository: &UnlockedRepository) {
    let report = checked(repository).unwrap();
    assert_eq!(report.damages, [], "check found damage");
}

pub(crate) fn reclaimed(repository: &UnlockedRepository) -> reclaim::ReclaimReport {
    reclaimed_with(repository, false)
}

/// The same, perhaps with what interrupted backups stored.
pub(crate) fn reclaimed_with(
    repository: &UnlockedRepository,
    free_interrupted: bool,
) -> reclaim::ReclaimReport {
    let options = reclaim::ReclaimOptions {
        max_waste_percent: 0.0,
        dry_run: false,
        accept_damage: false,
        free_interrupted,
    };
    reclaim::run(repository, &options).unwrap()
}

pub(crate) fn rebuilt(test_folder: &TestFolder) -> rebuild::RebuildReport {
    rebuild::run(test_folder.storage(), PASSWORD, false).unwrap()
}

pub(crate) fn files_below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Copies as it is at this moment; what vanishes meanwhile is not there.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let Ok(kind) = entry.file_type() else { continue };
        let to = to.join(entry.file_name());
        if kind.is_dir() {
            copy_tree(&entry.path(), &to);
        } else {
            let _ = std::fs::copy(entry.path(), to);
        }
    }
}

/// What only an unfinished run leaves: it must be gone after the next one.
pub(crate) fn leftovers(test_folder: &TestFolder) -> Vec<String> {
    let is_left =
        |name: &String| name.ends_with(".part") || name.ends_with(".new") || name.contains("spill");
    test_folder.files().into_iter().filter(is_left).collect()
}
