//! What can go wrong in the engine. Facts; the words for people are made by the binary.

use crate::storage::StorageError;
use ids::{ContainerNo, ObjectId, SnapshotId};

/// Result of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// There is no repository here.
    #[error("there is no repository at {location}")]
    NoRepository {
        /// Where was looked.
        location: String,
    },
    /// There is one already.
    #[error("there already is a repository at {location}")]
    Exists {
        /// Where was looked.
        location: String,
    },
    /// Another process writes.
    #[error("the repository is in use by {holder}")]
    InUse {
        /// Who said to hold the lease.
        holder: String,
    },
    /// Everybody gets the lock.
    #[error(
        "locks at {location} keep nobody out: two writers would spoil each other's work. On a network \
         file system, mount it with locks that its server knows (NFS: without local_lock and nolock)"
    )]
    LockingUnsupported {
        /// Where was looked.
        location: String,
    },
    /// The lease was taken over: nothing may be written any more.
    #[error("the lease was lost to {holder}; nothing of this run was published")]
    LeaseLost {
        /// Who holds it now.
        holder: String,
    },
    /// The index, a cache, is damaged.
    #[error("the chunk index is damaged: {name}")]
    IndexDamaged {
        /// The file.
        name: String,
    },
    /// Bytes are not what they should be.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// The file.
        name: String,
        /// What is wrong with it.
        reason: format::Error,
    },
    /// A container is not there.
    #[error("container {0} is missing")]
    ContainerMissing(ContainerNo),
    /// An object is in no container that is known.
    #[error("object {0} is missing")]
    ObjectMissing(ObjectId),
    /// A snapshot is not there.
    #[error("snapshot {0} is missing")]
    SnapshotMissing(SnapshotId),
    /// A record holds an object that its session did not claim.
    #[error("object {0} was sent without being asked for")]
    NotClaimed(ObjectId),
    /// Objects that a session claimed were never stored.
    #[error("{0} objects were promised and not stored: nothing of this session was published")]
    NotStored(usize),
    /// A manifest whose root page nobody stored.
    #[error("the root page {0} of the new snapshot was not stored: nothing was published")]
    RootMissing(ObjectId),
    /// The server refused.
    #[error("{message}")]
    Refused {
        /// What is refused, and why.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The server no longer has the session: begin again.
    #[error("the server no longer has this session")]
    SessionLost,
    /// Bytes on the server are damaged.
    #[error("on the server: {0}")]
    DamagedOnServer(String),
    /// This can only be done where the repository lies.
    #[error("this can only be done where the repository lies: on the server")]
    LocalOnly,
    /// The repository needs a feature that this program does not have.
    #[error("the repository uses features {0:#x} that this program does not know")]
    UnknownFeatures(u64),
    /// Somebody else changed the keys since they were looked at.
    #[error("somebody else changed the keys meanwhile: nothing was changed; try again")]
    KeysChanged,
    /// Reclaim saw something it does not understand and so deleted nothing more. On a nearly full
    /// disk an earlier stage may have.
    #[error("reclaim stopped and deleted nothing that it doubts: {0}")]
    UncertainData(String),
    /// A network file system lists a directory as it was a while ago, again and again.
    #[error(
        "the list of {directory} is of the past, as a network file system has it in its cache: nothing was done; wait a minute and try again"
    )]
    StaleListing {
        /// The directory.
        directory: String,
    },
    /// The parity code did not take what it was given; a bug.
    #[error("the parity could not be computed")]
    ParityCode,
    /// A thread of the session died; a bug.
    #[error("the container writer stopped")]
    WriterStopped,
}

impl Error {
    /// The error for `name` whose bytes do not decode.
    pub fn damaged(name: &str, reason: format::Error) -> Self {
        Self::Damaged { name: name.to_owned(), reason }
    }

    /// Whether the storage is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_full())
    }

    /// Whether it is the way to the storage that failed: it says nothing of the data.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_unreachable(),
            Self::SessionLost => true,
            _ => false,
        }
    }

    /// Whether it says that stored bytes are lost or spoilt.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Storage(error) => !error.is_unreachable() && !error.is_full(),
            Self::IndexDamaged { .. } | Self::Damaged { .. } | Self::DamagedOnServer(_) => true,
            Self::ContainerMissing(_) | Self::ObjectMissing(_) | Self::SnapshotMissing(_) => true,
            _ => false,
        }
    }

    /// Whether a container is gone: the index may be older than a reclaim.
    pub fn is_container_missing(&self) -> bool {
        matches!(self, Self::ContainerMissing(_))
    }
}
