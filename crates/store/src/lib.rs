//! A repository as pipelines use it, wherever it lies: on a disk of this machine (crate `repository`) or behind a server
//! (crate `remote`). Pipelines know only this crate; neither of the two knows the other.
//!
//! Start reading at [`Store`], then [`WriteLease`] and [`WriteSession`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod error;
mod keys;
mod snapshot;
mod storage_error;
#[allow(clippy::module_inception, reason = "the crate's main noun")]
mod store;

pub use config::{Config, EXTENSION_BYTES};
pub use error::{Error, Result};
pub use keys::{Keys, ReceiptKey};
pub use snapshot::{CommittedSnapshot, SnapshotRef, StoredSnapshot};
pub use storage_error::{Archived, StorageError, is_connection_error};
pub use store::{Claim, PendingReply, Store, WriteLease, WriteSession};
