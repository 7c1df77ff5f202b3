//! Client options that a server sets for a node.

use crate::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Most options of a node.
pub const OPTIONS_MAX: usize = 64;
/// Most values of an option.
pub const VALUES_MAX: usize = 256;
/// Most bytes of the name of an option.
pub const NAME_BYTES_MAX: usize = 64;
/// Most bytes of all names and values of a node.
pub const TOTAL_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a value, or of the reason why a node refuses an option.
pub const VALUE_BYTES_MAX: usize = 4096;

/// The value of an option, as a server sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionValue {
    /// As the flag of `icecore backup` takes it; several for a list. A switch is `true` or `false`.
    pub values: Vec<String>,
    /// Whether it precedes the command line, the environment and the config file of the node. Otherwise it is a
    /// suggestion, and precedes only the default.
    #[serde(default)]
    pub force: bool,
}

/// Options by name.
pub type Options = BTreeMap<String, OptionValue>;

/// Bytes of all names and values.
pub fn total_bytes(options: &Options) -> usize {
    let texts = |value: &OptionValue| value.values.iter().map(String::len).sum::<usize>();
    options.iter().map(|(name, value)| name.len() + texts(value)).sum()
}

/// Changes options of a node; those that are not named stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionChange {
    /// Options to set.
    #[serde(default)]
    pub set: Options,
    /// Names of options to leave to the node.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// What a node tells about the options that its server sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionReport {
    /// Options that the node keeps as its own: the server's values for them are ignored.
    #[serde(default)]
    pub own: Vec<String>,
    /// Options that the node ignores, with the reason.
    #[serde(default)]
    pub refused: BTreeMap<String, String>,
}

/// The options that a server sets, in reply to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetOptions {
    /// By name.
    pub options: Options,
    /// Who says each of them, for people: `policy web`; missing for those that were set for this node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<String, String>,
    /// Options of which the policies of this node say different things, and these policies. None of them is set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disputed: BTreeMap<String, Vec<String>>,
}

/// The options of a node, and what the node tells about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeOptions {
    /// The node.
    pub node: Name,
    /// What the server sets, by name.
    pub options: Options,
    /// What the node told last; missing if it has never asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<OptionReport>,
    /// When the node told it first.
    #[serde(default, with = "crate::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reported: Option<i64>,
}
