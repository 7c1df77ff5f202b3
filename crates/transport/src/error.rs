//! What can go wrong between two ends.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The network, or TLS.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other end does not keep to the protocol.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end is silent, or too slow.
    #[error("the other end sent less than {bytes} bytes in {secs} s")]
    TooSlow {
        /// What it should have sent at least.
        bytes: usize,
        /// In this time.
        secs: u64,
    },
}
