//! The bytes at rest: records, containers, pages, entries, manifests.
//!
//! Pure: no I/O, no clock, no randomness, no keys. What is here decodes bytes that nobody has
//! vouched for yet, so every length is checked against a limit before it is believed.
//! The document is `docs/FORMAT.md`; start reading at [`record`], then [`container`], [`leaf`].

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing))]

pub mod check;
pub mod container;
pub mod entry;
pub mod escape;
pub mod expiry;
pub mod inner;
pub mod leaf;
pub mod limits;
pub mod list;
pub mod manifest;
pub mod page;
pub mod parity;
pub mod receipt;
pub mod record;
pub mod wire;
pub mod xattrs;

/// Why bytes could not be decoded. Facts only; the reader decides what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end inside of `what`.
    #[error("{what} ends early")]
    Truncated {
        /// What was being read.
        what: &'static str,
    },
    /// `what` has a value that the format does not allow.
    #[error("{what} is not valid")]
    Invalid {
        /// What was being read.
        what: &'static str,
    },
    /// `what` is larger than its limit.
    #[error("{what} is {value}, more than the limit {limit}")]
    TooLarge {
        /// What was being read.
        what: &'static str,
        /// The value found.
        value: u64,
        /// The largest that is allowed, see `limits`.
        limit: u64,
    },
    /// The checksum of `what` does not match its bytes.
    #[error("{what} does not match its checksum")]
    Checksum {
        /// What was being read.
        what: &'static str,
    },
    /// The storage has it and does not give its bytes.
    #[error("it cannot be read: {why}")]
    Unreadable {
        /// The system's reason.
        why: String,
    },
    /// A newer program wrote this.
    #[error("{what} has version {version}; this program knows up to {known}: upgrade icecore")]
    Version {
        /// What was being read.
        what: &'static str,
        /// The version found.
        version: u32,
        /// The newest version known here.
        known: u32,
    },
}

/// Result of a decoder.
pub type Result<T> = std::result::Result<T, Error>;
