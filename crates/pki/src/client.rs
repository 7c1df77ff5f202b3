//! The agent's side of TLS.

use crate::authority::private_key;
use crate::error::unreadable;
use crate::pinned::PinnedAuthority;
use crate::{Result, VERSIONS, provider};
use rustls::client::Resumption;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::sync::Arc;

/// TLS to a server of the authority in `authority_pem` and of no other, for the protocol `alpn`. With `identity`
/// (certificate and key, both PEM) it says who it is.
///
/// # Errors
/// [`crate::Error::Unreadable`] when something is not what it should be.
pub fn client_config(
    authority_pem: &str,
    identity: Option<(&str, &str)>,
    alpn: &[u8],
) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(authority_pem, "the authority's certificate")?)?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)?
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = vec![certificate(chain, "the node's certificate")?];
            builder.with_client_auth_cert(chain, private_key(key)?)?
        }
    };
    Ok(finish(config, alpn))
}

/// TLS to a server of the authority whose fingerprint begins with `fingerprint`, and that shows its certificate. For
/// the first contact.
///
/// # Errors
/// When the library fails.
pub fn pinned_config(fingerprint: &[u8; 16], alpn: &[u8]) -> Result<ClientConfig> {
    let verifier = Arc::new(PinnedAuthority::new(*fingerprint, provider()));
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(finish(config, alpn))
}

/// The first certificate in `pem`, and the key there, to be shown.
///
/// # Errors
/// [`crate::Error::Unreadable`] when one of them is none.
pub fn certified(pem: &str) -> Result<Arc<CertifiedKey>> {
    let chain = vec![certificate(pem, "the node's certificate")?];
    Ok(Arc::new(CertifiedKey::from_der(chain, private_key(pem)?, &provider())?))
}

fn finish(mut config: ClientConfig, alpn: &[u8]) -> ClientConfig {
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = Resumption::disabled();
    config
}

/// The first certificate in `pem`, DER.
pub(crate) fn certificate(pem: &str, what: &'static str) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(unreadable(what))
}

/// The first certificate in `pem`, DER.
///
/// # Errors
/// [`crate::Error::Unreadable`] when there is none.
pub fn certificate_of(pem: &str) -> Result<CertificateDer<'static>> {
    certificate(pem, "the certificate")
}
