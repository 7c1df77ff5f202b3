//! Errors of what a server needs of its own machine.

use std::io;
use std::path::{Path, PathBuf};

/// Result of what a server needs of its own machine.
pub type Result<T> = std::result::Result<T, Error>;

/// What a server needs of its own machine, and does not get.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the server cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another server is using the folder.
    #[error("another server is using {}", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The pool is not there, or is not the one of this server.
    #[error("the pool {} cannot be used: {why}", path.display())]
    Pool {
        /// The pool.
        path: PathBuf,
        /// What is wrong.
        why: String,
        /// The folder of the server's files.
        data: PathBuf,
    },
    /// What somebody says of the first pool of a server is not so.
    #[error("the pool {} cannot be used: {why}", path.display())]
    FirstPool {
        /// The pool.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The system provides no random bytes.
    #[error("the system provides no random bytes")]
    NoRandom,
}

impl Error {
    /// For `map_err`: the file `path`.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
