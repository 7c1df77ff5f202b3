//! The certificate authority of this server.

use crate::{Error, Result, now_secs};
use server_contract::folder::Folder;
use zeroize::Zeroizing;

/// Issues the certificates of nodes, of storage servers, and of the server itself.
pub(crate) struct CertificateIssuer {
    ca: pki::CertificateAuthority,
    pem: String,
}

impl CertificateIssuer {
    /// Opens the authority whose files lie in `folder`, and creates it if there is none. The key is written first: a
    /// certificate is useless without it, and a key without a certificate is replaced.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Pki`].
    pub(crate) fn open(folder: &Folder) -> Result<Self> {
        if folder.text("ca/ca.pem")?.is_none() {
            let new = pki::CertificateAuthority::generate(now_secs())?;
            let _ = std::fs::remove_file(folder.file("ca/ca.key")); // of a start that was killed
            folder.secret("ca/ca.key", || Ok::<_, Error>(Zeroizing::new(new.key_pem)))?;
            folder.publish("ca/ca.pem", &new.certificate_pem)?;
        }
        let missing = |name: &str| -> Error {
            let path = folder.file(name);
            server_contract::Error::file(&path)(std::io::ErrorKind::NotFound.into()).into()
        };
        let pem = folder.text("ca/ca.pem")?.ok_or_else(|| missing("ca/ca.pem"))?;
        let key = folder.secret("ca/ca.key", || Err(missing("ca/ca.key")))?;
        Ok(Self { ca: pki::CertificateAuthority::load(&pem, &key)?, pem })
    }

    /// The authority, which signs.
    pub(crate) fn ca(&self) -> &pki::CertificateAuthority {
        &self.ca
    }

    /// Its certificate, which machines trust.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// The fingerprint in a token: a machine that has only the token knows its server by it.
    pub(crate) fn fingerprint_prefix(&self) -> [u8; 16] {
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&self.ca.fingerprint()[..16]);
        prefix
    }
}
