//! TLS that shows, in each handshake, the certificate that the folder has then: a job of weeks outlives the
//! certificate with which it began.

use crate::identity::NODE;
use crate::{Identity, Result, files};
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// TLS to the server as the node of `folder`, for the protocol `alpn` ([`pki::ALPN_DATA`], [`pki::ALPN_HTTP`]).
/// The certificate of `identity` is shown while no other one can be read.
///
/// # Errors
/// [`crate::Error::Pki`] for invalid certificates.
pub fn tls(folder: &Path, identity: &Identity, alpn: &[u8]) -> Result<Arc<ClientConfig>> {
    let mut config = ClientConfig::clone(&*identity.tls(alpn)?);
    let last = Mutex::new(pki::client::certified(identity.node_pem())?);
    config.client_auth_cert_resolver =
        Arc::new(ReloadingCertificate { file: folder.join(NODE), last });
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct ReloadingCertificate {
    file: PathBuf,
    /// The certificate that was read last.
    last: Mutex<Arc<CertifiedKey>>,
}

impl ReloadingCertificate {
    fn read(&self) -> Option<Arc<CertifiedKey>> {
        let pem = files::read(&self.file).ok()??;
        pki::client::certified(&pem).ok()
    }
}

impl ResolvesClientCert for ReloadingCertificate {
    /// A folder that cannot be read now ends no job: it is read again at the next handshake.
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let read = self.read();
        let mut last = self.last.lock();
        if let Some(newer) = read {
            *last = newer;
        }
        Some(last.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pki::{CertificateAuthority, NodeKey};

    fn node_pem() -> String {
        let new = CertificateAuthority::generate(0).unwrap();
        let ca = CertificateAuthority::load(&new.certificate_pem, &new.key_pem).unwrap();
        let key = NodeKey::generate().unwrap();
        let issued = ca.issue_node(&key.request_pem, "web", 0).unwrap();
        format!("{}{}", issued.pem, key.key_pem)
    }

    #[test]
    fn the_newest_one_is_shown_and_the_last_one_while_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(NODE);
        let (first, second) = (node_pem(), node_pem());
        let shown_in = |pem: &str| pki::client::certified(pem).unwrap().cert.clone();
        let last = Mutex::new(pki::client::certified(&first).unwrap());
        let newest = ReloadingCertificate { file: file.clone(), last };
        let shows = || newest.resolve(&[], &[]).unwrap().cert.clone();
        assert_eq!(shows(), shown_in(&first), "there is no file");
        files::write(&file, &second).unwrap();
        assert_eq!(shows(), shown_in(&second));
        for bad in ["", "no certificate", &second[..200]] {
            files::write(&file, bad).unwrap();
            assert_eq!(shows(), shown_in(&second));
        }
        files::write(&file, &first).unwrap();
        assert_eq!(shows(), shown_in(&first));
    }
}
