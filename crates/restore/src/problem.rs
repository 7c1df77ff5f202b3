//! What came of one object: an outcome, a problem, or an attribute less.

use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What was attempted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreOperation {
    /// Opening the target or a directory in it.
    Open,
    /// Creating an object.
    Create,
    /// Writing content.
    Write,
    /// Linking a further name.
    Link,
    /// Putting the new object in the place of the old.
    Replace,
    /// Removing what the snapshot does not have.
    Remove,
    /// Reading names or attributes.
    Inspect,
    /// Making the restore durable.
    Sync,
}

impl std::fmt::Display for RestoreOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RestoreOperation::Open => "open",
            RestoreOperation::Create => "create",
            RestoreOperation::Write => "write",
            RestoreOperation::Link => "link",
            RestoreOperation::Replace => "replace",
            RestoreOperation::Remove => "remove",
            RestoreOperation::Inspect => "inspect",
            RestoreOperation::Sync => "sync",
        })
    }
}

/// Why it did not work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RestoreCause {
    /// The kernel refused.
    #[error("{0}")]
    System(#[from] Errno),
    /// Not a path that may stand in a snapshot (`..`, absolute, empty or with NUL).
    #[error("the path is not a clean relative path")]
    UnsafePath,
    /// The name leads to an object that was created since the restore began, or that has another
    /// spelling on this file system: the other entry keeps it.
    #[error("another entry of this restore has this name here (case, spelling or duplicate)")]
    Collision,
    /// Something else is there, and the options forbid to replace it.
    #[error("something else has this name, and it may not be overwritten")]
    Occupied,
    /// Newer than the snapshot's, in a target of a restore that was cut short: somebody's work, or half a file.
    #[error(
        "it is newer than the snapshot's, and may have been left half written by a restore that was cut short: look at it, then move it away or restore it with --overwrite always"
    )]
    MaybeIncomplete,
    /// A directory with content is in the way, and the options do not say delete.
    #[error("a directory that is not empty has this name; restore with --delete to remove it")]
    NotEmpty,
    /// A mount point: never removed, never entered to remove.
    #[error("it is a mount point")]
    MountPoint,
    /// Bytes beyond the recorded size of the file.
    #[error("the content is longer than the recorded size")]
    BeyondEnd,
    /// A link, or something else that is no folder, on the way to a target that somebody else chose.
    #[error("a name on the way is a symbolic link, or no folder: write the folder's real path")]
    NotAFolder,
    /// A folder below which others may order restores, and others may plant links in it.
    #[error("it is not this user's or root's alone: chown root and chmod go-w it")]
    WritableByOthers,
    /// Not a kind that this call restores.
    #[error("it is not the kind of object that was expected")]
    WrongKind,
}

/// One object that could not be restored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot {operation} {}: {error}", OsStr::from_bytes(.path).display())]
pub struct RestoreProblem {
    /// Its path below the target.
    pub path: Vec<u8>,
    /// What was attempted.
    pub operation: RestoreOperation,
    /// Why it did not work.
    pub error: RestoreCause,
}

impl RestoreProblem {
    pub(crate) fn new(
        path: &[u8],
        operation: RestoreOperation,
        error: impl Into<RestoreCause>,
    ) -> Self {
        RestoreProblem { path: path.to_vec(), operation, error: error.into() }
    }

    /// The same without the path, for who shows that beside it.
    pub fn reason(&self) -> String {
        format!("cannot {} it: {}", self.operation, self.error)
    }

    /// Nothing more can be written here: the caller stops.
    pub fn no_space(&self) -> bool {
        let full = [Errno::NOSPC, Errno::DQUOT, Errno::ROFS];
        matches!(self.error, RestoreCause::System(error) if full.contains(&error))
    }
}

/// What became of an object that gave no problem. In a dry run: what would have become of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreOutcome {
    /// It was not there and is now.
    Created,
    /// Something was there; this is in its place.
    Replaced,
    /// It was there, equal in kind, size and mtime.
    Unchanged,
    /// Something is there and stays as it is ([`crate::Overwrite::Never`], [`crate::Overwrite::IfNewer`]).
    Kept,
    /// Only [`crate::Target::hard_link`]: no link can be made (too many, other file system, first
    /// name missing); the caller writes the content once more under this name.
    NeedsCopy,
}

/// What an object may lack or differ in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attribute {
    /// Kind of object.
    Kind,
    /// It is not there.
    Presence,
    /// User or group.
    Owner,
    /// Permission bits.
    Mode,
    /// This extended attribute (ACLs and capabilities too).
    Xattr(Vec<u8>),
    /// Time of last change.
    Mtime,
    /// Immutable, append-only, no-dump.
    InodeFlags,
    /// Length.
    Size,
    /// Device number.
    Device,
    /// Target of a symlink.
    LinkTarget,
}

/// An attribute that could not be set. The object is there without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Degraded {
    /// Its path below the target.
    pub path: Vec<u8>,
    /// What it lacks.
    pub attribute: Attribute,
    /// What the kernel said.
    pub error: Errno,
}

impl Degraded {
    /// What is lacking and why, without the path.
    pub fn reason(&self) -> String {
        format!("{} not restored: {}", self.attribute, self.error)
    }
}

impl std::fmt::Display for Attribute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Attribute::Kind => "kind",
            Attribute::Presence => "presence",
            Attribute::Owner => "owner",
            Attribute::Mode => "mode",
            Attribute::Xattr(name) => {
                return write!(f, "attribute {}", OsStr::from_bytes(name).display());
            }
            Attribute::Mtime => "time of change",
            Attribute::InodeFlags => "inode flags",
            Attribute::Size => "size",
            Attribute::Device => "device number",
            Attribute::LinkTarget => "link target",
        })
    }
}

/// Collected since the last [`crate::Target::take_degraded`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Degradations {
    /// By path, in the order they happened.
    pub list: Vec<Degraded>,
    /// How many more there were when the list was full.
    pub more: u64,
    /// Objects whose owner could not be set.
    pub owners: u64,
    /// The first of these.
    pub first_owner: Option<Degraded>,
}

/// Paths are kept until the caller takes them: about 20 MB at worst.
const MAX_DEGRADATIONS: usize = 100_000;

impl Degradations {
    /// Only the first is made and kept.
    pub(crate) fn push_owner(&mut self, degraded: impl FnOnce() -> Degraded) {
        self.owners += 1;
        self.first_owner.get_or_insert_with(degraded);
    }

    pub(crate) fn push(&mut self, degraded: Degraded) {
        if self.list.len() < MAX_DEGRADATIONS {
            self.list.push(degraded);
        } else {
            self.more += 1;
        }
    }
}
