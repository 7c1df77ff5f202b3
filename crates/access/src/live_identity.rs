//! The identity of a storage server that runs: its certificate is renewed in time, shown to who connects, and used to
//! ask the server. Connections that are open stay as they are.

use crate::storage_server::{StorageIdentity, renew};
use crate::{Client, Error, Result, blocking};
use pki::ServerCertificate;
use rustls_pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The identity in a folder, in use.
pub struct LiveIdentity {
    folder: PathBuf,
    ca: CertificateDer<'static>,
    shown: Arc<ServerCertificate>,
    used: Mutex<Used>,
}

/// What is in use of the folder.
struct Used {
    /// Serial number of the certificate.
    serial: String,
    client: Arc<Client>,
}

impl Used {
    fn of(storage: &StorageIdentity) -> Result<Self> {
        let (serial, client) = (storage.certificate.serial.clone(), storage.client()?);
        Ok(Self { serial, client: Arc::new(client) })
    }
}

impl LiveIdentity {
    /// Reads the folder.
    ///
    /// # Errors
    /// As [`StorageIdentity::load`]; [`Error::Pki`].
    pub fn load(folder: &Path) -> Result<Arc<Self>> {
        let storage = StorageIdentity::load(folder)?;
        let ca = pki::client::certificate_of(&storage.ca_pem)?;
        let shown = ServerCertificate::new(&storage.certificate, &storage.pem, &ca)?;
        let used = Mutex::new(Used::of(&storage)?);
        Ok(Arc::new(Self { folder: folder.to_owned(), ca, shown, used }))
    }

    /// TLS of who listens: each new connection is shown the certificate that is in use then.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn tls(&self) -> Result<Arc<rustls::ServerConfig>> {
        Ok(Arc::new(pki::server::server_config(self.shown.clone(), &self.ca)?))
    }

    /// A client of the server's API, with the certificate that is in use now.
    pub fn client(&self) -> Arc<Client> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).client.clone()
    }

    /// Gets the next certificate when it is time, and uses the one that the folder has then. Tells whether that is
    /// another one than before.
    ///
    /// # Errors
    /// As [`renew`], and as [`StorageIdentity::load`].
    pub async fn renew_if_due(&self, now_secs: i64) -> Result<bool> {
        if StorageIdentity::load(&self.folder)?.is_renewal_due(now_secs) {
            renew(&self.folder).await?;
        }
        // Also what an earlier look got and could not put to use.
        let storage = StorageIdentity::load(&self.folder)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.serial == storage.certificate.serial {
            return Ok(false);
        }
        let next = Used::of(&storage)?;
        self.shown.replace(&storage.certificate, &storage.pem, &self.ca)?;
        *used = next;
        Ok(true)
    }

    /// Looks after it, now and then, for as long as it is waited for. What fails is told, and tried again.
    pub async fn renew_forever(
        self: Arc<Self>,
        every: Duration,
        now_secs: impl Fn() -> i64,
        failed: impl Fn(&Error),
    ) {
        loop {
            let (identity, now_secs) = (self.clone(), now_secs());
            // It syncs files: not where connections wait.
            let renew = move || blocking::wait(identity.renew_if_due(now_secs));
            if let Ok(Err(error)) = tokio::task::spawn_blocking(renew).await {
                failed(&error);
            }
            tokio::time::sleep(every).await;
        }
    }
}
