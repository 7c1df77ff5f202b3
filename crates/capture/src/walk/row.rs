//! The attributes of one object: fixed size, no allocation.

use super::names::NamePosition;
use format::entry::{INODE_APPEND, INODE_IMMUTABLE, INODE_NODUMP, Kind, Time};
use rustix::fs::{FileType, Statx, StatxAttributes, StatxFlags, StatxTimestamp};

/// Why the walk did not enter a directory. The directory itself is included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NotEntered {
    /// It is on another file system, and the walk stays on one.
    OtherFileSystem,
    /// It is on a pseudo file system, like `/proc`.
    PseudoFileSystem,
    /// The same directory is among its own parents: a bind mount into itself.
    Cycle,
}

/// No unit of work hangs on this row.
pub(super) const NO_UNIT: u32 = u32::MAX;

/// The attributes of one object, from the kernel.
#[derive(Clone, Debug)]
pub struct Row {
    /// Kind of object.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of hard links.
    pub links: u32,
    /// Length in bytes, from the kernel (`Entry` has 0 for directories).
    pub size: u64,
    /// Bytes allocated on disk; fewer than `size` means holes.
    pub allocated: u64,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Inode number.
    pub inode: u64,
    /// When the inode was created, if the file system reports it.
    pub birth: Option<Time>,
    /// Device of its file system, as `st_dev`.
    pub device: u64,
    /// Device number of a device node, as `st_rdev`.
    pub rdev: u64,
    /// `INODE_*` flags.
    pub inode_flags: u32,
    /// Set for directories that were not entered.
    pub not_entered: Option<NotEntered>,
    /// The user named it: it is missed when it is gone.
    pub is_root: bool,
    /// A directory on the path to a root: only its attributes are included.
    pub is_parent_of_root: bool,
    /// It does not exist: a directory that `--as` requires.
    pub made_up: bool,
    pub(super) position: NamePosition,
    pub(super) child: u32,
}

impl Row {
    pub(super) fn from_statx(stat: &Statx, position: NamePosition) -> Self {
        Row {
            kind: kind_of(stat),
            mode: stat.stx_mode & 0o7777,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            links: stat.stx_nlink,
            size: stat.stx_size,
            allocated: stat.stx_blocks.saturating_mul(512),
            mtime: time_of(&stat.stx_mtime),
            ctime: time_of(&stat.stx_ctime),
            inode: stat.stx_ino,
            birth: birth_of(stat),
            device: device_of(stat),
            rdev: rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
            inode_flags: flags_of(stat.stx_attributes),
            not_entered: None,
            is_root: false,
            is_parent_of_root: false,
            made_up: false,
            position,
            child: NO_UNIT,
        }
    }

    /// The same object as it is now.
    pub(crate) fn refreshed(&self, stat: &Statx) -> Self {
        Row::from_statx(stat, self.position)
    }

    /// Whether size, times and inode show no change of the content.
    pub fn is_same_content(&self, other: &Row) -> bool {
        let key = |row: &Row| (row.size, row.mtime, row.ctime, row.inode, row.birth, row.device);
        key(self) == key(other)
    }

    /// A made-up directory, for a path of `--as` that does not exist.
    pub(super) fn made_up(position: NamePosition) -> Self {
        Row {
            kind: Kind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            links: 2,
            size: 0,
            allocated: 0,
            mtime: Time::default(),
            ctime: Time::default(),
            inode: 0,
            birth: None,
            device: 0,
            rdev: 0,
            inode_flags: 0,
            not_entered: None,
            is_root: false,
            is_parent_of_root: true,
            made_up: true,
            position,
            child: NO_UNIT,
        }
    }

    /// Whether it may have holes.
    pub fn is_sparse(&self) -> bool {
        self.allocated < self.size
    }
}

pub(super) fn device_of(stat: &Statx) -> u64 {
    rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

fn kind_of(stat: &Statx) -> Kind {
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => Kind::File,
    }
}

fn time_of(stamp: &StatxTimestamp) -> Time {
    // No file system has more, but one in user space may report it.
    Time { secs: stamp.tv_sec, nanos: stamp.tv_nsec.min(999_999_999) }
}

/// Some file systems report a birth time that is always zero.
fn birth_of(stat: &Statx) -> Option<Time> {
    let is_told = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let birth = time_of(&stat.stx_btime);
    (is_told && birth != Time::default()).then_some(birth)
}

fn flags_of(attributes: StatxAttributes) -> u32 {
    let known = [
        (StatxAttributes::IMMUTABLE, INODE_IMMUTABLE),
        (StatxAttributes::APPEND, INODE_APPEND),
        (StatxAttributes::NODUMP, INODE_NODUMP),
    ];
    known.iter().filter(|(bit, _)| attributes.contains(*bit)).map(|(_, flag)| flag).sum()
}
