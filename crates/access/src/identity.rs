//! The identity of this machine as a node of its server.
//!
//! ```text
//! ca.pem      certificate of the server's certificate authority
//! node.pem    this node's certificate and its secret key, in one file: they change together
//! agent.toml  all else; written last: without it nothing here counts
//! ```
//!
//! What opens this node's key slot is beside them: see [`crate::secrets`].

use crate::files::{self, read};
use crate::secrets::{self, MANAGED};
use crate::{Error, Result, Url};
use api::Name;
use api::domains::Settings;
use api::enroll::{EnrollReply, KeyMode, Role};
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

pub(crate) const CA: &str = "ca.pem";
pub(crate) const NODE: &str = "node.pem";
pub(crate) const AGENT: &str = "agent.toml";

/// The file `agent.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Address of the server.
    pub server: String,
    /// The node.
    pub node: Name,
    /// Its domain.
    pub domain: Name,
    /// Who knows the keys of the domain.
    pub keys: KeyMode,
    /// What the node may do.
    pub role: Role,
    /// Settings of the domain's repository. The node relies on them: it uses no other repository.
    #[serde(flatten)]
    pub settings: Settings,
    /// Id of the domain's repository, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Id of the node's key slot, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The identity of this machine as a node of its server.
pub struct Identity {
    /// The file `agent.toml`.
    pub agent: Agent,
    /// Address of the server.
    pub server: Url,
    /// Opens the node's key slot; `None` with client-held keys.
    pub slot_secret: Option<Zeroizing<[u8; 32]>>,
    /// The node's certificate.
    pub certificate: pki::Facts,
    ca_pem: String,
    node_pem: Zeroizing<String>,
}

impl Identity {
    /// Reads the folder.
    ///
    /// # Errors
    /// [`Error::NotEnrolled`]; [`Error::Damaged`] for damaged files; [`Error::File`].
    pub fn load(folder: &Path) -> Result<Self> {
        let missing = |name: &str| Error::NotEnrolled { path: folder.join(name) };
        let text = |name: &str| read(&folder.join(name))?.ok_or_else(|| missing(name));
        let agent = agent(folder)?.ok_or_else(|| missing(AGENT))?;
        let (ca_pem, node_pem) = (text(CA)?.to_string(), text(NODE)?);
        let slot_secret = match agent.keys {
            KeyMode::Client => None,
            KeyMode::Managed => {
                let (name, text) = secrets::managed(folder)?.ok_or_else(|| missing(MANAGED))?;
                Some(secret(folder, name, &text)?)
            }
        };
        let facts = pki::client::certificate_of(&node_pem).and_then(|der| pki::inspect(&der));
        let certificate = facts.map_err(|error| damaged(folder, NODE, error))?;
        let server = agent.server.parse()?;
        Ok(Self { agent, server, slot_secret, certificate, ca_pem, node_pem })
    }

    /// TLS to the server as this node, for the protocol `alpn` ([`pki::ALPN_DATA`], [`pki::ALPN_HTTP`]).
    ///
    /// # Errors
    /// [`Error::Pki`] for invalid certificates.
    pub fn tls(&self, alpn: &[u8]) -> Result<Arc<ClientConfig>> {
        let identity = Some((&**self.node_pem, &**self.node_pem));
        Ok(Arc::new(pki::client::client_config(&self.ca_pem, identity, alpn)?))
    }

    /// The server's certificate authority, PEM: another one is another server.
    pub fn certificate_authority(&self) -> &str {
        &self.ca_pem
    }

    /// The node's certificate and key.
    pub(crate) fn node_pem(&self) -> &str {
        &self.node_pem
    }

    /// Whether it is time to renew the certificate: a third of its lifetime is left.
    pub fn is_renewal_due(&self, now_secs: i64) -> bool {
        self.certificate.not_after_secs - now_secs < pki::certificate_authority::NODE_SECS / 3
    }
}

/// Reads the file `agent.toml`; `None` if it does not exist.
///
/// # Errors
/// [`Error::Damaged`], [`Error::File`].
pub fn agent(folder: &Path) -> Result<Option<Agent>> {
    let text = read(&folder.join(AGENT))?;
    let parsed = text.map(|text| toml::from_str(&text)).transpose();
    parsed.map_err(|error| damaged(folder, AGENT, error.message()))
}

/// Saves the id of the domain's repository, which this node has created with its own keys.
///
/// # Errors
/// [`Error::NotEnrolled`], [`Error::Damaged`], [`Error::File`].
pub fn note_repository(folder: &Path, repository: &str) -> Result<()> {
    let agent = agent(folder)?;
    let mut agent = agent.ok_or_else(|| Error::NotEnrolled { path: folder.join(AGENT) })?;
    agent.repository = Some(repository.to_owned());
    write_agent(folder, &agent)
}

fn write_agent(folder: &Path, agent: &Agent) -> Result<()> {
    let text = toml::to_string(agent).map_err(|error| damaged(folder, AGENT, error))?;
    files::write(&folder.join(AGENT), &text)
}

/// Saves the identity from enrollment. The old one is void from the first step on, the new one valid from the last.
pub(crate) fn keep(
    folder: &Path,
    server: &Url,
    told: &EnrollReply,
    key_pem: &str,
    slot_secret: &str,
) -> Result<()> {
    secrets::make_way(folder, told)?;
    files::remove(&folder.join(AGENT))?;
    files::write(&folder.join(CA), &told.ca_certificate)?;
    let node = Zeroizing::new(format!("{}{key_pem}", told.certificate));
    files::write(&folder.join(NODE), &node)?;
    // Beside `slot.key`, which was made here and is nowhere else: that stays, whoever enrolls again.
    if told.keys == KeyMode::Managed {
        files::write(&folder.join(MANAGED), slot_secret)?;
    }
    let agent = Agent {
        server: server.to_string(),
        node: told.node.clone(),
        domain: told.domain.clone(),
        keys: told.keys,
        role: told.role,
        settings: told.settings,
        repository: told.repository.clone(),
        key: told.key.clone(),
    };
    write_agent(folder, &agent)
}

fn secret(folder: &Path, name: &str, text: &str) -> Result<Zeroizing<[u8; 32]>> {
    let bad = || damaged(folder, name, "it holds no key");
    let bytes = data_encoding::HEXLOWER.decode(text.trim().as_bytes()).map_err(|_| bad())?;
    let bytes = Zeroizing::new(bytes);
    Ok(Zeroizing::new(bytes.as_slice().try_into().map_err(|_| bad())?))
}

pub(crate) fn damaged(folder: &Path, name: &str, why: impl ToString) -> Error {
    Error::Damaged { path: folder.join(name), why: why.to_string() }
}
