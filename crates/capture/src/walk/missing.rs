//! Names that a directory lists and does not find: deleted meanwhile, or there and not to be had (names that a file
//! system of another machine cannot tell, damaged directories).

use super::batch::Listing;
use super::directory::{Directory, open_quietly};
use super::list::BUFFER_BYTES;
use super::names::{ListedType, NamePosition, Names};
use crate::gone;
use crate::problem::VANISHED;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, OFlags, RawDir, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::io::{Errno, Result};
use std::sync::Arc;

/// A directory that changes all the time is listed again at most this often. After that, what it does not find counts
/// as deleted.
const LISTED_AGAIN_MAX: usize = 64;
/// A large one less often, so that no more names than this are listed in all, but twice whatever it has.
const NAMES_LISTED_AGAIN: usize = 1 << 20;

/// The last listing of a directory in which names were missing.
#[derive(Debug, Default)]
pub(super) struct ListedAgain {
    names: Names,
    /// The times of the directory before it was listed.
    times: Option<ChangeTimes>,
    count: usize,
}

type ChangeTimes = [(i64, u32); 2];

impl ListedAgain {
    /// Whether the directory still lists this name. Listed again only if it changed since.
    fn lists(&mut self, listing: &Listing, handle: &OwnedFd, name: &[u8]) -> Result<bool> {
        if self.times.is_some() && self.names.find(name).is_none() {
            return Ok(false); // it was gone even then
        }
        let times = Some(change_times(handle)?);
        if self.times == times {
            return Ok(true);
        }
        let most = NAMES_LISTED_AGAIN / listing.names.len().max(1);
        if self.count >= most.clamp(2, LISTED_AGAIN_MAX) {
            return Ok(false);
        }
        self.count += 1;
        self.names = names_of(&listing.directory, handle)?;
        self.times = times;
        Ok(self.names.find(name).is_some())
    }
}

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
        let mut again = self.listed_again.lock();
        if !again.lists(self, handle, name.to_bytes())? {
            return Err(VANISHED);
        }
        let before = again.times;
        drop(again);
        match look() {
            // Where something was changed meanwhile, this name may have been.
            Err(Errno::NOENT) if Some(change_times(handle)?) != before => Err(VANISHED),
            Err(error) if error != Errno::NOENT => Err(told_apart(error)),
            result => result,
        }
    }
}

/// What the directory lists now. One that was deleted lists nothing.
fn names_of(directory: &Arc<Directory>, handle: &OwnedFd) -> Result<Names> {
    let open = directory.sparing_descriptors(|| open_quietly(handle, c".", OFlags::DIRECTORY));
    match open.and_then(|open| read_names(&open)) {
        Err(Errno::NOENT) => Ok(Names::default()),
        names => names,
    }
}

fn read_names(directory: &OwnedFd) -> Result<Names> {
    let mut names = Names::default();
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        names.push(entry?.file_name(), ListedType::Unknown);
    }
    names.sort();
    Ok(names)
}

fn change_times(directory: &OwnedFd) -> Result<ChangeTimes> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let stat = statx(directory, c"", flags, StatxFlags::MTIME | StatxFlags::CTIME)?;
    let time = |time: StatxTimestamp| (time.tv_sec, time.tv_nsec);
    Ok([time(stat.stx_mtime), time(stat.stx_ctime)])
}

#[cfg(test)]
mod tests {
    use super::super::directory::DirectoryHandles;
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

    fn times_listed(listing: &Listing) -> usize {
        listing.listed_again.lock().count
    }

    #[test]
    fn a_directory_in_which_much_is_missing_is_listed_again_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "x").unwrap();
        let there = listing(folder.path());
        let never = |listing: &Listing| looked(listing, Errno::NOENT, || Err(Errno::NOENT));
        for _ in 0..3 * LISTED_AGAIN_MAX {
            assert_eq!(never(&there).map(|_| ()), Err(Errno::NOENT));
        }
        assert_eq!(times_listed(&there), 1);
        std::fs::remove_file(folder.path().join("f")).unwrap();
        let gone = listing(folder.path());
        for number in 0..3 * LISTED_AGAIN_MAX {
            std::fs::write(folder.path().join(number.to_string()), "x").unwrap();
            assert_eq!(never(&gone).map(|_| ()), Err(VANISHED));
        }
        assert_eq!(times_listed(&gone), 1, "what was not in the second listing was gone then");
    }

    #[test]
    fn a_directory_that_changes_is_listed_again_only_so_often() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "x").unwrap();
        let small = listing(folder.path());
        let mut large = Names::single(b"f");
        (0..NAMES_LISTED_AGAIN).for_each(|_| large.push(c"", ListedType::Other));
        let large = Listing::of(small.directory.clone(), large);
        let start = std::time::SystemTime::now();
        for second in 0..2 * LISTED_AGAIN_MAX as u64 {
            let then = start - std::time::Duration::from_secs(second);
            std::fs::File::open(folder.path()).unwrap().set_modified(then).unwrap();
            for listing in [&small, &large] {
                let _ = looked(listing, Errno::NOENT, || Err(Errno::NOENT));
            }
        }
        assert_eq!((times_listed(&small), times_listed(&large)), (LISTED_AGAIN_MAX, 2));
        let then = start + std::time::Duration::from_secs(9);
        std::fs::File::open(folder.path()).unwrap().set_modified(then).unwrap();
        let never = looked(&small, Errno::NOENT, || Err(Errno::NOENT));
        assert_eq!(never.map(|_| ()), Err(VANISHED));
    }

    /// Its own process: others need descriptors, too.
    #[test]
    fn without_a_descriptor_left_the_walk_closes_its_own() {
        const CHILD: &str = "ICECORE_TEST_WITHOUT_DESCRIPTORS";
        let this = "walk::missing::tests::without_a_descriptor_left_the_walk_closes_its_own";
        if std::env::var_os(CHILD).is_none() {
            let exe = std::env::current_exe().unwrap();
            let mut child = std::process::Command::new(exe);
            let done = child.args(["--exact", this]).env(CHILD, "1").output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let listing = listing(folder.path());
        let _open = listing.directory.handle().unwrap();
        let other = Directory::child(&listing.directory, c"d", (0, 0));
        drop(other.handle().unwrap());
        let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limit.current = Some(64);
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        let mut all = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            all.push(file);
        }
        let never = looked(&listing, Errno::NOENT, || Err(Errno::NOENT));
        drop(all);
        assert_eq!(never.map(|_| ()), Err(VANISHED));
    }
}
