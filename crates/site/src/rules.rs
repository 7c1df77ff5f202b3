//! A site's policies and holds, as the rules of retention take them.

use crate::check::Zones;
use crate::{Policy, Retention, Site};
use ids::SnapshotId;
use jiff::tz::TimeZone;
use retention::{Class, Facts, Keep, Rules};

/// The class of a policy's snapshots if neither it nor its retention says another one.
pub const DEFAULT_CLASS: &str = "standard";

/// The rules cannot be made: nothing may expire by a part of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// A time zone that this machine does not know.
    #[error(
        "retention {retention}: this machine knows no time zone '{zone}'; install its time zones (tzdata)"
    )]
    Zone {
        /// The retention.
        retention: String,
        /// Its zone.
        zone: String,
    },
    /// A policy names a retention that does not exist.
    #[error("policy {policy}: there is no retention '{retention}'; declare it")]
    Retention {
        /// The policy.
        policy: String,
        /// The name.
        retention: String,
    },
    /// A hold names no snapshot.
    #[error("hold {hold}: '{snapshot}' is not the id of a snapshot; write all 32 digits")]
    Snapshot {
        /// The hold.
        hold: String,
        /// What it names.
        snapshot: String,
    },
}

impl Site {
    /// The rules of all policies and holds. A policy without a retention keeps everything.
    ///
    /// # Errors
    /// [`RulesError`], if the site does not fit together. Then nothing may expire: a rule or hold that
    /// were left out could have kept something.
    pub fn rules(&self, zones: Zones<'_>) -> Result<Rules, RulesError> {
        let mut rules = Rules::default();
        for (name, policy) in &self.policies {
            let (retention, zone) = self.rules_of(name, policy, zones)?;
            rules = rules.policy(name, retention, zone);
        }
        for (name, hold) in &self.holds {
            rules = rules.hold(hold.rule(name)?);
        }
        Ok(rules)
    }

    fn rules_of(
        &self,
        name: &str,
        policy: &Policy,
        zones: Zones<'_>,
    ) -> Result<(Retention, TimeZone), RulesError> {
        let Some(wanted) = &policy.retention else {
            return Ok((everything(self.class_of(policy)), TimeZone::UTC));
        };
        let missing =
            || RulesError::Retention { policy: name.to_owned(), retention: wanted.clone() };
        let retention = self.retentions.get(wanted).ok_or_else(missing)?;
        let unknown =
            || RulesError::Zone { retention: wanted.clone(), zone: retention.zone.clone() };
        Ok((retention.clone(), zones(&retention.zone).ok_or_else(unknown)?))
    }

    /// The class of a policy's snapshots, as far as no rule binds them to another one: the one that
    /// it names, else the only one of its retention, else [`DEFAULT_CLASS`].
    pub fn class_of<'a>(&'a self, policy: &'a Policy) -> &'a str {
        let retention = policy.retention.as_ref().and_then(|name| self.retentions.get(name));
        let mut classes = retention.into_iter().flat_map(|it| it.classes.keys());
        let only = classes.next().filter(|_| classes.next().is_none());
        policy.class.as_ref().or(only).map_or(DEFAULT_CLASS, String::as_str)
    }
}

impl Site {
    /// A snapshot, with the class of its receipt, in the class that rules it now: one to which a rule of its policy
    /// binds, or the usual one of the policy, which may have another name since. A policy that is gone has none.
    pub fn bound(&self, facts: Facts) -> Facts {
        let Some(policy) = self.policies.get(&facts.policy) else { return facts };
        Facts { class: self.class_now(policy, &facts.class).to_owned(), ..facts }
    }

    /// The class of a policy that rules now what was bound to `class` once.
    pub fn class_now<'a>(&'a self, policy: &'a Policy, class: &'a str) -> &'a str {
        let is_of_rule = policy.classes.iter().any(|rule| rule.class == class);
        if is_of_rule { class } else { self.class_of(policy) }
    }
}

/// A retention of which nothing expires.
fn everything(class: &str) -> Retention {
    let all = Class { keep_last: Keep::All, ..Class::default() };
    Retention { zone: "UTC".to_owned(), classes: [(class.to_owned(), all)].into() }
}

impl crate::Hold {
    fn rule(&self, name: &str) -> Result<retention::Hold, RulesError> {
        let wrong = |snapshot: &String| RulesError::Snapshot {
            hold: name.to_owned(),
            snapshot: snapshot.clone(),
        };
        let id = |text: &String| SnapshotId::from_hex(text).ok_or_else(|| wrong(text));
        Ok(retention::Hold {
            name: name.to_owned(),
            node: self.node.clone(),
            source: self.source.clone(),
            policy: self.policy.clone(),
            class: self.class.clone(),
            snapshot: self.snapshot.as_ref().map(id).transpose()?,
            until_secs: self.until.map(crate::Moment::secs),
        })
    }
}
