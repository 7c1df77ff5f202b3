//! This machine as a storage server: enrollment, identity, renewal.
//!
//! ```text
//! ca.pem        certificate of the server's certificate authority
//! storage.pem   the certificate, to serve and to ask with, and its secret key
//! storage.toml  all else; written last: without it nothing here counts
//! ```

use crate::files::{self, read};
use crate::renew::{answered, check, turn, wanted};
use crate::{Client, Error, Result, Url};
use api::storage_servers::{EnrollStorageServerReply, EnrollStorageServerRequest};
use api::{Name, Token};
use data_encoding::HEXLOWER;
use pki::NodeKey;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

const CA: &str = "ca.pem";
const CERTIFICATE: &str = "storage.pem";
const SETTINGS: &str = "storage.toml";
/// Holds a request until its reply.
const PENDING: &str = "pending.toml";

/// The file `storage.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Address of the control server.
    pub server: String,
    /// Name of the storage server.
    pub storage: Name,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Names under which nodes reach it.
    pub names: Vec<String>,
}

/// The identity of this machine as a storage server.
pub struct StorageIdentity {
    /// The file `storage.toml`.
    pub settings: Settings,
    /// Address of the control server.
    pub server: Url,
    /// Its certificate.
    pub certificate: pki::Issued,
    /// Certificate of the server's certificate authority, PEM.
    pub ca_pem: String,
    /// Certificate and secret key.
    pub pem: Zeroizing<String>,
}

impl StorageIdentity {
    /// Reads the folder.
    ///
    /// # Errors
    /// [`Error::NoStorage`]; [`Error::StorageDamaged`] for damaged files; [`Error::File`].
    pub fn load(folder: &Path) -> Result<Self> {
        let missing = |name: &str| Error::NoStorage { path: folder.join(name) };
        let text = |name: &str| read(&folder.join(name))?.ok_or_else(|| missing(name));
        let settings: Settings = toml::from_str(&text(SETTINGS)?)
            .map_err(|error| damaged(folder, SETTINGS, error.message()))?;
        let (ca_pem, pem) = (text(CA)?.to_string(), text(CERTIFICATE)?);
        let certificate =
            pki::Issued::from_pem(&pem).map_err(|error| damaged(folder, CERTIFICATE, error))?;
        let server = settings.server.parse()?;
        Ok(Self { settings, server, certificate, ca_pem, pem })
    }

    /// A client of the control server's API with this identity.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(self.server.clone(), self.tls(pki::ALPN_HTTP)?))
    }

    /// TLS to the control server as this storage server, for the protocol `alpn`.
    ///
    /// # Errors
    /// [`Error::Pki`].
    pub fn tls(&self, alpn: &[u8]) -> Result<Arc<rustls::ClientConfig>> {
        let identity = Some((&**self.pem, &**self.pem));
        Ok(Arc::new(pki::client::client_config(&self.ca_pem, identity, alpn)?))
    }

    /// Whether it is time to renew the certificate: a third of its lifetime is left.
    pub fn is_renewal_due(&self, now_secs: i64) -> bool {
        self.certificate.not_after_secs - now_secs < pki::certificate_authority::NODE_SECS / 3
    }
}

/// Where the storage server in `folder` listens, as its settings say; `None` if there are none that can be read.
pub fn listens_at(folder: &Path) -> Option<SocketAddr> {
    let text = read(&folder.join(SETTINGS)).ok()??;
    toml::from_str::<Settings>(&text).ok().map(|settings| settings.listen)
}

/// A request that was sent, or is about to be.
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
struct Pending {
    /// SHA-256 of the token's secret, hex.
    token: String,
    key: String,
    request: String,
}

/// What a machine says of itself when it enrolls as a storage server.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Names under which nodes reach it.
    pub names: &'a [String],
    /// The storage server to which its pool belongs already.
    pub pool_of: Option<&'a str>,
}

