//! Inode flags: immutable, append-only, no-dump. Set last, cleared first.

use crate::problem::{Attribute, RestoreCause};
use crate::system::{self, READ};
use crate::target::Target;
use format::entry::{Entry, INODE_APPEND, INODE_IMMUTABLE, INODE_NODUMP, Kind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{IFlags, Mode, Statx, StatxAttributes, ioctl_getflags, ioctl_setflags};
use rustix::io::{Errno, Result};

/// `FS_CASEFOLD_FL`, which rustix does not name.
const CASEFOLD: u32 = 0x4000_0000;

const LOCKS: IFlags = IFlags::IMMUTABLE.union(IFlags::APPEND);
const RECORDED: IFlags = LOCKS.union(IFlags::NODUMP);

/// The recorded bits as flags of the kernel.
fn wanted(recorded: u32) -> IFlags {
    let pairs = [
        (INODE_IMMUTABLE, IFlags::IMMUTABLE),
        (INODE_APPEND, IFlags::APPEND),
        (INODE_NODUMP, IFlags::NODUMP),
    ];
    pairs.iter().filter(|(bit, _)| recorded & bit != 0).map(|(_, flag)| *flag).collect()
}

/// The flags of an object on disk, as recorded bits (part of any `statx`).
pub(crate) fn recorded(stat: &Statx) -> u32 {
    let pairs = [
        (StatxAttributes::IMMUTABLE, INODE_IMMUTABLE),
        (StatxAttributes::APPEND, INODE_APPEND),
        (StatxAttributes::NODUMP, INODE_NODUMP),
    ];
    let set = pairs.iter().filter(|(flag, _)| stat.stx_attributes.contains(*flag));
    set.fold(0, |bits, (_, bit)| bits | bit)
}

/// Whether backups leave it out that are asked to; some file systems give that to what is made in a directory.
pub(crate) fn is_nodump(stat: &Statx) -> bool {
    recorded(stat) & INODE_NODUMP != 0
}

/// Whether flags of this kind of object can be set at all: what a link or a FIFO inherited, it keeps.
pub(crate) fn has_flags(kind: Kind) -> bool {
    matches!(kind, Kind::File | Kind::Directory)
}

/// Whether flags forbid changes.
pub(crate) fn are_locked(stat: &Statx) -> bool {
    recorded(stat) & (INODE_IMMUTABLE | INODE_APPEND) != 0
}

/// What the snapshot lacks is deleted, but for what somebody has locked.
pub(crate) fn refuse_locked(stat: &Statx) -> std::result::Result<(), RestoreCause> {
    if are_locked(stat) { Err(RestoreCause::Locked) } else { Ok(()) }
}

pub(crate) fn clear_locks(object: BorrowedFd<'_>) -> Result<()> {
    let now = ioctl_getflags(object)?;
    ioctl_setflags(object, now.difference(LOCKS))
}

/// Sets the locks again that `before` had.
pub(crate) fn lock_again(object: BorrowedFd<'_>, before: &Statx) -> Result<()> {
    if !are_locked(before) {
        return Ok(());
    }
    let now = ioctl_getflags(object)?;
    ioctl_setflags(object, now.union(wanted(recorded(before)).intersection(LOCKS)))
}

/// Unlocks the object at a name, so that it can be replaced, changed or removed. If that fails, the
/// next operation reports it. Returns the object if it was locked.
pub(crate) fn unlock(directory: BorrowedFd<'_>, name: &[u8], stat: &Statx) -> Unlocked {
    let openable = rustix::fs::FileType::from_raw_mode(u32::from(stat.stx_mode));
    if !are_locked(stat) || !(openable.is_file() || openable.is_dir()) {
        return Unlocked(None);
    }
    let object = rustix::fs::openat(directory, name, READ, Mode::empty());
    let object = object.ok().filter(|object| clear_locks(object.as_fd()).is_ok());
    Unlocked(object.map(|object| (object, *stat)))
}

/// An object that was locked, and how it was.
#[derive(Default)]
pub(crate) struct Unlocked(Option<(OwnedFd, Statx)>);

impl Unlocked {
    /// Locks what still has a name: perhaps outside of the target, or the one that it was to lose.
    pub(crate) fn lock_what_stays(self) {
        let Some((object, before)) = self.0 else { return };
        let has_names = system::stat_open(object.as_fd()).is_ok_and(|now| now.stx_nlink > 0);
        if has_names {
            let _ = lock_again(object.as_fd(), &before);
        }
    }
}

/// Whether names that differ only in case or spelling may be one name in this directory.
pub(crate) fn folds_names(directory: BorrowedFd<'_>) -> bool {
    let flagged = ioctl_getflags(directory).is_ok_and(|flags| flags.bits() & CASEFOLD != 0);
    flagged || !is_usual(directory)
}

/// Whether an object lies on a file system that keeps all that a snapshot has.
pub(crate) fn is_usual(object: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(object).is_ok_and(|fs| USUAL.contains(&(fs.f_type as u32)))
}

/// File systems that fold names only where a flag says so: ext2 to ext4, xfs, btrfs, f2fs, bcachefs, tmpfs, ramfs,
/// overlayfs. Others (FAT, exFAT, NTFS, SMB, HFS+, ZFS, whatever is behind FUSE or NFS) may do it anywhere.
const USUAL: [u32; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0xca45_1a4e,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
];

impl Target {
    /// Sets the flags of the entry on an open object, if `now` differs.
    pub(crate) fn set_flags(&self, object: BorrowedFd<'_>, entry: &Entry, now: u32) {
        if now == entry.attributes.inode_flags {
            return;
        }
        if let Err(error) = put(object, wanted(entry.attributes.inode_flags)) {
            self.degrade(entry, Attribute::InodeFlags, error);
        }
    }
}

fn put(object: BorrowedFd<'_>, wanted: IFlags) -> Result<()> {
    let now = ioctl_getflags(object)?;
    let flags = now.difference(RECORDED).union(wanted);
    if flags == now {
        return Ok(());
    }
    match ioctl_setflags(object, flags) {
        Err(Errno::NOTTY) => Err(Errno::OPNOTSUPP), // a clearer error
        result => result,
    }
}

/// Sets the flags of the object at a name, through a new descriptor.
pub(crate) fn set_at(target: &Target, directory: BorrowedFd<'_>, name: &[u8], entry: &Entry) {
    let open = system::stat_at(directory, name)
        .and_then(|now| Ok((rustix::fs::openat(directory, name, READ, Mode::empty())?, now)));
    match open {
        Ok((object, now)) => target.set_flags(object.as_fd(), entry, recorded(&now)),
        Err(error) => target.degrade(entry, Attribute::InodeFlags, error),
    }
}
