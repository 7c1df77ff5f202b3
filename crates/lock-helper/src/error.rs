//! Errors of the lock helper.

use std::io;
use std::path::{Path, PathBuf};

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Nobody listens.
    #[error("cannot connect to the lock helper at {}: {source}: systemctl start icecore-lock-helper", socket.display())]
    Away {
        /// Where it should listen.
        socket: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A directory is not as the helper needs it.
    #[error("{}: {why}", path.display())]
    Pool {
        /// The directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A directory of the helper is not root's alone, or was not.
    #[error("{}: it is the lock helper's, and has to belong to root alone. Somebody else made it or changed its owner, \
             and may have changed what is in it: nothing there is believed any more. Look into it, then restart the \
             lock helper: it sets its directory aside and begins anew, and the server asks again for what is locked: \
             systemctl restart icecore-lock-helper", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// Only root can keep anything from another user.
    #[error("the lock helper, and whoever looks at its files, has to be root")]
    NotRoot,
    /// The other side said nothing for too long.
    #[error("the lock helper: nothing was said for too long")]
    Silent,
    /// The other side refused, or broke the protocol.
    #[error("the lock helper: {0}")]
    Refused(String),
}

/// A path for the shell: names in a pool are whatever its owner likes.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

impl Error {
    pub(crate) fn file<E: Into<io::Error>>(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { what, path, source: source.into() }
    }

    pub(crate) fn pool(path: impl AsRef<Path>, why: impl Into<String>) -> Self {
        Self::Pool { path: path.as_ref().to_owned(), why: why.into() }
    }
}
