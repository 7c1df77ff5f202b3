//! Moving a repository to another storage, file by file and as it is: what is damaged stays damaged, and can be healed
//! there as here.
//!
//! Most of it never changes once it has its name. That is copied first, beside writers; under the lease then comes what
//! they added, and all that is replaced. The config comes last: without it the target is no repository. The caller lets
//! nobody write to the source any more, holds the lock of a target that has one, and decides when the target counts.

use crate::lease::{self, Lease};
use crate::storage::{FileReader, PUT_SUFFIX, Storage, StorageError, StorageResult};
use crate::watch::Watch;
use crate::{
    Error, Repository, Result, config, container, copies, keys, lock_file, readme, receipts,
    reserve, snapshots,
};
use format::wire::Checksum;
use std::collections::BTreeSet;

const INDEX: &str = "index";
const RUN: &str = "index/run-";
const SPILLED: &str = "spill-";
/// The directories that are in each repository, besides that of containers.
const DIRECTORIES: [&str; 3] = [INDEX, keys::DIRECTORY, snapshots::DIRECTORY];
/// What the target makes for itself: its lock, its reserve, and what its readers read.
const OF_ITS_OWN: [&str; 4] = [lease::LOCK, reserve::DIRECTORY, "readers", "io"];
/// Files that may be there, of which a list that is stale may know nothing.
const MAY_BE_THERE: [&str; 7] = [
    config::NAMES[0],
    config::NAMES[1],
    copies::NAME,
    lease::NAME,
    lock_file::NAME,
    readme::NAME,
    receipts::NAME,
];
/// What each writer replaces.
const REPLACED: [&str; 2] = [lease::NAME, lock_file::NAME];
const BUFFER_BYTES: usize = 4 << 20;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether it was asked to stop before its end.
    pub is_interrupted: bool,
}

/// A move of a repository.
pub struct Move<'a> {
    source: &'a Repository,
    target: &'a dyn Storage,
    watch: &'a dyn Watch,
}

impl<'a> Move<'a> {
    /// From `source` to `target`, in which nothing else lies than what an earlier one copied.
    pub fn new(source: &'a Repository, target: &'a dyn Storage, watch: &'a dyn Watch) -> Self {
        Self { source, target, watch }
    }

    /// Copies what never changes and is not there yet, while others write. What they remove meanwhile is left out.
    ///
    /// # Errors
    /// Those of both storages; [`Error::Damaged`] for a copy that reads differently.
    pub fn beside(&self) -> Result<Moved> {
        let names = files(self.storage(), |directory| self.storage().list(directory))?;
        let mut moved = Moved::default();
        for name in names.iter().filter(|name| is_written_once(name)) {
            if !self.watch.goes_on() {
                return Ok(Moved { is_interrupted: true, ..moved });
            }
            match self.file(name, &mut moved) {
                Err(Error::Storage(error)) if error.is_not_found() && !self.is_there(name)? => {
                    let gone = self.target.remove(&part_of(name));
                    gone.map_err(|error| self.at_target(error))?;
                }
                done => done?,
            }
        }
        Ok(moved)
    }

    /// Makes the target the same as the source, durably. The lease of the source is held.
    ///
    /// # Errors
    /// As for [`Move::beside`]; [`Error::LeaseLost`], [`Error::StaleListing`].
    pub fn rest(&self, lease: &Lease) -> Result<Moved> {
        lease.verify()?;
        let (source, markers) = (self.storage(), &self.source.listing_markers);
        let names = files(source, |directory| markers.list(source, directory))?;
        for directory in [container::DIRECTORY].iter().chain(&DIRECTORIES) {
            self.target.create_directory(directory).map_err(|error| self.at_target(error))?;
        }
        let mut moved = Moved::default();
        let (configs, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| is_config(name));
        for name in others {
            if !self.watch.goes_on() {
                return Ok(Moved { is_interrupted: true, ..moved });
            }
            self.file(name, &mut moved)?;
        }
        self.remove_others(&names).map_err(|error| self.at_target(error))?;
        configs.into_iter().try_for_each(|name| self.file(name, &mut moved))?;
        self.sync_directories(&names).map_err(|error| self.at_target(error))?;
        if self.target.has_limited_space() {
            // As everywhere: what fails here is made by the next writer.
            let _ = reserve::fill(self.target, self.source.reserve_bytes());
        }
        lease.verify()?;
        Ok(moved)
    }

