//! Domains, grants, snapshots.

use crate::Name;
use crate::enroll::KeyMode;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// What sizes and cut points of what is stored tell who sees the storage.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Privacy {
    /// Keyed cutting, padded lengths.
    #[default]
    Standard,
    /// Cut points that leak nothing of the key, longer padding; slower.
    Hardened,
}

impl fmt::Display for Privacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Hardened => "hardened",
        })
    }
}

/// The most parity that a repository can have, in per cent.
pub const PARITY_PERCENT_MAX: u32 = 25;

/// What a repository is made with, for its whole life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// What sizes and cut points tell.
    #[serde(default)]
    pub privacy: Privacy,
    /// Parity of all that is stored, in per cent; 0 for none.
    #[serde(default)]
    pub parity_percent: u32,
}

/// Settings that somebody asks for; what is missing may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedSettings {
    /// What sizes and cut points tell.
    pub privacy: Option<Privacy>,
    /// Parity in per cent.
    pub parity_percent: Option<u32>,
}

impl WantedSettings {
    /// Those of a new repository.
    pub fn or_default(self) -> Settings {
        Settings {
            privacy: self.privacy.unwrap_or_default(),
            parity_percent: self.parity_percent.unwrap_or_default(),
        }
    }

    /// Whether a repository with `settings` will do.
    pub fn fit(self, settings: Settings) -> bool {
        self.privacy.is_none_or(|privacy| privacy == settings.privacy)
            && self.parity_percent.is_none_or(|percent| percent == settings.parity_percent)
    }
}

/// A dedup domain: a repository of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// Its name.
    pub name: Name,
    /// Who knows its keys.
    pub keys: KeyMode,
    /// What its repository is made with.
    #[serde(flatten)]
    pub settings: Settings,
    /// When it was made.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub made: i64,
    /// Its repository, hex; missing as long as there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The storage server that holds it; missing when the server itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Name>,
    /// The nodes that write to it.
    pub nodes: Vec<Name>,
}

/// All domains.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Domains {
    /// By name.
    pub domains: Vec<Domain>,
}

/// A node may read a domain that is not its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
    /// When it ends; missing for no end.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<i64>,
}

/// All grants.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Grants {
    /// By node and domain.
    pub grants: Vec<Grant>,
}

/// What of a snapshot lies in the clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Its number in the repository.
    pub number: u64,
    /// Its id, hex.
    pub id: String,
    /// When the backup began.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    /// The key slot that signed it, hex: see the nodes for whose it is.
    pub key: String,
}

/// The snapshots of a domain.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshots {
    /// The domain.
    pub domain: Name,
    /// Oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Those that cannot be read.
    pub damaged: u64,
}
