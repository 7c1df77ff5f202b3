//! Writes the objects of a snapshot into a target directory, and nothing outside it.
//!
//! The caller fetches and plans; this crate creates objects. Every call works through the handle of
//! a directory below [`Target`]'s root, on one checked name, and never follows a symlink:
//!
//! | promise | kept by |
//! |---|---|
//! | nothing is written outside the root | `openat2` beneath, no symlinks; `O_EXCL`, `O_NOFOLLOW`; names checked (`names`) |
//! | a crash leaves the old file or the new one | a temporary name and `renameat` where something existed (`replace`) |
//! | two entries never overwrite each other | objects created since the start are not replaced (`replace`) |
//! | nobody gains access, even briefly | owner, mode, ACL, capability, in this order (`metadata`) |
//! | attributes that cannot be set are reported | [`Degraded`], by path |
//! | no rights of others from a snapshot that another party chose | no setuid, capability or device (`withheld`) |
//!
//! Order of a restore: [`Target::directory`], what is in it in any order and from any thread, hard
//! links, [`Target::finish_directory`] from the leaves upward, [`Target::sync`]. The mtime of a
//! file is set after everything but the inode flags: a file with equal size and mtime is complete,
//! unless the power failed before it was durable. A marker shows that ([`Target::write_marker`]).
//!
//! All threads must have the file-system ids, capabilities and umask of the thread that opened the
//! target, which are read once. The umask is not changed, because it belongs to the whole process;
//! the bits that it removes are set again with `fchmod`.

mod abilities;
mod above;
pub mod acl;
mod cache;
mod confined;
mod credentials;
mod directory;
mod elsewhere;
mod extraneous;
mod file;
mod fixing;
mod flags;
mod handle;
mod kept;
mod leftovers;
mod link;
mod marker;
mod metadata;
mod names;
mod old_links;
mod open_file;
mod opened_up;
mod options;
mod others;
mod owners;
mod problem;
mod refused;
mod removal;
mod removal_count;
mod replace;
mod snapshot_names;
mod special;
mod spelling;
mod system;
mod target;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod unfinished;
mod verify;
mod withheld;
mod xattrs;

pub use directory::{DirHandle, Directory};
pub use extraneous::{KeepFilter, RemovalOutcome, is_in_repository};
pub use marker::RestoreScope;
pub use open_file::{OpenFile, StartedFile};
pub use options::{Overwrite, OwnerMapping, TargetOptions};
pub use problem::{
    Attribute, Degradations, Degraded, RestoreCause, RestoreOperation, RestoreOutcome,
    RestoreProblem, Several,
};
pub use snapshot_names::SnapshotNames;
pub use target::Target;
pub use verify::{ContentMatch, Difference};
