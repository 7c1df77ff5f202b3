//! Files that are written in pieces, in any order, by several threads.

use crate::directory::DirHandle;
use crate::problem::{RestoreCause, RestoreOperation, RestoreOutcome, RestoreProblem};
use crate::replace::{Staged, StagedName};
use crate::system;
use crate::target::Target;
use format::entry::{Content, Entry};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Zeros for file systems that cannot allocate.
static ZEROS: [u8; 65_536] = [0; 65_536];

/// The result of starting a file.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and mostly the large one"
)]
pub enum StartedFile {
    /// Nothing to write: it is unchanged or kept, or this is a dry run.
    Settled(RestoreOutcome),
    /// The file, to write and finish.
    Open(OpenFile),
}

/// A file that is being written. If dropped without [`OpenFile::finish`], it is removed.
pub struct OpenFile {
    target: Target,
    parent: DirHandle,
    file: OwnedFd,
    entry: Entry,
    staged: StagedName,
    finished: bool,
}

impl Target {
    /// Creates the file in its full length, as one hole, or with the content that the entry holds
    /// itself.
    pub fn start_file(
        &self,
        parent: &DirHandle,
        entry: &Entry,
    ) -> Result<StartedFile, RestoreProblem> {
        let created = self.create(parent, entry).map_err(|problem| self.place(parent, problem));
        let (file, staged) = match created? {
            Staged::New(file, staged) => (file, staged),
            Staged::Settled(outcome) => return Ok(StartedFile::Settled(outcome)),
        };
        let file = OpenFile {
            target: self.clone(),
            parent: parent.clone(),
            file,
            entry: Entry { content: Default::default(), ..entry.clone() },
            staged,
            finished: false,
        };
        if entry.size > 0 {
            rustix::fs::ftruncate(&file.file, entry.size).map_err(|e| file.problem(e))?;
        }
        if let Content::Inline(bytes) = &entry.content {
            file.write_at(0, bytes)?; // nobody else has it: pieces are of content that lies elsewhere
        }
        Ok(StartedFile::Open(file))
    }
}

impl OpenFile {
    fn problem(&self, error: impl Into<RestoreCause>) -> RestoreProblem {
        let problem = RestoreProblem::new(&self.entry.path, RestoreOperation::Write, error);
        self.target.place(&self.parent, problem)
    }

    fn check_range(&self, offset: u64, length: u64) -> Result<(), RestoreProblem> {
        match offset.checked_add(length) {
            Some(end) if end <= self.entry.size => Ok(()),
            _ => Err(self.problem(RestoreCause::BeyondEnd)),
        }
    }

    /// Writes a piece. Pieces do not overlap; their order does not matter.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), RestoreProblem> {
        self.check_range(offset, bytes.len() as u64)?;
        system::write_all_at(self.file.as_fd(), offset, bytes).map_err(|e| self.problem(e))
    }

    /// Writes zeros: nothing to do for a sparse file, allocated otherwise.
    pub fn hole(&self, offset: u64, length: u64) -> Result<(), RestoreProblem> {
        self.check_range(offset, length)?;
        if self.target.0.options.sparse || length == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(offset, length),
            result => result.map_err(|e| self.problem(e)),
        }
    }

    fn write_zeros(&self, mut offset: u64, mut length: u64) -> Result<(), RestoreProblem> {
        while length > 0 {
            let piece = length.min(ZEROS.len() as u64);
            self.write_at(offset, &ZEROS[..piece as usize])?;
            offset += piece;
            length -= piece;
        }
        Ok(())
    }

    /// Finishes the file: attributes, the final name, inode flags. `entry` must be the one that it
    /// was started with.
    pub fn finish(mut self, entry: &Entry) -> Result<RestoreOutcome, RestoreProblem> {
        self.finished = true; // from here on `complete` removes it on failure
        let completed = self.target.complete(&self.parent, self.file.as_fd(), entry, &self.staged);
        completed.map_err(|problem| self.target.place(&self.parent, problem))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !self.finished {
            self.target.abandon(&self.parent, &self.entry, &self.staged);
        }
    }
}
