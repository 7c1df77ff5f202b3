//! Directories below a handle: made, opened and walked without following a link.

use crate::entry::{self, Kept, Listing};
use crate::{Error, Result, own_directory};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::path::Path;

/// Directories below each other; those of a repository are fewer.
const DEPTH_MAX: usize = 8;

/// Opens `name` below `root`, whatever the owner of the directories between does meanwhile: no links, no other file
/// systems, and never waiting for anybody.
pub(crate) fn open(root: impl AsFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    fs::openat2(root, name, flags, Mode::empty(), resolve)
}

/// The same directory.
pub(crate) fn again(directory: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    directory.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Opens the directory of `parts` below the helper's own, if it is there. Each on the way must be root's.
pub(crate) fn below((root, place): (&OwnedFd, &Path), parts: &[&str]) -> Result<Option<OwnedFd>> {
    let (mut at, mut path) = (again(root).map_err(Error::file("open", place))?, place.to_owned());
    for part in parts {
        path.push(part);
        at = match open(&at, part, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::NOENT) => return Ok(None),
            next => next.map_err(Error::file("open", &path))?,
        };
        let status = fs::fstat(&at).map_err(Error::file("look at", &path))?;
        own_directory::verify(&status, &path, false)?;
    }
    Ok(Some(at))
}

/// Opens the directory of `parts` below `root`, the helper's own; makes it, durably.
pub(crate) fn make(root: &OwnedFd, parts: &[&str]) -> rustix::io::Result<OwnedFd> {
    let mut at = again(root)?;
    for part in parts {
        let is_new = match fs::mkdirat(&at, *part, Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error),
        };
        let next = open(&at, part, OFlags::RDONLY | OFlags::DIRECTORY)?;
        if is_new {
            fs::fsync(&at)?;
        }
        at = next;
    }
    Ok(at)
}

/// A directory of the helper, where it is and what is in it.
pub(crate) struct Visited<'a> {
    pub(crate) directory: &'a OwnedFd,
    /// Its directories from the pool on, with `/` between them.
    pub(crate) path: &'a str,
    pub(crate) entries: Vec<Kept>,
    pub(crate) directories: Vec<String>,
}

/// Calls `visit` for each directory below `root`, the helper's own, after those below it. All must be root's.
pub(crate) fn walk(
    (root, place): (&OwnedFd, &Path),
    visit: &mut dyn FnMut(Visited<'_>) -> Result<()>,
) -> Result<()> {
    walk_below((root, place), "", 0, visit)
}

fn walk_below(
    (directory, place): (&OwnedFd, &Path),
    path: &str,
    depth: usize,
    visit: &mut dyn FnMut(Visited<'_>) -> Result<()>,
) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(Error::pool(place, "its directories are too deep"));
    }
    let at = || place.join(path);
    let listing = entry::list(directory).map_err(Error::file("list", at()))?;
    for name in &listing.directories {
        let below = match open(directory, name, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::NOENT) => continue, // nothing is kept there any more
            below => below.map_err(Error::file("open", at().join(name)))?,
        };
        let status = fs::fstat(&below).map_err(Error::file("look at", at().join(name)))?;
        own_directory::verify(&status, &at().join(name), false)?;
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        walk_below((&below, place), &path, depth + 1, visit)?;
    }
    let Listing { entries, directories } = listing;
    visit(Visited { directory, path, entries, directories })
}

/// Removes those of the directories `names` that are empty.
pub(crate) fn remove_empty(directory: &OwnedFd, names: &[String]) -> rustix::io::Result<()> {
    for name in names {
        match fs::unlinkat(directory, name.as_str(), AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => {}
            done => done?,
        }
    }
    Ok(())
}
