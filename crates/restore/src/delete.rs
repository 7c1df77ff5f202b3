//! Removing what the snapshot does not have: below the root, on this file system, no symlink
//! followed, with a bounded number of open directories at any depth.

use crate::directory;
use crate::flags;
use crate::names;
use crate::problem::{Cause, Operation, Problem};
use crate::system;
use crate::target::Target;
use rustc_hash::FxHashSet;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, StatxAttributes};
use rustix::io::Errno;

/// Names that are held in memory at a time, for each level.
const BATCH: usize = 8_192;

/// Directories that are open at a time. What lies deeper is first moved up beside the top.
const MAX_LEVELS: usize = 64;

/// A name that was removed (in a dry run: would be), with all below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    /// Its path below the target.
    pub path: Vec<u8>,
    /// Objects that went, itself included; in a dry run only itself is counted.
    pub objects: u64,
}

/// Whether something at a path below the target stays (true: it is a directory). A directory that
/// may go stays all the same while something in it does.
pub type Spare<'a> = &'a dyn Fn(&[u8], bool) -> bool;

impl Target {
    /// Removes the names of a directory that `keep` does not know, save for what `spare` asks for.
    /// Call it before the directory is finished: it changes its mtime.
    pub fn delete_others(
        &self,
        directory: &[u8],
        keep: &dyn Fn(&[u8]) -> bool,
        spare: Option<Spare<'_>>,
    ) -> Vec<Result<Removed, Problem>> {
        let open = match self.existing(directory, Operation::Remove) {
            Ok(open) => open,
            Err(problem) if problem.error == Cause::System(Errno::NOENT) => return Vec::new(),
            Err(problem) => return vec![Err(problem)],
        };
        // The handle is for looking only; listing needs one of its own.
        match rustix::fs::openat(&open, ".", system::DIRECTORY, Mode::empty()) {
            Ok(open) => self.delete_in(open.as_fd(), directory, keep, spare),
            Err(error) => vec![Err(Problem::new(directory, Operation::Remove, error))],
        }
    }

    fn delete_in(
        &self,
        open: BorrowedFd<'_>,
        directory: &[u8],
        keep: &dyn Fn(&[u8]) -> bool,
        spare: Option<Spare<'_>>,
    ) -> Vec<Result<Removed, Problem>> {
        let mut results = Vec::new();
        let mut tried = FxHashSet::<Vec<u8>>::default();
        loop {
            let batch = system::list(open, BATCH, &|name| keep(name) || tried.contains(name));
            match batch {
                Ok(names) if names.is_empty() => return results,
                Ok(names) => results.extend(names.into_iter().filter_map(|name| {
                    let path = names::join(directory, &name);
                    let result = self.delete_one(open, &name, &path, spare);
                    let left = result.is_err() || self.0.options.dry_run || spare.is_some();
                    left.then(|| tried.insert(name));
                    result
                        .map(|objects| objects.map(|objects| Removed { path, objects }))
                        .transpose()
                })),
                Err(error) => {
                    results.push(Err(Problem::new(directory, Operation::Remove, error)));
                    return results;
                }
            }
        }
    }

    /// The number of objects that went; none when it was spared.
    fn delete_one(
        &self,
        top: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        spare: Option<Spare<'_>>,
    ) -> Result<Option<u64>, Problem> {
        if self.0.options.dry_run {
            let stays = spare.is_some_and(|spare| spare(path, is_directory(top, name)));
            return Ok((!stays).then_some(1));
        }
        let objects = Remover::new(self, top, spare).remove(name, path)?;
        Ok((objects > 0).then_some(objects))
    }
}

fn is_directory(at: BorrowedFd<'_>, name: &[u8]) -> bool {
    system::look(at, name).is_ok_and(|stat| system::file_type(&stat) == FileType::Directory)
}

/// Removes one tree. Its levels are a list, not calls: trees may be thousands deep.
pub(crate) struct Remover<'a> {
    target: &'a Target,
    top: BorrowedFd<'a>,
    spare: Option<Spare<'a>>,
    levels: Vec<Level>,
    /// Names beside the top that were too deep where they lay, and their old paths.
    moved: Vec<NameAndPath>,
    removed: u64,
    /// The first thing that went wrong; the rest of the tree is removed all the same.
    problem: Option<Problem>,
}

type NameAndPath = (Vec<u8>, Vec<u8>);

struct Level {
    fd: OwnedFd,
    name: Vec<u8>,
    path: Vec<u8>,
    waiting: Vec<Vec<u8>>,
    /// What could not be removed, or stays: not tried again.
    stuck: FxHashSet<Vec<u8>>,
    spared: bool,
}

/// What happened to one name.
enum Step {
    Gone,
    Enter(OwnedFd),
    MovedAs(Vec<u8>),
    Spared,
    Stuck(Cause),
}

