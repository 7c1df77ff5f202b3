//! Trusts exactly one CA, of which only a fingerprint is known: the first contact of an agent. A man in the middle has
//! another CA, and would need 2^128 attempts for one with the same fingerprint.

use crate::fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;

/// Trusts the certificate authority with this fingerprint.
#[derive(Debug)]
pub struct PinnedCa {
    fingerprint: [u8; 16],
    provider: Arc<CryptoProvider>,
}

impl PinnedCa {
    pub(crate) fn new(fingerprint: [u8; 16], provider: Arc<CryptoProvider>) -> Self {
        Self { fingerprint, provider }
    }

    /// The CA certificate in the chain of the server.
    fn find<'a>(&self, shown: &'a [CertificateDer<'a>]) -> Option<&'a CertificateDer<'a>> {
        shown.iter().find(|shown| fingerprint(shown)[..16] == self.fingerprint)
    }
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let ca = self.find(others).ok_or_else(unknown)?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        let leaf = ParsedCertificate::try_from(leaf)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&leaf, &roots, &[], now, algorithms)?;
        verify_server_name(&leaf, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
