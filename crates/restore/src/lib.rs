//! Writes the objects of a snapshot into a target directory, and nothing outside it.
//!
//! The caller fetches and plans; this crate creates. Every call works through the handle of a
//! directory below [`Target`]'s root, on one checked name, and never follows a symlink:
//!
//! | promise | kept by |
//! |---|---|
//! | nothing is written outside the root | `openat2` beneath, no symlinks; `O_EXCL`, `O_NOFOLLOW`; names checked (`names`) |
//! | a crash leaves the old file or the new one | a temporary name and `renameat` where something existed (`replace`) |
//! | two entries never fall on one object | what was born since the start is not replaced (`replace`) |
//! | nobody gains a right for a moment | owner, mode, ACL, capability, in this order (`metadata`) |
//! | what could not be set is said | [`Degraded`], by path |
//!
//! Order of a restore: [`Target::directory`], what is in it in any order and from any thread,
//! hard links, [`Target::finish_directory`] from the leaves upward, [`Target::sync`]. A file's mtime
//! is set after all but the inode flags: who finds size and mtime equal finds a finished file, unless
//! the power failed before it was durable. Of that a marker tells ([`Target::write_marker`]).
//!
//! All threads must have the file-system ids, capabilities and umask of the thread that opened the
//! target: they are read once. The umask is not changed (it belongs to the whole process); where
//! it took bits away, one more `fchmod` brings them back.

mod acl;
mod cache;
mod confined;
mod credentials;
mod directory;
mod extraneous;
mod file;
mod flags;
mod handle;
mod link;
mod metadata;
mod names;
mod open_file;
mod options;
mod owners;
mod problem;
mod removal;
mod removal_count;
mod replace;
mod special;
mod system;
mod target;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod unfinished;
mod verify;
mod xattrs;

pub use directory::{DirHandle, Directory};
pub use extraneous::{KeepFilter, RemovalOutcome};
pub use open_file::{OpenFile, StartedFile};
pub use options::{Overwrite, OwnerMapping, TargetOptions};
pub use problem::{
    Attribute, Degradations, Degraded, RestoreCause, RestoreOperation, RestoreOutcome,
    RestoreProblem,
};
pub use target::Target;
pub use verify::{ContentMatch, Difference};
