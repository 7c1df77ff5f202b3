//! Errors of a connection.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The network or TLS failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other end violates the protocol.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end is silent, or too slow.
    #[error("the other end sent {} {secs} s", too_little(*bytes))]
    TooSlow {
        /// The minimum that it should have sent, in bytes.
        bytes: usize,
        /// In this many seconds.
        secs: u64,
    },
}

fn too_little(bytes: usize) -> String {
    match bytes {
        0 | 1 => "nothing for".to_owned(),
        bytes => format!("fewer than {bytes} bytes in"),
    }
}
