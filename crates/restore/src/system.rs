//! System calls, in the form that this crate needs.

use format::entry::{Kind, Time};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::{Errno, Result};

/// How much the clock of a file server may be ahead of ours.
const CLOCKS_DIFFER_SECS: i64 = 3600;

/// Flags for every directory: the last name is never followed.
pub(crate) const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Flags to inspect an object without opening it.
pub(crate) const ONLY_PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Flags to read an object, so that FIFOs do not block and terminals do not attach.
pub(crate) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// What is asked of an object.
const WANTED: StatxFlags =
    StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// `PATH_MAX` is 4,096 with the final NUL; a piece of a path stays below it.
const MAX_PIECE: usize = 4_000;

/// The attributes of the object at a name, without following links.
pub(crate) fn stat_at(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(directory, name, flags, WANTED)
}

/// The attributes of an open object.
pub(crate) fn stat_open(object: BorrowedFd<'_>) -> Result<Statx> {
    rustix::fs::statx(object, "", AtFlags::EMPTY_PATH, WANTED)
}

pub(crate) fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(u32::from(stat.stx_mode))
}

/// The length of a regular file; 0 for any other object.
pub(crate) fn file_bytes(stat: &Statx) -> u64 {
    if file_type(stat) == FileType::RegularFile { stat.stx_size } else { 0 }
}

/// The kind, as snapshots record it.
pub(crate) fn kind(stat: &Statx) -> Option<Kind> {
    Some(match file_type(stat) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => return None,
    })
}

/// The 12 permission bits.
pub(crate) fn mode(stat: &Statx) -> u32 {
    u32::from(stat.stx_mode) & 0o7777
}

pub(crate) fn mtime(stat: &Statx) -> Time {
    Time { secs: stat.stx_mtime.tv_sec, nanos: stat.stx_mtime.tv_nsec }
}

/// When the inode was created. File systems that do not record it (NFS 3, FAT on old kernels) give
/// the last change instead, which is never earlier.
pub(crate) fn birth_time(stat: &Statx) -> Time {
    let time = if has_birth_time(stat) { stat.stx_btime } else { stat.stx_ctime };
    Time { secs: time.tv_sec, nanos: time.tv_nsec }
}

pub(crate) fn has_birth_time(stat: &Statx) -> bool {
    stat.stx_mask & StatxFlags::BTIME.bits() != 0
}

/// Whether it was born after `started`. What was born in the future was not: the clock was ahead then, or is behind
/// now.
pub(crate) fn is_born_after(stat: &Statx, started: Time) -> bool {
    let birth = birth_time(stat);
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    birth > started && birth.secs <= now() + CLOCKS_DIFFER_SECS
}

/// Number of the file system.
pub(crate) fn device(stat: &Statx) -> u64 {
    rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

/// Number of the mount through which it was reached; unknown before Linux 5.8.
pub(crate) fn mount(stat: &Statx) -> Option<u64> {
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

/// Device number of a device node.
pub(crate) fn rdev(stat: &Statx) -> u64 {
    rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor)
}

pub(crate) fn same_inode(left: &Statx, right: &Statx) -> bool {
    identity(left) == identity(right)
}

/// Device and inode.
pub(crate) fn identity(stat: &Statx) -> (u64, u64) {
    (device(stat), stat.stx_ino)
}

/// Opens the directory at `path` below `root` without following any symlink, piece by piece
/// where the path is longer than the kernel takes.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let (mut piece, mut rest) = first_piece(path);
    let mut open = open_piece(root, piece, flags)?;
    while !rest.is_empty() {
        (piece, rest) = first_piece(rest);
        open = open_piece(open.as_fd(), piece, flags)?;
    }
    Ok(open)
}

/// Splits at the last `/` so that the piece fits.
fn first_piece(path: &[u8]) -> (&[u8], &[u8]) {
    if path.len() <= MAX_PIECE {
        return (path, &[]);
    }
    match path[..MAX_PIECE].iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, &[]), // a single name that is too long: the kernel rejects it
    }
}

fn open_piece(from: BorrowedFd<'_>, piece: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(from, piece, DIRECTORY | flags, Mode::empty(), resolve) {
        // Before Linux 5.6, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_name_by_name(from, piece, flags),
        result => result,
    }
}

/// The same for old kernels: name by name, following no link.
fn open_name_by_name(from: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let mut open = None::<OwnedFd>;
    for name in path.split(|byte| *byte == b'/') {
        let at = open.as_ref().map_or(from, |fd| fd.as_fd());
        open = Some(rustix::fs::openat(at, name, DIRECTORY | flags, Mode::empty())?);
    }
    open.ok_or(Errno::NOENT)
}

/// Up to `limit` names in the directory, in no order, without those in `except`.
pub(crate) fn list(
    directory: BorrowedFd<'_>,
    limit: usize,
    except: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for item in Dir::read_from(directory)? {
        let item = item?;
        let name = item.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && !except(name) {
            names.push(name.to_vec());
        }
        if names.len() >= limit {
            break;
        }
    }
    Ok(names)
}

/// Writes everything at the position of the file.
pub(crate) fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes everything at an offset.
pub(crate) fn write_all_at(file: BorrowedFd<'_>, mut offset: u64, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_cut_between_names() {
        let path = vec![&b"abcdefg"[..]; 1_500].join(&b'/');
        let (piece, rest) = first_piece(&path);
        assert!(piece.len() <= MAX_PIECE && piece.len() > MAX_PIECE - 9);
        assert_eq!([piece, rest].join(&b'/'), path);
    }

    #[test]
    fn old_kernels_refuse_symlinks_too() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        let root = std::fs::File::open(folder.path()).unwrap();
        let flags = OFlags::RDONLY;
        assert!(open_name_by_name(root.as_fd(), b"a/b", flags).is_ok());
        assert!(open_name_by_name(root.as_fd(), b"link/b", flags).is_err());
        assert!(open_beneath(root.as_fd(), b"link/b", flags).is_err());
        assert!(open_beneath(root.as_fd(), b"../..", flags).is_err());
    }
}
