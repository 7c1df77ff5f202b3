//! Calls that rustix does not have. The only unsafe code of this crate.
#![allow(unsafe_code, reason = "raw system calls that rustix 1.1 lacks")]

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{Errno, Result};

/// Class and priority as `ioprio_set` takes them: class in the upper bits.
pub(crate) const IOPRIO_CLASS_IDLE: libc::c_int = 3 << 13;
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
/// `cachestat` has one number on every architecture (since Linux 6.5).
const SYS_CACHESTAT: libc::c_long = 451;

fn check(result: libc::c_long) -> Result<()> {
    if result == -1 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Puts the calling thread, and threads it starts later, into the idle I/O class.
pub(crate) fn set_io_idle() -> Result<()> {
    // SAFETY: three integers; 0 means the calling thread. No memory is touched.
    check(unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_IDLE) })
}

/// I/O class and level of the calling thread, as [`set_io_idle`] sets them.
#[cfg(test)]
pub(crate) fn io_class() -> Result<libc::c_long> {
    // SAFETY: two integers; 0 means the calling thread. No memory is touched.
    let class = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) };
    check(class).map(|()| class)
}

/// Writes the dirty pages of a file back and waits, without its metadata and without a flush.
pub(crate) fn write_back(file: BorrowedFd<'_>) -> Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: a borrowed, hence open, descriptor and integers (0, 0 = the whole file).
    check(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) }.into())
}

/// Pages of a range of a file that are in the page cache.
pub(crate) fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<u64> {
    let range = [offset, length];
    let mut answer = [0_u64; 5]; // struct cachestat: cache, dirty, writeback, evicted, recent
    // SAFETY: both pointers are to live arrays of the size that the kernel reads and writes
    // (struct cachestat_range is two u64, struct cachestat five).
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), answer.as_mut_ptr(), 0)
    };
    check(result).map(|()| answer[0])
}

/// `FS_IOC_GETFSUUID`: any file system that has a UUID (since Linux 6.9).
const GET_UUID: libc::c_ulong = 0x8011_1500;
/// `XFS_IOC_FSGEOMETRY_V1`: the UUID stands behind 64 bytes of numbers.
const XFS_GEOMETRY: libc::c_ulong = 0x8070_5864;

/// The UUID of the file system on which `file`, open for reading, lies.
pub(crate) fn file_system_uuid(file: BorrowedFd<'_>) -> Result<[u8; 16]> {
    let mut answer = [0_u8; 17]; // struct fsuuid2: length, uuid
    // SAFETY: the request says that the kernel writes 17 bytes; the array has as many.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), GET_UUID as _, answer.as_mut_ptr()) };
    check(result.into())?;
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&answer[1..]);
    if answer[0] == 16 { Ok(uuid) } else { Err(Errno::NODATA) }
}

/// The same of XFS, by any kernel.
pub(crate) fn xfs_uuid(file: BorrowedFd<'_>) -> Result<[u8; 16]> {
    let mut geometry = [0_u64; 14]; // struct xfs_fsop_geom_v1: 112 bytes
    // SAFETY: the request says that the kernel writes 112 bytes; the array has as many.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), XFS_GEOMETRY as _, geometry.as_mut_ptr()) };
    check(result.into())?;
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&geometry[8].to_ne_bytes());
    uuid[8..].copy_from_slice(&geometry[9].to_ne_bytes());
    Ok(uuid)
}

/// `FS_IOC_FIEMAP`: where a file lies on a disk.
const FIEMAP: libc::c_ulong = 0xc020_660b;

/// Whether the file system of `file` can tell where its first byte lies. One in memory cannot.
pub(crate) fn has_extents(file: BorrowedFd<'_>) -> bool {
    // struct fiemap: start, length, flags and count of extents found, room for extents (none).
    let mut request = [0_u64, 1, 0, 0];
    // SAFETY: the request says that the kernel reads and writes 32 bytes; the array has as many, and asks for no
    // extent.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, request.as_mut_ptr()) };
    check(result.into()).is_ok()
}

/// Gives up root in this thread alone (glibc's wrapper would do it in all).
#[cfg(test)]
pub(crate) fn become_user(uid: u32) {
    // SAFETY: three integers; no memory is touched.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }).unwrap();
}

/// A lease for writing, until it is dropped. Whoever opens the file meanwhile asks for it with a signal that does
/// nothing, instead of one that ends the process. `None` where there are no leases.
#[cfg(test)]
pub(crate) fn lease(file: std::fs::File) -> Option<impl Drop> {
    struct Lease(std::fs::File);
    impl Drop for Lease {
        fn drop(&mut self) {
            // SAFETY: an open descriptor and two integers; no memory is touched.
            let _ = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        }
    }
    const SET_SIGNAL: libc::c_int = 10; // F_SETSIG
    let descriptor = file.as_raw_fd();
    // SAFETY: an open descriptor and two integers; no memory is touched.
    check(unsafe { libc::fcntl(descriptor, SET_SIGNAL, libc::SIGWINCH) }.into()).ok()?;
    // SAFETY: the same.
    check(unsafe { libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_WRLCK) }.into()).ok()?;
    Some(Lease(file))
}

/// The first byte of a file through a shared mapping, for the test of the racy rule.
#[cfg(test)]
pub(crate) struct SharedByte(*mut u8);

#[cfg(test)]
impl SharedByte {
    const LENGTH: usize = 4096;

    /// The file must have a page.
    pub(crate) fn of(file: &std::fs::File) -> Self {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else knows it.
        let address =
            unsafe { mmap(std::ptr::null_mut(), Self::LENGTH, access, MapFlags::SHARED, file, 0) };
        SharedByte(address.unwrap().cast())
    }

    pub(crate) fn store(&self, value: u8) {
        // SAFETY: the mapping lives as long as self and has at least one byte.
        unsafe { self.0.write_volatile(value) }
    }
}

#[cfg(test)]
impl Drop for SharedByte {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length, and nobody uses it after self.
        let _ = unsafe { rustix::mm::munmap(self.0.cast(), Self::LENGTH) };
    }
}