    /// Bytes that the target does not have yet.
    ///
    /// # Errors
    /// Those of both storages.
    pub fn bytes_left(&self) -> Result<u64> {
        let mut left = 0u64;
        for name in files(self.storage(), |directory| self.storage().list(directory))? {
            let length = match self.storage().length(&name) {
                Err(error) if error.is_not_found() => continue,
                length => length?,
            };
            if !self.has(&name, length)? {
                left = left.saturating_add(length);
            }
        }
        Ok(left)
    }

    fn storage(&self) -> &'a dyn Storage {
        &**self.source.storage()
    }

    /// Copies one file, unless it never changes and is there.
    fn file(&self, name: &str, moved: &mut Moved) -> Result<()> {
        if is_written_once(name) && self.has(name, self.storage().length(name)?)? {
            return Ok(());
        }
        let from = self.storage().open(name)?;
        let length = from.length()?;
        let part = part_of(name);
        let sum = self.write(&part, &*from, length)?;
        // Before it has its name: what has it and is of its length counts as copied.
        if self.sum_of(&part)? != (length, sum) {
            let what = format!("{}/{name}", self.target.describe());
            return Err(Error::damaged(&what, format::Error::Checksum { what: "copy" }));
        }
        self.name(&part, name).map_err(|error| self.at_target(error))?;
        moved.files += 1;
        moved.bytes += length;
        Ok(())
    }

    /// Gives a copy its name. What has it and never changes, in another length, was damaged here when it was copied.
    fn name(&self, part: &str, name: &str) -> StorageResult<()> {
        if is_written_once(name) {
            match self.target.publish(part, name) {
                Err(error) if error.already_exists() => {}
                done => return done,
            }
        }
        self.target.replace(part, name)
    }

    /// Whether the source has the file `name` at this moment. A bucket is asked only when something is read.
    fn is_there(&self, name: &str) -> StorageResult<bool> {
        let read = || {
            let file = self.storage().open(name)?;
            let mut first = [0; 1];
            if file.length()? > 0 { file.read_exact_at(&mut first, 0) } else { Ok(()) }
        };
        match read() {
            Err(error) if error.is_not_found() => Ok(false),
            read => read.map(|()| true),
        }
    }

    fn has(&self, name: &str, length: u64) -> Result<bool> {
        has(self.target, name, length).map_err(|error| self.at_target(error))
    }

    /// Writes and syncs the file `part`, and returns the checksum of what was read.
    fn write(&self, part: &str, from: &dyn FileReader, length: u64) -> Result<[u8; 16]> {
        let begin = || {
            if let Some((directory, _)) = part.rsplit_once('/') {
                self.target.create_directory(directory)?;
            }
            self.target.remove(part)?;
            self.target.create(part)
        };
        let mut to = begin().map_err(|error| self.at_target(error))?;
        let mut written = Ok(());
        let sum = each_part(from, length, |bytes| {
            written = std::mem::replace(&mut written, Ok(())).and_then(|()| to.append(&[bytes]));
            self.watch.moved(bytes.len() as u64);
        })?;
        written.and_then(|()| to.sync()).map_err(|error| self.at_target(error))?;
        Ok(sum)
    }

    /// Length and checksum of what the target has.
    fn sum_of(&self, name: &str) -> Result<(u64, [u8; 16])> {
        let sum = || {
            let there = self.target.open(name)?;
            let length = there.length()?;
            Ok((length, each_part(&*there, length, |_| ())?))
        };
        sum().map_err(|error| self.at_target(error))
    }

    /// Removes what the source does not have any more.
    fn remove_others(&self, names: &BTreeSet<String>) -> StorageResult<()> {
        let there = files(self.target, |directory| match self.target.list(directory) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            names => names,
        })?;
        let others: Vec<_> = there.difference(names).cloned().collect();
        let mut batches = others.chunks(self.target.removed_at_once());
        batches.try_for_each(|names| self.target.remove_all(names))
    }

    /// An earlier one may have been killed behind a rename.
    fn sync_directories(&self, names: &BTreeSet<String>) -> StorageResult<()> {
        let directories: BTreeSet<_> = names.iter().map(|name| parent(name)).collect();
        let above = [container::DIRECTORY, "."].into_iter().chain(DIRECTORIES);
        directories.into_iter().chain(above).try_for_each(|it| self.target.sync_directory(it))
    }

    /// Both storages have files of the same names.
    fn at_target(&self, error: StorageError) -> Error {
        let name = format!("{}/{}", self.target.describe(), error.name);
        StorageError { name, ..error }.into()
    }
}

