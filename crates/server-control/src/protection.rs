//! Protection: how well each source of each policy and node is backed up.
//!
//! Nobody is left out: nodes that no policy covers, policies that cover no node, nodes that a policy names and that are
//! not enrolled, revoked ones and paused ones are listed with what is known of them.

mod decide;
mod snapshots;

use crate::Result;
use crate::machine_clock::MachineClock;
use crate::open::Parts;
use crate::retention::{Retention, SnapshotTable};
use crate::scheduler::source_key;
use crate::sites::Sites;
use api::protection::{EndedRun, Protection, ProtectionFilter, ProtectionState, SourceProtection};
use catalog::Catalog;
use catalog::backup_states::BackupState;
use catalog::nodes::Node;
use decide::{Facts, Verdict, decide};
use rustc_hash::FxHashMap;
use site::{Policy, Site, Source};
use snapshots::{Complete, GoodSnapshots};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How well this server's nodes are backed up.
pub(crate) struct ProtectionView {
    catalog: Arc<Catalog>,
    sites: Arc<Sites>,
    retention: Arc<Retention>,
    table: Arc<SnapshotTable>,
    clock: Arc<MachineClock>,
}

impl ProtectionView {
    /// Of this server.
    pub(crate) fn new(parts: &Parts, sites: Arc<Sites>, retention: Arc<Retention>) -> Self {
        let (catalog, table) = (parts.catalog.clone(), parts.snapshots.clone());
        Self { catalog, sites, retention, table, clock: parts.clock.clone() }
    }

    /// How well everything is backed up that the filter names.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`]; [`crate::Error::Object`] for an object that this program does not understand:
    /// without it, something would be left out.
    pub(crate) fn now(&self, filter: &ProtectionFilter) -> Result<Protection> {
        let unread = self.retention.catch_up(None)?;
        let snapshots = GoodSnapshots::new(&self.table.all()?, &unread);
        let now = self.clock.read()?;
        let doubt = now.doubt.map(|doubt| doubt.to_string());
        Ok(Protection { doubt, ..self.at(now.secs, &snapshots, filter)? })
    }

    fn at(
        &self,
        time: i64,
        snapshots: &GoodSnapshots,
        filter: &ProtectionFilter,
    ) -> Result<Protection> {
        let stored = self.sites.stored()?;
        let (nodes, states) = (self.catalog.nodes()?, self.catalog.backup_states()?);
        let mut sources = Known::new(&stored.site, &nodes, &states, (snapshots, time)).all();
        sources.retain(|one| is_wanted(filter, one));
        sources.sort_by(|a, b| key(a).cmp(&key(b)));
        Ok(Protection { time, doubt: None, sources })
    }
}

/// The worst first.
fn key(one: &SourceProtection) -> impl Ord + '_ {
    (std::cmp::Reverse(one.state), one.node.as_ref(), one.policy.as_ref(), one.source.as_ref())
}

fn is_wanted(filter: &ProtectionFilter, one: &SourceProtection) -> bool {
    let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
    is(&filter.node, &one.node)
        && is(&filter.policy, &one.policy)
        && filter.state.is_none_or(|state| state == one.state)
}

/// All that decides.
struct Known<'a> {
    site: &'a Site,
    /// The same, with groups of nodes that it names only.
    naming: Site,
    nodes: FxHashMap<&'a str, &'a Node>,
    enrolled: BTreeSet<String>,
    /// Those that somebody has named, and that are not enrolled.
    missing: BTreeSet<String>,
    snapshots: &'a GoodSnapshots,
    /// By node, policy and source.
    states: FxHashMap<(&'a str, &'a str, &'a str), &'a BackupState>,
    time: i64,
}

impl<'a> Known<'a> {
    fn new(
        site: &'a Site,
        nodes: &'a [Node],
        states: &'a [BackupState],
        (snapshots, time): (&'a GoodSnapshots, i64),
    ) -> Self {
        let enrolled: BTreeSet<_> = nodes.iter().map(|node| node.name.to_string()).collect();
        let mut naming = site.clone();
        naming.groups.values_mut().for_each(|group| group.all = false);
        let key = |state: &'a BackupState| {
            (&*state.node, state.policy.as_deref().unwrap_or_default(), &*state.source)
        };
        Self {
            site,
            naming,
            snapshots,
            nodes: nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            missing: named(site).filter(|name| !enrolled.contains(*name)).cloned().collect(),
            enrolled,
            states: states.iter().map(|state| (key(state), state)).collect(),
            time,
        }
    }

    fn all(&self) -> Vec<SourceProtection> {
        let mut all = Vec::new();
        let mut covered = BTreeSet::new();
        for (name, policy) in &self.site.policies {
            let mut members = self.site.members(policy, &self.enrolled);
            members.extend(self.naming.members(policy, &self.missing));
            let sources = policy.sources();
            if members.is_empty() || sources.is_empty() {
                all.push(covers_nothing(name, members.is_empty()));
            }
            for node in &members {
                let of = |(called, source)| self.source(node, (name, policy), called, &source);
                all.extend(sources.iter().cloned().map(of));
            }
            covered.extend(members);
        }
        let names = self.nodes.keys().filter(|name| !covered.contains(**name));
        all.extend(names.map(|node| self.without_policy(node)));
        all
    }

