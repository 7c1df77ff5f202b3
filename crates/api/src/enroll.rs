//! Enrollment: a machine becomes a node.

use crate::Name;
use crate::domains::{Privacy, Settings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who knows the keys of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyMode {
    /// The server makes the keys and keeps a sealed copy: it can let another node restore.
    #[default]
    Managed,
    /// Only the node knows them: the server cannot read, and cannot help when they are lost.
    Client,
}

/// What a node may do with its domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Back up and restore.
    #[default]
    Full,
    /// Back up, and read nothing back.
    WriteOnly,
}

/// Asks for a token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// The node that may enroll with it.
    pub node: Name,
    /// Its dedup domain; its own name when missing.
    #[serde(default)]
    pub domain: Option<Name>,
    /// Who knows the keys, when the domain is made.
    #[serde(default)]
    pub keys: KeyMode,
    /// What the node may do.
    #[serde(default)]
    pub role: Role,
    /// How long it is good, in seconds; an hour when missing.
    #[serde(default)]
    pub valid_secs: Option<u64>,
    /// The storage server that holds the domain, when the domain is made; the server itself when missing.
    #[serde(default)]
    pub storage: Option<Name>,
    /// What sizes and cut points of the domain tell, when it is made: `standard` when missing. A domain that exists must
    /// have it.
    #[serde(default)]
    pub privacy: Option<Privacy>,
    /// Parity in per cent, 0 to 25, when the domain is made: 0 when missing. A domain that exists must have it.
    #[serde(default)]
    pub parity_percent: Option<u32>,
}

impl NewToken {
    /// For `node`, with a managed domain of its own.
    pub fn of(node: Name) -> Self {
        let (domain, keys, role, valid_secs) = Default::default();
        let (storage, privacy, parity_percent) = Default::default();
        Self { node, domain, keys, role, valid_secs, storage, privacy, parity_percent }
    }
}

/// A token, shown once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IssuedToken {
    /// The token: give it to the machine and to nobody else.
    pub token: String,
    /// The node that may enroll with it.
    pub node: Name,
    /// Its domain.
    pub domain: Name,
    /// Where the machine finds the server.
    pub server: String,
    /// When it ends.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
    /// Whether a node of this name exists: enrolling takes its place.
    pub replaces: bool,
}

/// What a machine sends to become a node.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrollRequest {
    /// The secret of the token, hex.
    pub secret: String,
    /// Request for a certificate, PEM.
    pub request: String,
    /// 32 random bytes that open its key slot, hex; not for domains whose keys only nodes know.
    pub slot_secret: String,
    /// Version of the program.
    pub version: String,
    /// The least privacy that this machine puts up with: with `hardened`, no node is made in a `standard` domain.
    #[serde(default)]
    pub privacy: Privacy,
}

/// What a machine is when it has become a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnrollReply {
    /// The node's name.
    pub node: Name,
    /// Its domain.
    pub domain: Name,
    /// Who knows the keys of the domain.
    pub keys: KeyMode,
    /// What the node may do.
    pub role: Role,
    /// What the repository of the domain is made with.
    #[serde(flatten)]
    pub settings: Settings,
    /// The repository of the domain, hex; missing as long as there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The node's key slot, hex; missing where only nodes know keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The node's certificate, PEM.
    pub certificate: String,
    /// Certificate of the server's certificate authority, PEM.
    pub ca_certificate: String,
    /// When the certificate ends.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
}

/// Asks for the next certificate.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// Request for a certificate, PEM.
    pub request: String,
    /// Version of the program.
    pub version: String,
}

/// The next certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewReply {
    /// The node's certificate, PEM.
    pub certificate: String,
    /// When it ends.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
}

/// Asks for a key slot in a domain that was granted.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// The domain.
    pub domain: Name,
    /// 32 fresh random bytes that open the slot, hex.
    pub slot_secret: String,
}

/// A key slot that was made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IssuedKey {
    /// The slot, hex.
    pub key: String,
    /// The repository of the domain, hex.
    pub repository: String,
    /// When it goes; missing when it stays until it is withdrawn.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<i64>,
}
