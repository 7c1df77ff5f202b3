//! What programs print.

use crate::testkit::build::noise;
use crate::testkit::{Heard, TestFolder, assert_clean, leftovers, options, restore_to};
use pipeline::backup::{BackupOutcome, Progress, run_stream};
use pipeline::{Error, Result, UnlockedRepository};
use std::io::Read;
use std::path::Path;

fn store(
    repository: &UnlockedRepository,
    name: &[u8],
    input: &mut dyn Read,
    confirm: &mut dyn FnMut() -> Result<()>,
) -> Result<BackupOutcome> {
    let options = options(Path::new("/unused"));
    run_stream(repository, &options, name, input, confirm, &Progress::default(), &Heard::default())
}

fn stored(repository: &UnlockedRepository, name: &[u8], bytes: &[u8]) -> BackupOutcome {
    let done = store(repository, name, &mut &bytes[..], &mut || Ok(())).unwrap();
    assert!(done.report.adds_up(), "{:#?}", done.report);
    done
}

fn assert_holds(
    folder: &TestFolder,
    repository: &UnlockedRepository,
    done: &BackupOutcome,
    name: &str,
    bytes: &[u8],
) {
    let target = tempfile::tempdir_in(folder.temp.path()).unwrap();
    let report = restore_to(repository, done.snapshot, target.path()).unwrap();
    assert_eq!(report.failed, 0);
    assert!(std::fs::read(target.path().join(name)).unwrap() == bytes, "other content");
}

#[test]
fn a_stream_comes_back_as_a_file_in_its_directories() {
    let folder = TestFolder::new();
    let repository = folder.init();
    for length in [0, 1, 48, 49, 5_000, 3 << 20] {
        let bytes = noise(length as u64, length);
        let done = stored(&repository, b"dumps/of today/db.sql", &bytes);
        assert_holds(&folder, &repository, &done, "dumps/of today/db.sql", &bytes);
    }
    assert_clean(&repository);
}

#[test]
fn a_large_stream_is_stored_once() {
    let folder = TestFolder::new();
    let repository = folder.init();
    let bytes = noise(1, 12 << 20);
    let first = stored(&repository, b"dump", &bytes);
    assert_eq!(first.report.bytes_processed, 12 << 20);
    let again = stored(&repository, b"dump", &[b"a line more in front\n", &bytes[..]].concat());
    assert!(again.report.bytes_transferred < 1 << 18, "{:#?}", again.report);
    assert_holds(&folder, &repository, &first, "dump", &bytes);
}

#[test]
fn a_program_that_failed_makes_no_snapshot() {
    let folder = TestFolder::new();
    let repository = folder.init();
    let bytes = noise(1, 1 << 20);
    let failed = store(&repository, b"dump", &mut &bytes[..], &mut || {
        Err(Error::Usage("exit code 1".into()))
    });
    assert!(matches!(failed, Err(Error::Usage(_))));
    assert!(repository.local().unwrap().snapshots().unwrap().is_empty());
    // What it printed is found again.
    let done = stored(&repository, b"dump", &bytes);
    assert!(done.report.bytes_transferred < 1 << 18, "{:#?}", done.report);
    assert_eq!(leftovers(&folder), Vec::<String>::new());
    assert_clean(&repository);
}

struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::Error::other("the pipe broke"));
        }
        self.0 -= 1;
        buffer.fill(self.0 as u8);
        Ok(buffer.len())
    }
}

#[test]
fn an_input_that_breaks_makes_no_snapshot() {
    let folder = TestFolder::new();
    let repository = folder.init();
    let failed = store(&repository, b"dump", &mut Broken(2), &mut || Ok(()));
    assert!(matches!(failed, Err(Error::File { .. })), "{failed:?}");
    assert!(repository.local().unwrap().snapshots().unwrap().is_empty());
}

/// Gives one byte at a time, and says `Interrupted` in between.
struct Trickle<'a>(&'a [u8], bool);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        self.0.read(&mut buffer[..1])
    }
}

#[test]
fn an_interrupted_read_does_not_end_the_stream() {
    let folder = TestFolder::new();
    let repository = folder.init();
    let bytes = noise(4, 300);
    let done = store(&repository, b"slow", &mut Trickle(&bytes, false), &mut || Ok(())).unwrap();
    assert_holds(&folder, &repository, &done, "slow", &bytes);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let folder = TestFolder::new();
    let repository = folder.init();
    for name in [&b"/etc/passwd"[..], b"../x", b"a/../b", b"", b"a//b", b"a/", b"a\0b"] {
        let refused = store(&repository, name, &mut &b"x"[..], &mut || Ok(()));
        assert!(matches!(refused, Err(Error::Usage(_))), "{:?}", name.escape_ascii().to_string());
    }
}