/// Enrolls this machine as a storage server, and saves its identity in `folder`. An existing identity is replaced only
/// with `replace`; repositories stay.
///
/// # Errors
/// As [`crate::enroll::enroll`].
pub async fn enroll(
    url: &str,
    token: &str,
    folder: &Path,
    machine: Machine<'_>,
    replace: bool,
) -> Result<EnrollStorageServerReply> {
    let (server, token) = (url.parse::<Url>()?, Token::parse(token)?);
    if !replace && let Ok(known) = StorageIdentity::load(folder) {
        let (storage, server) = (known.settings.storage.to_string(), known.settings.server);
        return Err(Error::StorageEnrolled { storage, server });
    }
    files::make_folder(folder)?;
    let pending = pending(folder, &token)?;
    let tls = pki::client::pinned_config(&token.ca_fingerprint, pki::ALPN_HTTP)?;
    let request = EnrollStorageServerRequest {
        secret: token.secret_text(),
        request: pending.request.clone(),
        names: machine.names.to_vec(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pool_of: machine.pool_of.map(str::to_owned),
    };
    let client = Client::new(server.clone(), Arc::new(tls));
    let told: EnrollStorageServerReply = client.post("/storage-server/enroll", &request).await?;
    let ca = pki::client::certificate_of(&told.ca_certificate)?;
    if pki::fingerprint(&ca)[..16] != token.ca_fingerprint {
        return Err(Error::Stranger { server: server.place() });
    }
    let (listen, names) = (machine.listen, machine.names.to_vec());
    let (server, storage) = (server.to_string(), told.storage.clone());
    keep(folder, &told, &pending.key, &Settings { server, storage, listen, names })?;
    files::remove(&folder.join(PENDING))?;
    Ok(told)
}

/// Saves the identity. The old one is void from the first step on, the new one valid from the last.
fn keep(
    folder: &Path,
    told: &EnrollStorageServerReply,
    key_pem: &str,
    settings: &Settings,
) -> Result<()> {
    files::remove(&folder.join(SETTINGS))?;
    files::write(&folder.join(CA), &told.ca_certificate)?;
    let pem = Zeroizing::new(format!("{}{key_pem}", told.certificate));
    files::write(&folder.join(CERTIFICATE), &pem)?;
    let text = toml::to_string(settings).map_err(|error| damaged(folder, SETTINGS, error))?;
    files::write(&folder.join(SETTINGS), &text)
}

/// The saved request for this token, or a new one, saved durably.
fn pending(folder: &Path, token: &Token) -> Result<Pending> {
    let (path, name) = (folder.join(PENDING), HEXLOWER.encode(&pki::fingerprint(&token.secret)));
    if let Some(text) = read(&path)?
        && let Ok(pending) = toml::from_str::<Pending>(&text)
        && pending.token == name
    {
        return Ok(pending);
    }
    let mut made = NodeKey::generate()?;
    let key = std::mem::take(&mut made.key_pem);
    let pending = Pending { token: name, key, request: made.request_pem };
    let text = toml::to_string(&pending).map_err(|error| damaged(folder, PENDING, error))?;
    files::write(&path, &text)?;
    Ok(pending)
}

/// Gets the next certificate. As with nodes, the requested key is saved until the reply is: another key would look like
/// another machine.
///
/// # Errors
/// [`Error::Server`] when the storage server is revoked; [`Error::WrongCertificate`], and the old one stays; others when the control server is unreachable.
pub async fn renew(folder: &Path) -> Result<()> {
    let _turn = turn(folder).await?;
    let storage = StorageIdentity::load(folder)?;
    let key = wanted(folder, &storage.certificate.serial)?;
    let key_pem = Zeroizing::new(key.key_pem);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let request = api::enroll::RenewRequest { request: key.request_pem, version };
    let renewed: api::enroll::RenewReply =
        storage.client()?.post("/storage-server/renew", &request).await?;
    let name = &pki::inspect::inspect(&storage.certificate.der)?.common_name;
    let ca_pem = &*storage.ca_pem;
    check(&storage.server, &renewed.certificate, (ca_pem, &key_pem, name))?;
    let pem = Zeroizing::new(format!("{}{}", renewed.certificate, *key_pem));
    files::write(&folder.join(CERTIFICATE), &pem)?;
    answered(folder)
}

fn damaged(folder: &Path, name: &str, why: impl ToString) -> Error {
    Error::StorageDamaged { path: folder.join(name), why: why.to_string() }
}
