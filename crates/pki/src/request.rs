//! Certificate signing requests: created by agents, read by the certificate authority.

use crate::error::unreadable;
use crate::{Error, Result};
use rcgen::{CertificateParams, CertificateSigningRequestParams, DistinguishedName, KeyPair};

/// A request has about 300 bytes; longer ones are refused.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;

/// An agent's secret key, and its request.
pub struct NodeKey {
    /// The secret key, PEM (PKCS#8).
    pub key_pem: String,
    /// The request, PEM.
    pub request_pem: String,
}

impl NodeKey {
    /// Creates a key and a request for it. The request has no name: the server knows the machine by other means.
    ///
    /// # Errors
    /// When the system's randomness fails.
    pub fn generate() -> Result<Self> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        Ok(Self { request_pem: request(&key)?, key_pem: key.serialize_pem() })
    }

    /// A request for the key in `key_pem`.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when it is not a key.
    pub fn of(key_pem: &str) -> Result<Self> {
        let key = KeyPair::from_pem(key_pem).map_err(unreadable("the node's key"))?;
        Ok(Self { request_pem: request(&key)?, key_pem: key_pem.to_owned() })
    }
}

fn request(key: &KeyPair) -> Result<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.pem()?)
}

/// Reads a request (PEM) and verifies that its sender has the secret key.
///
/// # Errors
/// [`Error::Unreadable`] when it is not a request or its signature is wrong; [`Error::Request`] for a key of another
/// kind.
pub fn parse(request_pem: &str) -> Result<CertificateSigningRequestParams> {
    if request_pem.len() > REQUEST_BYTES_MAX {
        return Err(Error::Request("it is too long"));
    }
    let request = CertificateSigningRequestParams::from_pem(request_pem)
        .map_err(unreadable("the certificate request"))?;
    if request.public_key.algorithm() != &rcgen::PKCS_ECDSA_P256_SHA256 {
        return Err(Error::Request("its key is not of the kind ECDSA P-256"));
    }
    Ok(request)
}

/// Hash of the public key in a request: two requests for one key have the same.
///
/// # Errors
/// As [`parse`].
pub fn key_of(request_pem: &str) -> Result<[u8; 32]> {
    use rcgen::PublicKeyData;
    Ok(crate::fingerprint(parse(request_pem)?.public_key.der_bytes()))
}
