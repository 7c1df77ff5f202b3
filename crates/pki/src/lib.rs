//! Certificates: the server's certificate authority, requests, and TLS configurations on both sides.
//!
//! A server is its own certificate authority ([`CertificateAuthority`]): it trusts no other, and only its nodes and
//! storage servers trust it. Read in this order: [`certificate_authority`] (issues), [`request`] (what an agent
//! creates), [`inspect`] (reads a certificate), [`server`] and [`client`] (TLS 1.3 on both sides), [`pinned`] (the
//! first contact, when an agent knows only a fingerprint).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod certificate_authority;
pub mod client;
mod error;
pub mod inspect;
pub mod pinned;
pub mod request;
pub mod server;
mod time;

pub use certificate_authority::{CertificateAuthority, Issued, ServerNames};
pub use error::{Error, Result};
pub use inspect::{Facts, fingerprint, inspect};
pub use request::NodeKey;
pub use server::ServerCertificate;

use std::sync::Arc;

/// ALPN name of the data protocol.
pub const ALPN_DATA: &[u8] = b"icecore/1";
/// ALPN name of the HTTP API.
pub const ALPN_HTTP: &[u8] = b"http/1.1";

/// The one cryptography library, named so that no process-wide default is needed.
pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The only supported version.
pub(crate) const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

#[cfg(test)]
mod tests;
