//! Backups in a memory that loses a bit.

use super::{UNLUCKY, UNLUCKY_TAG};
use crate::backup::{BackupMonitor, BackupOptions, BackupOutcome, run};
use crate::manifest::ManifestReader;
use crate::progress::Progress;
use crate::unlocked::InitOptions;
use crate::{Error, UnlockedRepository, check, restore};
use capture::CaptureProblem;
use capture::read::ReadOptions;
use capture::walk::SourceRoot;
use crypto::{KdfParams, SlotSecret};
use repository::local::LocalStorage;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

struct Silent(parking_lot::Mutex<Vec<Vec<u8>>>);

impl BackupMonitor for Silent {
    fn problem(&self, _: &CaptureProblem) {}
    fn note(&self, _: &str) {}
}

impl restore::RestoreMonitor for Silent {
    fn problem(&self, path: &[u8], _: &str) {
        self.0.lock().push(path.to_vec());
    }
}

fn backed_up(
    place: &Path,
    verify_blocks: bool,
) -> (UnlockedRepository, crate::Result<BackupOutcome>) {
    backed_up_with(place, verify_blocks, &[])
}

fn backed_up_with(
    place: &Path,
    verify_blocks: bool,
    tags: &[&str],
) -> (UnlockedRepository, crate::Result<BackupOutcome>) {
    let source = place.join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("good"), [7; 500]).unwrap();
    std::fs::write(source.join("unlucky"), [UNLUCKY, &[8; 500]].concat()).unwrap();
    let storage = Arc::new(LocalStorage::create(&place.join("repository")).unwrap());
    let kdf = KdfParams { memory_kib: 64, passes: 1, lanes: 1 };
    let options = InitOptions { kdf, ..InitOptions::default() };
    let repository =
        UnlockedRepository::init(storage, SlotSecret::Password(b"p"), options).unwrap();
    let options = BackupOptions {
        roots: vec![SourceRoot {
            source: source.as_os_str().as_bytes().to_vec(),
            shown_as: Some(b"/".to_vec()),
        }],
        node: "node".into(),
        paths: vec!["/".into()],
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        walk: Default::default(),
        read: ReadOptions::default(),
        threads: 1,
        level: seal::Level::Fixed(1),
        full: false,
        read_since: None,
        ignore_inode: false,
        verify_blocks,
        limits: Default::default(),
        checkpoint_after: Default::default(),
        cache: None,
        is_partial: false,
        time: None,
        skip_if_unchanged: false,
        mount_points: Vec::new(),
    };
    let done = run(&repository, &options, &Progress::default(), &Silent(Default::default()));
    (repository, done)
}

#[test]
fn a_bit_lost_before_sealing_stops_a_backup_that_looks_again() {
    let place = tempfile::tempdir().unwrap();
    let (repository, done) = backed_up(place.path(), true);
    assert!(matches!(done, Err(Error::Seal(seal::Error::WrongContent(_)))), "{done:?}");
    assert_eq!(repository.local().unwrap().snapshots().unwrap(), []);
}

/// Whether it looks again at blocks or not.
#[test]
fn a_bit_lost_before_the_manifest_is_sealed_publishes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (repository, done) = backed_up_with(place.path(), false, &[UNLUCKY_TAG]);
    assert!(matches!(done, Err(Error::ManifestChanged)), "{done:?}");
    assert_eq!(repository.local().unwrap().snapshots().unwrap(), []);
}

/// Without verification the damage is stored, but never returned as good data.
#[test]
fn a_bit_lost_before_sealing_is_found_by_check_and_named_by_a_restore() {
    let place = tempfile::tempdir().unwrap();
    let (repository, done) = backed_up(place.path(), false);
    let name = done.unwrap().snapshot;
    let options =
        check::CheckOptions { read_data_percent: Some(100.0), threads: 1, ..Default::default() };
    let report = check::run(&repository, &options, &Progress::default()).unwrap();
    let named: Vec<_> = report.damages.iter().flat_map(|damage| &damage.paths).collect();
    assert_eq!(named, [b"unlucky"], "{report:#?}");
    let snapshot = ManifestReader::new(&repository).unwrap().read(name).unwrap();
    let (target, heard) = (place.path().join("target"), Silent(Default::default()));
    let (options, progress) = (restore::RestoreOptions::default(), Progress::default());
    let report =
        restore::run(&repository, &snapshot, b"", &target, &options, &progress, &heard).unwrap();
    assert_eq!((report.failed, heard.0.into_inner()), (1, vec![b"unlucky".to_vec()]));
    assert_eq!(std::fs::read(target.join("good")).unwrap(), [7; 500]);
    assert!(!target.join("unlucky").exists());
}
