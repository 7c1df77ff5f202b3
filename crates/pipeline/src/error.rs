//! Errors of the pipelines.

use crate::key_list::KeyListAge;
use ids::{KeyEpoch, KeyId, ObjectId, SnapshotId};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a pipeline failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the repository, on this machine or on a server.
    #[error(transparent)]
    Repository(#[from] store::Error),
    /// An error of keys or signatures.
    #[error(transparent)]
    Crypto(#[from] KeyError),
    /// A record could not be sealed or opened.
    #[error(transparent)]
    Seal(#[from] seal::Error),
    /// Stored bytes do not follow the format.
    #[error(transparent)]
    Format(#[from] format::Error),
    /// The paths to back up are invalid, or the walk could not start.
    #[error(transparent)]
    Walk(#[from] capture::walk::WalkError),
    /// The operating system gave no random bytes.
    #[error("the system gave no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// The system started no thread.
    #[error("cannot start a thread: {0}")]
    NoThread(std::io::Error),
    /// The key is write-only.
    #[error("this key is write-only: it can back up but not read")]
    WriteOnly,
    /// The key is read-only.
    #[error("this key is read-only: it can read but not back up")]
    ReadOnly,
    /// The key is bound to one node, and this is of another one.
    #[error("this key is bound to the node '{bound}': it cannot be used for the node '{node}'")]
    BoundKey {
        /// The node that it is bound to.
        bound: String,
        /// The other one.
        node: String,
    },
    /// The operation requires a full key.
    #[error("this requires a full key, one that can add and remove keys")]
    NeedsFullKey,
    /// The key of this process was removed.
    #[error("key {0} was removed from this repository: nothing that it signs is trusted")]
    KeyRemoved(KeyId),
    /// The data was stored after the key was removed.
    #[error(
        "this was stored in key epoch {epoch}, but this key reads only up to epoch {newest}: it was removed before, or the key list has no delivery for it"
    )]
    LaterEpoch {
        /// The epoch in which the data was stored.
        epoch: KeyEpoch,
        /// The newest epoch that the key reads.
        newest: KeyEpoch,
    },
    /// The storage returned an old key list.
    #[error(
        "the key list (keys/list) is of key epoch {epoch}, but this key was created in epoch {made_in}: the storage returned an old list"
    )]
    OldKeyList {
        /// The epoch of the list.
        epoch: KeyEpoch,
        /// The epoch in which the key was created.
        made_in: KeyEpoch,
    },
    /// The storage returned an older key list than this machine has seen.
    #[error(
        "the key list (keys/list) is number {} of key epoch {}, but this machine has seen number {} of key epoch {}: the storage returned an old list",
        shown.version, shown.epoch, seen.version, seen.epoch
    )]
    StaleKeyList {
        /// What the storage returned.
        shown: KeyListAge,
        /// What was seen before.
        seen: KeyListAge,
    },
    /// Without a key list, no key can be trusted.
    #[error("the key list (keys/list) and its copy are missing or damaged")]
    NoKeyList,
    /// The repository settings are not those that `init` signed.
    #[error("the repository settings (config) are not signed by its root key")]
    ForgedConfig,
    /// No key slot opens with this password or recovery key.
    #[error("no key of the repository opens with this password")]
    WrongKey,
    /// The same, and the slots of some keys are not there: one of them may be that of the password.
    #[error(
        "no key of the repository opens with this password, and files of keys are missing in it: {}",
        named(.0)
    )]
    KeysMissing(Vec<KeyId>),
    /// Two places that should be copies of each other went on apart.
    #[error(
        "the snapshot number {number} is {} in {} and {} in {}: since the last copy, both places got snapshots of their own, or one was brought back from an older copy and went on from there",
        .here.0, .here.1, .there.0, .there.1
    )]
    Forked {
        /// The number that two snapshots have.
        number: u64,
        /// The one in the first place, and the place.
        here: (SnapshotId, String),
        /// The one in the other place, and the place.
        there: (SnapshotId, String),
    },
    /// A copy and its first place have keys that the other one does not have.
    #[error(
        "keys were changed in both places: only {} has {}, and only {} has {}",
        .here.1, keys(&.here.0), .there.1, keys(&.there.0)
    )]
    KeysApart {
        /// The keys that open the first place alone, and the place.
        here: (Vec<String>, String),
        /// The keys that open the copy alone, and the place.
        there: (Vec<String>, String),
    },
    /// A copy has snapshots that nobody would trust with the keys of its first place.
    #[error(
        "with the keys of {here}, nobody would trust what was made in {there} with keys that were removed since, or were never keys of {here}: {}",
        some_ids(.snapshots)
    )]
    KeysDisown {
        /// The snapshots of the copy.
        snapshots: Vec<SnapshotId>,
        /// The first place.
        here: String,
        /// The copy.
        there: String,
    },
    /// The key list of a copy is damaged, with its second file: nobody can say what was changed there.
    #[error("the list of keys of the copy {0} is damaged")]
    KeysOfCopyDamaged(String),
    /// The content of an object does not match its id.
    #[error("the content of object {0} does not match its id")]
    WrongContent(ObjectId),
    /// The manifest changed in memory before it was sealed.
    #[error(
        "the manifest of the snapshot changed in memory before it was sealed; nothing was published"
    )]
    ManifestChanged,
    /// A snapshot that no known key signed, or that names another node or source than its key
    /// allows.
    #[error("snapshot {id} is untrusted: {why}")]
    Untrusted {
        /// The snapshot.
        id: SnapshotId,
        /// What is wrong with it.
        why: String,
    },
    /// No key has this id.
    #[error("key {0} not found")]
    KeyNotFound(KeyId),
    /// No snapshot matches.
    #[error("no snapshot matches {0}")]
    SnapshotNotFound(String),
    /// No snapshot that can be read matches, and there are others.
    #[error(
        "no snapshot matches {wanted} among those that can be read; {}",
        match unread { 1 => "1 cannot be read".to_owned(), many => format!("{many} cannot be read") }
    )]
    SnapshotUnread {
        /// What was asked for.
        wanted: String,
        /// How many cannot be read.
        unread: usize,
    },
    /// More than one snapshot matches.
    #[error("{prefix} matches {} snapshots: {}", fitting.len(), some_ids(fitting))]
    Ambiguous {
        /// The beginning of an id.
        prefix: String,
        /// The ids that begin so.
        fitting: Vec<SnapshotId>,
    },
    /// The snapshot does not contain this path.
    #[error("{0} is not in the snapshot")]
    PathNotFound(String),
    /// A worker thread panicked, which is a bug.
    #[error("a worker thread stopped unexpectedly; this is a bug")]
    WorkerPanicked,
    /// The user cancelled the operation.
    #[error("cancelled")]
    Cancelled,
    /// A local file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The reason that the system gave.
        source: std::io::Error,
    },
    /// None of the sources could be read.
    #[error("nothing could be read from {0}")]
    NothingRead(String),
    /// The request is invalid or not allowed.
    #[error("{0}")]
    Usage(String),
}

