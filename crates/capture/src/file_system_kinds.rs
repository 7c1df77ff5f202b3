//! What kind of file system a file lies on, as far as it matters for reading. Asked once in a walk for each device in a
//! row: the next walk may find another file system on that device.

use crate::overlay::{OVERLAY, Overlays};
use crate::syscalls;
use crate::walk::is_pseudo_kind;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, fadvise, fstatfs};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of file systems (`statfs(2)`): tmpfs, ramfs and hugetlbfs.
pub(crate) const MEMORY: [u32; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
/// FUSE, SMB and CIFS.
const BY_NAME: [u32; 3] = [0x6573_5546, 0xfe53_4d42, 0xff53_4d42];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Pages are never cleaned, so a store through a mapping never changes the times.
    Memory,
    /// Each file lies on one of several other file systems.
    Overlay,
    /// The system may have a cache of pages for each name of a file.
    ByName,
    /// The system generates the content.
    Pseudo,
    Other,
}

const KINDS: [Kind; 5] = [Kind::Memory, Kind::ByName, Kind::Overlay, Kind::Pseudo, Kind::Other];

/// The file systems of one walk.
#[derive(Debug, Default)]
pub(crate) struct FileSystemKinds {
    /// The device (plus one) of each kind that was asked about last.
    last: [AtomicU64; 5],
    overlays: Overlays,
}

impl FileSystemKinds {
    fn kind(&self, file: &OwnedFd, device: u64) -> Kind {
        let mark = device.wrapping_add(1);
        let mut known = self.last.iter().zip(KINDS);
        if let Some((_, kind)) = known.find(|(last, _)| last.load(Ordering::Relaxed) == mark) {
            return kind;
        }
        let Ok(answer) = fstatfs(file) else { return Kind::Other };
        let (number, kind) = match answer.f_type as u32 {
            it if MEMORY.contains(&it) => (0, Kind::Memory),
            it if BY_NAME.contains(&it) => (1, Kind::ByName),
            OVERLAY => (2, Kind::Overlay),
            it if is_pseudo_kind(it) => (3, Kind::Pseudo),
            _ => (4, Kind::Other),
        };
        self.last[number].store(mark, Ordering::Relaxed);
        kind
    }

    /// Whether what is stored through a mapping reaches a disk, and changes the times then.
    pub(crate) fn has_write_back(&self, file: &OwnedFd, device: u64) -> bool {
        match self.kind(file, device) {
            Kind::Memory => false,
            // The overlay hands the question on. What lies on a disk mostly has extents there; what lies in memory has
            // none, nor has what lies on some disks and in FUSE: then its layers are looked at.
            Kind::Overlay => {
                syscalls::has_extents(file.as_fd()) || self.overlays.lie_on_disks(file)
            }
            Kind::ByName | Kind::Pseudo | Kind::Other => true,
        }
    }

    /// Whether a file that is told to be empty may have content: in FUSE, and where the system generates it.
    pub(crate) fn may_hide_sizes(&self, file: &OwnedFd, device: u64) -> bool {
        matches!(self.kind(file, device), Kind::ByName | Kind::Pseudo)
    }

    /// Before a file with several names is read: where the system has a cache for each of them (NTFS-3G), this one may
    /// be from before somebody wrote through another name, and nothing but a look at the file itself would tell.
    pub(crate) fn forget_old_pages(&self, file: &OwnedFd, device: u64, links: u32) {
        if links > 1 && self.kind(file, device) == Kind::ByName {
            let _ = fadvise(file, 0, None, Advice::DontNeed); // what cannot be dropped is being written
        }
    }
}
