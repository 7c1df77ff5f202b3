//! Reads a certificate. Trust the result only after TLS has verified the certificate.

use crate::Result;
use crate::error::unreadable;

/// Contents of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Serial number, lower-case hex without leading zeros.
    pub serial: String,
    /// Common name of its subject; empty when there is none.
    pub common_name: String,
    /// Valid from, seconds since 1970.
    pub not_before_secs: i64,
    /// Valid until, seconds since 1970.
    pub not_after_secs: i64,
}

/// Reads a certificate (DER).
///
/// # Errors
/// [`crate::Error::Unreadable`] when the bytes are not a certificate.
pub fn inspect(certificate: &[u8]) -> Result<Facts> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(unreadable("the certificate"))?;
    let name = parsed.subject().iter_common_name().next();
    Ok(Facts {
        serial: hex(parsed.raw_serial()),
        common_name: name.and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned(),
        not_before_secs: parsed.validity().not_before.timestamp(),
        not_after_secs: parsed.validity().not_after.timestamp(),
    })
}

/// SHA-256 of a certificate (DER).
pub fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

/// Lower-case hex of a number without leading zero bytes.
pub(crate) fn hex(number: &[u8]) -> String {
    let digits = number.iter().skip_while(|byte| **byte == 0);
    digits.map(|byte| format!("{byte:02x}")).collect()
}
