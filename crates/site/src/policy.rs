//! Policies: what is backed up, when, where to and for how long.

use crate::option::ClientOption;
use clock::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the source of a policy that has paths of its own.
pub const MAIN_SOURCE: &str = "main";

/// What an administrator states once for some nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// What it backs up.
    #[serde(rename = "type")]
    pub kind: PolicyType,
    /// Where its backups go; [`crate::DEFAULT_UNIT`] if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// From 0 to 100: a waiting job of a greater one starts first.
    pub priority: u32,
    /// How strongly its data is compressed.
    pub compression: Compression,
    /// How it decides which files need not be read.
    pub change_detection: ChangeDetection,
    /// Nodes by group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Nodes by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Nodes that have all these labels; none if it is empty.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Paths of the source [`MAIN_SOURCE`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// What all its sources leave out: patterns as in `.gitignore`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
    /// Further sources. Each has snapshots and runs of its own.
    #[serde(rename = "source", skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, Source>,
    /// When runs are due, by name of the schedule. Without any, its runs are started by hand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<String>,
    /// How long its snapshots are kept, by name; without one, nothing expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
    /// The class of everything that no rule binds to another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Rules that bind paths to other classes. The first that fits counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassRule>,
    /// The age that the last complete backup of a source never exceeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<Span>,
    /// What the agent runs around a backup, by names of its own list.
    #[serde(skip_serializing_if = "Hooks::is_empty")]
    pub hooks: Hooks,
    /// Client options, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, ClientOption>,
}

/// What a policy backs up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyType {
    /// Files and directories.
    #[default]
    Files,
    /// The output of programs.
    Stream,
}

/// A Zstandard level from -7 to 19, or `auto`, which adapts to the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "this is no compression; write \"auto\" or a level from -7 to 19")]
pub enum Compression {
    /// Adapts.
    #[default]
    #[serde(with = "auto")]
    Auto,
    /// A level.
    Level(i32),
}

/// How a backup decides which files need not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeDetection {
    /// By size, times, inode and birth time.
    #[default]
    Standard,
    /// The same without inodes, which do not last on some network file systems.
    IgnoreInode,
    /// Every file is read.
    Full,
}

/// What one backup of a node covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Source {
    /// Absolute paths, or below the home directory: `~/work`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// What it leaves out, in addition to what its policy does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
    /// The name, in the agent's own list, of the program whose output is backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
}

/// A rule that binds paths to a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassRule {
    /// Patterns of paths: `/var/log/**`.
    pub include: Vec<String>,
    /// The class, one of the policy's retention.
    pub class: String,
}

/// Programs of the agent's own list, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// Before a backup, which does not start if it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre: Option<String>,
    /// After a backup, however it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<String>,
    /// After a backup that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            kind: PolicyType::default(),
            unit: None,
            priority: Self::PRIORITY_DEFAULT,
            compression: Compression::default(),
            change_detection: ChangeDetection::default(),
            groups: Vec::new(),
            nodes: Vec::new(),
            labels: BTreeMap::new(),
            paths: Vec::new(),
            excludes: Vec::new(),
            sources: BTreeMap::new(),
            schedules: Vec::new(),
            retention: None,
            class: None,
            classes: Vec::new(),
            promise: None,
            hooks: Hooks::default(),
            options: BTreeMap::new(),
        }
    }
}

impl Policy {
    /// The priority of a policy that names none.
    pub const PRIORITY_DEFAULT: u32 = 50;
    /// The greatest priority.
    pub const PRIORITY_MAX: u32 = 100;

    /// The levels of compression.
    pub const LEVELS: std::ops::RangeInclusive<i32> = -7..=19;

    /// The unit where its backups go.
    pub fn unit(&self) -> &str {
        self.unit.as_deref().unwrap_or(crate::DEFAULT_UNIT)
    }

    /// All its sources with their names, each with everything that it leaves out.
    pub fn sources(&self) -> Vec<(&str, Source)> {
        let paths = self.paths.clone();
        let main = Source { paths, ..Source::default() };
        let main = (!self.paths.is_empty()).then_some((MAIN_SOURCE, &main));
        let named = self.sources.iter().map(|(name, source)| (name.as_str(), source));
        main.into_iter().chain(named).map(|(name, source)| (name, self.whole(source))).collect()
    }

    fn whole(&self, source: &Source) -> Source {
        let excludes = [&self.excludes[..], &source.excludes[..]].concat();
        Source { excludes, ..source.clone() }
    }
}

impl Hooks {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The word of [`Compression::Auto`].
mod auto {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const WORD: &str = "auto";

    pub(super) fn serialize<S: Serializer>(to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(WORD)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
        let word = String::deserialize(from)?;
        if word == WORD { Ok(()) } else { Err(D::Error::custom("write \"auto\" or a number")) }
    }
}
