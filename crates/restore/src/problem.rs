//! What happened to an object: an outcome, a problem, or a missing attribute.

use format::entry::Kind;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The operation that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreOperation {
    /// Opening the target or a directory in it.
    Open,
    /// Creating an object.
    Create,
    /// Writing content.
    Write,
    /// Creating a hard link.
    Link,
    /// Replacing an old object by the new one.
    Replace,
    /// Removing an extraneous object.
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

/// An error of the kernel in words, without its number.
fn words(error: Errno) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// Objects of a kind, in words.
fn many(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "files",
        Kind::Directory => "directories",
        Kind::Symlink => "symbolic links",
        Kind::Fifo => "FIFOs",
        Kind::Socket => "sockets",
        Kind::CharDevice | Kind::BlockDevice => "device nodes",
    }
}

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RestoreCause {
    /// The kernel returned an error.
    #[error("{}", words(*.0))]
    System(#[from] Errno),
    /// The path is not allowed in a snapshot (`..`, absolute, empty or with NUL).
    #[error("the path is not a clean relative path")]
    UnsafePath,
    /// An object with this name was created since the restore started, or has another spelling on
    /// this file system: the other entry keeps it.
    #[error("another entry of this restore has the same name here (case, spelling or duplicate)")]
    Collision,
    /// Another object has this name, and the options forbid replacing it.
    #[error("another object has this name and must not be overwritten")]
    Occupied,
    /// A link, or what else is no directory, has the name of a directory above what was backed up.
    #[error(
        "it is a link or a file here, and only what lies below it was backed up; to restore that elsewhere or behind the link, name it: icecore restore SNAPSHOT:PATH --target DIR"
    )]
    AboveSources,
    /// A link has the name of a path that was backed up as a directory.
    #[error(
        "it is a symbolic link here, and was backed up as a directory; to restore what is in it behind the link, name it: icecore restore SNAPSHOT:PATH --target DIR; to replace the link: --overwrite always"
    )]
    LinkToSource,
    /// The file differs from that in the snapshot, in the target of an interrupted restore: it may
    /// be the work of a user, or incomplete.
    #[error(
        "it differs from that in the snapshot, and may be incomplete because a restore was interrupted; check it, then move it away or restore it with --overwrite always"
    )]
    MaybeIncomplete,
    /// A directory that is not empty has this name, and deleting was not requested.
    #[error("a directory that is not empty has this name; restore with --delete to remove it")]
    NotEmpty,
    /// Somebody locked what is to be deleted.
    #[error("it is immutable or append-only, so it was not deleted; to unlock it: chattr -i -a")]
    Locked,
    /// The same of the directory in which it lies.
    #[error(
        "its directory was immutable or append-only, so it was not deleted; delete it yourself if it is to go"
    )]
    InLocked,
    /// A mount point, which is never removed or entered.
    #[error("it is a mount point")]
    MountPoint,
    /// The content is longer than the recorded size of the file.
    #[error("the content is longer than the recorded size")]
    BeyondEnd,
    /// A link, or another object that is not a folder, in the path of a target that another party
    /// chose.
    #[error(
        "a name in the path is a symbolic link or not a directory; write the real path of the directory"
    )]
    NotAFolder,
    /// A folder below which others may request restores, and in which others could create links.
    #[error(
        "it must belong to root or this user, and only the owner may write to it: chown root, chmod go-w"
    )]
    WritableByOthers,
    /// Not a name that this file system takes.
    #[error(
        "this file system cannot hold such a name; restore it to another one with --target DIR"
    )]
    NameRefused,
    /// Not a kind of object that this file system has.
    #[error("this file system has no {}; restore it to another one with --target DIR", many(*.0))]
    KindRefused(Kind),
    /// A device, of a snapshot that another party chose.
    #[error(
        "a restore that the server ordered makes no devices; to allow them, on this machine in allow.toml: restore_privileged = true"
    )]
    DeviceWithheld,
    /// Not the kind of object that this call restores.
    #[error("it is not the expected kind of object")]
    WrongKind,
}

/// An object that could not be restored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot {operation} {}: {error}", OsStr::from_bytes(.path).display())]
pub struct RestoreProblem {
    /// Its path below the target.
    pub path: Vec<u8>,
    /// The operation that failed.
    pub operation: RestoreOperation,
    /// Why an operation failed.
    pub error: RestoreCause,
    /// It concerns a file system that is mounted inside the target, not that of the target.
    is_elsewhere: bool,
}

