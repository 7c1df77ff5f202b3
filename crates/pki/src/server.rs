//! The server's side of TLS.

use crate::certificate_authority::private_key;
use crate::{ALPN_DATA, ALPN_HTTP, Issued, Result, VERSIONS, provider};
use rustls::RootCertStore;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;
use std::sync::{Arc, PoisonError, RwLock};

/// The certificate that a server shows; it can be replaced while the server runs.
#[derive(Debug)]
pub struct ServerCertificate {
    shown: RwLock<Arc<CertifiedKey>>,
}

impl ServerCertificate {
    /// Shows `issued`, and behind it the certificate of the `ca` that issued it: a machine that enrolls knows only
    /// its fingerprint.
    ///
    /// # Errors
    /// [`crate::Error::Unreadable`] for an invalid key.
    pub fn new(issued: &Issued, key_pem: &str, ca: &CertificateDer<'static>) -> Result<Arc<Self>> {
        let shown = RwLock::new(certified(issued, key_pem, ca)?);
        Ok(Arc::new(Self { shown }))
    }

    /// Replaces the certificate, from the next connection on.
    ///
    /// # Errors
    /// [`crate::Error::Unreadable`] for an invalid key.
    pub fn replace(
        &self,
        issued: &Issued,
        key_pem: &str,
        ca: &CertificateDer<'static>,
    ) -> Result<()> {
        let next = certified(issued, key_pem, ca)?;
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn certified(
    issued: &Issued,
    key_pem: &str,
    ca: &CertificateDer<'static>,
) -> Result<Arc<CertifiedKey>> {
    let chain = vec![issued.der.clone(), ca.clone()];
    Ok(Arc::new(CertifiedKey::from_der(chain, private_key(key_pem)?, &provider())?))
}

/// TLS of a server: version 1.3, both protocols; a client's certificate, if shown, is verified against `ca`. Whether
/// one is needed, and whether it is still accepted, is decided by access control.
///
/// # Errors
/// When the CA certificate is not valid.
pub fn server_config(
    certificate: Arc<ServerCertificate>,
    ca: &CertificateDer<'static>,
) -> Result<rustls::ServerConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![ALPN_DATA.to_vec(), ALPN_HTTP.to_vec()];
    // Connections live long: resuming saves little, and would carry old certificates on.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
