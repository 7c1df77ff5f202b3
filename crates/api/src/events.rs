//! Events: what changes on a server while somebody looks, as server-sent events.
//!
//! An event with an id can be resumed after: whoever comes back with the last id that he has seen gets what followed.
//! Where that is not known any more, the first event is [`RESET`]: read the lists again.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Nothing is known of what followed the id: read again what you show. Data: [`Reset`].
pub const RESET: &str = "reset";
/// A job was entered, began or ended. Data: the job.
pub const JOB: &str = "job";
/// Progress of a running job, without an id: at most one each second. Data: the job.
pub const PROGRESS: &str = "progress";
/// A source is protected otherwise than before. Data: what `/protection` says of it.
pub const PROTECTION: &str = "protection";
/// The site was changed. Data: [`SiteChanged`].
pub const SITE: &str = "site";
/// An administrative action. Data: the entry of the audit log.
pub const AUDIT: &str = "audit";

/// Why the lists must be read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reset {
    /// `start` for who comes without an id, `restart` if the server was started again, `behind` if too much followed.
    pub reason: String,
}

/// The site has another version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteChanged {
    /// How often it was changed.
    pub version: u64,
}

/// Where events go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventFilter {
    /// The id of the last event that was seen; the header `Last-Event-ID` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
