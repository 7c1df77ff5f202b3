//! Why a snapshot stays, and what must happen until that reason ends.

use clock::Doubt;
use serde::Serialize;
use std::fmt;

/// A period of which a rule keeps the newest snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// None: each snapshot counts.
    Last,
    /// An hour of a day.
    Hour,
    /// A civil day.
    Day,
    /// An ISO week.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

impl Period {
    /// The name of its rule.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Hour => "hourly",
            Self::Day => "daily",
            Self::Week => "weekly",
            Self::Month => "monthly",
            Self::Year => "yearly",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Last => "snapshot",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// A reason to keep a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// What keeps it.
    pub why: Why,
    /// What ends that.
    pub until: Until,
    /// Whether a newer snapshot of the same period takes its place at any time: the period is that
    /// of the newest snapshot and may not be over.
    pub is_replaceable: bool,
}

impl Reason {
    pub(crate) fn new(why: Why, until: Until) -> Self {
        Self { why, until, is_replaceable: false }
    }
}

/// What keeps a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is the newest of a period.
    Rule {
        /// Of what.
        period: Period,
        /// It is the oldest of all, and the rule is not used up.
        is_oldest: bool,
        /// The rule reaches only so far before the newest snapshot.
        is_within: bool,
    },
    /// It is not much older than the newest.
    Within,
    /// It has these tags.
    Tags(Vec<String>),
    /// A rule keeps by tags, and nobody knows which it has.
    SealedTags,
    /// Nothing else restores its source.
    NewestComplete,
    /// Nothing else restores the paths that its source had.
    NewestOfPaths,
    /// It is one of this many versions that stay in any case.
    Minimum(u32),
    /// It is the version that shows its source as it is.
    Active,
    /// It is a superseded version, one of so many that stay for a time.
    Inactive,
    /// It is the last version of a source that was deleted.
    Only,
    /// It has objects that no later snapshot has, or may have.
    DeletedObjects,
    /// A hold of this name.
    Hold(String),
    /// Nobody can delete it for some time.
    Lock,
    /// Its time contradicts the order of snapshots or the clock; the reason.
    Suspect(String),
    /// No policy of this name is known.
    UnknownPolicy(String),
    /// Its policy has no class of this name.
    UnknownClass(String),
    /// The time is not known well enough to delete anything.
    Clock(Doubt),
}

/// What ends a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// This time.
    At(i64),
    /// The first snapshot of its series after this time.
    NewestAfter(i64),
    /// Snapshots of so many newer periods.
    Newer {
        /// How many.
        count: u32,
        /// Of which kind.
        period: Period,
    },
    /// A newer complete snapshot.
    NewerComplete,
    /// What an administrator does: releases a hold, removes a tag, names the snapshot, confirms the
    /// clock.
    Released,
    /// Nothing but a change of the policy.
    Forever,
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { period, is_oldest, is_within } => {
                let oldest = if *is_oldest { "oldest " } else { "" };
                let within = if *is_within { " within the period:" } else { "" };
                write!(formatter, "{oldest}{}{within} snapshot", period.rule())
            }
            Self::Within => formatter.write_str("within the period"),
            Self::Tags(tags) => write!(formatter, "tag {}", tags.join(",")),
            Self::SealedTags => {
                formatter.write_str("its tags are sealed, and a rule keeps by tags")
            }
            Self::NewestComplete => formatter.write_str("newest complete snapshot"),
            Self::NewestOfPaths => {
                formatter.write_str("newest complete snapshot of paths that its source has no more")
            }
            Self::Minimum(1) => formatter.write_str("the version that stays in any case"),
            Self::Minimum(count) => {
                write!(formatter, "one of {count} versions that stay in any case")
            }
            Self::Active => formatter.write_str("active version"),
            Self::Inactive => formatter.write_str("inactive version"),
            Self::Only => formatter.write_str("last version of a deleted source"),
            Self::DeletedObjects => formatter.write_str("last version of deleted objects"),
            Self::Hold(name) => write!(formatter, "hold {name}"),
            Self::Lock => formatter.write_str("immutable"),
            Self::Suspect(why) => write!(formatter, "suspect: {why}"),
            Self::UnknownPolicy(name) if name.is_empty() => {
                formatter.write_str("no policy made it")
            }
            Self::UnknownPolicy(name) => write!(formatter, "there is no policy '{name}'"),
            Self::UnknownClass(name) => write!(formatter, "its policy has no class '{name}'"),
            Self::Clock(doubt) => write!(formatter, "nothing expires while {doubt}"),
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(secs) => write!(formatter, "until {}", shown(*secs)),
            Self::NewestAfter(secs) => {
                write!(formatter, "until the first snapshot after {}", shown(*secs))
            }
            Self::Newer { count: 1, period: Period::Last } => {
                formatter.write_str("until there is 1 newer snapshot")
            }
            Self::Newer { count: 1, period } => {
                write!(formatter, "until 1 newer {} has a snapshot", period.noun())
            }
            Self::Newer { count, period: Period::Last } => {
                write!(formatter, "until there are {count} newer snapshots")
            }
            Self::Newer { count, period } => {
                write!(formatter, "until {count} newer {}s have a snapshot", period.noun())
            }
            Self::NewerComplete => formatter.write_str("until there is a newer complete snapshot"),
            Self::Released => formatter.write_str("until somebody releases it"),
            Self::Forever => formatter.write_str("as long as the policy says so"),
        }
    }
}

fn shown(secs: i64) -> String {
    jiff::Timestamp::from_second(secs).map_or_else(|_| format!("@{secs}"), |time| time.to_string())
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, {}", self.why, self.until)?;
        match &self.why {
            Why::Rule { period, .. } if self.is_replaceable => {
                write!(formatter, " or this {} has a newer one", period.noun())
            }
            _ => Ok(()),
        }
    }
}
