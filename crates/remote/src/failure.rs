//! Why a stream or a request failed, and the same as an error of a repository.

use format::wire::Reader;
use ids::{ContainerNo, ObjectId, SnapshotId};
use protocol::Packet;
use protocol::fault::Code;
use std::io::{self, ErrorKind};
use store::{Archived, Error, StorageError};

/// Why a stream or a request failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The server replied with a `Fault`.
    Fault {
        /// Its code.
        code: Code,
        /// What happened.
        message: String,
        /// What to do.
        hint: String,
        /// Id or number of what it is about.
        about: Vec<u8>,
    },
    /// The server is unreachable.
    Unreachable {
        /// Its host and port.
        server: String,
        /// Why.
        reason: String,
        /// Kind of the I/O error.
        kind: ErrorKind,
    },
    /// The server violates the protocol.
    ProtocolError(String),
    /// The server cancelled the job, with this reason.
    Cancelled(String),
}

impl Failure {
    /// The failure in a `Fault`; any other packet is an unexpected reply.
    pub(crate) fn from_packet(packet: Packet) -> Self {
        match packet {
            Packet::Fault { code, message, hint, about } => {
                Self::Fault { code: Code::from_number(code), message, hint, about: about.0 }
            }
            other => {
                Self::ProtocolError(format!("unexpected reply from the server: {}", other.name()))
            }
        }
    }

    /// The user stopped waiting for the server.
    pub(crate) fn stopped() -> Self {
        let (message, hint) =
            ("stopped while the server was unreachable".to_owned(), String::new());
        Self::Fault { code: Code::NotAllowed, message, hint, about: Vec::new() }
    }

    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Fault { code, .. } => code.is_transient(),
            Self::Unreachable { .. } => true,
            Self::ProtocolError(_) | Self::Cancelled(_) => false,
        }
    }

    /// The session of a request has ended.
    pub(crate) fn session_over() -> Self {
        let (message, hint) = ("the session has ended".to_owned(), String::new());
        Self::Fault { code: Code::NoSession, message, hint, about: Vec::new() }
    }

    /// Whether the server no longer knows the session.
    pub(crate) fn is_session_lost(&self) -> bool {
        matches!(self, Self::Fault { code: Code::NoSession, .. })
    }

    /// The same as an error of a repository.
    pub fn into_error(self) -> Error {
        match self {
            Self::Fault { code, message, hint, about } => of_fault(code, message, hint, &about),
            Self::Unreachable { server, reason, kind } => {
                StorageError::new("reach", &server, io::Error::new(kind, reason)).into()
            }
            Self::ProtocolError(message) => {
                let hint = "Use the same version of icecore on both sides.".to_owned();
                Error::Refused { message, hint }
            }
            Self::Cancelled(reason) => Error::Refused {
                message: format!("the server stopped this job: {reason}"),
                hint: "The next run finds what was stored.".to_owned(),
            },
        }
    }
}

/// What an error names when the storage of the server cannot be reached.
pub const SERVERS_STORAGE: &str = "the server's storage";

/// What to do is part of the reason: there is no other place for it.
fn full(message: &str, hint: &str) -> StorageError {
    let why = if hint.is_empty() { message.to_owned() } else { format!("{message}. {hint}") };
    StorageError::new("use", "the server", io::Error::new(ErrorKind::StorageFull, why))
}

fn of_fault(code: Code, message: String, hint: String, about: &[u8]) -> Error {
    let storage = |kind| StorageError::new("use", "the server", io::Error::new(kind, &*message));
    let missing = match code {
        Code::SnapshotMissing => SnapshotId::from_slice(about).map(Error::SnapshotMissing),
        Code::ObjectMissing => ObjectId::from_slice(about).map(Error::ObjectMissing),
        Code::ContainerMissing => {
            let number = Reader::new(about, "container").u64().ok();
            number.map(|number| Error::ContainerMissing(ContainerNo(number)))
        }
        _ => None,
    };
    match (missing, code) {
        (Some(error), _) => error,
        (_, Code::NoRepository) => Error::NoRepository { location: "the server".into() },
        (_, Code::Exists) => Error::Exists { location: "the server".into() },
        (_, Code::InUse) => Error::InUse { holder: message },
        (_, Code::NoSpace) => full(&message, &hint).into(),
        (_, Code::Storage) => storage(ErrorKind::Other).into(),
        (_, Code::StorageUnreachable) => {
            let source = io::Error::new(ErrorKind::NotConnected, &*message);
            StorageError::new("use", SERVERS_STORAGE, source).into()
        }
        (_, Code::Archived) => {
            let class = String::from_utf8_lossy(about).into_owned();
            StorageError::new("read", "what lies on the server", Archived { class }).into()
        }
        (_, Code::Busy | Code::ShuttingDown) => storage(ErrorKind::ConnectionRefused).into(),
        (_, Code::KeysChanged) => Error::KeysChanged,
        (_, Code::NoSession) => Error::SessionLost,
        (_, Code::Damaged) => Error::DamagedOnServer(message),
        _ => Error::Refused { message, hint },
    }
}
