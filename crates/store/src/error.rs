//! Errors of repositories, wherever they lie: facts. The binary adds the consequence and the next command.

use crate::StorageError;
use ids::{ContainerNo, ObjectId, SnapshotId};

/// Result of an operation on a repository.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a repository could not do what it was asked: the cases that its users tell apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage failed, is full, or could not be reached; or the server.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// There is no repository.
    #[error("there is no repository at {location}")]
    NoRepository {
        /// Description of the storage or the server.
        location: String,
    },
    /// A repository exists already.
    #[error("a repository already exists at {location}")]
    Exists {
        /// Description of the storage or the server.
        location: String,
    },
    /// Another process writes.
    #[error("the repository is in use by {holder}")]
    InUse {
        /// Who writes.
        holder: String,
    },
    /// Another process took the lease over: this one may not write any more.
    #[error("{holder} took over the lease; nothing of this run was published")]
    LeaseLost {
        /// The new holder.
        holder: String,
    },
    /// The chunk index is damaged. It is a cache: a rebuild makes it from the containers.
    #[error("the chunk index is damaged: {name}")]
    IndexDamaged {
        /// The file.
        name: String,
    },
    /// Something does not hold what was written.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// The file or the message.
        name: String,
        /// What is wrong with it.
        reason: format::Error,
    },
    /// A server reports damage, in its own words.
    #[error("on the server: {0}")]
    DamagedOnServer(String),
    /// A container does not exist.
    #[error("container {0} is missing")]
    ContainerMissing(ContainerNo),
    /// The chunk index does not know an object.
    #[error("object {0} is missing")]
    ObjectMissing(ObjectId),
    /// A snapshot does not exist.
    #[error("snapshot {0} is missing")]
    SnapshotMissing(SnapshotId),
    /// The repository needs features that this program does not support; the number holds their bits.
    #[error("the repository uses features ({0:#x}) that this version does not support")]
    UnknownFeatures(u64),
    /// The keys changed since they were read.
    #[error("another process changed the keys; nothing was changed, try again")]
    KeysChanged,
    /// The request was denied.
    #[error("{message}")]
    Refused {
        /// What was denied, and why.
        message: String,
        /// What the user can do; may be empty.
        hint: String,
    },
    /// A snapshot is locked, as this says: which one, and until when.
    #[error("{0}")]
    Locked(String),
    /// The session was lost before its commit. The caller begins a new one.
    #[error("the server no longer has this session")]
    SessionLost,
    /// Only possible on the machine that holds the repository.
    #[error("this is only possible on the machine that holds the repository: the server")]
    LocalOnly,
    /// What no user of a repository tells apart: see [`Error::specific`].
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The error for `name`, whose bytes do not decode because of `reason`.
    pub fn damaged(name: &str, reason: format::Error) -> Self {
        Self::Damaged { name: name.to_owned(), reason }
    }

    /// The implementation's own error, if this is one of type `E` for which there is no case here.
    pub fn specific<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Other(error) => error.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the storage is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_full())
    }

    /// Whether the storage or the server could not be reached or used. The error says nothing about the data.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_unreachable(),
            Self::SessionLost => true,
            _ => false,
        }
    }

    /// Whether it has to be brought back from a cold storage class before it can be read.
    pub fn is_archived(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_archived())
    }

    /// Whether stored bytes are lost or damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Storage(error) => !error.is_unreachable() && !error.is_full(),
            Self::IndexDamaged { .. } | Self::Damaged { .. } | Self::DamagedOnServer(_) => true,
            Self::ContainerMissing(_) | Self::ObjectMissing(_) | Self::SnapshotMissing(_) => true,
            _ => false,
        }
    }

    /// Whether a container is missing. The index may be older than a reclaim that removed it.
    pub fn is_container_missing(&self) -> bool {
        matches!(self, Self::ContainerMissing(_))
    }
}
