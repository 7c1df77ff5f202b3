//! Errors of reaching a server, and what to do about them.

use api::domains::Privacy;
use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a server could not be reached or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not valid.
    #[error("'{0}' is not a server address: write https://HOST:PORT")]
    Url(String),
    /// Something that reaches the server was not given.
    #[error("missing: {0}")]
    NotGiven(&'static str),
    /// The token is not valid.
    #[error(transparent)]
    Token(#[from] api::token::BadToken),
    /// The server is unreachable.
    #[error("the server {server} is unreachable: {source}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// Why.
        source: io::Error,
    },
    /// It took too long.
    #[error("the server {server} did not answer in time ({what})")]
    TimedOut {
        /// Host and port.
        server: String,
        /// The step that took too long.
        what: &'static str,
    },
    /// The other end is another server than expected.
    #[error(
        "{server} is not the expected server: its certificate is from another certificate authority"
    )]
    Stranger {
        /// Host and port.
        server: String,
    },
    /// The server's certificate is for other names.
    #[error("the certificate of {server} is not valid for this name")]
    OtherName {
        /// Host and port.
        server: String,
    },
    /// The server's certificate is not valid at this time.
    #[error("{said}, by the certificate of {server}")]
    Clock {
        /// Host and port.
        server: String,
        /// What that says about the clock of this machine.
        said: String,
    },
    /// The server does not take the certificate of this machine any more, and gives it no other one.
    #[error("the certificate of this machine has expired, says {server}")]
    Expired {
        /// Host and port.
        server: String,
    },
    /// TLS failed, or the connection broke.
    #[error("the connection to {server} failed: {why}")]
    Connection {
        /// Host and port.
        server: String,
        /// Why.
        why: String,
    },
    /// The server refused the request.
    #[error("{0}")]
    Server(api::Failure),
    /// The reply of the server is not valid.
    #[error("invalid reply from {server}: {why}")]
    Answer {
        /// Host and port.
        server: String,
        /// Why.
        why: String,
    },
    /// The certificate that the server sent as the next one is not for this machine.
    #[error("{server} sent what cannot be the next certificate, so the old one stays: {why}")]
    WrongCertificate {
        /// Host and port.
        server: String,
        /// What is wrong with it.
        why: pki::Error,
    },
    /// This machine is not enrolled as a node.
    #[error("this machine is not enrolled: there is no {}", path.display())]
    NotEnrolled {
        /// The missing file.
        path: PathBuf,
    },
    /// This machine is not enrolled as a storage server.
    #[error("this directory does not belong to a storage server: there is no {}", path.display())]
    NoStorage {
        /// The missing file.
        path: PathBuf,
    },
    /// This machine is already enrolled as a node.
    #[error("this machine is already enrolled, as '{node}' at {server}")]
    Enrolled {
        /// Name of the node.
        node: String,
        /// The server.
        server: String,
    },
    /// The domain has less privacy than this machine accepts.
    #[error("the domain '{domain}' has {has} privacy, and this machine asks for {wants}")]
    LessPrivate {
        /// The domain.
        domain: String,
        /// Its privacy.
        has: Privacy,
        /// The requested privacy.
        wants: Privacy,
    },
    /// This directory already belongs to a storage server.
    #[error("this directory already belongs to the storage server '{storage}' of {server}")]
    StorageEnrolled {
        /// Name of the storage server.
        storage: String,
        /// The server.
        server: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is damaged.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file of a storage server is damaged.
    #[error("{}: {why}", path.display())]
    StorageDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A certificate or key is not valid.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// The system provides no random bytes.
    #[error("the system provides no random bytes")]
    NoRandom,
}

impl Error {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Url(_) => "To print the command to run here: icecore server token NODE".into(),
            Self::NotGiven(_) => "On the server: the token of its administrator is the content of the file admin-token in its directory; its certificate is ca/ca.pem there.".into(),
            Self::Token(_) => "Copy the whole token, or create a new one: icecore server token NODE".into(),
            Self::Unreachable { .. } | Self::TimedOut { .. } => {
                "Check that the server runs and that no firewall blocks the connection.".into()
            }
            Self::Stranger { .. } => "Either this is another server, or somebody intercepts the connection. Do not continue; compare the fingerprint: icecore server status".into(),
            Self::Clock { .. } => "Check the clocks of both machines (timedatectl), set the wrong one, and try again.".into(),
            Self::Expired { .. } => "On the server: icecore server token NODE, with --write-only if it was; then here: icecore agent enroll --replace URL TOKEN. For a storage server: icecore server token NAME --storage, and icecore storage enroll --replace URL TOKEN".into(),
            Self::WrongCertificate { .. } => "Ask the administrator of the server whether this is still the same one: icecore server status prints its fingerprint. Until when the old certificate is valid: icecore agent status".into(),
            Self::OtherName { .. } => "Use a name that the server knows, or start it with --name HOST.".into(),
            Self::NotEnrolled { .. } => "On the server: icecore server token NODE; then here: icecore agent enroll URL TOKEN".into(),
            Self::NoStorage { .. } => "On the server: icecore server token NAME --storage; then here: icecore storage enroll URL TOKEN".into(),
            Self::StorageEnrolled { .. } => "To give it a new identity and keep its repositories: icecore storage enroll --replace URL TOKEN".into(),
            Self::LessPrivate { wants, .. } => format!("On the server: icecore server token NODE --privacy {wants} --domain NAME, with the name of a new domain; then here with its token"),
            Self::Enrolled { .. } => "To give it a new identity: icecore agent enroll --replace URL TOKEN".into(),
            Self::Damaged { .. } => "Enroll again: icecore agent enroll --replace URL TOKEN".into(),
            Self::StorageDamaged { .. } => "Enroll again, which keeps its repositories. On the server: icecore server token NAME --storage; then here: icecore storage enroll --replace URL TOKEN".into(),
            Self::Server(failure) => return failure.hint.clone(),
            _ => return None,
        })
    }
}
