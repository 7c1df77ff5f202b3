//! Orders: what an administrator asks nodes to do. A node does only what it could do by itself.

use crate::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Orders a restore: the node gets it back onto itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRestore {
    /// The node that restores.
    pub node: Name,
    /// The domain it restores from; its own when missing. Another one must be granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Name>,
    /// The snapshot, as `icecore restore` takes it: `latest`, an id, a time.
    pub snapshot: String,
    /// Paths in the snapshot, by the letter; all when empty. One that is missing fails the order.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Where to: a folder that the node allows, or one below it. No symbolic link may lie on the way.
    pub target: String,
}

/// Orders a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackup {
    /// The node.
    pub node: Name,
    /// What; what the node has in its own configuration when empty.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// What is ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Task {
    /// A restore.
    Restore(NewRestore),
    /// A backup.
    Backup(NewBackup),
}

impl Task {
    /// Whose it is.
    pub fn node(&self) -> &Name {
        match self {
            Self::Restore(restore) => &restore.node,
            Self::Backup(backup) => &backup.node,
        }
    }
}

/// State of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderState {
    /// The node has not taken it.
    Pending,
    /// The node works on it.
    Taken,
    /// It was done.
    Done,
    /// It was not done.
    Failed,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Order {
    /// Its number.
    pub id: u64,
    /// What is to be done.
    pub task: Task,
    /// When it was given.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub made: i64,
    /// How far it is.
    pub state: OrderState,
    /// What the node says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Some orders.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Orders {
    /// Oldest first.
    pub orders: Vec<Order>,
}

/// What a node says of its order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderUpdate {
    /// How far it is.
    pub state: OrderState,
    /// In words.
    #[serde(default)]
    pub message: Option<String>,
}
