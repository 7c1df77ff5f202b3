//! One pool: what is kept of it, and until when.

use crate::clock_file::{self, ClockFile};
use crate::entry::{self, Entry};
use crate::message::{Failed, File, Secured};
use crate::{Error, Result, moved, names, own_directory, tree, until, writers};
use clock::Tick;
use parking_lot::Mutex;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The helper's directory in a pool.
pub const DIRECTORY: &str = ".locked";
/// The owner and the group of the pool read: the server does.
const KEPT_MODE: u32 = 0o440;
const OWN_MODE: u32 = 0o600;
const MODE_BITS: u32 = 0o7777;

/// The directory of a pool, and what the helper keeps of it.
pub struct Pool {
    pub(crate) path: PathBuf,
    pub(crate) root: OwnedFd,
    pub(crate) kept: OwnedFd,
    pub(crate) owner: (Uid, Gid),
    /// Held by whoever changes what is kept.
    clock: Mutex<ClockFile>,
    time: fn() -> Tick,
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
        let path = path.canonicalize().map_err(Error::file("open", path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = fs::open(&path, flags, Mode::empty()).map_err(Error::file("open", &path))?;
        let status = fs::fstat(&root).map_err(Error::file("look at", &path))?;
        let owner = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
        if owner.0.is_root() {
            let why = "it belongs to root, and nothing can be kept from a server that runs as root. Let the server run as a \
                       user of its own, to whom this directory belongs";
            return Err(Error::pool(&path, why));
        }
        let kept = own_directory::open(&root, &path)?;
        let place = path.join(DIRECTORY);
        let clock =
            ClockFile::open((&kept, &place), time(), own_directory::proven_secs(&kept, &place)?)?;
        Ok(Self { path, root, kept, owner, clock: Mutex::new(clock), time })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn place(&self) -> PathBuf {
        self.path.join(DIRECTORY)
    }

    /// The owner of the pool can give the helper's directory another name: it gets its own back.
    fn is_in_place(&self) -> Result<()> {
        let own = fs::fstat(&self.kept).map_err(Error::file("look at", self.place()))?;
        moved::back(&self.root, &self.path, |_, status| status.st_ino == own.st_ino)
    }

    /// Keeps these files until their times, or longer. It is durable afterwards.
    ///
    /// # Errors
    /// Those of the clock; a file that cannot be kept is in the answer.
    pub fn secure(&self, files: &[File]) -> Result<Secured> {
        let mut clock = self.clock.lock();
        self.is_in_place()?;
        let now_secs = clock.read((&self.kept, &self.place()), (self.time)())?;
        let mut secured = Secured::default();
        let mut by_directory: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
        for file in files {
            let directory = file.name.rsplit_once('/').map_or("", |(directory, _)| directory);
            by_directory.entry(directory).or_default().push(file);
        }
        for files in by_directory.values() {
            self.secure_in_one(files, now_secs, &mut secured);
        }
        Ok(secured)
    }

    /// Files of one directory.
    fn secure_in_one(&self, files: &[&File], now_secs: i64, secured: &mut Secured) {
        let begun = files.first().and_then(|file| names::parts(&file.name)).map(|(parts, _)| {
            let directory = tree::make(&self.kept, &parts, |_| Ok(()))?;
            let listing = entry::list(&directory)?;
            Ok::<_, Errno>((directory, listing.entries))
        });
        let (directory, known) = match begun {
            Some(Ok(begun)) => begun,
            Some(Err(error)) => return fail_all(files, &error.to_string(), secured),
            None => return fail_all(files, "no name of a file in a pool", secured),
        };
        let mut done = 0;
        for file in files {
            match self.secure_one(file, now_secs, &directory, &known) {
                Ok(()) => done += 1,
                Err(failed) => secured.failed.push(failed),
            }
        }
        match fs::fsync(&directory) {
            Ok(()) => secured.files += done,
            Err(error) => fail_all(files, &error.to_string(), secured),
        }
    }

    fn secure_one(
        &self,
        file: &File,
        now_secs: i64,
        directory: &OwnedFd,
        known: &[Entry],
    ) -> std::result::Result<(), Failed> {
        let failed = |why: String, is_gone| Failed { name: file.name.clone(), why, is_gone };
        let of_system = |error: Errno| failed(error.to_string(), error == Errno::NOENT);
        let Some((_, name)) = names::parts(&file.name) else {
            return Err(failed("no name of a file in a pool".into(), false));
        };
        let opened = tree::open(&self.root, &file.name, OFlags::RDONLY).map_err(of_system)?;
        let status = fs::fstat(&opened).map_err(of_system)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(failed("it is no regular file".into(), false));
        }
        let inode = status.st_ino;
        let old = known.iter().find(|old| (old.file.as_str(), old.inode) == (name, inode));
        let is_kept = old.map(|old| old.until_secs).filter(|until_secs| *until_secs > now_secs);
        let Some(until_secs) = until::bounded(file.until_secs, now_secs).or(is_kept) else {
            let clock = self.place().join(clock_file::NAME);
            return Err(failed(until::why_over(file.until_secs, now_secs, &clock), false));
        };
        let new = Entry { file: name.to_owned(), inode, until_secs };
        match old {
            Some(old) => keep_longer(directory, old, &new).map_err(of_system)?,
            None if Uid::from_raw(status.st_uid) != self.owner.0 => {
                return Err(failed("it does not belong to the owner of the pool".into(), false));
            }
            None => fs::linkat(&opened, "", directory, new.name(), AtFlags::EMPTY_PATH)
                .map_err(of_system)?,
        }
        take(&opened, &status).map_err(of_system)?;
        writers::nobody_writes(opened.as_fd()).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                failed("somebody has it open for writing".into(), false)
            }
            _ => failed(format!("whether somebody writes it is unknown: {error}"), false),
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
        let now_secs = clock.read((&self.kept, &place), (self.time)())?;
        let mut released = 0;
        tree::walk((&self.kept, &place), &mut |visited| {
            let is_over = |entry: &&Entry| entry.until_secs <= now_secs;
            for entry in visited.entries.iter().filter(is_over) {
                let at = || place.join(visited.path).join(entry.name());
                self.let_go(visited.directory, entry).map_err(Error::file("let go", at()))?;
                released += 1;
            }
            Ok(())
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

    /// What is kept, by the first two directories of its path: `domains/NAME`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn content(&self) -> Result<BTreeMap<String, Content>> {
        let mut content: BTreeMap<String, Content> = BTreeMap::new();
        let place = self.place();
        tree::walk((&self.kept, &place), &mut |visited| {
            let of: Vec<_> = visited.path.split('/').take(2).collect();
            for entry in &visited.entries {
                let status = fs::statat(visited.directory, entry.name(), AtFlags::SYMLINK_NOFOLLOW);
                let status = status.map_err(Error::file("look at", place.join(visited.path)))?;
                content.entry(of.join("/")).or_default().add(entry, status.st_size as u64);
            }
            Ok(())
        })?;
        Ok(content)
    }
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

fn fail_all(files: &[&File], why: &str, secured: &mut Secured) {
    let failed =
        |file: &&File| Failed { name: file.name.clone(), why: why.to_owned(), is_gone: false };
    secured.failed.extend(files.iter().map(failed));
}

/// Gives what is kept the later of both times.
fn keep_longer(directory: &OwnedFd, old: &Entry, new: &Entry) -> rustix::io::Result<()> {
    if new.until_secs <= old.until_secs {
        return Ok(());
    }
    fs::renameat(directory, old.name(), directory, new.name())
}

/// From now on the file is root's, and who owned it reads it through its group. The mode comes first, so that the
/// server can read at any moment, and once more, in case its owner changed it meanwhile: it also limits what access
/// control lists grant.
fn take(file: &OwnedFd, status: &Stat) -> rustix::io::Result<()> {
    let is_kept = |status: &Stat| status.st_uid == 0 && status.st_mode & MODE_BITS == KEPT_MODE;
    if is_kept(status) {
        return Ok(());
    }
    fs::fchmod(file, Mode::from_raw_mode(KEPT_MODE))?;
    fs::fchown(file, Some(Uid::ROOT), None)?;
    fs::fchmod(file, Mode::from_raw_mode(KEPT_MODE))?;
    fs::fsync(file)
}
