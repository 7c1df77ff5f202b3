//! Renewal: the next certificate, while the current one is still valid.

use crate::identity::NODE;
use crate::{Client, Error, Identity, Result, Url, files};
use api::enroll::{RenewReply, RenewRequest};
use pki::NodeKey;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The key of the last request, after the serial number of the certificate that sent it.
const WANTED: &str = "next.key";
/// The process that holds its lock renews.
const TURN: &str = "renew.lock";
const TURN_WITHIN: Duration = Duration::from_secs(60);
const TURN_LOOK_EVERY: Duration = Duration::from_millis(50);

/// Renews the certificate when it is due. Returns when the current certificate expires, and whether it is new.
///
/// # Errors
/// [`Error::NotEnrolled`]; those of [`renew`].
pub async fn renew_if_due(folder: &Path, now_secs: i64) -> Result<(i64, bool)> {
    let identity = Identity::load(folder)?;
    if !identity.is_renewal_due(now_secs) {
        return Ok((identity.certificate.not_after_secs, false));
    }
    Ok((renew(folder).await?.expires, true))
}

/// Gets the next certificate. The requested key is saved until the reply is: a repeated request gets the same
/// certificate, where another key would look like another machine. One process of this machine renews at a time.
///
/// # Errors
/// [`Error::Server`] when the node is revoked; [`Error::WrongCertificate`], and the old one stays; others when the
/// server is unreachable.
pub async fn renew(folder: &Path) -> Result<RenewReply> {
    let _turn = turn(folder).await?;
    // Under the lock: another process may have renewed meanwhile.
    let identity = Identity::load(folder)?;
    let key = wanted(folder, &identity.certificate.serial)?;
    let key_pem = Zeroizing::new(key.key_pem);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let request = RenewRequest { request: key.request_pem, version };
    let renewed: RenewReply = Client::of(&identity)?.post("/renew", &request).await?;
    let (ca_pem, name) = (identity.certificate_authority(), &*identity.certificate.common_name);
    check(&identity.server, &renewed.certificate, (ca_pem, &key_pem, name))?;
    let node = Zeroizing::new(format!("{}{}", renewed.certificate, *key_pem));
    files::write(&folder.join(NODE), &node)?;
    answered(folder)?;
    Ok(renewed)
}

/// Checks a certificate before it takes the place of the one that is there: what is none of `ca_pem`, for this key and
/// name, would leave this machine without an identity.
///
/// # Errors
/// [`Error::WrongCertificate`].
pub(crate) fn check(
    server: &Url,
    certificate: &str,
    (ca_pem, key_pem, name): (&str, &str, &str),
) -> Result<()> {
    let checked = pki::client::check_issued(ca_pem, certificate, key_pem, name);
    checked.map_err(|why| Error::WrongCertificate { server: server.place(), why })
}

/// The reply was saved: the next renewal uses another key.
pub(crate) fn answered(folder: &Path) -> Result<()> {
    files::remove(&folder.join(WANTED))
}

/// The key requested with the current certificate, or a new one.
pub(crate) fn wanted(folder: &Path, with: &str) -> Result<NodeKey> {
    let path = folder.join(WANTED);
    if let Some(text) = files::read(&path)?
        && let Some(key_pem) = text.strip_prefix(with).and_then(|it| it.strip_prefix('\n'))
        && let Ok(key) = NodeKey::of(key_pem)
    {
        return Ok(key);
    }
    let key = NodeKey::generate()?;
    files::write(&path, &Zeroizing::new(format!("{with}\n{}", key.key_pem)))?;
    Ok(key)
}

/// Waits until no other process of this machine renews.
pub(crate) async fn turn(folder: &Path) -> Result<File> {
    let path = folder.join(TURN);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let lock = lock.map_err(files::file(&path))?;
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < TURN_WITHIN => {
                tokio::time::sleep(TURN_LOOK_EVERY).await;
            }
            locked => {
                return locked.map(|()| lock).map_err(|error| files::file(&path)(error.into()));
            }
        }
    }
}
