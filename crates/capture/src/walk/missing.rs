//! Names that a directory lists and does not find: deleted meanwhile, or there and not to be had (names that a file
//! system of another machine cannot tell, damaged directories).

use super::batch::Listing;
use super::directory::open_quietly;
use super::list::BUFFER_BYTES;
use super::names::NamePosition;
use crate::gone;
use crate::problem::VANISHED;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, OFlags, RawDir, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::io::{Errno, Result};
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// A directory is listed again at most this often. After that, what it does not find counts as deleted: where so much
/// is missing, something was named before, or is deleted all the time.
const LISTED_AGAIN_MAX: u32 = 64;

impl Listing {
    /// What `look` finds after all at a name that gave `error`; [`VANISHED`] if it was deleted since it was listed.
    pub(super) fn look_again(
        &self,
        handle: &OwnedFd,
        position: NamePosition,
        error: Errno,
        look: impl Fn() -> Result<Statx>,
    ) -> Result<Statx> {
        let name = self.names.c_name(position);
        let told_apart = |error| gone::told_apart(&self.directory, name, error);
        if error != Errno::NOENT {
            return Err(told_apart(error));
        }
        if self.listed_again.fetch_add(1, Ordering::Relaxed) >= LISTED_AGAIN_MAX {
            return Err(VANISHED);
        }
        let before = change_times(handle)?;
        if !lists(handle, name)? {
            return Err(VANISHED);
        }
        match look() {
            // Where something was changed meanwhile, this name may have been.
            Err(Errno::NOENT) if change_times(handle)? != before => Err(VANISHED),
            Err(error) if error != Errno::NOENT => Err(told_apart(error)),
            result => result,
        }
    }
}

/// Whether the directory still lists this name. One that was deleted lists nothing.
fn lists(handle: &OwnedFd, name: &CStr) -> Result<bool> {
    match finds(handle, name) {
        Err(Errno::NOENT) => Ok(false),
        result => result,
    }
}

fn finds(handle: &OwnedFd, name: &CStr) -> Result<bool> {
    let directory = open_quietly(handle, c".", OFlags::DIRECTORY)?;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        if entry?.file_name() == name {
            return Ok(true);
        }
    }
    Ok(false)
}

fn change_times(directory: &OwnedFd) -> Result<[(i64, u32); 2]> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let stat = statx(directory, c"", flags, StatxFlags::MTIME | StatxFlags::CTIME)?;
    let time = |time: StatxTimestamp| (time.tv_sec, time.tv_nsec);
    Ok([time(stat.stx_mtime), time(stat.stx_ctime)])
}

#[cfg(test)]
mod tests {
    use super::super::directory::{Directory, DirectoryHandles};
    use super::super::names::Names;
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn listing(path: &Path) -> Listing {
        let directory =
            Directory::starting_at(path.as_os_str().as_bytes(), &DirectoryHandles::new());
        Listing::of(directory, Names::single(b"f"))
    }

    /// What comes of a name that a walk does not find, if `look` is what it finds then.
    fn looked(listing: &Listing, error: Errno, look: impl Fn() -> Result<Statx>) -> Result<Statx> {
        let handle = listing.directory.handle().unwrap();
        listing.look_again(&handle, listing.names.positions()[0], error, look)
    }

    #[test]
    fn what_is_listed_and_never_found_is_no_deleted_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::write(&file, "x").unwrap();
        let listing = listing(folder.path());
        let never = |error| looked(&listing, error, || Err(error)).map(|_| ());
        for error in [Errno::NOENT, Errno::STALE, Errno::IO] {
            assert_eq!(never(error), Err(error));
        }
        // It came back.
        let flags = AtFlags::empty();
        let there = || statx(rustix::fs::CWD, &file, flags, StatxFlags::BASIC_STATS);
        assert!(looked(&listing, Errno::NOENT, there).is_ok());
        // It went after it was listed again.
        let goes = || std::fs::remove_file(&file).map_or(Err(Errno::IO), |()| Err(Errno::NOENT));
        assert_eq!(looked(&listing, Errno::NOENT, goes).map(|_| ()), Err(VANISHED));
        // It is listed no more.
        assert_eq!(never(Errno::NOENT), Err(VANISHED));
        assert_eq!(never(Errno::STALE), Err(VANISHED));
    }

    #[test]
    fn a_deleted_directory_lists_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d");
        std::fs::create_dir(&path).unwrap();
        let listing = listing(&path);
        let _open = listing.directory.handle().unwrap();
        std::fs::remove_dir(&path).unwrap();
        let never = looked(&listing, Errno::NOENT, || Err(Errno::NOENT));
        assert_eq!(never.map(|_| ()), Err(VANISHED));
    }

    #[test]
    fn a_directory_is_listed_again_only_so_often() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "x").unwrap();
        let listing = listing(folder.path());
        let never = || looked(&listing, Errno::NOENT, || Err(Errno::NOENT)).map(|_| ());
        for _ in 0..LISTED_AGAIN_MAX {
            assert_eq!(never(), Err(Errno::NOENT));
        }
        assert_eq!(never(), Err(VANISHED));
    }
}
