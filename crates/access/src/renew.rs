//! Renewal: the next certificate, while the last one is still good.

use crate::identity::NODE;
use crate::{Client, Identity, Result, files};
use api::enrol::{Renew, Renewed};
use pki::NodeKey;
use std::path::Path;
use zeroize::Zeroizing;

/// Gets the next certificate when it is time; tells when the one ends that the folder has now, and whether it is new.
///
/// # Errors
/// [`crate::Error::NotEnrolled`]; what [`renew`] fails with.
pub async fn renew_if_due(folder: &Path, now_secs: i64) -> Result<(i64, bool)> {
    let identity = Identity::load(folder)?;
    if !identity.is_renewal_due(now_secs) {
        return Ok((identity.certificate.not_after_secs, false));
    }
    Ok((renew(folder).await?.expires, true))
}

/// Gets the next certificate, for a new key.
///
/// # Errors
/// [`crate::Error::Server`] when the node is revoked; others when the way to the server is the trouble.
pub async fn renew(folder: &Path) -> Result<Renewed> {
    let identity = Identity::load(folder)?;
    let key = NodeKey::generate()?;
    let key_pem = Zeroizing::new(key.key_pem);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let request = Renew { request: key.request_pem, version };
    let renewed: Renewed = Client::of(&identity)?.post("/renew", &request).await?;
    pki::client::certificate_of(&renewed.certificate)?;
    let node = Zeroizing::new(format!("{}{}", renewed.certificate, *key_pem));
    files::write(&folder.join(NODE), &node)?;
    Ok(renewed)
}
