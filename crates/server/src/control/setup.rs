//! Names and certificate of the server itself.

use super::Result;
use pki::{CertificateAuthority, Issued, ServerNames};

/// `given`, and the names of this machine for itself.
pub(crate) fn own_names(given: &[String]) -> ServerNames {
    let own = host_name();
    let given = given.iter().map(String::as_str);
    ServerNames::of(given.chain([own.as_str(), "localhost", "127.0.0.1", "::1"]))
}

/// The host name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase()
}

/// The server's certificate.
pub(crate) fn new_certificate(
    ca: &CertificateAuthority,
    key: &str,
    names: &ServerNames,
    now_secs: i64,
) -> Result<Issued> {
    Ok(ca.issue_server(key, names, now_secs)?)
}
