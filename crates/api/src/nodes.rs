//! Nodes: the machines that are backed up.

use crate::Name;
use crate::enroll::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which snapshots a node may forget, in a domain with client-held keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForgetScope {
    /// None.
    #[default]
    None,
    /// Those that the server received from this node.
    Own,
    /// All of its domain.
    Domain,
}

/// Sets the forget permission of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetPermission {
    /// Which snapshots it may forget from now on.
    pub scope: ForgetScope,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its name.
    pub name: Name,
    /// Its domain.
    pub domain: Name,
    /// What it may do.
    pub role: Role,
    /// Which snapshots it may forget.
    #[serde(default)]
    pub forget: ForgetScope,
    /// When it enrolled.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub made: i64,
    /// When it was last seen; the current time while it is connected, missing if never.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<i64>,
    /// Address from which it connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When its certificate expires.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub certificate_expires: Option<i64>,
    /// Whether it is revoked: none of its certificates is accepted.
    pub revoked: bool,
    /// Why the server stopped it by itself: two machines have shown its certificates. Enrolling it again clears the
    /// alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
    /// Whether it is connected now, here or to a storage server.
    pub connected: bool,
}

/// All nodes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Nodes {
    /// By name.
    pub nodes: Vec<Node>,
}