impl<'a> Remover<'a> {
    pub(crate) fn new(target: &'a Target, top: BorrowedFd<'a>, spare: Option<Spare<'a>>) -> Self {
        let (levels, moved) = (Vec::new(), Vec::new());
        Remover { target, top, spare, levels, moved, removed: 0, problem: None }
    }

    /// Gives the number of objects removed.
    pub(crate) fn remove(mut self, name: &[u8], path: &[u8]) -> Result<u64, Problem> {
        self.visit(name.to_vec(), path.to_vec());
        loop {
            while let Some(level) = self.levels.last_mut() {
                match level.next() {
                    Ok(Some((name, path))) => self.visit(name, path),
                    Ok(None) => self.leave(),
                    Err(error) => self.give_up_level(error),
                }
            }
            match self.moved.pop() {
                Some((name, path)) => self.visit(name, path),
                None => break,
            }
        }
        self.problem.map_or(Ok(self.removed), Err)
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.levels.last().map_or(self.top, |level| level.fd.as_fd())
    }

    fn visit(&mut self, name: Vec<u8>, path: Vec<u8>) {
        match self.step(&name, &path) {
            Step::Gone => self.removed += 1,
            Step::Spared => self.stay(name),
            Step::MovedAs(temporary) => self.moved.push((temporary, path)),
            Step::Stuck(cause) => self.stuck(name, &path, cause),
            Step::Enter(fd) => {
                let (waiting, stuck) = Default::default();
                let spared = self.is_spared(&path, true);
                self.levels.push(Level { fd, name, path, waiting, stuck, spared });
            }
        }
    }

    fn is_spared(&self, path: &[u8], is_directory: bool) -> bool {
        self.spare.is_some_and(|spare| spare(path, is_directory))
    }

    fn step(&self, name: &[u8], path: &[u8]) -> Step {
        self.try_step(name, path).unwrap_or_else(|cause| match cause {
            Cause::System(Errno::NOENT) => Step::Gone,
            cause => Step::Stuck(cause),
        })
    }

    fn try_step(&self, name: &[u8], path: &[u8]) -> Result<Step, Cause> {
        let here = self.here();
        let stat = system::look(here, name)?;
        if system::file_type(&stat) != FileType::Directory {
            if self.is_spared(path, false) {
                return Ok(Step::Spared);
            }
            flags::unlock(here, name, &stat);
            rustix::fs::unlinkat(here, name, AtFlags::empty())?;
            return Ok(Step::Gone);
        }
        let open = directory::open_child(here, name, &self.target.0.caller)?;
        self.refuse_mount(open.as_fd())?;
        // What may have to stay is neither loosened nor moved.
        if self.spare.is_some() {
            return Ok(Step::Enter(open));
        }
        directory::loosen(open.as_fd(), &self.target.0.caller)?;
        if self.levels.len() < MAX_LEVELS {
            return Ok(Step::Enter(open));
        }
        let temporary = self.target.temporary_name();
        rustix::fs::renameat(here, name, self.top, &temporary[..])?;
        Ok(Step::MovedAs(temporary))
    }

    /// Asked of the open directory: what is mounted over it later is not what we hold.
    fn refuse_mount(&self, open: BorrowedFd<'_>) -> Result<(), Cause> {
        let stat = system::look_at(open)?;
        let other = system::device(&system::look_at(self.top)?) != system::device(&stat);
        if other || stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Err(Cause::MountPoint);
        }
        Ok(())
    }

    /// All in it is gone, or cannot go.
    fn leave(&mut self) {
        let Some(level) = self.levels.pop() else {
            return;
        };
        if level.spared || !level.stuck.is_empty() {
            self.stay(level.name);
            return;
        }
        match rustix::fs::unlinkat(self.here(), &level.name[..], AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => self.removed += 1,
            Err(error) => self.stuck(level.name, &level.path, error.into()),
        }
    }

    fn give_up_level(&mut self, error: Errno) {
        if let Some(level) = self.levels.pop() {
            self.stuck(level.name, &level.path, error.into());
        }
    }

    fn stuck(&mut self, name: Vec<u8>, path: &[u8], cause: Cause) {
        self.problem.get_or_insert_with(|| Problem::new(path, Operation::Remove, cause));
        self.stay(name);
    }

    fn stay(&mut self, name: Vec<u8>) {
        if let Some(level) = self.levels.last_mut() {
            level.stuck.insert(name);
        }
    }
}

impl Level {
    /// The next name and its path; listed again when a batch is used up.
    fn next(&mut self) -> Result<Option<NameAndPath>, Errno> {
        if self.waiting.is_empty() {
            let stuck = &self.stuck;
            self.waiting = system::list(self.fd.as_fd(), BATCH, &|name| stuck.contains(name))?;
        }
        Ok(self.waiting.pop().map(|name| {
            let path = names::join(&self.path, &name);
            (name, path)
        }))
    }
}
