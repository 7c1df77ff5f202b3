//! Error codes of the protocol. Numbers never change their meaning.

use crate::packet::{Packet, PathBytes};

/// Error code of a `Fault`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    /// The other end violates the protocol.
    Protocol = 1,
    /// Both ends have no version in common.
    Version = 2,
    /// The node may not do this.
    NotAllowed = 3,
    /// The node's certificate was revoked.
    Revoked = 4,
    /// The domain has no repository yet.
    NoRepository = 5,
    /// The domain has a repository already.
    Exists = 6,
    /// Another writer holds the repository.
    InUse = 7,
    /// The snapshot does not exist.
    SnapshotMissing = 8,
    /// No container has the object.
    ObjectMissing = 9,
    /// The container does not exist.
    ContainerMissing = 10,
    /// Bytes of the repository are damaged.
    Damaged = 11,
    /// The disk of the repository is full.
    NoSpace = 12,
    /// The server's storage failed.
    Storage = 13,
    /// Too much at once: try again later.
    Busy = 14,
    /// The session does not exist, or no longer.
    NoSession = 15,
    /// The job was cancelled.
    Cancelled = 16,
    /// The server is shutting down: reconnect later.
    ShuttingDown = 17,
    /// It failed otherwise.
    Failed = 18,
    /// The keys of the domain changed since the client read them: read the key list again.
    KeysChanged = 19,
    /// The storage in which the server keeps the domain cannot be reached now.
    StorageUnreachable = 20,
    /// What was asked for lies in a cold storage class, whose name is `about`, and has to be brought back first.
    Archived = 21,
}

impl Code {
    /// All of them, by number.
    pub const ALL: [Code; 21] = [
        Code::Protocol,
        Code::Version,
        Code::NotAllowed,
        Code::Revoked,
        Code::NoRepository,
        Code::Exists,
        Code::InUse,
        Code::SnapshotMissing,
        Code::ObjectMissing,
        Code::ContainerMissing,
        Code::Damaged,
        Code::NoSpace,
        Code::Storage,
        Code::Busy,
        Code::NoSession,
        Code::Cancelled,
        Code::ShuttingDown,
        Code::Failed,
        Code::KeysChanged,
        Code::StorageUnreachable,
        Code::Archived,
    ];

    /// The code with this number; an unknown one is [`Code::Failed`].
    pub fn from_number(number: u16) -> Self {
        Self::ALL.into_iter().find(|code| *code as u16 == number).unwrap_or(Code::Failed)
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(self, Code::Busy | Code::ShuttingDown)
    }
}

/// A `Fault`. Control characters are removed from `message`: it may quote what a peer sent.
pub fn fault(code: Code, message: &str, hint: &str, about: &[u8]) -> Packet {
    let clean = |text: &str| -> String {
        let text: String = text.chars().filter(|it| !it.is_control()).collect();
        let end = text.floor_char_boundary(2048);
        text[..end].to_owned()
    };
    let about = PathBytes(about.get(..64).unwrap_or(about).to_vec());
    Packet::Fault { code: code as u16, message: clean(message), hint: clean(hint), about }
}
