//! The identity of the file system of an object: a number that stays the same after a restart, in
//! every run, and whatever other file systems exist. Determined once per file system.
//!
//! | what | known by |
//! |---|---|
//! | ext2 to ext4, Btrfs, ZFS, bcachefs | type and `f_fsid`, which is made of the UUID (and the subvolume) |
//! | what else has a UUID and tells it (XFS, F2FS, tmpfs) | type and UUID |
//! | all others (NFS, CIFS, FUSE, overlay, vfat) | type and the path at which the walk met it first |
//!
//! A second one that would be known by the same (a clone, two overlays, a subvolume without a
//! number) is known by its path, too: no two of a snapshot are one.

use super::directory::Directory;
use super::row::Row;
use crate::syscalls;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fstatfs, fstatvfs, openat, statx};
use rustix::io::Result;
use std::ffi::CStr;
use std::sync::Arc;

/// Types whose `f_fsid` is made of what lies on the disk, not of the number of a device.
const FSID_IS_STABLE: [u32; 4] = [0xef53, 0x9123_683e, 0x2fc1_2fc1, 0xca45_1a4e];
/// Has a UUID that is another one after each mount.
const OVERLAY: u32 = 0x794c_7630;
const XFS: u32 = 0x5846_5342;

/// The file systems that were found.
#[derive(Default)]
pub(super) struct FileSystems {
    by_device: FxHashMap<u64, u64>,
    taken: FxHashSet<u64>,
    last: Option<(u64, u64)>,
}

impl FileSystems {
    /// The identity for the object `row`, which is `name` in `directory` and `path` in the
    /// snapshot.
    pub(super) fn of(
        &mut self,
        row: &Row,
        directory: &Arc<Directory>,
        name: &CStr,
        path: &[u8],
    ) -> u64 {
        match self.last {
            Some((last, number)) if last == row.device => number,
            _ => self.look_up(row, directory, name, path),
        }
    }

    fn look_up(&mut self, row: &Row, directory: &Arc<Directory>, name: &CStr, path: &[u8]) -> u64 {
        if row.made_up {
            return 0;
        }
        let number = match self.by_device.get(&row.device) {
            Some(known) => *known,
            None => self.met(row.device, &identity(row, directory, name), path),
        };
        self.last = Some((row.device, number));
        number
    }

    fn met(&mut self, device: u64, identity: &Identity, path: &[u8]) -> u64 {
        let alone = hash(&[&identity.kind.to_le_bytes(), &identity.unique]);
        let here = hash(&[&identity.kind.to_le_bytes(), &identity.unique, b"\0", path]);
        let is_known_alone = !identity.unique.is_empty() && !self.taken.contains(&alone);
        let mut number = if is_known_alone { alone } else { here };
        // Mounts over each other, or two of 2^64 that are equal by chance.
        while number == 0 || !self.taken.insert(number) {
            number = number.wrapping_add(1);
        }
        self.by_device.insert(device, number);
        number
    }
}

/// What a file system reports about itself.
#[derive(Default)]
struct Identity {
    kind: u32,
    /// Empty if it reports nothing that is stable.
    unique: Vec<u8>,
}

/// If nothing can be determined, the path identifies it.
fn identity(row: &Row, directory: &Arc<Directory>, name: &CStr) -> Identity {
    ask(row, directory, name).unwrap_or_default()
}

fn ask(row: &Row, directory: &Arc<Directory>, name: &CStr) -> Result<Identity> {
    let parent = directory.handle()?;
    // Nothing is read, and no automount is triggered.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let object = directory.sparing_descriptors(|| openat(&parent, name, flags, Mode::empty()))?;
    if !is_on(&object, row.device) {
        return Ok(Identity::default());
    }
    let kind = fstatfs(&object)?.f_type as u32;
    if FSID_IS_STABLE.contains(&kind) {
        let fsid = fstatvfs(&object)?.f_fsid;
        let unique = if fsid == 0 { Vec::new() } else { fsid.to_le_bytes().to_vec() };
        return Ok(Identity { kind, unique });
    }
    let unique = if kind == OVERLAY { None } else { uuid(row, &parent, &object, kind) };
    Ok(Identity { kind, unique: unique.unwrap_or_default() })
}

fn is_on(object: &OwnedFd, device: u64) -> bool {
    let stat = statx(object, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    stat.is_ok_and(|stat| super::row::device_of(&stat) == device)
}

/// Queries through a directory of the file system: no other object may be opened for that.
fn uuid(row: &Row, parent: &OwnedFd, object: &OwnedFd, kind: u32) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let itself = openat(object, c".", flags, Mode::empty()).ok();
    let of = itself.as_ref().or(is_on(parent, row.device).then_some(parent))?;
    let uuid = match syscalls::file_system_uuid(of.as_fd()) {
        Err(_) if kind == XFS => syscalls::xfs_uuid(of.as_fd()),
        told => told,
    };
    let uuid = uuid.ok()?;
    (uuid != [0; 16]).then_some(uuid.to_vec())
}

/// FNV-1a: the same on every machine and in every version.
fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(systems: &mut FileSystems, device: u64, unique: &[u8], path: &[u8]) -> u64 {
        systems.met(device, &Identity { kind: 7, unique: unique.to_vec() }, path)
    }

    #[test]
    fn what_has_a_number_of_its_own_is_known_by_it_wherever_it_is_met() {
        let (mut first, mut second) = (FileSystems::default(), FileSystems::default());
        let (home, var) = (met(&mut first, 1, b"h", b"home"), met(&mut first, 2, b"v", b"var"));
        assert_ne!(home, var);
        met(&mut second, 1, b"new", b"data");
        assert_eq!(met(&mut second, 9, b"h", b"srv/home"), home);
        assert_eq!(met(&mut second, 8, b"v", b"var"), var);
    }

    #[test]
    fn what_has_none_is_known_by_its_place_and_clones_are_told_apart() {
        let mut systems = FileSystems::default();
        let numbers = [
            met(&mut systems, 1, b"", b"a"),
            met(&mut systems, 2, b"", b"b"),
            met(&mut systems, 3, b"clone", b"c"),
            met(&mut systems, 4, b"clone", b"d"),
            met(&mut systems, 5, b"clone", b"d"),
        ];
        let distinct: FxHashSet<u64> = numbers.into_iter().collect();
        assert_eq!(distinct.len(), numbers.len(), "{numbers:?}");
        assert_eq!(met(&mut FileSystems::default(), 77, b"", b"a"), numbers[0]);
    }
}
