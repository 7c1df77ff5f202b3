//! What a backup takes from the machine: walks trees in order, decides what is left out, reads
//! files without being fooled by those who change them meanwhile, and leaves the host as found.
//!
//! - [`walk`]: a parallel walk whose output is in the order of `format::entry::compare_paths`.
//! - [`excludes`]: patterns, `.gitignore` files, and why a path is in or out.
//! - [`read`]: small and large files, symlink targets, the racy rule.
//! - [`xattrs`], [`owners`]: the rest of an object's attributes.
//! - [`mod@bench`]: what walking and reading cost alone.
//! - [`priority`]: nice and idle I/O.

pub mod bench;
pub mod excludes;
pub mod owners;
pub mod priority;
mod problem;
pub mod read;
mod syscalls;
#[cfg(test)]
mod testing;
pub mod walk;
pub mod xattrs;

pub use problem::{CaptureOperation, CaptureProblem};
