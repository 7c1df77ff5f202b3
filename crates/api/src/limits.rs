//! Bandwidth limits.

use crate::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A bandwidth limit for a node or a network, with or without days and hours. A limit for a node takes precedence
/// over one for a network, a smaller network over a larger one, and a limit with days or hours over one without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Its number, assigned by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The node that it applies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// The network that it applies to, such as `192.0.2.0/24`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Days, such as `mon-fri` or `sat,sun`; every day when missing. By the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<String>,
    /// Time of day, such as `08:00-18:00`; may span midnight. Always when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<String>,
    /// Bytes per second to the server; 0 for no limit.
    #[serde(default)]
    pub up: u64,
    /// Bytes per second from the server; 0 for no limit.
    #[serde(default)]
    pub down: u64,
}

/// All limits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// By number.
    pub limits: Vec<Limit>,
}
