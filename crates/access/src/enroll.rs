//! Enrollment: this machine becomes a node.
//!
//! The request is saved before it is sent: when the reply is lost, the same command with the same token sends the same
//! request again and gets the same reply.

use crate::files::{self, read};
use crate::identity::{self, damaged};
use crate::{Client, Error, Result, Url};
use api::Token;
use api::domains::Privacy;
use api::enroll::{EnrollReply, EnrollRequest};
use data_encoding::HEXLOWER;
use pki::NodeKey;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Holds a request until its reply.
const PENDING: &str = "pending.toml";

/// A request that was sent, or is about to be.
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
struct Pending {
    /// SHA-256 of the token's secret, hex.
    token: String,
    key: String,
    request: String,
    slot_secret: String,
}

/// Enrolls this machine as a node, and saves its identity in `folder`. An existing identity is replaced only with
/// `replace`.
///
/// # Errors
/// [`Error::Token`] for an invalid token; [`Error::Stranger`] when another server issued it; [`Error::Server`] when
/// it was used or has expired; [`Error::Enrolled`].
pub async fn enroll(url: &str, token: &str, folder: &Path, replace: bool) -> Result<EnrollReply> {
    enroll_with_privacy(url, token, folder, replace, Privacy::Standard).await
}

/// The same for a machine that accepts no less than `privacy`.
///
/// # Errors
/// Those of [`enroll`]; [`Error::LessPrivate`] when the domain has less.
pub async fn enroll_with_privacy(
    url: &str,
    token: &str,
    folder: &Path,
    replace: bool,
    privacy: Privacy,
) -> Result<EnrollReply> {
    let (server, token) = (url.parse::<Url>()?, Token::parse(token)?);
    if !replace && let Some(agent) = identity::agent(folder)? {
        return Err(Error::Enrolled { node: agent.node.to_string(), server: agent.server });
    }
    files::make_folder(folder)?;
    let pending = pending(folder, &token)?;
    let tls = pki::client::pinned_config(&token.ca_fingerprint, pki::ALPN_HTTP)?;
    let request = EnrollRequest {
        secret: token.secret_text(),
        request: pending.request.clone(),
        slot_secret: pending.slot_secret.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        privacy,
    };
    let client = Client::new(server.clone(), Arc::new(tls));
    let told: EnrollReply = client.post("/enroll", &request).await?;
    check(&server, &token, &told)?;
    // The server was asked not to; what it says is not believed for that.
    if told.settings.privacy < privacy {
        let (domain, has) = (told.domain.to_string(), told.settings.privacy);
        return Err(Error::LessPrivate { domain, has, wants: privacy });
    }
    identity::keep(folder, &server, &told, &pending.key, &pending.slot_secret)?;
    files::remove(&folder.join(PENDING))?;
    Ok(told)
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
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|_| Error::NoRandom)?;
    let mut node = NodeKey::generate()?;
    let pending = Pending {
        token: name,
        key: std::mem::take(&mut node.key_pem),
        request: node.request_pem,
        slot_secret: HEXLOWER.encode(&secret),
    };
    secret.zeroize();
    let text = toml::to_string(&pending).map_err(|error| damaged(folder, PENDING, error))?;
    files::write(&path, &text)?;
    Ok(pending)
}

/// The CA that is trusted from now on must be the one that the token names.
pub(crate) fn check(server: &Url, token: &Token, told: &EnrollReply) -> Result<()> {
    let ca = pki::client::certificate_of(&told.ca_certificate)?;
    if pki::fingerprint(&ca)[..16] != token.ca_fingerprint {
        return Err(Error::Stranger { server: server.place() });
    }
    pki::client::certificate_of(&told.certificate)?;
    Ok(())
}
