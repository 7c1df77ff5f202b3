//! Members of policies, plans of changes, and what a change does to snapshots.

use clock::Reading;
use ids::SnapshotId;
use jiff::tz::TimeZone;
use retention::{Facts, State};
use site::{EffectKind, Effects, RulesError, Site, file};
use std::collections::BTreeSet;

const NOW: i64 = 1_780_315_200;
const DAY: i64 = 86_400;

fn site(text: &str) -> Site {
    file::read(text).unwrap()
}

fn zones(name: &str) -> Option<TimeZone> {
    (name == "UTC").then_some(TimeZone::UTC)
}

fn members(text: &str) -> Vec<String> {
    let site = site(text);
    let enrolled: BTreeSet<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
    site.members(&site.policies["p"], &enrolled).into_iter().collect()
}

#[test]
fn a_node_is_a_member_by_name_by_labels_or_by_a_group_and_only_if_it_is_enrolled() {
    let policy = "[policy.p]\npaths = [\"/\"]\n";
    assert_eq!(members(policy), [] as [&str; 0], "labels that are not set choose nobody");
    assert_eq!(members(&format!("{policy}nodes = [\"b\", \"gone\"]")), ["b"]);
    let labels = "\n[node.a.labels]\nrole = \"db\"\nsite = \"x\"\n[node.b.labels]\nrole = \"db\"\n";
    assert_eq!(members(&format!("{policy}labels = {{ role = \"db\" }}{labels}")), ["a", "b"]);
    let both = "labels = { role = \"db\", site = \"x\" }";
    assert_eq!(members(&format!("{policy}{both}{labels}")), ["a"]);
    let groups = "groups = [\"g\"]\n[group.g]\nnodes = [\"d\"]\ngroups = [\"h\"]\n[group.h]\n";
    assert_eq!(members(&format!("{policy}{groups}{both}{labels}")), ["a", "d"]);
    assert_eq!(members(&format!("{policy}{groups}all = true")), ["a", "b", "c", "d"]);
}

#[test]
fn a_plan_says_what_is_created_changed_and_removed_in_a_stable_order() {
    let old = site("[unit.a]\n[unit.b]\nmax_jobs = 2\n[policy.p]\npaths = [\"/\"]\nunit = \"a\"\n");
    let new = site(
        "[unit.b]\nmax_jobs = 3\ndomains = [\"x\"]\n[unit.c]\n[node.n.labels]\nrole = \"db\"\n",
    );
    let lines = |old: &Site, new: &Site| {
        let plan = site::Plan::between(old, new);
        plan.changes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(&old, &new),
        [
            "change unit b\n  domains: not set -> [\"x\"]\n  max_jobs: 2 -> 3",
            "create unit c",
            "create node n",
            "remove policy p",
            "remove unit a",
        ]
    );
    let other = site(
        "[unit.b]\nmax_jobs = 3\ndomains = [\"x\"]\n[unit.c]\n[node.n.labels]\nrole = \"web\"\n",
    );
    assert_eq!(lines(&new, &other), ["change node n\n  labels.role: \"db\" -> \"web\""]);
    assert!(site::Plan::between(&new, &new).is_empty());
}

fn snapshot(number: u64, ago: i64) -> Facts {
    let mut id = SnapshotId([0; 16]);
    id.0[0] = number as u8;
    Facts {
        id,
        number,
        node: "n".into(),
        source: "main".into(),
        policy: "p".into(),
        class: "standard".into(),
        received_secs: NOW - ago * DAY,
        is_partial: false,
        suspect: None,
        tags: Some(Vec::new()),
        locked_until_secs: None,
        paths: None,
        has_deleted_objects: None,
        source_deleted_secs: None,
        trashed: None,
    }
}

fn policy(class: &str, keep: &str) -> String {
    format!("[retention.r.class.{class}]\n{keep}\n[policy.p]\npaths = [\"/\"]\nretention = \"r\"\n")
}

fn found(old: &str, new: &str) -> Vec<(usize, EffectKind)> {
    let all = [snapshot(1, 3), snapshot(2, 2), snapshot(3, 1)];
    let (old, new) = (site(old), site(new));
    let effects = Effects::new((&old, &new), &zones).unwrap().on(&all, Reading::certain(NOW));
    effects.into_iter().map(|effect| (effect.at, effect.kind)).collect()
}

#[test]
fn a_change_shows_which_snapshots_go_stay_or_go_at_another_time() {
    use EffectKind::{Goes, Otherwise, Stays};
    let keeps = |count: u32| policy("standard", &format!("keep_last = {count}"));
    assert_eq!(found(&keeps(3), &keeps(3)), []);
    assert_eq!(found(&keeps(3), &keeps(2)), [(0, Goes), (1, Otherwise), (2, Otherwise)]);
    assert_eq!(found(&keeps(2), &keeps(3)), [(0, Stays), (1, Otherwise), (2, Otherwise)]);
    // A class with another name takes over the snapshots of the one before.
    let renamed = policy("other", "keep_last = 3");
    assert_eq!(found(&keeps(3), &renamed), []);
    let hold = format!("{}[hold.h]\nreason = \"court\"\n", keeps(2));
    assert_eq!(found(&keeps(2), &hold)[0], (0, Stays));
    // Nothing speaks for a policy that is gone: everything stays.
    assert_eq!(found(&keeps(2), "")[0], (0, Stays));
}

#[test]
fn a_policy_without_a_retention_keeps_everything() {
    let site = site("[policy.p]\npaths = [\"/\"]\n");
    let rules = site.rules(&zones).unwrap();
    let verdicts = rules.evaluate(&[snapshot(1, 4000), snapshot(2, 0)], Reading::certain(NOW));
    assert!(verdicts.iter().all(|verdict| verdict.state == State::Kept));
    assert_eq!(verdicts[0].reasons[0].until, retention::Until::Forever);
}

/// A zone that is missing would move days, and a hold that is missing would let go.
#[test]
fn rules_that_are_not_whole_are_none() {
    let text = policy("standard", "keep_last = 1")
        .replace("[retention.r", "[retention.r]\nzone = \"Mars\"\n[retention.r");
    let error = site(&text).rules(&zones).unwrap_err();
    assert!(matches!(error, RulesError::Zone { .. }), "{error}");
    let mut unchecked = Site::default();
    let body = serde_json::json!({"reason": "x", "snapshot": "12"});
    unchecked.set(site::Kind::Hold, "h", &body).unwrap();
    assert!(matches!(unchecked.rules(&zones), Err(RulesError::Snapshot { .. })));
    let body = serde_json::json!({"retention": "r"});
    unchecked.set(site::Kind::Policy, "p", &body).unwrap();
    assert!(matches!(unchecked.rules(&zones), Err(RulesError::Retention { .. })));
}
