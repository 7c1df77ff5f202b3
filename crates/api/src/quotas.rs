//! Quotas, and what their domains store.

use crate::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All quotas.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Quotas {
    /// By name.
    pub quotas: Vec<Quota>,
}

/// A quota, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// The most bytes that its domains may store together.
    pub bytes: u64,
    /// What they store: the length of all their containers. Missing while that is not known of one of them; then
    /// nothing more is stored in any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// `open`, `full`, or `unknown`.
    pub state: QuotaState,
    /// The domains that count, each once.
    pub domains: Vec<DomainUse>,
}

/// Whether a quota lets backups begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuotaState {
    /// There is room.
    Open,
    /// Nothing more is stored.
    Full,
    /// What a domain stores is not known, so nothing more is stored.
    Unknown,
}

/// What a domain stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DomainUse {
    /// The domain.
    pub domain: Name,
    /// The length of all its containers; missing if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What a domain on a storage server may store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainQuota {
    /// The domain.
    pub domain: Name,
    /// The quota that says so, for people.
    pub quota: String,
    /// The most that all its containers may have; missing while that cannot be known: then nothing more is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}
