//! The repository that is damaged: made once, copied for every cell.

use crate::testkit::build::noise;
use crate::testkit::{CHEAP, NAME, PASSWORD, TestFolder, restore_with, snapshot};
use crypto::{Role, SlotSecret};
use pipeline::UnlockedRepository;
use std::collections::BTreeMap;
use std::path::Path;
use store::SnapshotRef;

/// A second way in: what happens to one key slot must not keep its owner out.
const OTHER: SlotSecret<'static> = SlotSecret::Password(b"another staple");
/// Files so small that they lie in their entries: pages full of them.
const TINY_FILES: u64 = 260;

/// Files by path, with what is in them.
pub(crate) type Files = BTreeMap<Vec<u8>, Vec<u8>>;

/// The source as one snapshot has it.
pub(crate) struct Made {
    pub(crate) name: SnapshotRef,
    pub(crate) files: Files,
}

/// A repository with a forgotten snapshot and three others, a container for each, and a tombstone.
pub(crate) struct Lab {
    pub(crate) folder: TestFolder,
    /// As it was two backups ago.
    pub(crate) older: TestFolder,
    /// Another repository of the same source.
    pub(crate) stranger: TestFolder,
    pub(crate) made: Vec<Made>,
}

impl Lab {
    /// Where pages end is drawn by lot; a tree of one page has nothing that could outlive damage.
    pub(crate) fn new() -> Self {
        loop {
            let lab = Self::draw();
            let repository = lab.folder.open();
            let level = |made: &Made| snapshot(&repository, made.name).unwrap().head.level;
            if lab.made.iter().all(|made| level(made) > 0) {
                return lab;
            }
        }
    }

    fn draw() -> Self {
        let folder = TestFolder::new();
        first_source(&folder);
        let repository = folder.init();
        repository.add_key(Role::Full, OTHER, CHEAP, "second").unwrap();
        let forgotten = folder.backup(&repository).snapshot;
        let mut made = vec![generation(&folder, &repository, 1)];
        let older = folder.copied();
        repository.forget(&[forgotten]).unwrap();
        made.extend((2..4).map(|seed| generation(&folder, &repository, seed)));
        let stranger = stranger(&folder);
        Self { folder, older, stranger, made }
    }

    /// The source as it is now, which the newest snapshot has.
    pub(crate) fn source(&self) -> &Files {
        &self.made[self.made.len() - 1].files
    }
}

fn first_source(folder: &TestFolder) {
    for number in 0..TINY_FILES {
        folder.write(&format!("tiny{}/file{number:03}", number % 4), &noise(number, 20));
    }
    for number in 0..6u64 {
        folder.write(&format!("dir/file{number}"), &noise(900 + number, 3_000 * number as usize));
    }
    folder.write("zz-last", &noise(77, 5_000));
}

fn generation(folder: &TestFolder, repository: &UnlockedRepository, seed: u64) -> Made {
    folder.write("large", &noise(1_000 + seed, 40_000));
    folder.write(&format!("tiny{}/file{seed:03}", seed % 4), &noise(2_000 + seed, 30));
    let name = folder.backup(repository).snapshot;
    Made { name, files: files_of(&folder.source()) }
}

/// Somebody else's repository: its files have the same names where names are fixed.
fn stranger(folder: &TestFolder) -> TestFolder {
    let other = TestFolder::new();
    let repository = other.init();
    for _ in 0..3 {
        folder.backup(&repository);
    }
    other
}

/// Opens with the first password that opens.
pub(crate) fn open(folder: &TestFolder) -> pipeline::Result<UnlockedRepository> {
    UnlockedRepository::open(folder.storage(), PASSWORD)
        .or_else(|error| UnlockedRepository::open(folder.storage(), OTHER).map_err(|_| error))
}

/// The password that still opens, for who opens by himself.
pub(crate) fn secret(folder: &TestFolder) -> SlotSecret<'static> {
    if UnlockedRepository::open(folder.storage(), OTHER).is_ok() { OTHER } else { PASSWORD }
}

/// The regular files below `root`.
pub(crate) fn files_of(root: &Path) -> Files {
    let read = |name: String| {
        let bytes = std::fs::read(root.join(&name)).unwrap();
        (name.into_bytes(), bytes)
    };
    if !root.exists() {
        return Files::new();
    }
    crate::testkit::files_below(root).into_iter().map(read).collect()
}

/// What came of restoring one snapshot.
#[derive(Default)]
pub(crate) struct Restored {
    /// Files that are there, byte for byte.
    pub(crate) good: Vec<Vec<u8>>,
    /// Files that are not there.
    pub(crate) lost: Vec<Vec<u8>>,
    /// What was said, or why nothing could be restored.
    pub(crate) heard: Vec<String>,
    /// It ended early.
    pub(crate) refused: bool,
}

impl Restored {
    /// Restores `made`; panics when anything is wrong that was not said.
    pub(crate) fn of(repository: &UnlockedRepository, made: &Made, what: &str) -> Self {
        let target = tempfile::tempdir_in("/dev/shm").unwrap();
        let (mut restored, failed) = match restore(repository, made, target.path()) {
            Ok((failed, heard)) => (Self { heard, ..Self::default() }, failed),
            Err(error) => {
                (Self { heard: vec![error.to_string()], refused: true, ..Self::default() }, 1)
            }
        };
        let found = files_of(&target.path().join(NAME));
        for (path, bytes) in &made.files {
            match found.get(path) {
                Some(found) if found == bytes => restored.good.push(path.clone()),
                Some(_) => panic!("{what}: {} has wrong bytes", path.escape_ascii()),
                None => restored.lost.push(path.clone()),
            }
        }
        let more = found.keys().find(|path| !made.files.contains_key(*path));
        assert_eq!(more, None, "{what}: a file that was never there");
        assert!(restored.lost.is_empty() || failed > 0, "{what}: files are missing in silence");
        for path in restored.lost.iter().filter(|_| !restored.refused) {
            assert!(names(&restored.heard, path), "{what}: {} is not named", path.escape_ascii());
        }
        restored
    }
}

fn restore(
    repository: &UnlockedRepository,
    made: &Made,
    target: &Path,
) -> pipeline::Result<(u64, Vec<String>)> {
    let (report, heard) = restore_with(repository, made.name, b"", target, &Default::default())?;
    Ok((report.failed, heard))
}

/// Whether one of the lines names `path`, or a stretch of entries that it is in.
pub(crate) fn names(lines: &[String], path: &[u8]) -> bool {
    let path = format!("{NAME}/{}", String::from_utf8_lossy(path));
    lines.iter().any(|line| {
        line.contains(&path)
            || line
                .split_once(": ")
                .is_some_and(|(from, text)| text.contains("from here on") && from <= path.as_str())
    })
}
