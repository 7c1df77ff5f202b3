//! Capture: walks trees in order, decides what to exclude, reads files safely while others change
//! them, and leaves the page cache and the access times of the host as they were.
//!
//! - [`walk`]: a parallel walk whose output is in the order of `format::entry::compare_paths`.
//! - [`excludes`]: patterns, `.gitignore` files, and why a path is included or excluded.
//! - [`read`]: small and large files, symlink targets, and the rule for racy files.
//! - [`mount_points`]: where something should be mounted.
//! - [`xattrs`], [`owners`]: the other attributes of an object.
//! - [`FoundName`]: whether two names are of one file.
//! - [`mod@bench`]: benchmarks of walking and reading alone.
//! - [`priority`]: nice, idle I/O, and the limit of open files.

pub mod bench;
pub mod excludes;
mod file_system_kinds;
mod found_name;
mod gone;
pub mod mount_points;
mod overlay;
pub mod owners;
pub mod priority;
mod problem;
pub mod read;
mod syscalls;
#[cfg(test)]
mod testing;
pub mod walk;
pub mod xattrs;

pub use found_name::FoundName;
pub use problem::{CaptureOperation, CaptureProblem};