impl RestoreProblem {
    pub(crate) fn new(
        path: &[u8],
        operation: RestoreOperation,
        error: impl Into<RestoreCause>,
    ) -> Self {
        RestoreProblem { path: path.to_vec(), operation, error: error.into(), is_elsewhere: false }
    }

    /// The same, of a file system that is mounted inside the target.
    pub(crate) fn elsewhere(self) -> Self {
        Self { is_elsewhere: true, ..self }
    }

    /// The error of a file system that takes nothing more, whichever it is.
    pub(crate) fn of_file_system(&self) -> Option<Errno> {
        match self.error {
            RestoreCause::System(error @ (Errno::NOSPC | Errno::DQUOT | Errno::ROFS)) => {
                Some(error)
            }
            _ => None,
        }
    }

    /// The message without the path.
    pub fn reason(&self) -> String {
        format!("cannot {} it: {}", self.operation, self.error)
    }

    /// Whether nothing more can be written to the target, so that the caller should stop. A file
    /// system that is mounted inside the target stops nothing but what lies in it.
    pub fn no_space(&self) -> bool {
        !self.is_elsewhere && self.of_file_system().is_some()
    }

    /// Whether the system does not allow it.
    pub fn is_denied(&self) -> bool {
        matches!(self.error, RestoreCause::System(Errno::ACCESS | Errno::PERM))
    }

    /// Whether that is because the target is mounted read-only.
    pub fn is_read_only(&self) -> bool {
        !self.is_elsewhere && self.of_file_system() == Some(Errno::ROFS)
    }
}

/// The outcome of an object without a problem; in a dry run, what it would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreOutcome {
    /// It was created.
    Created,
    /// It replaced another object.
    Replaced,
    /// It existed, equal in kind, size and mtime.
    Unchanged,
    /// An existing object was kept ([`crate::Overwrite::Never`], [`crate::Overwrite::IfNewer`]).
    Kept,
    /// Only for [`crate::Target::hard_link`]: no link is possible (too many, another file system,
    /// first name missing); the caller writes the content again under this name.
    NeedsCopy,
}

/// An attribute that may be missing or differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attribute {
    /// Kind of object.
    Kind,
    /// The object does not exist.
    Presence,
    /// User or group.
    Owner,
    /// Permission bits.
    Mode,
    /// This extended attribute (also ACLs and capabilities).
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
    /// What is left out because another party chose the snapshot, in words.
    Withheld(&'static str),
}

/// An attribute that could not be set. The object was restored without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Degraded {
    /// Its path below the target.
    pub path: Vec<u8>,
    /// The missing attribute.
    pub attribute: Attribute,
    /// The error of the kernel.
    pub error: Errno,
}

impl Degraded {
    /// The message without the path.
    pub fn reason(&self) -> String {
        match &self.attribute {
            Attribute::Withheld(what) => format!(
                "{what} not restored, because the server ordered this restore; to allow it, on this machine in allow.toml: restore_privileged = true"
            ),
            attribute => format!("{attribute} not restored: {}", words(self.error)),
        }
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
            Attribute::Withheld(what) => what,
        })
    }
}

/// The degradations since the last [`crate::Target::take_degraded`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Degradations {
    /// The degradations, in the order in which they happened.
    pub list: Vec<Degraded>,
    /// How many more there were after the list was full.
    pub more: u64,
    /// Objects whose owner could not be set.
    pub owners: Several,
    /// Objects whose mode was set, and is another one: the file system keeps none.
    pub modes: Several,
    /// Objects whose time is less exact than recorded, by less than a second: the file system keeps no more.
    pub times: Several,
}

/// Objects of which only the first is told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Several {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Option<Degraded>,
}

impl Several {
    /// Only the first one is stored.
    pub(crate) fn push(&mut self, degraded: impl FnOnce() -> Degraded) {
        self.count += 1;
        self.first.get_or_insert_with(degraded);
    }
}

/// The most entries until the caller takes them: about 20 MB at worst.
const MAX_DEGRADATIONS: usize = 100_000;

impl Degradations {
    pub(crate) fn push(&mut self, degraded: Degraded) {
        if self.list.len() < MAX_DEGRADATIONS {
            self.list.push(degraded);
        } else {
            self.more += 1;
        }
    }
}
