//! What can go wrong in the governing part.

use crate::access_control::Refusal;
use std::io;
use std::path::{Path, PathBuf};

/// Result of the governing part.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong in the governing part.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog.
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    /// Certificates.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// A repository.
    #[error(transparent)]
    Repository(#[from] repository::Error),
    /// Keys.
    #[error(transparent)]
    Crypto(#[from] crypto::Error),
    /// A file of the server.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another server works in the folder.
    #[error("another server is using {}", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The system gives no random bytes.
    #[error("the system provides no random bytes")]
    NoRandom,
    /// Who asks may not.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What was asked makes no sense.
    #[error("{0}")]
    Usage(String),
    /// What was asked cannot be had so, but otherwise.
    #[error("{message}")]
    Unfit {
        /// What does not fit.
        message: String,
        /// What to type instead.
        hint: String,
    },
    /// A sealed secret does not open.
    #[error("cannot open the sealed secret of {0}: it was sealed with another master.key")]
    Sealed(String),
    /// What opens the sealed secrets is gone.
    #[error("{} is missing, and the keys of managed domains are sealed with it: restore it from the backup of the server's folder", path.display())]
    NoMasterKey {
        /// Where it should be.
        path: PathBuf,
    },
    /// The server knows no key of this domain.
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
    /// Who may sign in a domain is not known.
    #[error(
        "the key list (keys/list) of a domain is missing or damaged, and so is its copy: on its machine, rebuild it with a full key: icecore rebuild"
    )]
    NoKeyList,
    /// A storage server cannot be reached, or could not do it.
    #[error("the storage server '{storage}' ({place}): {why}")]
    StorageServer {
        /// Its name.
        storage: String,
        /// Host and port.
        place: String,
        /// What happened.
        why: String,
    },
    /// A storage server shows no repository, or another one, where one was.
    #[error(
        "the storage server of the domain '{0}' does not have the repository that was created there"
    )]
    Gone(String),
    /// Somebody else makes keys in this domain, and does not come to an end.
    #[error("another request is changing keys in the domain '{0}'")]
    Busy(String),
    /// Too many wrong tries from one address.
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
