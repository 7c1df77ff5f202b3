//! A copy can keep what expired in its domain for as long as rules of its own keep it.

use api::upkeep::CopyKeep;
use clock::Reading;
use ids::SnapshotId;
use jiff::tz::TimeZone;
use repository::Repository;
use retention::{Facts, Retention, Rules, State};
use server_contract::upkeep::UpkeepError;
use server_control::{facts_of_received, facts_of_unread};
use std::collections::BTreeSet;

/// A retention for copies. Whatever it cannot decide stays: a snapshot of a class that it does not have, one whose
/// receipt nobody signed, or whose time is in doubt.
pub(super) struct CopyRetention {
    retention: Retention,
    zone: TimeZone,
    now: Reading,
}

impl CopyRetention {
    pub(super) fn new(keep: &CopyKeep) -> Result<Self, UpkeepError> {
        let wrong = |why: &dyn std::fmt::Display| {
            UpkeepError::Failed(format!("the retention of the copy cannot be read: {why}"))
        };
        let retention = serde_json::from_value(keep.retention.clone());
        let retention: Retention = retention.map_err(|error| wrong(&error))?;
        retention.classes.values().try_for_each(retention::Class::check).map_err(|e| wrong(&e))?;
        let zone = TimeZone::get(&retention.zone).map_err(|error| wrong(&error))?;
        Ok(Self { retention, zone, now: Reading::certain(keep.now_secs) })
    }

    /// The snapshots of `copy` that it keeps.
    pub(super) fn kept(&self, copy: &Repository) -> repository::Result<BTreeSet<SnapshotId>> {
        let mut facts = Vec::new();
        for name in copy.current_snapshots()? {
            match copy.received(name) {
                Ok(received) => facts.push(facts_of_received(received)),
                Err(repository::Error::SnapshotMissing(_)) => {}
                Err(repository::Error::Damaged { .. }) => facts.push(facts_of_unread(name)),
                Err(error) => return Err(error),
            }
        }
        Ok(self.kept_of(&facts))
    }

    /// The rules are the same for all policies: classes tell snapshots apart.
    fn kept_of(&self, facts: &[Facts]) -> BTreeSet<SnapshotId> {
        let policies: BTreeSet<&str> = facts.iter().map(|one| &*one.policy).collect();
        let known = policies.into_iter().filter(|policy| !policy.is_empty());
        let rules = known.fold(Rules::default(), |rules, policy| {
            rules.policy(policy, self.retention.clone(), self.zone.clone())
        });
        let verdicts = rules.evaluate(facts, self.now);
        let is_kept = |state: State| !matches!(state, State::Trash { .. } | State::Expired);
        let kept = facts.iter().zip(verdicts).filter(|(_, verdict)| is_kept(verdict.state));
        kept.map(|(one, _)| one.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DAY: i64 = 86_400;

    fn snapshot(number: u8, policy: &str, class: &str) -> Facts {
        let name = repository::snapshots::SnapshotRef {
            sequence: number.into(),
            id: SnapshotId([number; 16]),
        };
        Facts {
            node: "web".into(),
            policy: policy.into(),
            class: class.into(),
            received_secs: i64::from(number) * DAY,
            suspect: None,
            ..facts_of_unread(name)
        }
    }

    fn kept(facts: &[Facts]) -> Vec<u8> {
        let retention = json!({"class": {"default": {"keep_last": 2}}});
        let keep = CopyKeep { retention, now_secs: 300 * DAY };
        let kept = CopyRetention::new(&keep).unwrap().kept_of(facts);
        kept.into_iter().map(|id| id.0[0]).collect()
    }

    #[test]
    fn rules_keep_what_they_keep_and_what_they_cannot_decide() {
        let own: Vec<_> = (1..=4).map(|number| snapshot(number, "files", "default")).collect();
        assert_eq!(kept(&own), [3, 4]);
        assert_eq!(kept(&[snapshot(1, "", ""), snapshot(2, "files", "other")]), [1, 2]);
        let mut doubtful = own.clone();
        doubtful[0].suspect = Some("its clock".into());
        assert_eq!(kept(&doubtful), [1, 3, 4]);
        let two = [own[2..].to_vec(), vec![snapshot(5, "other", "default")]].concat();
        assert_eq!(kept(&two), [3, 4, 5], "each policy for itself");
    }

    #[test]
    fn a_retention_that_cannot_be_read_lets_nothing_go() {
        for retention in [
            json!({}),
            json!({"class": {"default": {"keep": 2}}}),
            json!({"zone": "?", "class": {}}),
        ] {
            let keep = CopyKeep { retention, now_secs: 0 };
            assert!(CopyRetention::new(&keep).is_err(), "{keep:?}");
        }
    }
}
