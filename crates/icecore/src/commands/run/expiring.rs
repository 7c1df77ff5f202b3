//! Forgetting what no rule keeps: first into the trash, then for good. Without a server there is no lock: who has the
//! password of a repository may forget in it.

use super::due::{PolicySource, Ran, Runs};
use super::state::{State, keep_existing};
use crate::commands::backup::Identity;
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
    (site, runs, ran): (&Site, &Runs, &[Ran]),
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
    let facts = facts(&all, &named(context, runs), state, now.secs);
    tell_unjudged(context, runs, ran, &facts);
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

/// A source, and what its snapshots are known by.
type Named<'a> = (&'a PolicySource, Identity);

/// All sources as their backups name them. One that cannot be named now has no snapshot that could be judged.
fn named<'a>(context: &Context, runs: &'a Runs) -> Vec<Named<'a>> {
    let name = |source: &'a PolicySource| match source.identity(context) {
        Ok(identity) => Some((source, identity)),
        Err(failure) if source.wanted.retention.is_some() => {
            let (source, why) = (source.shown(), failure.message);
            context.out.note(&format!("{source}: nothing of it is forgotten: {why}"));
            None
        }
        Err(_) => None,
    };
    runs.sources.iter().filter_map(name).collect()
}

/// The snapshots of this machine that a policy backs up. Others are not ours to judge.
fn facts(all: &[Snapshot], named: &[Named<'_>], state: &State, now_secs: i64) -> Vec<Facts> {
    let heads: Vec<_> = all.iter().map(|one| (one.head, one.receipt.clone())).collect();
    let times = effective_time::effective_times(&heads, now_secs);
    let judged = all.iter().zip(times).filter_map(|(one, time)| {
        let (source, _) = named.iter().find(|(_, identity)| is_of(one, identity))?;
        Some(fact(one, &time, source, state))
    });
    judged.collect()
}

fn is_of(snapshot: &Snapshot, Identity { node, paths }: &Identity) -> bool {
    *node == snapshot.body.node && *paths == snapshot.body.paths
}

/// A retention that applies to nothing would never be missed: the disk fills up long after.
fn tell_unjudged(context: &Context, runs: &Runs, ran: &[Ran], facts: &[Facts]) {
    let has_retention = |source: &&PolicySource| source.wanted.retention.is_some();
    for source in runs.sources.iter().filter(has_retention) {
        let is_its = |policy: &str, name: &str| policy == source.policy && name == source.name;
        let mut own = ran.iter().filter(|one| is_its(&one.policy, &one.source));
        let Some(made) = own.find_map(|one| one.snapshot.as_deref()) else { continue };
        if !facts.iter().any(|one| is_its(&one.policy, &one.source)) {
            context.out.note(&format!(
                "{}: its retention applies to no snapshot, not even to {}, which was just made: its paths have changed. See: icecore snapshots",
                source.shown(),
                &made[..made.len().min(8)]
            ));
        }
    }
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
