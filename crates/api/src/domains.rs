//! Domains, grants, snapshots.

use crate::Name;
use crate::enroll::KeyMode;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::{IntoParams, ToSchema};

/// How much the sizes of stored records tell an observer of the storage.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Privacy {
    /// Keyed chunk boundaries, padded lengths.
    #[default]
    Standard,
    /// Chunk boundaries that leak nothing of the key, longer padding; slower.
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

/// Whether backups share equal data.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Dedup {
    /// Equal data of all backups is stored once.
    #[default]
    On,
    /// Each backup stores all of its data.
    Off,
}

impl fmt::Display for Dedup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// Maximum parity of a repository, in percent.
pub const PARITY_PERCENT_MAX: u32 = 25;

/// Settings of a repository, fixed when it is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// Privacy of sizes and chunk boundaries.
    #[serde(default)]
    pub privacy: Privacy,
    /// Parity of everything stored, in percent; 0 for none.
    #[serde(default)]
    pub parity_percent: u32,
    /// Whether backups share equal data.
    #[serde(default)]
    pub dedup: Dedup,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { privacy, parity_percent, dedup } = self;
        write!(f, "{privacy} privacy, {parity_percent} % parity and deduplication {dedup}")
    }
}

/// Requested settings; a missing one may have any value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedSettings {
    /// Privacy of sizes and chunk boundaries.
    pub privacy: Option<Privacy>,
    /// Parity in percent.
    pub parity_percent: Option<u32>,
    /// Whether backups share equal data.
    pub dedup: Option<Dedup>,
}

impl WantedSettings {
    /// The settings of a new repository.
    pub fn or_default(self) -> Settings {
        Settings {
            privacy: self.privacy.unwrap_or_default(),
            parity_percent: self.parity_percent.unwrap_or_default(),
            dedup: self.dedup.unwrap_or_default(),
        }
    }

    /// Whether a repository with `settings` meets the request.
    pub fn fit(self, settings: Settings) -> bool {
        self.privacy.is_none_or(|privacy| privacy == settings.privacy)
            && self.parity_percent.is_none_or(|percent| percent == settings.parity_percent)
            && self.dedup.is_none_or(|dedup| dedup == settings.dedup)
    }
}

/// A dedup domain: a repository of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// Its name.
    pub name: Name,
    /// Who knows its keys.
    pub keys: KeyMode,
    /// Settings of its repository.
    #[serde(flatten)]
    pub settings: Settings,
    /// When it was created.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub made: i64,
    /// Id of its repository, hex; missing while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The storage server that stores it; missing when the control server does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Name>,
    /// The pool of the control server in which it lies; missing when it lies on a storage server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Name>,
    /// Nodes that back up to it.
    pub nodes: Vec<Name>,
}

/// All domains.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Domains {
    /// By name.
    pub domains: Vec<Domain>,
}

/// A node's right to read a domain that is not its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The node.
    pub node: Name,
    /// The domain.
    pub domain: Name,
    /// When it expires; missing for never.
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

/// Where a domain lies from now on. Its repository was brought there.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPlace {
    /// The storage server; missing for the control server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Name>,
    /// The pool of the control server; missing for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Name>,
    /// What lay at the old place is lost: nothing is compared with it.
    #[serde(default)]
    pub lost: bool,
}

/// What is known of a domain that is removed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct DomainRemoval {
    /// Its data on a storage server is gone for good: the keys that the server has for it go, too.
    pub lost: bool,
}

/// A domain lies at its new place.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct PlacedDomain {
    /// Snapshots that the server knows and that are not there; only if the old place is lost.
    pub missing: u64,
    /// Keys in use whose files are not there; only if the old place is lost.
    #[serde(default)]
    pub keys_missing: u64,
    /// Containers that are not there or were cut short; only if the old place is lost.
    #[serde(default)]
    pub damaged: u64,
    /// The first of them, for people.
    #[serde(default)]
    pub damages: Vec<String>,
}

/// The clear part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Its number in the repository.
    pub number: u64,
    /// Its id, hex.
    pub id: String,
    /// Start time of the backup.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    /// Id of the key that signed it, hex.
    pub key: String,
}

/// The snapshots of a domain.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshots {
    /// The domain.
    pub domain: Name,
    /// Oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Number of snapshots that cannot be read.
    pub damaged: u64,
}
