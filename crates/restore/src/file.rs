//! Regular files: creating them, and writing small ones.

use crate::directory::Directory;
use crate::flags;
use crate::handle::AttributeHandle;
use crate::metadata::CurrentAttributes;
use crate::problem::{RestoreOperation, RestoreOutcome, RestoreProblem};
use crate::refused;
use crate::replace::{Existing, Staged, StagedName};
use crate::system;
use crate::target::Target;
use format::entry::{Entry, Kind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

/// Always a new inode, never through a link.
const CREATE: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::WRONLY)
    .union(OFlags::CLOEXEC);

const ACCESS_ACL: &str = "system.posix_acl_access";

impl Target {
    /// Restores a whole file at once. A file of the calling user with a free name takes four system
    /// calls: open, write, set the time, close (three if it is empty).
    pub fn small_file(
        &self,
        parent: &Directory,
        entry: &Entry,
        content: &[u8],
    ) -> Result<RestoreOutcome, RestoreProblem> {
        let restored = self.whole_file(parent, entry, content);
        restored.map_err(|problem| self.place(parent, problem))
    }

    fn whole_file(
        &self,
        parent: &Directory,
        entry: &Entry,
        content: &[u8],
    ) -> Result<RestoreOutcome, RestoreProblem> {
        let (file, staged) = match self.create(parent, entry)? {
            Staged::New(file, staged) => (file, staged),
            Staged::Settled(outcome) => return Ok(outcome),
        };
        if let Err(error) = system::write_all(file.as_fd(), content) {
            self.abandon(parent, entry, &staged);
            return Err(RestoreProblem::new(&entry.path, RestoreOperation::Write, error));
        }
        self.complete(parent, file.as_fd(), entry, &staged)
    }

    pub(crate) fn create(
        &self,
        parent: &Directory,
        entry: &Entry,
    ) -> Result<Staged<OwnedFd>, RestoreProblem> {
        let mode = Mode::from_raw_mode(self.early_mode(parent, entry));
        let make = |fd: BorrowedFd<'_>, name: &[u8]| rustix::fs::openat(fd, name, CREATE, mode);
        let staged = self.stage(parent, entry, Existing::MayStay, make);
        staged.map_err(|problem| refused::explain(parent.fd(), Kind::File, problem))
    }

    /// The mode for creation: the final one if nobody else can access the file meanwhile, otherwise
    /// no access for others until owner and ACL are set. Setuid and setgid come after the owner. If
    /// attributes follow, the owner must be able to write.
    fn early_mode(&self, parent: &Directory, entry: &Entry) -> u32 {
        let mode = u32::from(entry.attributes.mode) & 0o777;
        let (uid, gid) = self.0.owners.of(&entry.attributes);
        let own = uid == self.0.credentials.uid && parent.group == Some(gid);
        let plain = entry.attributes.xattrs.is_empty() && !parent.gives_acl;
        if plain && (own || parent.private) { mode } else { 0o600 }
    }

    /// Attributes, the final name, inode flags.
    pub(crate) fn complete(
        &self,
        parent: &Directory,
        file: BorrowedFd<'_>,
        entry: &Entry,
        staged: &StagedName,
    ) -> Result<RestoreOutcome, RestoreProblem> {
        if parent.gives_acl {
            let _ = rustix::fs::fremovexattr(file, ACCESS_ACL); // file systems without ACLs have none
        }
        self.apply(AttributeHandle::open(file), entry, self.after_creation(parent, entry));
        self.commit_or_abandon(parent, entry, staged)?;
        // Not every file system gives new files the flag.
        let inherited = parent.gives_nodump.then(|| system::stat_open(file));
        let inherited = inherited.and_then(Result::ok).map_or(0, |stat| flags::recorded(&stat));
        self.set_flags(file, entry, inherited);
        Ok(staged.outcome())
    }

    fn after_creation(&self, parent: &Directory, entry: &Entry) -> CurrentAttributes {
        let credentials = &self.0.credentials;
        let mode = self.early_mode(parent, entry) & !credentials.umask;
        let mode = (!parent.gives_acl).then_some(mode);
        CurrentAttributes { uid: credentials.uid, gid: parent.group, mode, kept: false }
    }
}