/// Snapshots that a message names.
const NAMED_MAX: usize = 4;

/// The first of these ids, as short as lists show them.
fn some_ids(ids: &[SnapshotId]) -> String {
    let mut named: Vec<String> =
        ids.iter().take(NAMED_MAX).map(|id| id.to_string().chars().take(8).collect()).collect();
    named.extend((ids.len() > NAMED_MAX).then(|| "...".to_owned()));
    named.join(", ")
}

impl From<repository::Error> for Error {
    fn from(error: repository::Error) -> Self {
        Self::Repository(error.into())
    }
}

impl Error {
    /// Whether it has to be brought back from a cold storage class before it can be read.
    pub fn is_archived(&self) -> bool {
        matches!(self, Self::Repository(error) if error.is_archived())
    }

    /// Whether the error concerns one snapshot only, so that others can still be read.
    pub fn concerns_one_snapshot(&self) -> bool {
        matches!(
            self,
            Self::Repository(store::Error::Damaged { .. })
                | Self::Untrusted { .. }
                | Self::Format(_)
                | Self::Crypto(_)
                | Self::Seal(_)
        )
    }

    /// Whether stored bytes are lost or damaged. Other errors (an unreachable storage, this
    /// machine, a cancellation) say nothing about them.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Repository(error) => error.is_damage(),
            Self::Crypto(_) | Self::Seal(_) | Self::Format(_) => true,
            Self::WrongContent(_) | Self::Untrusted { .. } | Self::ManifestChanged => true,
            Self::SnapshotUnread { .. } => true,
            _ => false,
        }
    }

    /// Whether the storage could not be reached or used: the error says nothing about the data.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Repository(error) if error.is_unreachable())
    }
}

/// An error of keys or signatures, and where it lies.
#[derive(Debug)]
pub struct KeyError {
    /// The keys whose files are damaged; none if it concerns no file of a key.
    pub keys: Vec<KeyId>,
    /// What is wrong; with several keys, with the first.
    pub source: crypto::Error,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.keys.is_empty() {
            true => self.source.fmt(f),
            false => write!(f, "{}: {}", named(&self.keys), self.source),
        }
    }
}

impl std::error::Error for KeyError {}

impl From<crypto::Error> for KeyError {
    fn from(source: crypto::Error) -> Self {
        Self { keys: Vec::new(), source }
    }
}

impl From<crypto::Error> for Error {
    fn from(source: crypto::Error) -> Self {
        Self::Crypto(source.into())
    }
}

/// The files of the first of these keys.
fn named(keys: &[KeyId]) -> String {
    let more = if keys.len() > NAMED_MAX { " and others" } else { "" };
    let first: Vec<_> = keys.iter().take(NAMED_MAX).map(|id| format!("keys/{id}")).collect();
    first.join(", ") + more
}

/// A list of keys for people.
fn keys(ids: &[String]) -> String {
    match ids {
        [] => "removed some".to_owned(),
        [one] => format!("the key {one}"),
        ids => format!("the keys {}", ids.join(", ")),
    }
}