    fn source(
        &self,
        node: &str,
        (name, policy): (&str, &Policy),
        called: &str,
        source: &Source,
    ) -> SourceProtection {
        let key = source_key(source);
        let state = self.states.get(&(node, name, &*key)).copied();
        let complete = self.complete(node, state, (name, called));
        let promise_secs = policy.promise.map(clock::Span::signed_secs);
        let verdict = self.verdict(node, (state, &complete), promise_secs, true);
        let paths = source.paths.iter().chain(&source.stream).cloned().collect();
        SourceProtection {
            policy: Some(name.to_owned()),
            source: Some(called.to_owned()),
            paths,
            is_manual: policy.schedules.is_empty(),
            promise_secs,
            ..self.shown(node, (state, complete), verdict)
        }
    }

    fn without_policy(&self, node: &str) -> SourceProtection {
        let state = self.states.get(&(node, "", "")).copied();
        let complete = self.complete(node, state, ("", ""));
        let verdict = self.verdict(node, (state, &complete), None, false);
        self.shown(node, (state, complete), verdict)
    }

    /// The newest complete backup whose snapshot exists and is not in doubt. What a repository has that cannot be read
    /// now, nobody knows: then what its jobs said counts.
    fn complete(
        &self,
        node: &str,
        state: Option<&BackupState>,
        (policy, source): (&str, &str),
    ) -> Option<Complete> {
        let said = state.and_then(|state| state.complete.as_ref());
        let said = said.map(|it| Complete { secs: it.begun, snapshot: it.snapshot.clone() });
        let Some(enrolled) = self.nodes.get(node) else { return said };
        self.snapshots.newest(enrolled.domain.as_str(), said, (node, policy, source))
    }

    fn verdict(
        &self,
        node: &str,
        (state, complete): (Option<&BackupState>, &Option<Complete>),
        promise_secs: Option<i64>,
        has_policy: bool,
    ) -> Verdict {
        let paused = self.site.nodes.get(node).and_then(|node| node.paused_at(self.time));
        let enrolled = self.nodes.get(node);
        decide(
            &Facts {
                paused: paused.map(|it| (it.until.map(site::Moment::secs), it.reason.as_str())),
                is_enrolled: enrolled.is_some(),
                is_revoked: enrolled.is_some_and(|node| node.revoked),
                has_policy,
                promise_secs,
                since_secs: state.map(|state| state.since),
                complete_secs: complete.as_ref().map(|it| it.secs),
                had_backup: state.is_some_and(|state| state.complete.is_some()),
                last: state
                    .and_then(|state| state.last.as_ref())
                    .map(|last| (last.ended, last.state)),
            },
            self.time,
        )
    }

    fn shown(
        &self,
        node: &str,
        (state, complete): (Option<&BackupState>, Option<Complete>),
        verdict: Verdict,
    ) -> SourceProtection {
        let last = state.and_then(|state| state.last.clone());
        let last_run = last.map(|last| EndedRun {
            job: last.job,
            state: last.state,
            cause: last.cause,
            ended: last.ended,
            error: last.error,
        });
        SourceProtection {
            node: Some(node.to_owned()),
            policy: None,
            source: None,
            paths: Vec::new(),
            is_manual: true,
            state: verdict.state,
            reason: verdict.reason,
            last_complete: complete.as_ref().map(|it| it.secs),
            snapshot: complete.and_then(|it| it.snapshot),
            promise_secs: None,
            kept_until: verdict.kept_until,
            paused_until: verdict.paused_until,
            last_run,
        }
    }
}

/// All nodes that a policy, a group or a table of their own names.
fn named(site: &Site) -> impl Iterator<Item = &String> {
    let policies = site.policies.values().flat_map(|policy| &policy.nodes);
    let groups = site.groups.values().flat_map(|group| &group.nodes);
    policies.chain(groups).chain(site.nodes.keys())
}

/// A policy of no node, or of no source. It may be meant so; a label may be misspelt as well.
fn covers_nothing(policy: &str, is_without_nodes: bool) -> SourceProtection {
    let what = if is_without_nodes { "node" } else { "source" };
    SourceProtection {
        node: None,
        policy: Some(policy.to_owned()),
        source: None,
        paths: Vec::new(),
        is_manual: false,
        state: ProtectionState::AtRisk,
        reason: format!("the policy has no {what}: it backs up nothing"),
        last_complete: None,
        snapshot: None,
        promise_secs: None,
        kept_until: None,
        paused_until: None,
        last_run: None,
    }
}

#[cfg(test)]
mod tests;
