//! Errors of the control plane.

use crate::access_control::Refusal;
use std::io;
use std::path::{Path, PathBuf};

/// Result of the control plane.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of the control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    /// A certificate or key is not valid.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// A repository failed.
    #[error(transparent)]
    Repository(#[from] repository::Error),
    /// Keys of a domain failed.
    #[error(transparent)]
    Crypto(#[from] crypto::Error),
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
    /// The system provides no random bytes.
    #[error("the system provides no random bytes")]
    NoRandom,
    /// The caller may not do this.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The request is not valid.
    #[error("{0}")]
    Usage(String),
    /// The request does not fit; another one would.
    #[error("{message}")]
    Unfit {
        /// What does not fit.
        message: String,
        /// The command to use instead.
        hint: String,
    },
    /// A sealed secret cannot be opened.
    #[error("cannot open the sealed secret of {0}: it was sealed with another master.key")]
    Sealed(String),
    /// `master.key` is missing, but secrets are sealed with it.
    #[error("{} is missing, and the keys of managed domains are sealed with it: restore it from the backup of the server's folder", path.display())]
    NoMasterKey {
        /// Where it should be.
        path: PathBuf,
    },
    /// The domain has client-held keys.
    #[error("only nodes know the keys of the domain '{0}'")]
    NoKeys(String),
    /// The repository of a domain lies on a storage server.
    #[error("the domain '{domain}' lies on the storage server '{storage}'")]
    OnStorageServer {
        /// The domain.
        domain: String,
        /// The storage server.
        storage: String,
    },
    /// The key list of a domain is missing or damaged.
    #[error(
        "the key list (keys/list) of a domain is missing or damaged, and so is its copy: on its machine, rebuild it with a full key: icecore rebuild"
    )]
    NoKeyList,
    /// A storage server is unreachable or failed.
    #[error("the storage server '{storage}' ({place}): {why}")]
    StorageServer {
        /// Its name.
        storage: String,
        /// Host and port.
        place: String,
        /// What happened.
        why: String,
    },
    /// A storage server does not have the repository that was created there.
    #[error(
        "the storage server of the domain '{0}' does not have the repository that was created there"
    )]
    Gone(String),
    /// Another request is changing keys in this domain.
    #[error("another request is changing keys in the domain '{0}'")]
    Busy(String),
    /// Too many failed attempts from one address.
    #[error("too many failed attempts from {0}")]
    TooMany(std::net::IpAddr),
}

impl Error {
    /// For `map_err`: the file `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
