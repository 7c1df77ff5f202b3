//! The certificate authority of a server: ECDSA over P-256.

use crate::error::unreadable;
use crate::inspect::hex;
use crate::time::set_validity;
use crate::{Error, Result, fingerprint, request};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::IpAddr;

const DAY_SECS: i64 = 86_400;
/// Validity of a certificate authority: ten years. Everything that it issued ends with it.
const CA_SECS: i64 = 3650 * DAY_SECS;
/// Validity of a server's certificate, in seconds.
pub const SERVER_SECS: i64 = 90 * DAY_SECS;
/// Validity of a node's certificate, in seconds: a stolen one is useful for this long unless it is revoked.
pub const NODE_SECS: i64 = 30 * DAY_SECS;

/// A certificate authority.
pub struct CertificateAuthority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A new certificate authority, to be saved.
pub struct NewCertificateAuthority {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// The secret key, PEM (PKCS#8).
    pub key_pem: String,
}

/// An issued certificate.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate, PEM.
    pub pem: String,
    /// The certificate, DER.
    pub der: CertificateDer<'static>,
    /// Its serial number, lower-case hex.
    pub serial: String,
    /// Valid from, seconds since 1970.
    pub not_before_secs: i64,
    /// Valid until, seconds since 1970.
    pub not_after_secs: i64,
}

impl Issued {
    /// Reads a saved certificate.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when it is not a certificate.
    pub fn from_pem(pem: &str) -> Result<Self> {
        let der = crate::client::certificate_of(pem)?;
        let facts = crate::inspect(&der)?;
        let (not_before_secs, not_after_secs) = (facts.not_before_secs, facts.not_after_secs);
        Ok(Self { pem: pem.to_owned(), der, serial: facts.serial, not_before_secs, not_after_secs })
    }
}

/// Names under which a server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames {
    /// Host names.
    pub hosts: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
}

/// Whether `name` can be used in a certificate: an address, or a host name (RFC 1123).
pub fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(is_letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.parse::<std::net::IpAddr>().is_ok() || name.len() <= 253 && name.split('.').all(is_label)
}

impl ServerNames {
    /// Sorts `names` into host names and addresses, each once.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut sorted = Self::default();
        for name in names {
            match name.parse() {
                Ok(address) if !sorted.addresses.contains(&address) => {
                    sorted.addresses.push(address);
                }
                Err(_) if !sorted.hosts.iter().any(|host| host == name) => {
                    sorted.hosts.push(name.to_owned());
                }
                _ => {}
            }
        }
        sorted
    }
}

impl CertificateAuthority {
    /// Creates a certificate authority.
    ///
    /// # Errors
    /// When the library or the system's randomness fails.
    pub fn generate(now_secs: i64) -> Result<NewCertificateAuthority> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        let (serial, shown) = serial()?;
        params.serial_number = Some(serial);
        // Each certificate authority has a name of its own, so that two are not mixed up.
        let name = format!("Icecore authority {}", shown.get(..12).unwrap_or(&shown));
        params.distinguished_name = named(&name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, now_secs, now_secs.saturating_add(CA_SECS))?;
        let certificate = params.self_signed(&key)?;
        Ok(NewCertificateAuthority {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// Loads a saved certificate authority.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when certificate or key is damaged.
    pub fn load(certificate_pem: &str, key_pem: &str) -> Result<Self> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(unreadable("the certificate of the CA (ca/ca.pem)"))?;
        let key =
            KeyPair::from_pem(key_pem).map_err(unreadable("the key of the CA (ca/ca.key)"))?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(unreadable("the certificate of the CA (ca/ca.pem)"))?;
        Ok(Self { certificate, issuer })
    }

    /// Its certificate (DER).
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// SHA-256 of its certificate.
    pub fn fingerprint(&self) -> [u8; 32] {
        fingerprint(&self.certificate)
    }

    /// Issues a certificate for the server's key, under these names, for 90 days.
    ///
    /// # Errors
    /// [`Error::Name`] for an invalid name; [`Error::Unreadable`] for the key.
    pub fn issue_server(
        &self,
        key_pem: &str,
        names: &ServerNames,
        now_secs: i64,
    ) -> Result<Issued> {
        let key = KeyPair::from_pem(key_pem).map_err(unreadable("the server's key"))?;
        let mut params = named_params(names)?;
        params.distinguished_name = named("Icecore server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, now_secs, SERVER_SECS, |params, issuer| params.signed_by(&key, issuer))
    }

    /// Issues a certificate for the node `name` from its request (PEM), for 30 days. Only the public key of the
    /// request is used; anything else in it is ignored.
    ///
    /// # Errors
    /// [`Error::Unreadable`] and [`Error::Request`] when the request is not like those of agents.
    pub fn issue_node(&self, request_pem: &str, name: &str, now_secs: i64) -> Result<Issued> {
        let request = request::parse(request_pem)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, now_secs, NODE_SECS, |params, issuer| {
            params.signed_by(&request.public_key, issuer)
        })
    }

    /// Issues a certificate for a storage server from its request (PEM), for 30 days: to serve under `names`, and to
    /// call the control server as `name`. Only the public key of the request is used.
    ///
    /// # Errors
    /// [`Error::Unreadable`], [`Error::Request`]; [`Error::Name`] for an invalid name.
    pub fn issue_storage(
        &self,
        request_pem: &str,
        name: &str,
        names: &ServerNames,
        now_secs: i64,
    ) -> Result<Issued> {
        let request = request::parse(request_pem)?;
        let mut params = named_params(names)?;
        params.distinguished_name = named(name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, now_secs, NODE_SECS, |params, issuer| {
            params.signed_by(&request.public_key, issuer)
        })
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        now_secs: i64,
        life_secs: i64,
        sign: impl FnOnce(
            CertificateParams,
            &Issuer<'static, KeyPair>,
        ) -> std::result::Result<rcgen::Certificate, rcgen::Error>,
    ) -> Result<Issued> {
        let (number, serial) = serial()?;
        params.serial_number = Some(number);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let until_secs = now_secs.saturating_add(life_secs);
        let [not_before_secs, not_after_secs] = set_validity(&mut params, now_secs, until_secs)?;
        let made = sign(params, &self.issuer)?;
        let (pem, der) = (made.pem(), made.der().clone());
        Ok(Issued { pem, der, serial, not_before_secs, not_after_secs })
    }
}

/// A new secret key for a server, PEM (PKCS#8).
///
/// # Errors
/// When the system's randomness fails.
pub fn new_server_key() -> Result<String> {
    Ok(KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?.serialize_pem())
}

/// The secret key in `pem`.
pub(crate) fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>> {
    let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(unreadable("the key"))?;
    Ok(PrivateKeyDer::Pkcs8(key))
}

/// Parameters of a certificate to serve under `names`.
fn named_params(names: &ServerNames) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    for host in &names.hosts {
        let name = host.clone().try_into().map_err(|_| Error::Name(host.clone()))?;
        params.subject_alt_names.push(SanType::DnsName(name));
    }
    let addresses = names.addresses.iter().copied().map(SanType::IpAddress);
    params.subject_alt_names.extend(addresses);
    Ok(params)
}

fn named(name: &str) -> rcgen::DistinguishedName {
    let mut distinguished = rcgen::DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// 16 random bytes as a positive number that needs no leading zero, and its hex.
fn serial() -> Result<(SerialNumber, String)> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::NoRandom)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok((SerialNumber::from_slice(&bytes), hex(&bytes)))
}
