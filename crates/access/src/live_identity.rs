//! The identity of a running storage server: its certificate is renewed in time, shown to new connections, and used to
//! call the control server. Open connections are not affected.

use crate::storage_server::{StorageIdentity, renew};
use crate::{Client, Error, Result, blocking};
use pki::ServerCertificate;
use rustls_pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The identity in a folder, while it is in use.
pub struct LiveIdentity {
    folder: PathBuf,
    ca: CertificateDer<'static>,
    shown: Arc<ServerCertificate>,
    used: Mutex<Used>,
}

/// The part of the folder that is in use.
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

    /// TLS configuration to listen with: each new connection is shown the current certificate.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn tls(&self) -> Result<Arc<rustls::ServerConfig>> {
        Ok(Arc::new(pki::server::server_config(self.shown.clone(), &self.ca)?))
    }

    /// A client of the control server's API, with the current certificate.
    pub fn client(&self) -> Arc<Client> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).client.clone()
    }

    /// Renews the certificate when it is due, and uses the one that the folder has then. Returns whether the
    /// certificate changed.
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

    /// Calls [`Self::renew_if_due`] at this interval for as long as the future is polled. Errors are passed to
    /// `failed`, and it tries again.
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
