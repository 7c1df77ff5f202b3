//! Errors of the engine: facts. The binary adds the consequence and the next command.

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
    /// The storage holds no repository.
    #[error("there is no repository at {location}")]
    NoRepository {
        /// Description of the storage.
        location: String,
    },
    /// A repository exists already.
    #[error("a repository already exists at {location}")]
    Exists {
        /// Description of the storage.
        location: String,
    },
    /// Another process writes.
    #[error("the repository is in use by {holder}")]
    InUse {
        /// The holder that the lease file names.
        holder: String,
    },
    /// File locking does not work on this storage: every process gets the lock.
    #[error(
        "file locking does not work on {location}, so two writers could damage each other's work. Mount the network \
         file system with locks that its server manages (NFS: without local_lock and nolock)"
    )]
    LockingUnsupported {
        /// Description of the storage.
        location: String,
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
    /// A file does not hold what was written.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// The file.
        name: String,
        /// What is wrong with it.
        reason: format::Error,
    },
    /// A container file does not exist.
    #[error("container {0} is missing")]
    ContainerMissing(ContainerNo),
    /// The chunk index does not know an object.
    #[error("object {0} is missing")]
    ObjectMissing(ObjectId),
    /// A snapshot file does not exist.
    #[error("snapshot {0} is missing")]
    SnapshotMissing(SnapshotId),
    /// A record holds an object that its session did not claim.
    #[error("object {0} was sent without a claim")]
    NotClaimed(ObjectId),
    /// Objects that a session claimed were never stored.
    #[error("{0} objects were claimed and not stored; nothing of this session was published")]
    NotStored(usize),
    /// The root page of a manifest was not stored.
    #[error("the root page {0} of the new snapshot was not stored; nothing was published")]
    RootMissing(ObjectId),
    /// A page refers to an object that is not stored.
    #[error("a page of the snapshot refers to {0}, which is not stored")]
    NothingBehind(ObjectId),
    /// Pages refer to more objects that are not stored than a session may leave open.
    #[error("pages refer to more than {0} objects that are not stored")]
    TooManyOpen(usize),
    /// The repository needs features that this program does not support; the number holds their bits.
    #[error("the repository uses features ({0:#x}) that this version does not support")]
    UnknownFeatures(u64),
    /// A snapshot may not be removed yet.
    #[error("snapshot {snapshot} is locked until {}{}; nothing in the program ends a lock earlier", shown(*until_secs), besides(*others))]
    Locked {
        /// The snapshot.
        snapshot: SnapshotId,
        /// When the lock ends, in seconds since 1970.
        until_secs: i64,
        /// How many others of the same request are locked.
        others: usize,
    },
    /// Parts of a locked snapshot are lost. What is left of it cannot be told from garbage.
    #[error(
        "parts of snapshot {0} are lost, and it is locked: what is left of it stays, and nothing is removed"
    )]
    LockedIsDamaged(SnapshotId),
    /// No lock has this length.
    #[error("a lock of {0} seconds is not possible: the longest has {max}", max = format::limits::LOCK_SECS_MAX)]
    NoSuchLock(u64),
    /// Only a server signs that snapshots expired, and this is none.
    #[error(
        "snapshots expire through the server that stores them, and this process has no key of it"
    )]
    NoReceiptKey,
    /// The keys changed since they were read.
    #[error("another process changed the keys; nothing was changed, try again")]
    KeysChanged,
    /// Reclaim found something inconsistent and stopped. On a nearly full disk an earlier stage may have deleted
    /// containers that were certainly dead.
    #[error("reclaim stopped before deleting uncertain data: {0}")]
    UncertainData(String),
    /// A network file system returned a stale listing of a directory, several times.
    #[error(
        "stale directory listing of {directory} from the cache of a network file system; nothing was changed, wait a minute and try again"
    )]
    StaleListing {
        /// The directory.
        directory: String,
    },
    /// A temporary file of this machine cannot be written or read. Says nothing about the repository.
    #[error("cannot {operation} a temporary file in {folder}: {source}")]
    Temporary {
        /// The operation: "create", "write", "read".
        operation: &'static str,
        /// Where temporary files go.
        folder: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The parity code rejected its input. A bug.
    #[error("the parity could not be computed")]
    ParityCode,
    /// The writer thread of the session ended. A bug.
    #[error("the container writer stopped")]
    WriterStopped,
}

/// A time for people; what no calendar has is far away.
fn shown(secs: i64) -> String {
    clock::civil::utc(secs)
}

fn besides(others: usize) -> String {
    if others == 0 { String::new() } else { format!(", and {others} others are locked too") }
}

