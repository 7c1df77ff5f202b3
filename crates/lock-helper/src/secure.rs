//! Keeping files: each gets a second name that is root's, becomes root's itself, and is open for writing nowhere.

use crate::entry::{self, Entry, Kept};
use crate::error::quoted;
use crate::message::{Failed, File, Secured};
use crate::{Error, Pool, Result, clock_file, names, tree, until, writers};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// The owner and the group of the pool read: the server does.
const KEPT_MODE: u32 = 0o440;
const MODE_BITS: u32 = 0o7777;
const NO_NAME: &str = "no name of a file in a pool";

/// A directory of the helper. It is made when a file comes for which there is none: a name alone makes nothing.
struct KeptDirectory<'a> {
    kept: &'a OwnedFd,
    parts: Vec<&'a str>,
    directory: Option<OwnedFd>,
    /// With the inodes that they keep, whatever their names say.
    known: Vec<Known>,
}

/// What is kept already. Its name has another inode where the pool was copied.
#[derive(Clone)]
struct Known {
    name: String,
    entry: Entry,
}

/// Why one file is not kept.
enum Why {
    System(Errno),
    Said(String),
}

impl Pool {
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
        let Some((parts, _)) = files.iter().find_map(|file| names::parts(&file.name)) else {
            return fail_all(files, NO_NAME, secured);
        };
        let mut place = match self.place_of(parts) {
            Ok(place) => place,
            Err(error) => return fail_all(files, &error.to_string(), secured),
        };
        let mut done = 0;
        for file in files {
            match self.secure_one(file, now_secs, &mut place) {
                Ok(()) => done += 1,
                Err(why) => secured.failed.push(why.of(file)),
            }
        }
        match place.sync() {
            Ok(()) => secured.files += done,
            Err(error) => fail_all(files, &error.to_string(), secured),
        }
    }

    /// The helper's directory of these names, which must be root's.
    fn place_of<'a>(&'a self, parts: Vec<&'a str>) -> Result<KeptDirectory<'a>> {
        let at = self.place().join(parts.join("/"));
        let directory = tree::below((&self.kept, &self.place()), &parts)?;
        KeptDirectory::of(&self.kept, parts, directory).map_err(Error::file("list", &at))
    }

    fn secure_one(
        &self,
        file: &File,
        now_secs: i64,
        place: &mut KeptDirectory<'_>,
    ) -> std::result::Result<(), Why> {
        let (_, name) = names::parts(&file.name).ok_or_else(|| Why::said(NO_NAME))?;
        let opened = tree::open(&self.root, &file.name, OFlags::RDONLY)?;
        let status = fs::fstat(&opened)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(Why::said("it is not a regular file"));
        }
        let old = place.find(name, status.st_ino);
        let is_kept =
            old.map(|old| old.entry.until_secs).filter(|until_secs| *until_secs > now_secs);
        let Some(until_secs) = until::bounded(file.until_secs, now_secs).or(is_kept) else {
            let clock = self.place().join(clock_file::NAME);
            return Err(Why::Said(until::why_over(file.until_secs, now_secs, &clock)));
        };
        match old.cloned() {
            Some(old) => place.keep_longer(old, until_secs)?,
            None if Uid::from_raw(status.st_uid) != self.owner.0 => {
                return Err(Why::Said(self.why_foreign(&file.name)));
            }
            None => {
                let (file, since_secs) = (name.to_owned(), place.next_since(name, now_secs));
                let new = Entry { file, since_secs, inode: status.st_ino, until_secs };
                place.add(&opened, new)?;
            }
        }
        take(&opened, &status)?;
        writers::nobody_writes(opened.as_fd()).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Why::said("somebody has it open for writing"),
            _ => Why::Said(format!("whether somebody writes it is unknown: {error}")),
        })
    }

    /// A copy by root that did not keep second names together, or somebody else's file. Its owner makes it his own: by
    /// the time at which root would, another one may have its name, and even the helper's directory.
    fn why_foreign(&self, name: &str) -> String {
        let (uid, gid) = (self.owner.0.as_raw(), self.owner.1.as_raw());
        let at = quoted(&self.path.join(name));
        format!(
            "it does not belong to the owner of the pool. If root copied or restored it: setpriv --reuid={uid} --regid={gid} \
             --clear-groups sh -c 'umask 077 && cp \"$1\" \"$1.own\" && mv -f \"$1.own\" \"$1\"' - {at}"
        )
    }
}

impl<'a> KeptDirectory<'a> {
    fn of(
        kept: &'a OwnedFd,
        parts: Vec<&'a str>,
        directory: Option<OwnedFd>,
    ) -> rustix::io::Result<Self> {
        let listing = directory.as_ref().map(entry::list).transpose()?.unwrap_or_default();
        let known = listing.entries.into_iter().map(Known::of).collect();
        Ok(Self { kept, parts, directory, known })
    }

    fn find(&self, file: &str, inode: u64) -> Option<&Known> {
        self.known.iter().find(|Known { entry, .. }| (&*entry.file, entry.inode) == (file, inode))
    }

    fn directory(&mut self) -> rustix::io::Result<&OwnedFd> {
        let made = match self.directory.take() {
            Some(directory) => directory,
            None => tree::make(self.kept, &self.parts)?,
        };
        Ok(self.directory.insert(made))
    }

    fn add(&mut self, file: &OwnedFd, new: Entry) -> rustix::io::Result<()> {
        let name = new.name();
        fs::linkat(file, "", self.directory()?, &name, AtFlags::EMPTY_PATH)?;
        self.known.push(Known { name, entry: new });
        Ok(())
    }

    /// When a file of this name comes that comes now: after all others.
    fn next_since(&self, file: &str, now_secs: i64) -> i64 {
        let same = self.known.iter().map(|known| &known.entry).filter(|known| known.file == file);
        let last = same.map(|known| known.since_secs).max().unwrap_or(0);
        now_secs.max(last.saturating_add(1))
    }

    /// Gives what is kept the later of both times, and the right inode.
    fn keep_longer(&mut self, old: Known, until_secs: i64) -> rustix::io::Result<()> {
        let until_secs = until_secs.max(old.entry.until_secs);
        let entry = Entry { until_secs, ..old.entry };
        let name = entry.name();
        if name == old.name {
            return Ok(());
        }
        let directory = self.directory()?;
        fs::renameat(directory, &old.name, directory, &name)?;
        self.known.retain(|known| known.name != old.name);
        self.known.push(Known { name, entry });
        Ok(())
    }

    fn sync(&self) -> rustix::io::Result<()> {
        self.directory.as_ref().map_or(Ok(()), fs::fsync)
    }
}

impl Known {
    fn of(Kept { entry, status }: Kept) -> Self {
        Self { name: entry.name(), entry: Entry { inode: status.st_ino, ..entry } }
    }
}

impl Why {
    fn said(why: &str) -> Self {
        Self::Said(why.to_owned())
    }

    fn of(self, file: &File) -> Failed {
        let is_gone = matches!(self, Self::System(Errno::NOENT));
        let why = match self {
            Self::System(error) => error.to_string(),
            Self::Said(why) => why,
        };
        Failed { name: file.name.clone(), why, is_gone }
    }
}

impl From<Errno> for Why {
    fn from(error: Errno) -> Self {
        Self::System(error)
    }
}

fn fail_all(files: &[&File], why: &str, secured: &mut Secured) {
    let failed =
        |file: &&File| Failed { name: file.name.clone(), why: why.to_owned(), is_gone: false };
    secured.failed.extend(files.iter().map(failed));
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
