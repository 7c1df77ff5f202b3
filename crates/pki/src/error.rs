//! What can go wrong with certificates.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with certificates.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes that should be a certificate, key or request are none.
    #[error("{what} cannot be read")]
    Unreadable {
        /// What it should have been.
        what: &'static str,
    },
    /// A request asks for what is not given.
    #[error("the certificate request is refused: {0}")]
    Request(&'static str),
    /// A name that cannot stand in a certificate.
    #[error("'{0}' cannot be used in a certificate")]
    Name(String),
    /// Making a certificate failed.
    #[error("cannot issue a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    /// A TLS configuration could not be made.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The system gives no random bytes.
    #[error("the system provides no random bytes")]
    NoRandom,
}

/// For `map_err`.
pub(crate) fn unreadable<E>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |_| Error::Unreadable { what }
}
