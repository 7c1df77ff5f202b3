//! What is below a directory, with all that a restore may change.

use super::shape::Object;
use format::entry::{Entry, Kind};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};
use std::collections::BTreeMap;
use std::path::Path;

/// All that a name has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: FileType,
    pub(crate) mode: u16,
    pub(crate) owner: u32,
    pub(crate) time: (i64, u32),
    pub(crate) content: Vec<u8>,
    pub(crate) inode: u64,
    pub(crate) is_locked: bool,
}

/// What is below a directory, whatever its name.
pub(crate) fn look(root: &Path) -> BTreeMap<String, Seen> {
    let mut all = BTreeMap::new();
    look_into(root, "", &mut all);
    all
}

fn look_into(directory: &Path, above: &str, all: &mut BTreeMap<String, Seen>) {
    for name in std::fs::read_dir(directory).unwrap() {
        let name = name.unwrap();
        let path = format!("{above}{}", name.file_name().to_str().unwrap());
        let seen = look_at(&name.path());
        if seen.kind == FileType::Directory {
            look_into(&name.path(), &format!("{path}/"), all);
        }
        all.insert(path, seen);
    }
}

fn look_at(path: &Path) -> Seen {
    let flags = StatxFlags::BASIC_STATS;
    let stat = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, flags).unwrap();
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    let content = match kind {
        FileType::RegularFile => std::fs::read(path).unwrap(),
        FileType::Symlink => {
            std::fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
        }
        _ => Vec::new(),
    };
    Seen {
        kind,
        mode: stat.stx_mode & 0o7777,
        owner: stat.stx_uid,
        time: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        content,
        inode: stat.stx_ino,
        is_locked: stat.stx_attributes.contains(rustix::fs::StatxAttributes::IMMUTABLE),
    }
}

impl Seen {
    /// Whether it is what the snapshot has.
    pub(crate) fn is(&self, entry: &Entry, object: &Object) -> bool {
        let attributes = &entry.attributes;
        let has_mode = entry.kind() == Kind::Symlink || self.mode == attributes.mode;
        self.is_like(entry, object)
            && has_mode
            && self.owner == attributes.uid
            && self.time == (entry.mtime.secs, entry.mtime.nanos)
            && self.is_locked == (attributes.inode_flags != 0)
    }

    /// The same but for attributes.
    pub(crate) fn is_like(&self, entry: &Entry, object: &Object) -> bool {
        let kind = match entry.kind() {
            Kind::Directory => FileType::Directory,
            Kind::Symlink => FileType::Symlink,
            Kind::Fifo => FileType::Fifo,
            _ => FileType::RegularFile,
        };
        self.kind == kind && self.content == object.content()
    }
}
