//! One pool: what is kept of it, and until when.

use crate::clock_file::ClockFile;
use crate::entry::{Entry, Kept};
use crate::own_directory::{self, Own};
use crate::{Error, Result, moved, names, tree};
use clock::Tick;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, Uid};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The helper's directory in a pool.
pub const DIRECTORY: &str = ".locked";
const OWN_MODE: u32 = 0o600;

/// The directory of a pool, and what the helper keeps of it.
pub struct Pool {
    pub(crate) path: PathBuf,
    pub(crate) root: OwnedFd,
    pub(crate) kept: OwnedFd,
    pub(crate) owner: (Uid, Gid),
    /// Held by whoever changes what is kept.
    pub(crate) clock: Mutex<ClockFile>,
    pub(crate) time: fn() -> Tick,
}

/// What is kept of one directory of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// When the first and the last of them may go, in seconds since 1970.
    pub until_secs: Option<(i64, i64)>,
}

impl Pool {
    /// Opens the pool in `path`. Whoever owns the directory is the server.
    ///
    /// # Errors
    /// When root owns it: from a server that runs as root nobody can keep anything.
    pub fn open(path: &Path) -> Result<Self> {
        Self::with_time(path, repository::machine_time)
    }

    pub(crate) fn with_time(path: &Path, time: fn() -> Tick) -> Result<Self> {
        let make = |root: &_, path: &_| own_directory::open(root, path).map(Some);
        let pool = Self::of(path, make, time)?;
        pool.ok_or_else(|| Error::pool(path, "nothing is kept there"))
    }

    /// The pool in `path`, if something may be kept of it. Nothing is changed.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn existing(path: &Path) -> Result<Option<Self>> {
        Self::of(path, own_directory::find, repository::machine_time)
    }

    fn of(
        path: &Path,
        find: impl Fn(&OwnedFd, &Path) -> Result<Option<Own>>,
        time: fn() -> Tick,
    ) -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let (root, path) = root_of(path)?;
        let status = fs::fstat(&root).map_err(Error::file("look at", &path))?;
        let owner = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
        if owner.0.is_root() {
            let why = "it belongs to root, and nothing can be kept from a server that runs as root. Let the server run as a \
                       user of its own, to whom this directory belongs";
            return Err(Error::pool(&path, why));
        }
        let Some(Own { kept, proven_secs }) = find(&root, &path)? else { return Ok(None) };
        let clock = ClockFile::open((&kept, &path.join(DIRECTORY)), time(), proven_secs)?;
        Ok(Some(Self { path, root, kept, owner, clock: Mutex::new(clock), time }))
    }

    /// Directories beside `path` in which a helper kept something: whoever may write there can give a pool another name.
    pub fn beside(path: &Path) -> Vec<PathBuf> {
        let above = path.parent().and_then(|above| above.read_dir().ok());
        let others = above.into_iter().flatten().flatten().map(|found| found.path());
        let has = |other: &PathBuf| {
            let root = root_of(other).ok().filter(|(_, real)| real != path);
            root.is_some_and(|(root, real)| {
                matches!(own_directory::find(&root, &real), Ok(Some(_)))
            })
        };
        let mut found: Vec<_> = others.filter(has).collect();
        found.sort();
        found
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn place(&self) -> PathBuf {
        self.path.join(DIRECTORY)
    }

    /// The owner of the pool can give the helper's directory another name: it gets its own back. If it is root's still.
    pub(crate) fn is_in_place(&self) -> Result<()> {
        let place = self.place();
        let own = fs::fstat(&self.kept).map_err(Error::file("look at", &place))?;
        own_directory::verify(&own, &place, false)?;
        moved::back(&self.root, &self.path, |_, status| {
            (status.st_dev, status.st_ino) == (own.st_dev, own.st_ino)
        })
    }

    /// Lets go what has been kept long enough; how many files.
    ///
    /// # Errors
    /// Those of the system; what was let go before stays so.
    pub fn release(&self) -> Result<u64> {
        let mut clock = self.clock.lock();
        self.is_in_place()?;
        let place = self.place();
        let now_secs = clock.now_secs((self.time)());
        if let Err(error) = clock.store((&self.kept, &place)) {
            // On a full file system what is over makes room. After a restart the clock is behind, and keeps longer.
            tracing::error!(%error, "what is over is let go by a clock that cannot be stored");
        }
        let mut released = 0;
        tree::walk((&self.kept, &place), &mut |visited| {
            let is_over = |entry: &&Entry| entry.until_secs <= now_secs;
            for entry in visited.entries.iter().map(|kept| &kept.entry).filter(is_over) {
                let at = || place.join(visited.path).join(entry.name());
                self.let_go(visited.directory, entry).map_err(Error::file("let go", at()))?;
                released += 1;
            }
            tree::remove_empty(visited.directory, &visited.directories)
                .map_err(Error::file("remove directories of", place.join(visited.path)))
        })?;
        Ok(released)
    }

    /// The server may remove or change it again, and its space comes back with its last name.
    fn let_go(&self, directory: &OwnedFd, entry: &Entry) -> rustix::io::Result<()> {
        let name = entry.name();
        let file = tree::open(directory, &name, OFlags::RDONLY)?;
        fs::fchown(&file, Some(self.owner.0), Some(self.owner.1))?;
        fs::fchmod(&file, Mode::from_raw_mode(OWN_MODE))?;
        fs::unlinkat(directory, &name, AtFlags::empty())
    }

    /// What is kept, by the directories above its repository and that itself: `domains/NAME`, or less where a directory
    /// on the way is the pool.
    ///
    /// # Errors
    /// Those of the system.
    pub fn content(&self) -> Result<BTreeMap<String, Content>> {
        let mut content: BTreeMap<String, Content> = BTreeMap::new();
        let place = self.place();
        tree::walk((&self.kept, &place), &mut |visited| {
            let parts: Vec<_> = visited.path.split('/').collect();
            let repository = names::above(&parts).join("/");
            for Kept { entry, status } in &visited.entries {
                content.entry(repository.clone()).or_default().add(entry, status.st_size as u64);
            }
            Ok(())
        })?;
        Ok(content)
    }
}

/// The directory in `path`, and its true path.
fn root_of(path: &Path) -> Result<(OwnedFd, PathBuf)> {
    let path = path.canonicalize().map_err(Error::file("open", path))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let root = fs::open(&path, flags, Mode::empty()).map_err(Error::file("open", &path))?;
    Ok((root, path))
}

impl Content {
    fn add(&mut self, entry: &Entry, bytes: u64) {
        let until = entry.until_secs;
        let (first, last) = self.until_secs.unwrap_or((until, until));
        self.until_secs = Some((first.min(until), last.max(until)));
        self.files += 1;
        self.bytes += bytes;
    }
}
