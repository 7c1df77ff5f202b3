//! The client's side of TLS.

use crate::certificate_authority::private_key;
use crate::error::unreadable;
use crate::pinned::PinnedCa;
use crate::{Result, VERSIONS, provider};
use rustls::client::Resumption;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::sync::Arc;
use std::time::Duration;

/// TLS to a server whose certificate is from the CA in `ca_pem` and no other, for the protocol `alpn`. With `identity`
/// (certificate and key, both PEM) the client authenticates itself.
///
/// # Errors
/// [`crate::Error::Unreadable`] for an invalid certificate or key.
pub fn client_config(
    ca_pem: &str,
    identity: Option<(&str, &str)>,
    alpn: &[u8],
) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(ca_pem, "the CA certificate")?)?;
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

/// TLS to a server whose CA certificate has a fingerprint that begins with `fingerprint`; the server must show that
/// certificate. For the first contact.
///
/// # Errors
/// When the library fails.
pub fn pinned_config(fingerprint: &[u8; 16], alpn: &[u8]) -> Result<ClientConfig> {
    let verifier = Arc::new(PinnedCa::new(*fingerprint, provider()));
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(finish(config, alpn))
}

/// The first certificate and the key in `pem`.
///
/// # Errors
/// [`crate::Error::Unreadable`] when one of them is not valid.
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
/// [`crate::Error::Unreadable`] if there is none.
pub fn certificate_of(pem: &str) -> Result<CertificateDer<'static>> {
    certificate(pem, "the certificate")
}

/// Checks that the first certificate in `certificate_pem` is one of the CA in `ca_pem`, for the key in `key_pem` and the
/// name `name`. When it is valid is not looked at: the clock of this machine may be wrong.
///
/// # Errors
/// [`crate::Error::Foreign`], which says what it is instead; [`crate::Error::Unreadable`].
pub fn check_issued(ca_pem: &str, certificate_pem: &str, key_pem: &str, name: &str) -> Result<()> {
    let foreign = |why: String| Err(crate::Error::Foreign(why));
    let issued = certificate_of(certificate_pem)?;
    let facts = crate::inspect(&issued)?;
    if CertifiedKey::from_der(vec![issued.clone()], private_key(key_pem)?, &provider()).is_err() {
        return foreign("it is for another key than the one that was asked for".to_owned());
    }
    if facts.common_name != name {
        return foreign(format!("it is for the name '{}', not '{name}'", facts.common_name));
    }
    let mut roots = RootCertStore::empty();
    roots.add(certificate(ca_pem, "the CA certificate")?)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let verifier = verifier.build().map_err(|error| rustls::Error::General(error.to_string()))?;
    let begun = Duration::from_secs(u64::try_from(facts.not_before_secs).unwrap_or_default());
    match verifier.verify_client_cert(&issued, &[], UnixTime::since_unix_epoch(begun)) {
        Ok(_) => Ok(()),
        Err(error) => {
            foreign(format!("it is not of this machine's certificate authority: {error}"))
        }
    }
}

/// What to tell the user when a certificate was refused because of its validity: usually a clock is wrong.
pub fn wrong_clock(error: &rustls::Error) -> Option<String> {
    use rustls::{CertificateError as Refused, Error::InvalidCertificate};
    let InvalidCertificate(refused) = error else { return None };
    match refused {
        Refused::NotValidYetContext { time, not_before } => {
            let behind = span(not_before.as_secs().saturating_sub(time.as_secs()));
            Some(format!("the clock of this machine is {behind} or more behind"))
        }
        Refused::ExpiredContext { time, not_after } => {
            let ahead = span(time.as_secs().saturating_sub(not_after.as_secs()));
            Some(format!("the clock of this machine is {ahead} or more ahead"))
        }
        Refused::NotValidYet => Some("the clock of this machine is behind".to_owned()),
        Refused::Expired => Some("the clock of this machine is ahead".to_owned()),
        _ => None,
    }
}

fn span(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod clock_tests {
    use super::*;
    use rustls::pki_types::UnixTime;
    use rustls::{CertificateError, Error};
    use std::time::Duration;

    #[test]
    fn a_certificate_of_tomorrow_is_a_clock_that_is_behind() {
        let at = |secs| UnixTime::since_unix_epoch(Duration::from_secs(secs));
        let early = CertificateError::NotValidYetContext { time: at(1_000), not_before: at(8_200) };
        let said = wrong_clock(&Error::InvalidCertificate(early)).unwrap();
        assert_eq!(said, "the clock of this machine is 2 h or more behind");
        let late = CertificateError::ExpiredContext { time: at(900_000), not_after: at(0) };
        let said = wrong_clock(&Error::InvalidCertificate(late)).unwrap();
        assert_eq!(said, "the clock of this machine is 10 days or more ahead");
        let stranger = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert_eq!(wrong_clock(&stranger), None);
    }
}
