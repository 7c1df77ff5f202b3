//! Errors of certificates.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of certificates.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes are not a valid certificate, key or request.
    #[error("{what} cannot be read")]
    Unreadable {
        /// What they should have been.
        what: &'static str,
    },
    /// A certificate request is refused.
    #[error("the certificate request is refused: {0}")]
    Request(&'static str),
    /// A certificate that was issued for another key or name, or by another authority.
    #[error("the certificate is not for this machine: {0}")]
    Foreign(String),
    /// A name that cannot be used in a certificate.
    #[error("'{0}' cannot be used in a certificate")]
    Name(String),
    /// A certificate could not be issued.
    #[error("cannot issue a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    /// A TLS configuration is not valid.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The system provides no random bytes.
    #[error("the system provides no random bytes")]
    NoRandom,
}

/// For `map_err`.
pub(crate) fn unreadable<E>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |_| Error::Unreadable { what }
}
