//! What can go wrong above the engine.

use ids::{KeyEpoch, KeyId, ObjectId, SnapshotId};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a pipeline could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine failed.
    #[error(transparent)]
    Repository(#[from] repository::Error),
    /// Keys or seals.
    #[error(transparent)]
    Crypto(#[from] crypto::Error),
    /// A record could not be made or opened.
    #[error(transparent)]
    Seal(#[from] seal::Error),
    /// Bytes are not what they should be.
    #[error(transparent)]
    Format(#[from] format::Error),
    /// What to back up does not make sense.
    #[error(transparent)]
    Walk(#[from] capture::walk::WalkError),
    /// The operating system would not give random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// The key may only write.
    #[error("this key can back up but not read")]
    WriteOnly,
    /// The key may only read.
    #[error("this key can read but not back up")]
    ReadOnly,
    /// Only a full key may do this.
    #[error("this needs a full key: one that can add and remove others")]
    NeedsFullKey,
    /// The key of this process signs nothing any more.
    #[error("the key {0} was removed from this repository: what it signs counts for nothing")]
    KeyRemoved(KeyId),
    /// What was stored after the key was removed.
    #[error(
        "this was stored in key epoch {epoch}, and this key reads up to epoch {newest}: it was removed before, or the key list has no delivery for it"
    )]
    LaterEpoch {
        /// The epoch in which it was stored.
        epoch: KeyEpoch,
        /// The newest epoch that the key reads.
        newest: KeyEpoch,
    },
    /// The storage shows a key list of the past.
    #[error(
        "the key list (keys/list) is of key epoch {epoch}, and this key was made in epoch {made_in}: the storage shows an old list"
    )]
    OldKeyList {
        /// The epoch of the list.
        epoch: KeyEpoch,
        /// The epoch in which the key was made.
        made_in: KeyEpoch,
    },
    /// Nobody can say which keys count.
    #[error("the key list (keys/list) is missing or damaged, and so is its copy")]
    NoKeyList,
    /// The settings are not those that were made with the repository.
    #[error("the settings of the repository (config) are not signed by its root key")]
    ForgedConfig,
    /// No slot opens with this password.
    #[error("no key of the repository opens with this password")]
    WrongKey,
    /// The content of an object does not match its id.
    #[error("the content of object {0} does not match its id")]
    WrongContent(ObjectId),
    /// What was sealed is not what was to be sealed.
    #[error("the manifest of the snapshot changed between memory and seal; nothing was published")]
    ManifestChanged,
    /// A snapshot that may not count: nobody vouches for it, or not for what it says of itself.
    #[error("snapshot {id} is not trusted: {why}")]
    Untrusted {
        /// The snapshot.
        id: SnapshotId,
        /// What is wrong with it.
        why: String,
    },
    /// No key with this id.
    #[error("there is no key {0}")]
    KeyNotFound(KeyId),
    /// No snapshot fits what was asked for.
    #[error("no snapshot matches {0}")]
    SnapshotNotFound(String),
    /// More than one snapshot fits.
    #[error("{0} matches more than one snapshot")]
    Ambiguous(String),
    /// No such path in a snapshot.
    #[error("{0} is not in the snapshot")]
    PathNotFound(String),
    /// A thread of the pipeline panicked; a bug.
    #[error("a thread of the pipeline stopped")]
    WorkerPanicked,
    /// Stopped because the user asked for it.
    #[error("cancelled")]
    Cancelled,
    /// A file of this machine could not be used.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Nothing to back up could be read.
    #[error("nothing could be read of {0}")]
    NothingRead(String),
    /// Asked for something that is not allowed or makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Whether it says something of one snapshot, and nothing of others.
    pub fn concerns_one_snapshot(&self) -> bool {
        matches!(
            self,
            Self::Repository(repository::Error::Damaged { .. })
                | Self::Untrusted { .. }
                | Self::Format(_)
                | Self::Crypto(_)
                | Self::Seal(_)
        )
    }

    /// Whether it says that stored bytes are lost or spoilt. All else (the way to the storage, this
    /// machine, a wish to stop) says nothing of them.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Repository(error) => error.is_damage(),
            Self::Crypto(_) | Self::Seal(_) | Self::Format(_) => true,
            Self::WrongContent(_) | Self::Untrusted { .. } | Self::ManifestChanged => true,
            _ => false,
        }
    }

    /// Whether it is the way to the storage that failed: it says nothing of the data.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Repository(error) if error.is_unreachable())
    }
}
