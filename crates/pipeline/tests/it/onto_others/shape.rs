//! Small trees of few names, which a snapshot or a target has: so that both often have something else under one name.

use crate::testkit::forge;
use format::entry::{
    Attributes, Entry, INODE_IMMUTABLE, Kind, STATUS_NOT_ENTERED, STATUS_PARTIAL, Time,
    compare_paths,
};
use proptest::prelude::*;
use rustix::fs::{FileType, IFlags, Mode, OFlags};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::sync::Arc;

/// All the names that there are.
pub(crate) const PATHS: [&str; 10] =
    ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "x", "x/a", "x/b"];
const NAMES_MAX: usize = PATHS.len();
/// Of different lengths: nobody compares the content of what has the same length and time.
const CONTENTS: [&str; 3] = ["", "one", "other"];
const LINKS: [&str; 4] = ["a", "nowhere", "../outside", "../outside/file"];
/// What stands beside a target, and no restore may change.
pub(crate) const OUTSIDE: &str = "outside";

/// What has a name.
#[derive(Clone, Debug)]
pub(crate) enum Thing {
    File(u8),
    /// A name of the file of this number, which has several.
    NameOf(u8),
    /// In a target: a further name of a file that lies outside.
    NameOfOutside,
    /// In a snapshot: a file of which the backup could read nothing.
    Unread,
    Directory,
    /// In a snapshot: a directory in which another file system began.
    NotEntered,
    Link(u8),
    Fifo,
}

/// What has a name, and the attributes.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) thing: Thing,
    pub(crate) time: i64,
    pub(crate) mode: u16,
    pub(crate) owner: u32,
    pub(crate) is_locked: bool,
}

/// A tree; what has no directory above it is left out.
#[derive(Clone, Debug)]
pub(crate) struct Shape(pub(crate) BTreeMap<&'static str, Object>);

fn things(of_target: bool) -> impl Strategy<Value = Thing> {
    let special = if of_target { Thing::NameOfOutside } else { Thing::Unread };
    let directory = if of_target { Thing::Directory } else { Thing::NotEntered };
    prop_oneof![
        4 => (0..3u8).prop_map(Thing::File),
        3 => (0..2u8).prop_map(Thing::NameOf),
        6 => Just(Thing::Directory),
        2 => (0..4u8).prop_map(Thing::Link),
        1 => Just(Thing::Fifo),
        1 => Just(special),
        1 => Just(directory),
    ]
}

fn objects(of_target: bool) -> impl Strategy<Value = Object> {
    let modes = prop_oneof![Just(0o755), Just(0o700), Just(0o444), Just(0o2770)];
    let owners = prop_oneof![3 => Just(0), 1 => Just(1000)];
    let locks = prop_oneof![8 => Just(false), 1 => Just(true)];
    (things(of_target), 1..4i64, modes, owners, locks).prop_map(
        |(thing, time, mode, owner, is_locked)| {
            let time = time * 1_000;
            Object { thing, time, mode, owner, is_locked }
        },
    )
}

/// Any tree, of a target or of a snapshot.
pub(crate) fn shapes(of_target: bool) -> impl Strategy<Value = Shape> {
    let any = proptest::option::weighted(0.6, objects(of_target));
    proptest::collection::vec(any, NAMES_MAX).prop_map(|all| {
        let mut shape = Shape(BTreeMap::new());
        for (path, object) in PATHS.into_iter().zip(all) {
            let is_there = match path.rsplit_once('/') {
                Some((above, _)) => {
                    shape.0.get(above).is_some_and(|above| matches!(above.thing, Thing::Directory))
                }
                None => true,
            };
            if let Some(object) = object.filter(|_| is_there) {
                shape.0.insert(path, object);
            }
        }
        shape
    })
}

impl Object {
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.thing, Thing::Directory | Thing::NotEntered)
    }

    pub(crate) fn may_be_locked(&self) -> bool {
        self.is_locked && (self.is_directory() || matches!(self.thing, Thing::File(_)))
    }

    fn kind(&self) -> Kind {
        match self.thing {
            Thing::Directory | Thing::NotEntered => Kind::Directory,
            Thing::Link(_) => Kind::Symlink,
            Thing::Fifo => Kind::Fifo,
            _ => Kind::File,
        }
    }

    /// Attributes of a file belong to it, not to its names.
    fn of_file(number: u8) -> Self {
        let (time, thing) = (1_000 + 1_000 * i64::from(number), Thing::NameOf(number));
        Self { thing, time, mode: 0o640, owner: 0, is_locked: false }
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        match self.thing {
            Thing::File(number) => CONTENTS[usize::from(number)].into(),
            Thing::NameOf(number) => {
                format!("of several names: {}", "x".repeat(number.into())).into()
            }
            Thing::Link(number) => LINKS[usize::from(number)].into(),
            Thing::Unread => vec![0; 4],
            _ => Vec::new(),
        }
    }
}

