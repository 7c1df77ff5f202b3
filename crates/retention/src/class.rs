//! Policies as administrators write them: for each class, what is kept and for how long.

use crate::keep::{Keep, KeepRules, KeepWithin};
use clock::{Span, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How long deleted snapshots stay in the trash if a class does not say.
pub const TRASH_DEFAULT: Span = Span::new(7, Unit::Day);
/// The longest time for which a class locks or keeps: a mistyped lock cannot be taken back.
pub const YEARS_MAX: u32 = 100;

/// The retention of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// The time zone in which an hour, day, week, month and year begin, such as `Europe/Berlin`.
    #[serde(default = "utc")]
    pub zone: String,
    /// The rules of each class.
    #[serde(rename = "class")]
    pub classes: BTreeMap<String, Class>,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// The rules of a class. A snapshot is kept if any of them keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, remote = "Self")]
pub struct Class {
    /// How many of the newest snapshots.
    #[serde(skip_serializing_if = "is_none")]
    pub keep_last: Keep,
    /// How many hours: the newest snapshot of each.
    #[serde(skip_serializing_if = "is_none")]
    pub keep_hourly: Keep,
    /// How many days.
    #[serde(skip_serializing_if = "is_none")]
    pub keep_daily: Keep,
    /// How many ISO weeks.
    #[serde(skip_serializing_if = "is_none")]
    pub keep_weekly: Keep,
    /// How many months.
    #[serde(skip_serializing_if = "is_none")]
    pub keep_monthly: Keep,
    /// How many years.
    #[serde(skip_serializing_if = "is_none")]
    pub keep_yearly: Keep,
    /// All that are at most so much older than the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_within: Option<Span>,
    /// The newest of each hour that is at most so much older than the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_within_hourly: Option<Span>,
    /// The newest of each day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_within_daily: Option<Span>,
    /// The newest of each ISO week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_within_weekly: Option<Span>,
    /// The newest of each month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_within_monthly: Option<Span>,
    /// The newest of each year.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_within_yearly: Option<Span>,
    /// All that have every tag of one of these lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep_tags: Vec<Vec<String>>,
    /// So many of the newest complete snapshots stay, whatever their age.
    #[serde(skip_serializing_if = "is_zero")]
    pub minimum_versions: u32,
    /// How long deleted snapshots can be brought back.
    pub trash: Trash,
    /// How long after its receipt nobody can delete a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<Span>,
    /// Rules of versions, as in TSM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
}

/// How long snapshots stay in the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trash(pub Span);

impl Default for Trash {
    fn default() -> Self {
        Self(TRASH_DEFAULT)
    }
}

/// TSM's four rules: `crate::versions` says what they mean for snapshots. What is missing has no
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Versions {
    /// Versions of a source that exists (VEREXISTS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<u32>,
    /// Versions of a source that was deleted (VERDELETED).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u32>,
    /// How long a superseded version stays (RETEXTRA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain_extra: Option<Span>,
    /// How long the last version of what was deleted stays (RETONLY).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain_only: Option<Span>,
}

fn is_none(keep: &Keep) -> bool {
    *keep == Keep::None
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The rules of a class cannot be meant so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// No rule keeps anything.
    #[error(
        "the class keeps nothing; set keep_last, keep_daily, keep_within or another keep rule, or versions"
    )]
    KeepsNothing,
    /// A list of tags that every snapshot has.
    #[error(
        "keep_tags has an empty list, which every snapshot fits; write the tags, such as keep_tags = [[\"release\"]]"
    )]
    EmptyTags,
    /// The active version would not be kept.
    #[error("versions.exists is 0, but the newest version always stays; write 1 or more")]
    NoVersion,
    /// Longer than anybody means.
    #[error("{key} = \"{span}\" is longer than {YEARS_MAX} years; write a shorter time")]
    TooLong {
        /// The key.
        key: &'static str,
        /// Its value.
        span: Span,
    },
}

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let class = Self::deserialize(deserializer)?;
        class.check().map_err(serde::de::Error::custom)?;
        Ok(class)
    }
}

impl Serialize for Class {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl Class {
    /// The keep rules.
    pub fn keep_rules(&self) -> KeepRules {
        let secs = |span: Option<Span>| span.map(Span::secs);
        KeepRules {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
            within_secs: secs(self.keep_within),
            within_secs_each: KeepWithin {
                hourly: secs(self.keep_within_hourly),
                daily: secs(self.keep_within_daily),
                weekly: secs(self.keep_within_weekly),
                monthly: secs(self.keep_within_monthly),
                yearly: secs(self.keep_within_yearly),
            },
            tags: self.keep_tags.clone(),
        }
    }

    /// Whether the rules can be meant so.
    ///
    /// # Errors
    /// [`ClassError`], with what to write instead.
    pub fn check(&self) -> Result<(), ClassError> {
        if self.keep_rules().keeps_nothing()
            && self.versions.is_none()
            && self.minimum_versions == 0
        {
            return Err(ClassError::KeepsNothing);
        }
        if self.keep_tags.iter().any(Vec::is_empty) {
            return Err(ClassError::EmptyTags);
        }
        if self.versions.is_some_and(|versions| versions.exists == Some(0)) {
            return Err(ClassError::NoVersion);
        }
        let is_long = |span: &Span| span.secs() > Span::new(YEARS_MAX, Unit::Year).secs();
        let mut long = self.spans().into_iter().filter_map(|(key, span)| Some((key, span?)));
        let found = long.find(|(_, span)| is_long(span));
        found.map_or(Ok(()), |(key, span)| Err(ClassError::TooLong { key, span }))
    }

    fn spans(&self) -> [(&'static str, Option<Span>); 10] {
        let versions = self.versions.unwrap_or_default();
        [
            ("keep_within", self.keep_within),
            ("keep_within_hourly", self.keep_within_hourly),
            ("keep_within_daily", self.keep_within_daily),
            ("keep_within_weekly", self.keep_within_weekly),
            ("keep_within_monthly", self.keep_within_monthly),
            ("keep_within_yearly", self.keep_within_yearly),
            ("trash", Some(self.trash.0)),
            ("immutable", self.immutable),
            ("versions.retain_extra", versions.retain_extra),
            ("versions.retain_only", versions.retain_only),
        ]
    }
}
