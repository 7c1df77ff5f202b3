//! One object of a snapshot, as all crates use it. `leaf` defines its bytes in a page.

use ids::ObjectId;
use std::cmp::Ordering;
use std::sync::Arc;

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Regular file.
    File = 0,
    /// Directory.
    Directory = 1,
    /// Symbolic link.
    Symlink = 2,
    /// Named pipe.
    Fifo = 3,
    /// Socket: recorded, restored as a socket inode.
    Socket = 4,
    /// Character device.
    CharDevice = 5,
    /// Block device.
    BlockDevice = 6,
}

impl Kind {
    /// The kind with this number; `None` when there is none.
    pub fn from_u8(value: u8) -> Option<Self> {
        use Kind::*;
        [File, Directory, Symlink, Fifo, Socket, CharDevice, BlockDevice]
            .get(usize::from(value))
            .copied()
    }
}

/// A time of the file system: seconds since 1970 (may be negative) and nanoseconds (0..10^9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time {
    /// Seconds since 1970-01-01 UTC.
    pub secs: i64,
    /// Nanoseconds, always counted forward.
    pub nanos: u32,
}

/// An extended attribute; POSIX ACLs and capabilities are such attributes too.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Xattr {
    /// Full name with its namespace, e.g. `user.mime_type`.
    pub name: Vec<u8>,
    /// Value as the kernel gave it.
    pub value: Vec<u8>,
}

/// Attributes that many entries share: a page stores each distinct set once.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Attributes {
    /// What the object is.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky (12 bits).
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Owner's name at the time; empty when unknown.
    pub user: Vec<u8>,
    /// Group's name at the time; empty when unknown.
    pub group: Vec<u8>,
    /// Identity of the file system, the same after a restart; 0 when nothing is known. No two
    /// file systems of one snapshot have the same.
    pub file_system: u64,
    /// Inode flags, see `INODE_*`.
    pub inode_flags: u32,
    /// Extended attributes sorted by name. Empty while they are stored as chunks.
    pub xattrs: Vec<Xattr>,
    /// The chunks in which many or large extended attributes lie (see [`crate::xattrs`]); mostly
    /// empty.
    pub xattr_runs: Vec<Segment>,
    /// Fields of later versions, passed on unchanged; mostly empty.
    pub extension: Vec<u8>,
}

impl Attributes {
    /// Attributes with `kind` and `mode`; everything else is empty.
    pub fn new(kind: Kind, mode: u16) -> Self {
        Self {
            kind,
            mode,
            uid: 0,
            gid: 0,
            user: Vec::new(),
            group: Vec::new(),
            file_system: 0,
            inode_flags: 0,
            xattrs: Vec::new(),
            xattr_runs: Vec::new(),
            extension: Vec::new(),
        }
    }
}

/// Inode flag: cannot be changed (`chattr +i`).
pub const INODE_IMMUTABLE: u32 = 1;
/// Inode flag: can only be appended to (`chattr +a`).
pub const INODE_APPEND: u32 = 2;
/// Inode flag: not for dump (`chattr +d`).
pub const INODE_NODUMP: u32 = 4;

/// Status: racy, so the next backup reads it again whatever its times say.
pub const STATUS_RACY: u8 = 1;
/// Status: changed while it was read, even after retries.
pub const STATUS_CHANGED: u8 = 2;
/// Status: parts could not be read; they are holes here.
pub const STATUS_PARTIAL: u8 = 4;
/// Status, beside [`STATUS_PARTIAL`]: only extended attributes could not be read; the content is whole.
pub const STATUS_WHOLE_CONTENT: u8 = 16;
/// Status of a directory: the backup did not look into it, because another file system begins there.
pub const STATUS_NOT_ENTERED: u8 = 8;

/// A run of a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Segment {
    /// Bytes of a chunk: its id and its length.
    Data(ObjectId, u32),
    /// A hole of this many bytes.
    Hole(u64),
}

impl Segment {
    /// Bytes of the file that it covers.
    pub fn length(&self) -> u64 {
        match self {
            Segment::Data(_, length) => u64::from(*length),
            Segment::Hole(length) => *length,
        }
    }

    /// The chunk that it refers to.
    pub fn id(&self) -> Option<ObjectId> {
        match self {
            Segment::Data(id, _) => Some(*id),
            Segment::Hole(_) => None,
        }
    }
}

/// What is in an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Content {
    /// Nothing (directories, devices, empty files).
    #[default]
    None,
    /// The bytes themselves: tiny files, link targets.
    Inline(Vec<u8>),
    /// Runs in file order.
    Segments(Arc<[Segment]>),
    /// Pages that list the runs, in file order: for files of very many chunks.
    Lists(Arc<[ObjectId]>),
}

