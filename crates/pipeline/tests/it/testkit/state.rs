//! The full state of a tree, and a comparison that people can read.

use rustix::fs::{self, AtFlags, FileType, OFlags, SeekFrom, StatxFlags};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Differences shown at most.
const SHOWN_MAX: usize = 20;

/// Everything of a tree that a restore must bring back, by path.
#[derive(Clone, Default)]
pub(crate) struct Tree(pub(crate) BTreeMap<Vec<u8>, Object>);

/// Names by file system and inode.
type Groups = BTreeMap<(u32, u32, u64), Vec<Vec<u8>>>;

/// All of one object, as lines that can be compared one by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Object(BTreeMap<&'static str, String>);

impl Object {
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The same without one attribute, for who does not care about it.
    pub(crate) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }
}

impl Tree {
    /// The state of the tree at `root`, which has the empty path.
    pub(crate) fn of(root: &Path) -> Self {
        let mut tree = Self::default();
        let mut groups = Groups::new();
        let mut left = vec![Vec::new()];
        while let Some(path) = left.pop() {
            let full = root.join(OsStr::from_bytes(&path));
            let object = look(&full, &path, &mut groups);
            if object.get("kind") == "Directory" {
                let names = std::fs::read_dir(&full).unwrap();
                left.extend(names.map(|name| join(&path, name.unwrap().file_name().as_bytes())));
            }
            tree.0.insert(path, object);
        }
        tree.name_groups(&groups);
        tree
    }

    /// A link group is called by its first name.
    fn name_groups(&mut self, groups: &Groups) {
        for names in groups.values() {
            let first = names.iter().min().unwrap();
            for name in names {
                let object = self.0.get_mut(name).unwrap();
                object.0.insert("links", format!("{} as {}", names.len(), first.escape_ascii()));
            }
        }
    }

    pub(crate) fn get(&self, path: &str) -> &Object {
        self.0.get(path.as_bytes()).unwrap_or_else(|| panic!("{path} is not there"))
    }

    /// The tree without what `gone` says.
    pub(crate) fn without(mut self, gone: impl Fn(&[u8]) -> bool) -> Self {
        self.0.retain(|path, _| !gone(path));
        self
    }
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

fn look(full: &Path, path: &[u8], groups: &mut Groups) -> Object {
    let stat =
        fs::statx(fs::CWD, full, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS).unwrap();
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    let mut object = BTreeMap::new();
    let kind_name = format!("{kind:?}").trim_start_matches("FileType::").to_owned();
    object.insert("kind", kind_name);
    object.insert("mode", format!("{:o}", stat.stx_mode & 0o7777));
    object.insert("owner", format!("{}:{}", stat.stx_uid, stat.stx_gid));
    object.insert("mtime", format!("{}.{:09}", stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec));
    object.insert("xattrs", xattrs(full));
    match kind {
        FileType::RegularFile => {
            object.insert("size", stat.stx_size.to_string());
            object.insert("content", content(full));
            object.insert("data", data_ranges(full, stat.stx_size));
            groups
                .entry((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino))
                .or_default()
                .push(path.to_vec());
        }
        FileType::Symlink => {
            let target = std::fs::read_link(full).unwrap();
            object.insert("target", target.as_os_str().as_bytes().escape_ascii().to_string());
        }
        FileType::CharacterDevice | FileType::BlockDevice => {
            object.insert("rdev", format!("{}:{}", stat.stx_rdev_major, stat.stx_rdev_minor));
        }
        _ => {}
    }
    if matches!(kind, FileType::RegularFile | FileType::Directory) {
        object.insert("flags", flags(full));
    }
    Object(object)
}

fn content(full: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut std::fs::File::open(full).unwrap(), &mut hasher).unwrap();
    hasher.finalize().to_hex()[..16].to_owned()
}

/// Where data lies, as the file system says; holes are what is between.
fn data_ranges(full: &Path, size: u64) -> String {
    let file = std::fs::File::open(full).unwrap();
    let (mut ranges, mut at) = (String::new(), 0);
    while at < size {
        let Ok(data) = fs::seek(&file, SeekFrom::Data(at)) else { break };
        at = fs::seek(&file, SeekFrom::Hole(data)).unwrap();
        ranges += &format!("{data}..{at} ");
    }
    ranges
}

fn xattrs(full: &Path) -> String {
    let path = CString::new(full.as_os_str().as_bytes()).unwrap();
    let mut names = vec![0; 64 << 10];
    let Ok(length) = fs::llistxattr(&path, &mut names[..]) else { return String::new() };
    let mut all: Vec<String> = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        let length = fs::lgetxattr(&path, name, &mut value[..]).unwrap();
        let sum = blake3::hash(&value[..length]).to_hex();
        all.push(format!("{}={}:{length}", name.escape_ascii(), &sum[..8]));
    }
    all.sort();
    all.join(" ")
}

/// Immutable, append-only and no-dump: what a user sets.
fn flags(full: &Path) -> String {
    let file = fs::open(full, OFlags::RDONLY | OFlags::NONBLOCK, fs::Mode::empty()).unwrap();
    let kept = fs::IFlags::IMMUTABLE | fs::IFlags::APPEND | fs::IFlags::NODUMP;
    fs::ioctl_getflags(&file).map_or(String::new(), |flags| format!("{:?}", flags & kept))
}

/// Panics with what differs, one line each.
pub(crate) fn assert_same(expected: &Tree, found: &Tree) {
    let lines = differences(expected, found);
    let shown: Vec<_> = lines.iter().take(SHOWN_MAX).map(String::as_str).collect();
    assert!(lines.is_empty(), "{} differences:\n{}", lines.len(), shown.join("\n"));
}

pub(crate) fn differences(expected: &Tree, found: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, object) in &expected.0 {
        let shown = path.escape_ascii();
        match found.0.get(path) {
            None => lines.push(format!("{shown}: missing")),
            Some(other) => {
                let of = |name: &&'static str| object.0.get(name) != other.0.get(name);
                let names = object.0.keys().chain(other.0.keys()).copied();
                let names: std::collections::BTreeSet<_> = names.filter(|name| of(name)).collect();
                lines.extend(names.iter().map(|name| {
                    format!("{shown}: {name} {:?} became {:?}", object.get(name), other.get(name))
                }));
            }
        }
    }
    let more = found.0.keys().filter(|path| !expected.0.contains_key(*path));
    lines.extend(more.map(|path| format!("{}: was not in the source", path.escape_ascii())));
    lines
}
