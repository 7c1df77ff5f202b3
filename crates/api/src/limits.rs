//! Limits of bandwidth.

use crate::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A limit: for a node or a network, at some hours, so many bytes a second. One for a node goes before one for a
/// network, a smaller network before a larger one, and one with hours before one without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Its number; given by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// For this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// For who calls from this network, such as `192.0.2.0/24`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// On these days, such as `mon-fri` or `sat,sun`; every day when missing. By the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<String>,
    /// Between these times, such as `08:00-18:00`; may pass midnight. Always when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<String>,
    /// Bytes a second to the server; 0 for no limit.
    #[serde(default)]
    pub up: u64,
    /// Bytes a second from the server; 0 for no limit.
    #[serde(default)]
    pub down: u64,
}

/// All limits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// By number.
    pub limits: Vec<Limit>,
}