/// One object of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Names joined by `/`, no leading one; any bytes but NUL. Sorts by [`compare_paths`].
    pub path: Vec<u8>,
    /// Attributes, which other entries may share.
    pub attributes: Arc<Attributes>,
    /// Length in bytes; of a symlink the target's; 0 for the rest.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the inode; only compared, never restored.
    pub ctime: Time,
    /// Inode number; see [`Entry::link_group`].
    pub inode: u64,
    /// When the inode was made, where the file system tells: an inode number that is used again
    /// has another one.
    pub birth: Option<Time>,
    /// Number of hard links.
    pub links: u32,
    /// Device number as `st_rdev` (devices only).
    pub rdev: u64,
    /// `STATUS_*` bits.
    pub status: u8,
    /// What is in it.
    pub content: Content,
    /// Fields of later versions, passed on unchanged; mostly empty.
    pub extension: Vec<u8>,
}

/// What the names of one file have in common in a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct LinkGroup {
    /// The file system.
    pub file_system: u64,
    /// The inode.
    pub inode: u64,
    /// When the inode was made; where nothing tells, its last change.
    pub since: Time,
    /// The length, and the time of the content: snapshots of a file system that are read beside it may have the same
    /// inodes, made at the same time, with other content.
    pub size: u64,
    /// See `size`.
    pub mtime: Time,
}

impl Entry {
    /// An entry without size, times and content.
    pub fn new(path: &[u8], attributes: Arc<Attributes>) -> Self {
        Self {
            path: path.to_vec(),
            attributes,
            size: 0,
            mtime: Time::default(),
            ctime: Time::default(),
            inode: 0,
            birth: None,
            links: 1,
            rdev: 0,
            status: 0,
            content: Content::None,
            extension: Vec::new(),
        }
    }

    /// The group of names that this one belongs to when `links` is more than 1 (F-6.16). Without a time of
    /// birth the last change stands for it: an inode that was used again while the snapshot was
    /// made must not pass for the one before.
    pub fn link_group(&self) -> LinkGroup {
        let since = self.birth.unwrap_or(self.ctime);
        let (file_system, inode) = (self.attributes.file_system, self.inode);
        LinkGroup { file_system, inode, since, size: self.size, mtime: self.mtime }
    }

    /// Whether parts of the content may be missing. Older versions did not tell that from missing attributes.
    pub fn may_lack_content(&self) -> bool {
        self.kind() == Kind::File
            && self.status & (STATUS_PARTIAL | STATUS_WHOLE_CONTENT) == STATUS_PARTIAL
    }

    /// The last name of the path.
    pub fn name(&self) -> &[u8] {
        let start = self.path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        self.path.get(start..).unwrap_or_default()
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.attributes.kind
    }
}

/// Orders paths as a walk meets them: `/` sorts below every other byte, so that what is in a
/// directory follows it at once.
pub fn compare_paths(left: &[u8], right: &[u8]) -> Ordering {
    let common = common_bytes(left, right);
    match (left.get(common), right.get(common)) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(b'/'), Some(_)) => Ordering::Less,
        (Some(_), Some(b'/')) => Ordering::Greater,
        (Some(a), Some(b)) => a.cmp(b),
    }
}

/// How many bytes both begin with. Neighbors share most of their paths: word by word is faster.
pub(crate) fn common_bytes(left: &[u8], right: &[u8]) -> usize {
    let (words, _) = left.as_chunks::<8>();
    let words = words.iter().zip(right.as_chunks::<8>().0).take_while(|(a, b)| a == b).count() * 8;
    let tail = |path| <[u8]>::get(path, words..).unwrap_or_default();
    words + tail(left).iter().zip(tail(right)).take_while(|(a, b)| a == b).count()
}

/// Whether `path` may stand in a snapshot: relative, no empty, `.` or `..` names, no NUL.
pub fn is_clean_path(path: &[u8]) -> bool {
    !path.contains(&0)
        && path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_directory_follows_it_at_once() {
        let mut paths: Vec<&[u8]> = vec![b"a.b", b"a/z", b"a", b"a-b", b"a/b/c", b"a/b"];
        paths.sort_by(|a, b| compare_paths(a, b));
        assert_eq!(paths, [&b"a"[..], b"a/b", b"a/b/c", b"a/z", b"a-b", b"a.b"]);
    }

    #[test]
    fn common_bytes_are_counted_to_the_first_difference_wherever_it_is() {
        let path: Vec<u8> = (1..40).collect();
        for (length, at) in (0..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
            let (left, mut right) = (&path[..length], path[..length].to_vec());
            assert_eq!(common_bytes(left, &right), length);
            assert_eq!(common_bytes(left, &right[..at]), at);
            right[at] = 0;
            assert_eq!(common_bytes(left, &right), at);
        }
    }

    #[test]
    fn hostile_paths_are_not_clean() {
        for path in [&b""[..], b"/etc", b"a//b", b"a/", b"../x", b"a/..", b"a/./b", b"a\0b"] {
            assert!(!is_clean_path(path), "{path:?}");
        }
        assert!(is_clean_path(b"a/..b/\xff\n"));
    }
}