impl Error {
    /// The error for the file `name`, whose bytes do not decode because of `reason`.
    pub fn damaged(name: &str, reason: format::Error) -> Self {
        Self::Damaged { name: name.to_owned(), reason }
    }

    /// The same for somebody else who has to be told, if it is of the storage or of the lease.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Storage(error) => Self::Storage(error.again()),
            Self::LeaseLost { holder } => Self::LeaseLost { holder: holder.clone() },
            _ => Self::WriterStopped,
        }
    }

    /// Whether there is no such file.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_not_found())
    }

    /// Whether the storage is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_full())
    }

    /// Whether something else has the name already.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Storage(error) if error.already_exists())
    }

    /// Whether the storage could not be reached or used. The error says nothing about the data.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_unreachable())
    }

    /// Whether it has to be brought back from a cold storage class before it can be read.
    pub fn is_archived(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_archived())
    }

    /// Whether a container file is missing. The index may be older than a reclaim that removed it.
    pub fn is_container_missing(&self) -> bool {
        matches!(self, Self::ContainerMissing(_))
    }
}

/// The same for pipelines. What they do not tell apart stays what it is.
impl From<Error> for store::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Storage(error) => Self::Storage(error),
            Error::NoRepository { location } => Self::NoRepository { location },
            Error::Exists { location } => Self::Exists { location },
            Error::InUse { holder } => Self::InUse { holder },
            Error::LeaseLost { holder } => Self::LeaseLost { holder },
            Error::IndexDamaged { name } => Self::IndexDamaged { name },
            Error::Damaged { name, reason } => Self::Damaged { name, reason },
            Error::ContainerMissing(number) => Self::ContainerMissing(number),
            Error::ObjectMissing(id) => Self::ObjectMissing(id),
            Error::SnapshotMissing(id) => Self::SnapshotMissing(id),
            Error::UnknownFeatures(features) => Self::UnknownFeatures(features),
            Error::KeysChanged => Self::KeysChanged,
            Error::Locked { .. } | Error::LockedIsDamaged(_) => Self::Locked(error.to_string()),
            Error::LockingUnsupported { .. }
            | Error::NotClaimed(_)
            | Error::NotStored(_)
            | Error::RootMissing(_)
            | Error::NothingBehind(_)
            | Error::TooManyOpen(_)
            | Error::NoSuchLock(_)
            | Error::NoReceiptKey
            | Error::UncertainData(_)
            | Error::StaleListing { .. }
            | Error::Temporary { .. }
            | Error::ParityCode
            | Error::WriterStopped => Self::Other(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(kind: std::io::ErrorKind) -> Error {
        StorageError::new("open", "x", std::io::Error::from(kind)).into()
    }

    /// One of each kind.
    fn all() -> Vec<Error> {
        let [location, holder, name] = ["a place", "a holder", "a name"].map(str::to_owned);
        vec![
            storage(std::io::ErrorKind::TimedOut),
            storage(std::io::ErrorKind::StorageFull),
            storage(std::io::ErrorKind::InvalidData),
            Error::NoRepository { location: location.clone() },
            Error::Exists { location: location.clone() },
            Error::InUse { holder: holder.clone() },
            Error::LockingUnsupported { location },
            Error::LeaseLost { holder },
            Error::IndexDamaged { name: name.clone() },
            Error::damaged(&name, format::Error::Invalid { what: "record" }),
            Error::ContainerMissing(ContainerNo(7)),
            Error::ObjectMissing(ObjectId([1; 24])),
            Error::SnapshotMissing(SnapshotId([2; 16])),
            Error::NotClaimed(ObjectId([3; 24])),
            Error::NotStored(4),
            Error::RootMissing(ObjectId([5; 24])),
            Error::NothingBehind(ObjectId([5; 24])),
            Error::TooManyOpen(1),
            Error::UnknownFeatures(6),
            Error::NoReceiptKey,
            Error::Locked { snapshot: SnapshotId([8; 16]), until_secs: 9, others: 1 },
            Error::LockedIsDamaged(SnapshotId([9; 16])),
            Error::NoSuchLock(u64::MAX),
            Error::KeysChanged,
            Error::UncertainData(name.clone()),
            Error::StaleListing { directory: name.clone() },
            Error::Temporary {
                operation: "write",
                folder: name,
                source: std::io::ErrorKind::StorageFull.into(),
            },
            Error::ParityCode,
            Error::WriterStopped,
        ]
    }

    #[test]
    fn an_error_means_the_same_to_pipelines_as_to_the_engine() {
        for error in all() {
            let before = (error.to_string(), error.is_full(), error.is_unreachable());
            let error = store::Error::from(error);
            let after = (error.to_string(), error.is_full(), error.is_unreachable());
            assert_eq!(before, after);
        }
    }
}
