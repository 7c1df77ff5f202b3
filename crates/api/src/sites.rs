//! The site: what an administrator declares, object by object, or all of it as one file.

use crate::retention::SnapshotEffects;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// An object of the site: a unit, retention, schedule, node, group, policy or hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteObject {
    /// Its kind, such as `policy`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The version of the site that wrote it. Whoever changes the object sends it back.
    pub version: u64,
    /// When that was.
    #[serde(with = "crate::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub changed: i64,
    /// What was declared: the keys of its table in a file, as JSON.
    pub body: Value,
}

/// Objects of one kind.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SiteObjects {
    /// How often the site was changed: its version.
    pub version: u64,
    /// By name.
    pub objects: Vec<SiteObject>,
}

/// Creates or changes an object.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutObject {
    /// The version of the object on which this is based. Without it, the object must be a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// All of what it is from now on.
    pub body: Value,
    /// Only says what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// Removes an object.
#[derive(Clone, Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RemoveObject {
    /// The version of the object that was seen.
    pub version: u64,
    /// Only says what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// The whole site as a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteFile {
    /// How often the site was changed: its version.
    pub version: u64,
    /// All objects, in TOML.
    pub text: String,
}

/// Makes the site what a file says: what the file does not have is removed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplySite {
    /// All objects, in TOML.
    pub text: String,
    /// The version of the site on which this is based, such as that of a dry run. Without it, any version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Only says what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a change did, or would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteChange {
    /// The version of the site: after the change; of a dry run, that to which it applies.
    pub version: u64,
    /// Whether nothing was changed, because that was asked for.
    pub dry_run: bool,
    /// Objects that differ; empty if the site is as it should be.
    pub changes: Vec<ObjectChange>,
    /// What is wrong and keeps nothing from being changed: such as a policy of a node that was removed since, or a
    /// promise that no schedule can keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Mistake>,
    /// What it does to the snapshots that exist; missing if it does nothing to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<SnapshotEffects>,
}

/// How an object changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What happens to it.
    pub action: ObjectAction,
    /// The keys that differ, by name.
    pub keys: Vec<KeyChange>,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectAction {
    /// It is new.
    Created,
    /// It was there, and differs.
    Changed,
    /// It is no more.
    Removed,
}

/// How the value of a key changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyChange {
    /// The key.
    pub key: String,
    /// Its value before, if it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// Its value after, if it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Something that cannot be meant so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mistake {
    /// The line of the file, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}
