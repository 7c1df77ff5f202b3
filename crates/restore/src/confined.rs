//! A target that another party chose: it must be below a folder that this machine allows, without
//! links.

use crate::credentials::Credentials;
use crate::options::TargetOptions;
use crate::problem::{RestoreCause, RestoreOperation, RestoreProblem};
use crate::system;
use crate::target::OpenRoot;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// For a directory on the path, which need not be readable.
const STEP: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Write permission for group and others.
const WRITE_OF_OTHERS: u32 = 0o022;

/// Opens `path`, which is `folder` or below it, and creates what is missing (mode 0700). `None` in
/// a dry run, if it is missing.
pub(crate) fn open(
    folder: &Path,
    path: &Path,
    options: &TargetOptions,
    credentials: &Credentials,
) -> Result<Option<OpenRoot>, RestoreProblem> {
    let problem = |at: &Path, cause: RestoreCause| {
        RestoreProblem::new(at.as_os_str().as_bytes(), RestoreOperation::Open, cause)
    };
    let below = names(folder).zip(path.strip_prefix(folder).ok().and_then(names_below));
    let Some((names, below)) = below else { return Err(problem(path, RestoreCause::UnsafePath)) };
    let allowed = walk(names).map_err(|error| problem(folder, of(error)))?;
    check_owner(allowed.as_fd(), credentials).map_err(|cause| problem(folder, cause))?;
    let opened = enter(allowed, &below, options.dry_run);
    opened.map_err(|error| problem(path, of(error)))
}

/// The names of an absolute path; `None` if it is not absolute.
fn names(path: &Path) -> Option<Vec<&[u8]>> {
    path.strip_prefix("/").ok().and_then(names_below)
}

fn names_below(path: &Path) -> Option<Vec<&[u8]>> {
    let name = |part| match part {
        Component::Normal(name) => Some(name.as_bytes()),
        _ => None,
    };
    path.components().map(name).collect()
}

fn walk(names: Vec<&[u8]>) -> Result<OwnedFd, Errno> {
    let root = openat(CWD, c"/", STEP, Mode::empty())?;
    names.into_iter().try_fold(root, |open, name| openat(&open, name, STEP, Mode::empty()))
}

/// Enters `below` from `folder`, name by name. What is missing is created.
fn enter(folder: OwnedFd, below: &[&[u8]], dry_run: bool) -> Result<Option<OpenRoot>, Errno> {
    let (mut open, mut is_made) = (folder, false);
    for name in below {
        open = match openat(&open, *name, STEP, Mode::empty()) {
            Err(Errno::NOENT) if dry_run => return Ok(None),
            Err(Errno::NOENT) => {
                is_made = made(rustix::fs::mkdirat(&open, *name, Mode::RWXU))?;
                openat(&open, *name, STEP, Mode::empty())?
            }
            opened => {
                is_made = false;
                opened?
            }
        };
    }
    let fd = openat(&open, c".", system::DIRECTORY, Mode::empty())?;
    Ok(Some(OpenRoot { fd, is_made }))
}

/// Whether this made it: another process may have created it first; if it is not a folder, opening it fails.
fn made(result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Err(Errno::EXIST) => Ok(false),
        result => result.map(|()| true),
    }
}

fn check_owner(folder: BorrowedFd<'_>, credentials: &Credentials) -> Result<(), RestoreCause> {
    let stat = system::stat_open(folder)?;
    let is_ours = stat.stx_uid == 0 || stat.stx_uid == credentials.uid;
    match is_ours && system::mode(&stat) & WRITE_OF_OTHERS == 0 {
        true => Ok(()),
        false => Err(RestoreCause::WritableByOthers),
    }
}

/// A link instead of a folder gets one cause, whatever the kernel reports.
fn of(error: Errno) -> RestoreCause {
    match error {
        Errno::NOTDIR | Errno::LOOP => RestoreCause::NotAFolder,
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        for name in ["allowed", "outside"] {
            std::fs::create_dir(path.join(name)).unwrap();
            let mode = Permissions::from_mode(0o755);
            std::fs::set_permissions(path.join(name), mode).unwrap();
        }
        (folder, path)
    }

    fn opens(folder: &Path, path: &Path) -> Result<(), RestoreCause> {
        let options = TargetOptions::default();
        open(folder, path, &options, &Credentials::current())
            .map(drop)
            .map_err(|problem| problem.error)
    }

    #[test]
    fn what_is_missing_below_the_folder_is_made_and_nothing_elsewhere() {
        let (_folder, place) = place();
        let allowed = place.join("allowed");
        assert_eq!(opens(&allowed, &allowed.join("a/b")), Ok(()));
        assert_eq!(opens(&allowed, &allowed), Ok(()));
        let mode = std::fs::metadata(allowed.join("a/b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        for path in ["outside/x", "allowed/../outside/x", "allowed2"] {
            assert_eq!(opens(&allowed, &place.join(path)), Err(RestoreCause::UnsafePath), "{path}");
        }
        assert_eq!(opens(&allowed, Path::new("allowed/x")), Err(RestoreCause::UnsafePath));
        assert_eq!(std::fs::read_dir(place.join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_anywhere_on_the_way_ends_it() {
        let (_folder, place) = place();
        let allowed = place.join("allowed");
        symlink("../outside", allowed.join("x")).unwrap();
        symlink("allowed", place.join("other")).unwrap();
        for path in ["allowed/x", "allowed/x/y"] {
            assert_eq!(opens(&allowed, &place.join(path)), Err(RestoreCause::NotAFolder), "{path}");
        }
        let other = place.join("other");
        assert_eq!(opens(&other, &other.join("y")), Err(RestoreCause::NotAFolder));
        assert_eq!(std::fs::read_dir(place.join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let (_folder, place) = place();
        let allowed = place.join("allowed");
        for mode in [0o777, 0o775, 0o1777] {
            std::fs::set_permissions(&allowed, Permissions::from_mode(mode)).unwrap();
            assert_eq!(opens(&allowed, &allowed.join("a")), Err(RestoreCause::WritableByOthers));
        }
    }
}