/// A file of `source` that `target` does not have in the same length; `None` if it has all of them. Nobody writes.
///
/// # Errors
/// Those of the storages.
pub fn lacks(source: &dyn Storage, target: &dyn Storage) -> Result<Option<String>> {
    for name in compared(source)? {
        if !has(target, &name, source.length(&name)?)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// A file of `source` that reads differently in `target`, which has all of them in the same length ([`lacks`]). `watch` is
/// told of what is read, and `None` when it ended it, too.
///
/// # Errors
/// Those of the storages.
pub fn differs(
    source: &dyn Storage,
    target: &dyn Storage,
    watch: &dyn Watch,
) -> Result<Option<String>> {
    for name in compared(source)? {
        if !watch.goes_on() {
            break;
        }
        let [here, there] = [source.open(&name)?, target.open(&name)?];
        let told = |bytes: &[u8]| watch.moved(bytes.len() as u64);
        let length = here.length()?;
        if each_part(&*here, length, told)? != each_part(&*there, length, told)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// What a repository has that matters once it lies elsewhere. What each writer replaces does not, nor does the index,
/// which is made of the containers.
fn compared(source: &dyn Storage) -> Result<BTreeSet<String>> {
    let mut names = files(source, |directory| source.list(directory))?;
    names.retain(|name| parent(name) != INDEX && !REPLACED.contains(&&**name));
    Ok(names)
}

/// Whether `target` has a file of this name and length.
fn has(target: &dyn Storage, name: &str, length: u64) -> StorageResult<bool> {
    match target.length(name) {
        Err(error) if error.is_not_found() => Ok(false),
        there => Ok(there? == length),
    }
}

/// The files of a repository that are not leftovers.
fn files<E: From<StorageError>>(
    storage: &dyn Storage,
    list: impl Fn(&str) -> std::result::Result<Vec<String>, E>,
) -> std::result::Result<BTreeSet<String>, E> {
    let mut found = BTreeSet::new();
    let mut add = |directory: &str, names: Vec<String>| {
        let names = names.iter().filter(|name| !is_leftover(name));
        found.extend(names.map(|name| format!("{directory}/{name}")));
    };
    for shard in list(container::DIRECTORY)?.iter().filter(|name| !is_leftover(name)) {
        let directory = format!("{}/{shard}", container::DIRECTORY);
        add(&directory, list(&directory)?);
    }
    for directory in DIRECTORIES {
        add(directory, list(directory)?);
    }
    let is_directory = |name: &str| name == container::DIRECTORY || DIRECTORIES.contains(&name);
    let mut above = storage.list(".")?;
    above
        .retain(|name| !is_directory(name) && !OF_ITS_OWN.contains(&&**name) && !is_leftover(name));
    found.extend(above);
    for name in MAY_BE_THERE.iter().filter(|name| !found.contains(**name)).collect::<Vec<_>>() {
        match storage.open(name) {
            Err(error) if error.is_not_found() => {}
            opened => drop(opened.map(|_| found.insert((*name).to_owned()))?),
        }
    }
    Ok(found)
}

/// Whether a file is never changed: what is of its length is the same. A repair may have replaced a container by what
/// it was before it was damaged; then it is repaired in the target as well.
fn is_written_once(name: &str) -> bool {
    name.starts_with(RUN) || [container::DIRECTORY, snapshots::DIRECTORY].contains(&above(name))
}

/// The directory at the top in which a file lies.
fn above(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn is_config(name: &str) -> bool {
    config::NAMES.contains(&name)
}

fn part_of(name: &str) -> String {
    format!("{name}{PUT_SUFFIX}")
}

/// Also a run of a reclaim that was killed, which is no part of the index.
fn is_leftover(name: &str) -> bool {
    name.ends_with(PUT_SUFFIX) || name.ends_with(".part") || name.starts_with(SPILLED)
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or(".", |(parent, _)| parent)
}

/// Gives all of a file to `take`, in parts, and returns its checksum.
fn each_part(
    file: &dyn FileReader,
    length: u64,
    mut take: impl FnMut(&[u8]),
) -> StorageResult<[u8; 16]> {
    let (mut sum, mut at) = (Checksum::default(), 0);
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES)];
    while at < length {
        let bytes = usize::try_from(length - at).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES);
        file.read_exact_at(&mut buffer[..bytes], at)?;
        sum.update(&buffer[..bytes]);
        take(&buffer[..bytes]);
        at += bytes as u64;
    }
    Ok(sum.finish())
}
