//! Verdicts and effects, as the API has them.

use super::explain::Judged;
use ::retention::{Facts, Reason, State, Verdict};
use api::retention::{
    EffectKind, KeepReason, PolicyEffects, RetainedSnapshot, SnapshotEffect, SnapshotEffects,
    SnapshotState,
};
use clock::Reading;
use site::{Effect, Effects, RulesError, Site, Zones};
use std::collections::BTreeMap;

/// Snapshots that the effects of a change name.
const EFFECTS_MAX: usize = 1_000;

/// A snapshot with what becomes of it.
pub(super) fn retained(one: &Judged) -> RetainedSnapshot {
    let Judged { domain, facts, verdict } = one;
    let state = state(verdict);
    RetainedSnapshot {
        id: facts.id.to_string(),
        domain: domain.clone(),
        number: facts.number,
        node: facts.node.clone(),
        source: facts.source.clone(),
        policy: facts.policy.clone(),
        class: facts.class.clone(),
        received: facts.received_secs,
        is_partial: facts.is_partial,
        state,
        until: until(verdict),
        trashed: facts.trashed.map(|trashed| trashed.since_secs),
        is_named: facts.is_named(),
        reasons: verdict.reasons.iter().map(reason).collect(),
    }
}

fn reason(reason: &Reason) -> KeepReason {
    KeepReason { why: reason.why.to_string(), until: reason.until.to_string() }
}

/// The state in a word.
pub(super) fn state(verdict: &Verdict) -> SnapshotState {
    match verdict.state {
        State::Locked { .. } => SnapshotState::Locked,
        State::Held => SnapshotState::Held,
        State::Kept => SnapshotState::Kept,
        State::Trash { .. } => SnapshotState::Trash,
        State::Expired => SnapshotState::Expired,
    }
}

fn until(verdict: &Verdict) -> Option<i64> {
    match verdict.state {
        State::Locked { until_secs } | State::Trash { until_secs, .. } => Some(until_secs),
        State::Held | State::Kept => verdict.kept_until_secs(),
        State::Expired => None,
    }
}

/// What leads from one site to another does so much to these snapshots, domain by domain; nothing to say if it is
/// nothing.
///
/// # Errors
/// [`RulesError`], if one of the sites does not fit together.
pub(crate) fn effects<'a>(
    sites: (&Site, &Site),
    domains: impl Iterator<Item = &'a [Facts]>,
    now: Reading,
    zones: Zones<'_>,
) -> Result<Option<SnapshotEffects>, RulesError> {
    let mut policies: BTreeMap<&str, PolicyEffects> = BTreeMap::new();
    let mut snapshots = Vec::new();
    let change = Effects::new(sites, zones)?;
    for facts in domains {
        for effect in change.on(facts, now) {
            let of = &facts[effect.at];
            count(policies.entry(&of.policy).or_default(), effect.kind);
            snapshots.push((effect.kind, shown(of, &effect)));
        }
    }
    if snapshots.is_empty() {
        return Ok(None);
    }
    snapshots.sort_by_key(|(kind, _)| *kind);
    let snapshots = snapshots.into_iter().map(|(_, one)| one).take(EFFECTS_MAX).collect();
    let named = |(name, of): (&str, PolicyEffects)| PolicyEffects { policy: name.to_owned(), ..of };
    let policies = policies.into_iter().map(named).collect();
    Ok(Some(SnapshotEffects { policies, snapshots }))
}

fn count(of: &mut PolicyEffects, kind: site::EffectKind) {
    let counter = match kind {
        site::EffectKind::Goes => &mut of.goes,
        site::EffectKind::Stays => &mut of.stays,
        site::EffectKind::Otherwise => &mut of.otherwise,
    };
    *counter += 1;
}

fn shown(of: &Facts, effect: &Effect) -> SnapshotEffect {
    SnapshotEffect {
        id: of.id.to_string(),
        node: of.node.clone(),
        policy: of.policy.clone(),
        source: of.source.clone(),
        received: of.received_secs,
        effect: match effect.kind {
            site::EffectKind::Goes => EffectKind::Goes,
            site::EffectKind::Stays => EffectKind::Stays,
            site::EffectKind::Otherwise => EffectKind::Otherwise,
        },
        before: state(&effect.before),
        after: state(&effect.after),
    }
}
