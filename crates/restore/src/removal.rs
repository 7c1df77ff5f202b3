//! Removes a tree: below the root, on one file system, without following symlinks, and with a
//! bounded number of open directories at any depth.

use crate::directory;
use crate::extraneous::{KeepFilter, RemovalOutcome, is_repository, refuse_mount};
use crate::flags;
use crate::names;
use crate::problem::{RestoreCause, RestoreOperation, RestoreProblem};
use crate::system;
use crate::target::Target;
use rustc_hash::FxHashSet;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

/// Names in memory at a time, for each level.
const BATCH: usize = 8_192;

/// Directories open at a time. Deeper ones are first moved up beside the top.
const MAX_LEVELS: usize = 64;

/// Removes one tree. Not recursive: trees may be thousands of levels deep.
pub(crate) struct Remover<'a> {
    target: &'a Target,
    top: BorrowedFd<'a>,
    keep: Option<KeepFilter<'a>>,
    levels: Vec<Level>,
    /// Names beside the top that were moved because they were too deep, and their old paths.
    moved: Vec<NameAndPath>,
    /// With the first problem; the rest of the tree is removed all the same.
    removed: RemovalOutcome,
}

type NameAndPath = (Vec<u8>, Vec<u8>);

struct Level {
    fd: OwnedFd,
    /// Its mode, if that had to be changed.
    before: Option<u32>,
    name: Vec<u8>,
    path: Vec<u8>,
    waiting: Vec<Vec<u8>>,
    /// Names that cannot be removed, or are kept; not tried again.
    stuck: FxHashSet<Vec<u8>>,
    kept: bool,
}

/// The result for one name.
enum Step {
    /// With so many bytes of a file.
    Gone(u64),
    /// Open, and its mode if that had to be changed.
    Enter(OwnedFd, Option<u32>),
    MovedAs(Vec<u8>),
    Kept,
    Repository,
    Stuck(RestoreCause),
}

impl<'a> Remover<'a> {
    pub(crate) fn new(
        target: &'a Target,
        top: BorrowedFd<'a>,
        keep: Option<KeepFilter<'a>>,
    ) -> Self {
        let (levels, moved, removed) = Default::default();
        Remover { target, top, keep, levels, moved, removed }
    }

    /// Removes the tree at `name`, as far as possible.
    pub(crate) fn remove(mut self, name: &[u8], path: &[u8]) -> RemovalOutcome {
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
        self.removed
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.levels.last().map_or(self.top, |level| level.fd.as_fd())
    }

    fn visit(&mut self, name: Vec<u8>, path: Vec<u8>) {
        match self.step(&name, &path) {
            Step::Gone(bytes) => {
                self.removed.objects += 1;
                self.removed.bytes += bytes;
            }
            Step::Kept => self.stay(name),
            Step::Repository => {
                self.removed.repositories.push(path);
                self.stay(name);
            }
            Step::MovedAs(temporary) => self.moved.push((temporary, path)),
            Step::Stuck(cause) => self.stuck(name, &path, cause),
            Step::Enter(fd, before) => {
                let (waiting, stuck) = Default::default();
                let kept = self.is_kept(&path, true);
                self.levels.push(Level { fd, before, name, path, waiting, stuck, kept });
            }
        }
    }

    fn is_kept(&self, path: &[u8], is_directory: bool) -> bool {
        self.keep.is_some_and(|keep| keep(path, is_directory))
    }

    fn step(&self, name: &[u8], path: &[u8]) -> Step {
        self.try_step(name, path).unwrap_or_else(|cause| match cause {
            RestoreCause::System(Errno::NOENT) => Step::Gone(0),
            cause => Step::Stuck(cause),
        })
    }

    fn try_step(&self, name: &[u8], path: &[u8]) -> Result<Step, RestoreCause> {
        let here = self.here();
        let stat = system::stat_at(here, name)?;
        if system::file_type(&stat) != FileType::Directory {
            if self.is_kept(path, false) {
                return Ok(Step::Kept);
            }
            flags::refuse_locked(&stat)?;
            rustix::fs::unlinkat(here, name, AtFlags::empty())?;
            return Ok(Step::Gone(system::file_bytes(&stat)));
        }
        flags::refuse_locked(&stat)?;
        let (open, unread) = directory::open_child(here, name, &self.target.0.credentials)?;
        let unread = unread.map(|before| system::mode(&before));
        let mounted = refuse_mount(self.top, open.as_fd());
        if mounted.is_err() || is_repository(open.as_fd()) {
            close_again(open.as_fd(), unread);
            return mounted.map(|()| Step::Repository);
        }
        // If something may be kept, directories are neither changed nor moved.
        if self.keep.is_some() {
            return Ok(Step::Enter(open, unread));
        }
        let unwritten = directory::make_writable(open.as_fd(), &self.target.0.credentials)?;
        let unwritten = unwritten.map(|before| system::mode(&before));
        if self.levels.len() < MAX_LEVELS {
            return Ok(Step::Enter(open, unread.or(unwritten)));
        }
        let temporary = self.target.temporary_name();
        rustix::fs::renameat(here, name, self.top, &temporary[..])?;
        Ok(Step::MovedAs(temporary))
    }

    /// Leaves a directory: its content is removed, or cannot be.
    fn leave(&mut self) {
        let Some(level) = self.levels.pop() else {
            return;
        };
        if level.kept || !level.stuck.is_empty() {
            close_again(level.fd.as_fd(), level.before);
            self.stay(level.name);
            return;
        }
        match rustix::fs::unlinkat(self.here(), &level.name[..], AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => self.removed.objects += 1,
            Err(error) => self.stuck(level.name, &level.path, error.into()),
        }
    }

    fn give_up_level(&mut self, error: Errno) {
        if let Some(level) = self.levels.pop() {
            self.stuck(level.name, &level.path, error.into());
        }
    }

    fn stuck(&mut self, name: Vec<u8>, path: &[u8], cause: RestoreCause) {
        self.removed
            .problem
            .get_or_insert_with(|| RestoreProblem::new(path, RestoreOperation::Remove, cause));
        self.stay(name);
    }

    fn stay(&mut self, name: Vec<u8>) {
        match self.levels.last_mut() {
            Some(level) => _ = level.stuck.insert(name),
            None => self.removed.stays = true,
        }
    }
}

/// What stays gets the mode back that it had.
fn close_again(directory: BorrowedFd<'_>, before: Option<u32>) {
    if let Some(mode) = before {
        let _ = rustix::fs::fchmod(directory, Mode::from_raw_mode(mode));
    }
}

impl Level {
    /// The next name and its path; lists the directory again when a batch is used up.
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