impl Shape {
    /// Entries of a snapshot.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<_> =
            self.0.iter().map(|(path, object)| self.entry(path, object)).collect();
        entries.sort_by(|left, right| compare_paths(&left.path, &right.path));
        entries
    }

    fn entry(&self, path: &str, object: &Object) -> Entry {
        let object = &object.as_named();
        let (kind, content) = (object.kind(), object.content());
        let entry = match kind {
            Kind::File => forge::file(path, &content),
            Kind::Symlink => forge::symlink(path, &content),
            kind => forge::entry(kind, path),
        };
        let mut attributes = Attributes::new(kind, object.mode);
        (attributes.uid, attributes.gid) = (object.owner, object.owner);
        attributes.inode_flags = if object.may_be_locked() { INODE_IMMUTABLE } else { 0 };
        let status = match object.thing {
            Thing::Unread => STATUS_PARTIAL,
            Thing::NotEntered => STATUS_NOT_ENTERED,
            _ => 0,
        };
        let mtime = Time { secs: object.time, nanos: 0 };
        let entry = Entry { mtime, status, attributes: Arc::new(attributes), ..entry };
        let number = |it: &Object| match it.thing {
            Thing::NameOf(number) => Some(number),
            _ => None,
        };
        let same = |other: &&Object| number(other).is_some_and(|it| number(object) == Some(it));
        let links = self.0.values().filter(same).count().max(1) as u32;
        let inode = match number(object) {
            Some(number) => 100 + u64::from(number),
            None => 1 + PATHS.iter().position(|each| *each == path).unwrap() as u64,
        };
        Entry { inode, links, ..entry }
    }

    /// What a backup of `sources` has of it: those, and the directories above.
    pub(crate) fn of_sources(mut self, sources: &[&str]) -> Self {
        self.0.retain(|path, object| {
            sources.iter().any(|source| {
                let source = &source[1..];
                let is_in =
                    source.is_empty() || *path == source || path.starts_with(&format!("{source}/"));
                is_in || object.is_directory() && source.starts_with(&format!("{path}/"))
            })
        });
        self
    }

    /// Makes a target of it.
    pub(crate) fn make(&self, target: &Path) {
        std::fs::create_dir(target).unwrap();
        let mut first: BTreeMap<u8, &str> = BTreeMap::new();
        for path in PATHS {
            let Some(object) = self.0.get(path) else { continue };
            let at = target.join(path);
            match object.thing {
                Thing::NameOf(number) if first.contains_key(&number) => {
                    std::fs::hard_link(target.join(first[&number]), &at).unwrap();
                }
                Thing::NameOfOutside => {
                    std::fs::hard_link(target.parent().unwrap().join(OUTSIDE).join("file"), &at)
                        .unwrap();
                }
                Thing::Link(_) => {
                    symlink(String::from_utf8(object.content()).unwrap(), &at).unwrap();
                }
                Thing::Fifo => crate::testkit::build::node(&at, FileType::Fifo, 0),
                Thing::Directory | Thing::NotEntered => std::fs::create_dir(&at).unwrap(),
                Thing::NameOf(number) => {
                    first.insert(number, path);
                    std::fs::write(&at, object.content()).unwrap();
                }
                Thing::File(_) | Thing::Unread => std::fs::write(&at, object.content()).unwrap(),
            }
        }
        self.dress(target);
    }

    /// Attributes, from the leaves upward.
    fn dress(&self, target: &Path) {
        for path in PATHS.into_iter().rev() {
            let Some(object) = self.0.get(path) else { continue };
            let (at, object) = (target.join(path), object.as_named());
            if matches!(object.thing, Thing::NameOfOutside) {
                continue;
            }
            lchown(&at, Some(object.owner), Some(object.owner)).unwrap();
            if !matches!(object.thing, Thing::Link(_)) {
                let mode = PermissionsExt::from_mode(object.mode.into());
                std::fs::set_permissions(&at, mode).unwrap();
            }
            crate::testkit::build::set_mtime(&at, object.time, 0);
            if object.may_be_locked() {
                lock(&at, true);
            }
        }
    }
}

impl Object {
    fn as_named(&self) -> Self {
        match self.thing {
            Thing::NameOf(number) => Self::of_file(number),
            _ => self.clone(),
        }
    }
}

/// Locks or unlocks a file or directory.
pub(crate) fn lock(path: &Path, is_locked: bool) {
    let open = rustix::fs::open(path, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()).unwrap();
    let flags = if is_locked { IFlags::IMMUTABLE } else { IFlags::empty() };
    rustix::fs::ioctl_setflags(&open, flags).unwrap();
}

/// What stands beside each target.
pub(crate) fn make_outside(folder: &Path) {
    let outside = folder.join(OUTSIDE);
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "outside").unwrap();
    std::fs::write(outside.join("other"), "other").unwrap();
    chown(outside.join("file"), Some(1234), Some(1234)).unwrap();
    crate::testkit::build::set_mtime(&outside.join("file"), 2_000, 0);
}
