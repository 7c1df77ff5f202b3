//! Counts a tree as [`crate::removal::Remover`] would remove it, for a dry run.

use crate::extraneous::{KeepFilter, RemovalOutcome, is_repository, refuse_mount};
use crate::flags;
use crate::names;
use crate::problem::{RestoreCause, RestoreOperation, RestoreProblem};
use crate::system;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Dir, FileType, OFlags, Statx};
use rustix::io::Errno;

/// Counts a tree. Only one directory is open at a time, at any depth.
pub(crate) struct RemovalCounter<'a> {
    top: BorrowedFd<'a>,
    keep: Option<KeepFilter<'a>>,
    /// Who removes.
    uid: u32,
    levels: Vec<Level>,
    counted: RemovalOutcome,
}

/// A directory above the current one.
struct Level {
    /// Subdirectories that are not counted yet.
    waiting: Vec<Vec<u8>>,
    /// Something in it stays, so it stays, too.
    stays: bool,
}

impl<'a> RemovalCounter<'a> {
    /// Counts below `top`, which holds the first name.
    pub(crate) fn new(top: BorrowedFd<'a>, keep: Option<KeepFilter<'a>>, uid: u32) -> Self {
        Self { top, keep, uid, levels: Vec::new(), counted: RemovalOutcome::default() }
    }

    pub(crate) fn count(mut self, name: &[u8], path: &[u8]) -> RemovalOutcome {
        let above = path.len() - name.len();
        match system::stat_at(self.top, name) {
            Ok(stat) if is_directory(&stat) => self.enter(path.to_vec(), above),
            Ok(stat) => self.counted.stays = !self.leaf(path, &stat),
            Err(error) => self.stuck(path, error.into()),
        }
        while let Some(level) = self.levels.last_mut() {
            match level.waiting.pop() {
                Some(path) => self.enter(path, above),
                None => self.leave(),
            }
        }
        self.counted
    }

    /// Counts an object that is not a directory. Returns whether it would be removed.
    fn leaf(&mut self, path: &[u8], stat: &Statx) -> bool {
        let goes = !self.keep.is_some_and(|keep| keep(path, false));
        if let (true, Err(cause)) = (goes, flags::refuse_locked(stat)) {
            self.stuck(path, cause);
            return false;
        }
        if goes {
            self.counted.objects += 1;
            self.counted.bytes += system::file_bytes(stat);
        }
        goes
    }

    fn enter(&mut self, path: Vec<u8>, above: usize) {
        let level = match self.list(&path, above) {
            Ok(level) => level,
            Err(RestoreCause::System(Errno::ACCESS)) if self.is_own(&path[above..]) => {
                self.counted.unread.push(path);
                Level { waiting: Vec::new(), stays: false }
            }
            Err(cause) => return self.stuck(&path, cause),
        };
        self.levels.push(level);
    }

    /// Whether who removes can make a directory readable first.
    fn is_own(&self, path: &[u8]) -> bool {
        let stat = system::open_beneath(self.top, path, OFlags::PATH)
            .and_then(|open| system::stat_open(open.as_fd()));
        stat.is_ok_and(|stat| stat.stx_uid == self.uid)
    }

    fn list(&mut self, path: &[u8], above: usize) -> Result<Level, RestoreCause> {
        let open = system::open_beneath(self.top, &path[above..], OFlags::RDONLY)?;
        flags::refuse_locked(&system::stat_open(open.as_fd())?)?;
        refuse_mount(self.top, open.as_fd())?;
        if is_repository(open.as_fd()) {
            self.counted.repositories.push(path.to_vec());
            return Ok(Level { waiting: Vec::new(), stays: true });
        }
        let is_kept = self.keep.is_some_and(|keep| keep(path, true));
        let mut level = Level { waiting: Vec::new(), stays: is_kept };
        for item in Dir::read_from(&open)? {
            let item = item?;
            let name = item.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let below = names::join(path, name);
            match system::stat_at(open.as_fd(), name) {
                Ok(stat) if is_directory(&stat) => level.waiting.push(below),
                Ok(stat) => level.stays |= !self.leaf(&below, &stat),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(level)
    }

    fn leave(&mut self) {
        match self.levels.pop() {
            Some(level) if level.stays => self.stays_above(),
            Some(_) => self.counted.objects += 1,
            None => {}
        }
    }

    fn stuck(&mut self, path: &[u8], cause: RestoreCause) {
        let problem = || RestoreProblem::new(path, RestoreOperation::Remove, cause);
        self.counted.problem.get_or_insert_with(problem);
        self.stays_above();
    }

    fn stays_above(&mut self) {
        match self.levels.last_mut() {
            Some(level) => level.stays = true,
            None => self.counted.stays = true,
        }
    }
}

fn is_directory(stat: &Statx) -> bool {
    system::file_type(stat) == FileType::Directory
}
