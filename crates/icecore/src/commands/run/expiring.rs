//! Forgetting what no rule keeps: first into the trash, then for good. Without a server there is no lock: who has the
//! password of a repository may forget in it.

use super::child::expanded;
use super::due::{PolicySource, Runs};
use super::state::{State, keep_existing};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::units;
use crate::wait::Wait;
use ids::SnapshotId;
use pipeline::UnlockedRepository;
use pipeline::effective_time::{self, EffectiveTime};
use pipeline::manifest::Snapshot;
use pipeline::retention::{Roots, UNREADABLE};
use retention::{Facts, State as Fate, Trashed, TrashedBy, Verdict};
use serde::Serialize;
use site::Site;

/// What expiry comes to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Expired {
    kept: usize,
    trash: usize,
    expired: usize,
}

impl Expired {
    pub(super) fn show(self, context: &Context, is_dry: bool) -> Result<()> {
        let Self { kept, trash, expired } = self;
        if kept + trash + expired == 0 {
            return Ok(());
        }
        let count = |count: usize| units::many(count as u64, "snapshot");
        let verb = if is_dry { "would be forgotten" } else { "forgotten" };
        context.out.line(&format!(
            "Kept {}, {} in the trash, {} {verb}.",
            count(kept),
            count(trash),
            count(expired)
        ))
    }
}

/// Carries out what the retentions say about the snapshots of this machine.
pub(super) fn expire(
    context: &Context,
    (site, runs): (&Site, &Runs),
    state: &mut State,
    is_dry: bool,
) -> Result<Expired> {
    if runs.sources.iter().all(|one| one.wanted.retention.is_none()) {
        return Ok(Expired::default());
    }
    let rules = site.rules(&super::zone).map_err(|error| Failure::usage(error.to_string()))?;
    let repository = context.open()?;
    let now = state.read_clock();
    let (all, unread) = context.listed(&repository)?;
    if !unread.is_empty() {
        let count = units::many(unread.len() as u64, "snapshot");
        context.out.note(&format!("nothing is forgotten: {count} cannot be read: icecore check"));
        return Ok(Expired::default());
    }
    let facts = facts(&all, runs, state, now.secs);
    let judged = judged(&repository, &all, facts, &|facts| rules.evaluate(facts, now));
    let (facts, verdicts) = judged.map_err(|error| context.failure(error))?;
    let mut counts = Expired::default();
    let mut gone = Vec::new();
    for (facts, verdict) in facts.iter().zip(&verdicts) {
        let id = facts.id.to_string();
        match verdict.state {
            Fate::Expired => {
                gone.push(facts.id);
                counts.expired += 1;
            }
            Fate::Trash { since_secs, .. } => {
                state.stored.trash.insert(id, since_secs);
                counts.trash += 1;
            }
            Fate::Kept | Fate::Held | Fate::Locked { .. } => {
                state.stored.trash.remove(&id);
                counts.kept += 1;
            }
        }
    }
    if is_dry {
        return Ok(counts);
    }
    let existing: Vec<SnapshotId> = all.iter().map(Snapshot::id).collect();
    keep_existing(&mut state.stored.trash, &existing);
    state.store()?;
    let names: Vec<_> =
        all.iter().filter(|one| gone.contains(&one.id())).map(|one| one.name).collect();
    if !names.is_empty() {
        repository.forget(&names).map_err(|error| context.failure(error))?;
        crate::commands::reclaim::all(context, &repository, Wait::default())?;
    }
    Ok(counts)
}

/// What `evaluate` says, relying on no snapshot whose tree cannot be read: such a one is held.
fn judged(
    repository: &UnlockedRepository,
    all: &[Snapshot],
    mut facts: Vec<Facts>,
    evaluate: &dyn Fn(&[Facts]) -> Vec<Verdict>,
) -> pipeline::Result<(Vec<Facts>, Vec<Verdict>)> {
    let mut roots = Roots::default();
    loop {
        let verdicts = evaluate(&facts);
        let stays = |verdict: &Verdict| {
            matches!(verdict.state, Fate::Kept | Fate::Held | Fate::Locked { .. })
        };
        if verdicts.iter().all(stays) {
            return Ok((facts, verdicts));
        }
        let kept = facts.iter().zip(&verdicts).filter(|(_, verdict)| stays(verdict));
        let kept: Vec<_> = kept.map(|(facts, _)| facts.id).collect();
        let kept = all.iter().filter(|one| kept.contains(&one.id()));
        if !roots.read(repository, kept)? {
            return Ok((facts, verdicts));
        }
        for facts in facts.iter_mut().filter(|facts| roots.unreadable().contains(&facts.id)) {
            facts.suspect = Some(UNREADABLE.to_owned());
        }
    }
}

/// The snapshots of this machine that a policy backs up. Others are not ours to judge.
fn facts(all: &[Snapshot], runs: &Runs, state: &State, now_secs: i64) -> Vec<Facts> {
    let heads: Vec<_> = all.iter().map(|one| (one.head, one.receipt.clone())).collect();
    let times = effective_time::effective_times(&heads, now_secs);
    let own = all.iter().zip(times).filter(|(one, _)| one.body.node == runs.node);
    own.filter_map(|(one, time)| {
        let source = runs.sources.iter().find(|source| is_of(one, source))?;
        Some(fact(one, &time, source, state))
    })
    .collect()
}

fn is_of(snapshot: &Snapshot, source: &PolicySource) -> bool {
    let mut paths: Vec<String> = source.source.paths.iter().map(|path| expanded(path)).collect();
    paths.sort_unstable();
    paths.dedup();
    paths == snapshot.body.paths
}

fn fact(one: &Snapshot, time: &EffectiveTime, source: &PolicySource, state: &State) -> Facts {
    let received_secs = time.time().unwrap_or(one.time()).secs;
    let suspect = match time {
        EffectiveTime::Suspect(why) => Some(why.clone()),
        EffectiveTime::Known(_) => None,
    };
    let since_secs = state.stored.trash.get(&one.id().to_string());
    Facts {
        id: one.id(),
        number: effective_time::creation_order(&one.head).0,
        node: one.body.node.clone(),
        source: source.name.clone(),
        policy: source.policy.clone(),
        class: source.class.clone(),
        received_secs,
        is_partial: one.body.partial,
        suspect,
        tags: Some(one.body.tags.clone()),
        locked_until_secs: None,
        paths: None,
        has_deleted_objects: None,
        source_deleted_secs: None,
        trashed: since_secs.map(|since| Trashed { since_secs: *since, by: TrashedBy::Rules }),
    }
}
