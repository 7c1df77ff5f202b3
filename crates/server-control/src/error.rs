//! Errors of the control plane.

use crate::sites;
use api::Name;
use api::sites::Mistake;
use server_contract::access_control::Refusal;
use std::path::PathBuf;

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
    /// The server's folder cannot be used, or the system provides no random bytes.
    #[error(transparent)]
    System(#[from] server_contract::Error),
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
    /// What was declared cannot be meant so.
    #[error("{}", sites::summary(.0))]
    Mistakes(Vec<Mistake>),
    /// The catalog has an object that this program does not understand.
    #[error("the catalog has an object of another version of the program: {0}")]
    Object(String),
    /// Somebody else changed it meanwhile.
    #[error("{what} was changed since: it has version {found} now, not {expected}")]
    ChangedSince {
        /// What was changed.
        what: String,
        /// The version that the caller has seen.
        expected: u64,
        /// The version that it has.
        found: u64,
        /// The command that shows it.
        show: String,
    },
    /// A sealed secret cannot be opened.
    #[error("cannot open the sealed secret of {0}: it was sealed with another master.key")]
    Sealed(String),
    /// `master.key` is that of another server, or of another time.
    #[error("{} opens no key of a managed domain: they were sealed with another one. Restore it from the backup of the server's directory", path.display())]
    AnotherMasterKey {
        /// Where it is.
        path: PathBuf,
    },
    /// `master.key` is missing, but secrets are sealed with it.
    #[error("{} is missing, and the keys of managed domains are sealed with it: restore it from the backup of the server's directory", path.display())]
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
    /// A pool does not answer. It may later.
    #[error("{why}")]
    PoolSilent {
        /// Which, and for how long.
        why: String,
        /// What an administrator can do.
        hint: String,
    },
    /// The repository that was created for a domain is not where it lies.
    #[error("the repository that was created for the domain '{0}' is not where it lies")]
    Gone(String),
    /// Another request is changing keys in this domain.
    #[error("another request is changing keys in the domain '{0}'")]
    Busy(String),
    /// Too many failed attempts from one address.
    #[error("too many failed attempts from {0}")]
    TooMany(std::net::IpAddr),
}

/// A refusal with what to do.
pub(crate) fn refused(message: String, hint: &str) -> Error {
    Refusal::new(message, hint).into()
}

/// The error for an object that the catalog does not have.
pub(crate) fn missing(what: &'static str, name: &impl ToString) -> catalog::Error {
    catalog::Error::Missing { what, name: name.to_string() }
}

/// A name that a peer sent.
pub(crate) fn parse_name(text: &str) -> Result<Name> {
    text.parse().map_err(|error: api::name::BadName| Error::Usage(error.to_string()))
}
