//! Restoring any entries in any order into a folder of a file system in memory: nothing outside of
//! it changes.

use format::entry::{Attributes, Content, Entry, Kind, Time, Xattr};
use arbitrary::Arbitrary;
use restore::{SnapshotNames, Overwrite, OwnerMapping, Target, TargetOptions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Names that lead somewhere, if anybody follows them.
const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"..",
    b".",
    b"",
    b"/",
    b"out",
    b"../outside",
    b"canary",
    b"a\0b",
    b"up",
    b"../outside/canary",
    b"A",
];
const STEPS_MAX: usize = 12;

#[derive(Arbitrary, Debug)]
struct Step<'a> {
    what: u8,
    path: [u8; 3],
    names: u8,
    other: [u8; 2],
    mode: u16,
    bytes: &'a [u8],
    kind: u8,
    flags: u8,
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    overwrite: u8,
    dry_run: bool,
    steps: Vec<Step<'a>>,
}

fn path(names: &[u8]) -> Vec<u8> {
    let names: Vec<&[u8]> =
        names.iter().map(|name| NAMES[usize::from(*name) % NAMES.len()]).collect();
    names.join(&b'/')
}

fn entry(step: &Step<'_>, kind: Kind) -> Entry {
    let xattrs = match step.flags & 1 {
        1 => vec![Xattr { name: b"user.x".to_vec(), value: step.bytes.to_vec() }],
        _ => Vec::new(),
    };
    let attributes = Attributes {
        uid: u32::from(step.flags >> 4) * 1000,
        xattrs,
        ..Attributes::new(kind, step.mode & 0o7777)
    };
    let content = match step.bytes {
        [] => Content::None,
        bytes => Content::Inline(bytes.to_vec()),
    };
    Entry {
        size: step.bytes.len() as u64,
        mtime: Time { secs: 1, nanos: 2 },
        inode: 1,
        links: 1 + u32::from(step.flags & 2),
        rdev: u64::from(step.flags),
        content,
        ..Entry::new(&path(&step.path[..1 + usize::from(step.names % 3)]), Arc::new(attributes))
    }
}

fn run(target: &Target, root: &Path, step: &Step<'_>) -> Result<(), restore::RestoreProblem> {
    let kinds = [Kind::Fifo, Kind::Socket, Kind::CharDevice, Kind::BlockDevice, Kind::File];
    let kind = kinds[usize::from(step.kind) % kinds.len()];
    let entry = |kind| self::entry(step, kind);
    let parent = |entry: &Entry| target.parent_of(&entry.path);
    match step.what % 9 {
        0 => drop(target.directory(&entry(Kind::Directory))?),
        1 => {
            let file = entry(Kind::File);
            target.small_file(&*parent(&file)?, &file, step.bytes)?;
        }
        2 => {
            let file = entry(Kind::File);
            if let restore::StartedFile::Open(open) = target.start_file(&parent(&file)?, &file)? {
                open.write_at(0, step.bytes)?;
                open.finish(&file)?;
            }
        }
        3 => {
            let link = entry(Kind::Symlink);
            let outside = root.join("outside").into_os_string().into_vec();
            let to = [&b"../"[..], &outside, b""][usize::from(step.kind) % 3];
            let to = [to, &path(&step.other)].concat();
            target.symlink(&*parent(&link)?, &link, &to)?;
        }
        4 => {
            let name = entry(Kind::File);
            target.hard_link(&*parent(&name)?, &name, &path(&step.other))?;
        }
        5 => {
            let special = entry(kind);
            target.special(&*parent(&special)?, &special)?;
        }
        6 => drop(target.finish_directory(&entry(Kind::Directory))?),
        7 => {
            // As at the end of a restore that deletes, and any path at all.
            let directory = path(&step.other);
            let mut names = SnapshotNames::default();
            names.insert(b"a");
            let others: Vec<_> =
                target.extraneous_beside(&directory, &names)?.flatten().collect();
            others.iter().for_each(|other| drop(target.remove(other, None)));
            drop(target.remove(&directory, None));
        }
        _ => {
            let file = entry(Kind::File);
            target.match_metadata(&file);
            target.compare_metadata(&file);
            target.open_for_verify(&file.path)?;
        }
    }
    Ok(())
}

/// What nobody may touch.
#[derive(PartialEq, Debug)]
struct Outside(Vec<u8>, Vec<(i64, i64, u32, u64, u32)>, usize);

impl Outside {
    fn look(root: &Path) -> Self {
        let outside = root.join("outside");
        let look = |path: &Path| {
            let stat = std::fs::symlink_metadata(path).expect("it is there");
            (stat.ctime(), stat.ctime_nsec(), stat.mode(), stat.nlink(), stat.uid())
        };
        let canary = outside.join("canary");
        Self(
            std::fs::read(&canary).expect("the canary"),
            vec![look(&canary), look(&outside)],
            std::fs::read_dir(&outside).expect("outside").count(),
        )
    }
}

/// A folder in memory with a canary beside the folder `inside`, and with a link from there to it. Gone when dropped.
fn place() -> TempDir {
    let root = tempfile::tempdir_in("/dev/shm").expect("tmpfs");
    for folder in ["outside", "inside"] {
        std::fs::create_dir(root.path().join(folder)).expect("tmpfs");
    }
    std::fs::write(root.path().join("outside/canary"), "alive").expect("tmpfs");
    std::os::unix::fs::symlink("../outside", root.path().join("inside/out")).expect("tmpfs");
    root
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let Some(input) = crate::arbitrary::<Input<'_>>(bytes) else { return };
    let root = place();
    let outside = Outside::look(root.path());
    let overwrite = [Overwrite::Always, Overwrite::IfChanged, Overwrite::IfNewer, Overwrite::Never];
    let options = TargetOptions {
        overwrite: overwrite[usize::from(input.overwrite) % 4],
        dry_run: input.dry_run,
        owners: OwnerMapping::ById,
        sync: false,
        ..TargetOptions::default()
    };
    let target = Target::open(&root.path().join("inside"), options).expect("it is there");
    for step in input.steps.iter().take(STEPS_MAX) {
        let _ = run(&target, root.path(), step);
    }
    drop(target);
    assert_eq!(Outside::look(root.path()), outside, "something outside has changed");
}
