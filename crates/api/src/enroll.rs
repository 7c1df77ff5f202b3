//! Enrollment: a machine becomes a node.

use crate::Name;
use crate::domains::{Dedup, Privacy, Settings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who knows the keys of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyMode {
    /// The server creates the keys and keeps a sealed copy: it can let another node restore.
    #[default]
    Managed,
    /// Only the nodes know them: the server cannot read, and cannot help when they are lost.
    Client,
}

/// What a node may do with its domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Back up and restore.
    #[default]
    Full,
    /// Back up only.
    WriteOnly,
}

/// Requests an enrollment token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// The node that enrolls with it.
    pub node: Name,
    /// Its dedup domain; when missing, the one that a node of this name has, and for a new node its own name.
    #[serde(default)]
    pub domain: Option<Name>,
    /// Who knows the keys, if the domain is created.
    #[serde(default)]
    pub keys: KeyMode,
    /// What the node may do; when missing, what a node of this name may, and for a new node everything.
    #[serde(default)]
    pub role: Option<Role>,
    /// Validity in seconds; one hour when missing.
    #[serde(default)]
    pub valid_secs: Option<u64>,
    /// The storage server that stores the domain, if the domain is created; the control server when missing. With `any`
    /// it is chosen from those that are connected, in proportion to the bytes that they have free.
    #[serde(default)]
    pub storage: Option<Name>,
    /// The pool of the control server for the domain, if the domain is created there; when missing, the one with the
    /// most free bytes.
    #[serde(default)]
    pub pool: Option<Name>,
    /// The unit that says where the domain lies, if it is created; the unit `default` when missing, if it is declared. Not
    /// beside `storage` or `pool`.
    #[serde(default)]
    pub unit: Option<Name>,
    /// Privacy of the domain, if it is created; `standard` when missing. An existing domain must have this value.
    #[serde(default)]
    pub privacy: Option<Privacy>,
    /// Parity in percent, 0 to 25, if the domain is created; 0 when missing. An existing domain must have this value.
    #[serde(default)]
    pub parity_percent: Option<u32>,
    /// Whether backups to the domain share equal data, if it is created; `on` when missing. An existing domain must have
    /// this value.
    #[serde(default)]
    pub dedup: Option<Dedup>,
}

impl NewToken {
    /// A request for `node`: a new one gets a managed domain of its own, another one keeps what it has.
    pub fn of(node: Name) -> Self {
        let (domain, keys, role, valid_secs) = Default::default();
        let (storage, pool, unit) = Default::default();
        let (privacy, parity_percent, dedup) = Default::default();
        Self {
            node,
            domain,
            keys,
            role,
            valid_secs,
            storage,
            pool,
            unit,
            privacy,
            parity_percent,
            dedup,
        }
    }
}

/// An issued token, shown once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IssuedToken {
    /// The token. Give it to the machine and to nobody else.
    pub token: String,
    /// The node that enrolls with it.
    pub node: Name,
    /// Its domain.
    pub domain: Name,
    /// What it may do.
    #[serde(default)]
    pub role: Role,
    /// The storage server on which the domain lies, or will lie; `null` for the control server.
    #[serde(default)]
    pub storage: Option<Name>,
    /// The pool of the control server that was chosen for the domain; `null` if nobody chose one.
    #[serde(default)]
    pub pool: Option<Name>,
    /// The unit that chose them; `null` if none did.
    #[serde(default)]
    pub unit: Option<String>,
    /// URL of the server.
    pub server: String,
    /// When it expires.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
    /// Whether a node of this name exists: the new machine replaces it.
    pub replaces: bool,
}

/// Request of a machine to become a node.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrollRequest {
    /// The secret of the token, hex.
    pub secret: String,
    /// Certificate signing request, PEM.
    pub request: String,
    /// 32 random bytes that open its key slot, hex; not used with client-held keys.
    pub slot_secret: String,
    /// Version of the program.
    pub version: String,
    /// The least privacy that this machine accepts: with `hardened`, it does not enroll into a `standard` domain.
    #[serde(default)]
    pub privacy: Privacy,
}

/// The identity of a new node.
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
    /// Settings of the domain's repository.
    #[serde(flatten)]
    pub settings: Settings,
    /// Id of the domain's repository, hex; missing while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Id of the node's key slot, hex; missing with client-held keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The node's certificate, PEM.
    pub certificate: String,
    /// Certificate of the server's certificate authority, PEM.
    pub ca_certificate: String,
    /// When the certificate expires.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
}

/// Requests the next certificate.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// Certificate signing request, PEM.
    pub request: String,
    /// Version of the program.
    pub version: String,
}

/// The next certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewReply {
    /// The node's certificate, PEM.
    pub certificate: String,
    /// When it expires.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: i64,
}

/// Requests a key slot in a granted domain.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// The domain.
    pub domain: Name,
    /// 32 fresh random bytes that open the slot, hex.
    pub slot_secret: String,
}

/// An issued key slot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IssuedKey {
    /// Id of the slot, hex.
    pub key: String,
    /// Id of the domain's repository, hex.
    pub repository: String,
    /// When it expires; missing when it stays until the grant is withdrawn.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<i64>,
}
