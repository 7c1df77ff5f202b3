//! What the walk knows of one object: fixed size, no allocation.

use super::names::NamePosition;
use format::entry::{INODE_APPEND, INODE_IMMUTABLE, INODE_NODUMP, Kind, Time};
use rustix::fs::{FileType, Statx, StatxAttributes, StatxFlags, StatxTimestamp};

/// Why the walk did not go into a directory. The directory itself is part of the walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NotEntered {
    /// Another file system, and the walk stays on one.
    OtherFileSystem,
    /// A file system of the kernel's own making, like `/proc`.
    PseudoFileSystem,
    /// The same directory is among its own parents: a bind mount into itself.
    Cycle,
}

/// No unit of work hangs on this row.
pub(super) const NO_UNIT: u32 = u32::MAX;

/// Attributes of one object as the kernel told them.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of hard links.
    pub links: u32,
    /// Length in bytes as the kernel tells it (`Entry` wants 0 for directories).
    pub size: u64,
    /// Bytes that it takes on disk; fewer than `size` means holes.
    pub allocated: u64,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Inode number.
    pub inode: u64,
    /// When the inode was made, where the file system tells.
    pub birth: Option<Time>,
    /// Device that it is on, as `st_dev`.
    pub device: u64,
    /// Device that it stands for, as `st_rdev`.
    pub rdev: u64,
    /// `INODE_*` flags.
    pub inode_flags: u32,
    /// Set on directories that were not entered.
    pub not_entered: Option<NotEntered>,
    /// A directory on the way to a root: its attributes are told, its content is not.
    pub is_parent_of_root: bool,
    /// No such object exists: a directory that `--as` asks for.
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

    /// Nothing tells that its content is another one.
    pub fn is_same_content(&self, other: &Row) -> bool {
        let key = |row: &Row| (row.size, row.mtime, row.ctime, row.inode, row.birth, row.device);
        key(self) == key(other)
    }

    /// A plain directory of root's: stands where `--as` names a place that no disk has.
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
            is_parent_of_root: true,
            made_up: true,
            position,
            child: NO_UNIT,
        }
    }

    /// Parts of it may be holes.
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
    // No file system has more; one in user space may say so.
    Time { secs: stamp.tv_sec, nanos: stamp.tv_nsec.min(999_999_999) }
}

/// Some file systems have a field for it and nothing in it.
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
