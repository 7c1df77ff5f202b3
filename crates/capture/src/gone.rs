//! Whether an object that cannot be found is gone. "No such file" and "stale handle" are also what file systems give
//! lastingly for what they list: a network server that was exchanged, FUSE, a damaged directory. What is still there
//! was not deleted meanwhile, and a backup without it is not complete.

use crate::problem::VANISHED;
use crate::walk::Directory;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::{Errno, Result};
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// How often what comes back is opened again: something deletes and creates it all the time.
const MAX_ATTEMPTS: usize = 8;

/// The error of an operation on `name` in `directory`, or [`VANISHED`] if it was deleted meanwhile.
pub(crate) fn told_apart(directory: &Arc<Directory>, name: &CStr, error: Errno) -> Errno {
    let is_gone = match error {
        Errno::NOENT => is_gone(directory, name),
        Errno::STALE => is_gone_by_path(&directory.path_of(name.to_bytes())),
        _ => false,
    };
    if is_gone { VANISHED } else { error }
}

/// The same for the directory itself. One that was deleted while it was open has no name left, whatever has it now.
pub(crate) fn told_apart_itself(directory: &Arc<Directory>, error: Errno) -> Errno {
    if error == Errno::NOENT && directory.handle().is_ok_and(|handle| has_no_name(&*handle)) {
        return VANISHED;
    }
    match directory.place() {
        Some((parent, name)) => told_apart(parent, name, error),
        None if matches!(error, Errno::NOENT | Errno::STALE) => {
            if is_gone_by_path(&directory.path()) { VANISHED } else { error }
        }
        None => error,
    }
}

/// Calls `open` for `name` in `parent` again while it does not find what is there: it was deleted and created again.
/// The error is [`VANISHED`] where nothing was there when it was asked for: it may be there again by now.
pub(crate) fn reopening<T>(
    parent: impl AsFd,
    name: &CStr,
    mut open: impl FnMut() -> Result<T>,
) -> Result<T> {
    for _ in 1..MAX_ATTEMPTS {
        match open() {
            Err(Errno::NOENT) => match look(&parent, name) {
                Ok(()) => {}
                Err(error) if is_missing(Err(error)) => return Err(VANISHED),
                Err(_) => return Err(Errno::NOENT),
            },
            result => return result,
        }
    }
    open()
}

/// Asked in the directory that was listed: another one may have its name by now.
fn is_gone(directory: &Arc<Directory>, name: &CStr) -> bool {
    match directory.handle() {
        Ok(handle) => is_missing(look(&*handle, name)),
        // It had to be opened again, and is gone with all that was in it, or something else is in its place.
        Err(VANISHED | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => true,
        Err(_) => false,
    }
}

/// A handle that is stale says nothing of what is there: the whole path is looked up.
fn is_gone_by_path(path: &[u8]) -> bool {
    CString::new(path).is_ok_and(|path| is_missing(look(CWD, &path)))
}

fn has_no_name(open: impl AsFd) -> bool {
    let found = statx(open, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK);
    found.is_ok_and(|found| found.stx_nlink == 0)
}

fn look(directory: impl AsFd, name: &CStr) -> Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_FORCE_SYNC;
    statx(directory, name, flags, StatxFlags::INO).map(|_| ())
}

fn is_missing(found: Result<()>) -> bool {
    matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::DirectoryHandles;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn directory(path: &Path) -> Arc<Directory> {
        Directory::starting_at(path.as_os_str().as_bytes(), &DirectoryHandles::new())
    }

    #[test]
    fn only_what_is_not_there_any_more_has_vanished() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there"), "x").unwrap();
        let above = directory(folder.path());
        for error in [Errno::NOENT, Errno::STALE] {
            assert_eq!(told_apart(&above, c"there", error), error);
            assert_eq!(told_apart(&above, c"gone", error), VANISHED);
        }
        assert_eq!(told_apart(&above, c"gone", Errno::IO), Errno::IO);
    }

    #[test]
    fn what_is_missing_when_it_is_asked_for_has_vanished_also_if_it_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there"), "x").unwrap();
        let parent = std::fs::File::open(folder.path()).unwrap();
        let open = |name: &CStr| reopening(&parent, name, || Err::<(), _>(Errno::NOENT));
        assert_eq!(open(c"gone"), Err(VANISHED));
        assert_eq!(open(c"there"), Err(Errno::NOENT), "it is there, and is not found");
    }

    #[test]
    fn a_directory_is_asked_for_where_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let below = Directory::child(&directory(folder.path()), c"d", (0, 0));
        for error in [Errno::NOENT, Errno::STALE] {
            assert_eq!(told_apart_itself(&below, error), error);
            assert_eq!(told_apart_itself(&directory(folder.path()), error), error);
            let gone = directory(&folder.path().join("gone"));
            assert_eq!(told_apart_itself(&gone, error), VANISHED);
        }
        std::fs::remove_dir(folder.path().join("d")).unwrap();
        assert_eq!(told_apart_itself(&below, Errno::NOENT), VANISHED);
        assert_eq!(told_apart_itself(&below, Errno::ACCESS), Errno::ACCESS);
    }

    /// Another directory has its name by now: what was in the old one is gone all the same.
    #[test]
    fn what_was_in_a_deleted_directory_has_vanished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d");
        std::fs::create_dir(&path).unwrap();
        let old = directory(&path);
        let _open = old.handle().unwrap();
        std::fs::remove_dir(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("f"), "x").unwrap();
        assert_eq!(told_apart(&old, c"f", Errno::NOENT), VANISHED);
        assert_eq!(told_apart_itself(&old, Errno::NOENT), VANISHED);
    }

    #[test]
    fn what_comes_back_is_opened_again_and_what_never_opens_ends() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "x").unwrap();
        let open = std::fs::File::open(folder.path()).unwrap();
        let tries = std::cell::Cell::new(0);
        let after = |times: usize| {
            let tries = &tries;
            move || {
                tries.set(tries.get() + 1);
                if tries.get() <= times { Err(Errno::NOENT) } else { Ok(()) }
            }
        };
        assert_eq!(reopening(&open, c"f", after(3)), Ok(()));
        assert_eq!(tries.replace(0), 4);
        assert_eq!(reopening(&open, c"f", after(usize::MAX)), Err(Errno::NOENT));
        assert_eq!(tries.replace(0), MAX_ATTEMPTS);
        assert_eq!(reopening(&open, c"gone", after(usize::MAX)), Err(VANISHED));
        assert_eq!(tries.get(), 1);
    }
}
