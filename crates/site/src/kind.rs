//! The kinds of objects.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of object. In files its tables are `[KIND.NAME]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Where backups go, and how many at once.
    Unit,
    /// How long snapshots are kept.
    Retention,
    /// When runs are due.
    Schedule,
    /// Some nodes.
    Group,
    /// What is backed up, when, where to and for how long.
    Policy,
    /// Labels and settings of a node.
    Node,
    /// Snapshots that stay.
    Hold,
    /// What is done to domains, and when.
    Upkeep,
    /// How much domains store.
    Quota,
}

impl Kind {
    /// All kinds. An object refers only to kinds before its own.
    pub const ALL: [Self; 9] = [
        Self::Unit,
        Self::Retention,
        Self::Schedule,
        Self::Node,
        Self::Group,
        Self::Policy,
        Self::Hold,
        Self::Upkeep,
        Self::Quota,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Retention => "retention",
            Self::Schedule => "schedule",
            Self::Group => "group",
            Self::Policy => "policy",
            Self::Node => "node",
            Self::Hold => "hold",
            Self::Upkeep => "upkeep",
            Self::Quota => "quota",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A text names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no kind of object; write unit, retention, schedule, node, group, policy, hold, upkeep or quota"
)]
pub struct KindError(String);

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        Self::from_name(text).ok_or_else(|| KindError(text.chars().take(80).collect()))
    }
}
