//! Retention: what becomes of each snapshot and why, the trash, and expiry.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which snapshots are listed. What is not set fits all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SnapshotFilter {
    /// Of this domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Of this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Of this policy; `none` for those that no policy made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// In this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SnapshotState>,
    /// Whose id begins so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Maximum number; default 1,000, at most 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What becomes of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotState {
    /// Nobody can delete it until a time.
    Locked,
    /// A hold keeps it.
    Held,
    /// A rule keeps it, or nobody knows a rule for it.
    Kept,
    /// Nothing keeps it; it can be brought back.
    Trash,
    /// It is deleted when expiry runs the next time.
    Expired,
}

/// Something that keeps a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeepReason {
    /// What keeps it.
    pub why: String,
    /// What ends that.
    pub until: String,
}

/// A snapshot that the server received, with what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetainedSnapshot {
    /// Its id, hex.
    pub id: String,
    /// Its domain.
    pub domain: String,
    /// Its number in the repository.
    pub number: u64,
    /// The node that it came from; empty if nobody knows.
    pub node: String,
    /// The name of the source in its policy; empty for one that no policy made.
    pub source: String,
    /// Its policy; empty for one that no policy made.
    pub policy: String,
    /// The class that rules it now.
    pub class: String,
    /// When the server received it.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub received: i64,
    /// Whether the backup could not read everything.
    pub is_partial: bool,
    /// What becomes of it.
    pub state: SnapshotState,
    /// When that ends by itself: the lock of a locked one, the trash period of one in the trash, or everything that
    /// keeps it. Missing if it depends on something else.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<i64>,
    /// Since when it lies in the trash.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub trashed: Option<i64>,
    /// Whether an administrator named it to be deleted.
    pub is_named: bool,
    /// Everything that keeps it.
    pub reasons: Vec<KeepReason>,
}

/// Snapshots with what becomes of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RetainedSnapshots {
    /// The newest first.
    pub snapshots: Vec<RetainedSnapshot>,
    /// How many fit, also those beyond the limit.
    pub total: u64,
    /// Why nothing goes now, if the clock of the server is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// Domains whose repositories could not be read: of them the list may be old, and nothing goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadDomain>,
}

/// A domain that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnreadDomain {
    /// The domain.
    pub domain: String,
    /// Why.
    pub error: String,
}

/// Snapshots that an administrator names.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedSnapshots {
    /// Their ids, or beginnings of them that fit one snapshot each.
    pub ids: Vec<String>,
    /// To delete them at once instead of after the trash period.
    #[serde(default)]
    pub now: bool,
    /// Only says which would be meant.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of named snapshots.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NamedDone {
    /// The snapshots, as they are now; of a dry run, as they were.
    pub snapshots: Vec<RetainedSnapshot>,
    /// Ids of those that were deleted.
    pub deleted: Vec<String>,
    /// Those that stay, and why.
    pub refused: Vec<RefusedSnapshot>,
}

/// A snapshot that stays, whoever wanted it to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedSnapshot {
    /// Its id, hex.
    pub id: String,
    /// Why.
    pub why: String,
}

/// Carries out retention.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expire {
    /// In this domain only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Only says what would happen.
    pub dry_run: bool,
}

/// What expiry did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Expiry {
    /// Whether nothing was changed, because that was asked for.
    pub dry_run: bool,
    /// Why nothing went, if the clock of the server is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// Each domain.
    pub domains: Vec<DomainExpiry>,
}

/// What expiry did in a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainExpiry {
    /// The domain.
    pub domain: String,
    /// Snapshots that are kept, for whatever reason.
    pub kept: u64,
    /// Snapshots that lie in the trash.
    pub trash: u64,
    /// Ids of those that were put there.
    pub trashed: Vec<String>,
    /// Ids of those that came back from there, since something keeps them again.
    pub undeleted: Vec<String>,
    /// Ids of those that were deleted.
    pub expired: Vec<String>,
    /// Those that its repository did not delete.
    pub refused: Vec<RefusedSnapshot>,
    /// Why nothing went, or not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Which days are simulated.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SimulationQuery {
    /// So many; default 365, at most 3,660.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// Only snapshots of this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// The days to come of a policy, if it and its schedules stay as they are and every backup is complete.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Simulation {
    /// The policy.
    pub policy: String,
    /// The time zone in which days begin.
    pub zone: String,
    /// Each day.
    pub days: Vec<SimulatedDay>,
}

/// What there is at the end of a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedDay {
    /// The day, such as `2026-11-23`.
    pub day: String,
    /// Backups that are received on it.
    pub received: u64,
    /// Snapshots that are kept.
    pub kept: u64,
    /// Snapshots in the trash.
    pub trash: u64,
    /// Ids of existing snapshots that are put into the trash.
    pub trashed: Vec<String>,
    /// Ids of existing snapshots that are deleted.
    pub expired: Vec<String>,
}

/// What a change of the site does to the snapshots that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotEffects {
    /// Each policy with snapshots to which something else happens.
    pub policies: Vec<PolicyEffects>,
    /// At most 1,000 of the snapshots, those that go first.
    pub snapshots: Vec<SnapshotEffect>,
}

/// What happens to the snapshots of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyEffects {
    /// The policy; empty for those that none made.
    pub policy: String,
    /// So many were kept, and are not any more.
    pub goes: u64,
    /// So many would have gone, and are kept.
    pub stays: u64,
    /// So many go sooner or later than they would have, or for another reason.
    pub otherwise: u64,
}

/// What happens to a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotEffect {
    /// Its id, hex.
    pub id: String,
    /// Its node.
    pub node: String,
    /// Its policy.
    pub policy: String,
    /// The name of the source in its policy.
    pub source: String,
    /// When the server received it.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub received: i64,
    /// In a word.
    pub effect: EffectKind,
    /// What becomes of it as things are.
    pub before: SnapshotState,
    /// What becomes of it after the change.
    pub after: SnapshotState,
}

/// What a change does to a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffectKind {
    /// It was kept, and is not any more.
    Goes,
    /// It would have gone, and is kept.
    Stays,
    /// It goes sooner or later than it would have, or for another reason.
    Otherwise,
}

impl SnapshotEffects {
    /// How many snapshots are not kept any more.
    pub fn going(&self) -> u64 {
        self.policies.iter().map(|policy| policy.goes).sum()
    }
}

/// Says of a source that it is gone, or that it is there after all.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceDeletion {
    /// Its node.
    pub node: String,
    /// Its policy.
    pub policy: String,
    /// Its name in the policy.
    pub source: String,
    /// Whether it is gone.
    pub deleted: bool,
}

/// The clock of the server, confirmed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfirmedClock {
    /// The time from which it goes on.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    /// Why that time is in doubt still: the clock of the machine was ahead before, and time does not go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}
