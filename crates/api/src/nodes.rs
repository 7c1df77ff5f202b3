//! Nodes: the machines that are backed up.

use crate::Name;
use crate::enroll::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which snapshots a node may forget, in a domain whose keys only nodes know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForgetScope {
    /// None.
    #[default]
    None,
    /// Those that the server received from it.
    Own,
    /// All of its domain.
    Domain,
}

/// Which snapshots a node may forget from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetPermission {
    /// Which.
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
    /// When it was last seen; this moment while it is connected, missing when never.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<i64>,
    /// From where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When its certificate ends.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub certificate_expires: Option<i64>,
    /// Its certificates are good no more.
    pub revoked: bool,
    /// Why the server stopped it by itself: two machines have shown its certificates. Enrolling it again ends the alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
    /// Whether it is connected at this moment, here or to a storage server.
    pub connected: bool,
}

/// All nodes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Nodes {
    /// By name.
    pub nodes: Vec<Node>,
}
