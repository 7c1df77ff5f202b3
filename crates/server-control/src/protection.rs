//! Protection: how well each source of each policy and node is backed up.
//!
//! Nobody is left out: nodes that no policy covers, policies that cover no node, nodes that a policy names and that are
//! not enrolled, revoked ones and paused ones are listed with what is known of them.

mod decide;
mod snapshots;

use crate::Result;
use crate::error::missing;
use crate::machine_clock::MachineClock;
use crate::open::Parts;
use crate::retention::{Retention, SnapshotTable};
use crate::scheduler::class_key;
use crate::sites::Sites;
use api::Name;
use api::protection::{EndedRun, Protection, ProtectionFilter, ProtectionState, SourceProtection};
use catalog::Catalog;
use catalog::backup_states::BackupState;
use catalog::nodes::Node;
use decide::{Facts, Verdict, decide};
use rustc_hash::FxHashMap;
use site::{Part, Policy, Site, Source};
use snapshots::{Complete, GoodSnapshots, Wanted, WantedClass};
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
        let all = self.table.all()?;
        let snapshots = GoodSnapshots::new(&all, &unread);
        let now = self.clock.read()?;
        let doubt = now.doubt.map(|doubt| doubt.to_string());
        Ok(Protection { doubt, ..self.at(now.secs, &snapshots, filter)? })
    }

    fn at(
        &self,
        time: i64,
        snapshots: &GoodSnapshots<'_>,
        filter: &ProtectionFilter,
    ) -> Result<Protection> {
        let stored = self.sites.stored()?;
        let (nodes, states) = (self.catalog.nodes()?, self.catalog.backup_states()?);
        let cut_off = self.cut_off()?;
        let known = Known::new(&stored.site, (&nodes, &cut_off), &states, (snapshots, time));
        let mut sources = known.all();
        refuse_unknown(filter, (&nodes, &stored.site), &sources)?;
        sources.retain(|one| is_wanted(filter, one));
        sources.sort_by(|a, b| key(a).cmp(&key(b)));
        Ok(Protection { time, doubt: None, sources })
    }
}

impl ProtectionView {
    /// Domains on storage servers that are revoked, with these: nobody reaches what is there.
    fn cut_off(&self) -> Result<FxHashMap<Name, Name>> {
        let all = self.catalog.storage_servers()?.into_iter();
        let revoked: BTreeSet<_> =
            all.filter(|storage| storage.revoked).map(|storage| storage.name).collect();
        if revoked.is_empty() {
            return Ok(FxHashMap::default());
        }
        let domains = self.catalog.domains()?.into_iter();
        let lying = domains.filter_map(|domain| Some((domain.name, domain.storage?)));
        Ok(lying.filter(|(_, storage)| revoked.contains(storage)).collect())
    }
}

/// Of what does not exist, nothing is unprotected: whoever mistypes a name would be told that all is well.
fn refuse_unknown(
    filter: &ProtectionFilter,
    (nodes, site): (&[Node], &Site),
    sources: &[SourceProtection],
) -> Result<()> {
    if let Some(wanted) = &filter.node {
        let is_node = nodes.iter().any(|node| node.name.as_str() == wanted);
        if !is_node && sources.iter().all(|one| one.node.as_ref() != Some(wanted)) {
            return Err(missing("node", wanted).into());
        }
    }
    match &filter.policy {
        Some(wanted) if !site.policies.contains_key(wanted) => {
            Err(missing("policy", wanted).into())
        }
        _ => Ok(()),
    }
}

/// The worst first.
fn key(one: &SourceProtection) -> impl Ord + '_ {
    let named = (one.node.as_ref(), one.policy.as_ref(), one.source.as_ref(), one.class.as_ref());
    (std::cmp::Reverse(one.state), named)
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
    /// Domains that nobody reaches, with their storage servers.
    cut_off: &'a FxHashMap<Name, Name>,
    enrolled: BTreeSet<String>,
    /// Those that somebody has named, and that are not enrolled.
    missing: BTreeSet<String>,
    snapshots: &'a GoodSnapshots<'a>,
    /// By node, policy and source.
    states: FxHashMap<(&'a str, &'a str, &'a str), &'a BackupState>,
    time: i64,
}

impl<'a> Known<'a> {
    fn new(
        site: &'a Site,
        (nodes, cut_off): (&'a [Node], &'a FxHashMap<Name, Name>),
        states: &'a [BackupState],
        (snapshots, time): (&'a GoodSnapshots<'a>, i64),
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
            cut_off,
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
            let parts = policy.parts(self.site.class_of(policy));
            for node in &members {
                let of = |(called, source): &(&str, Source)| {
                    self.classes(node, (name, policy), (*called, source), &parts)
                };
                all.extend(sources.iter().flat_map(of));
            }
            covered.extend(members);
        }
        let names = self.nodes.keys().filter(|name| !covered.contains(**name));
        all.extend(names.map(|node| self.without_policy(node)));
        all
    }

    /// A source as a whole, or each class that it may have anything of: the usual one comes first.
    fn classes(
        &self,
        node: &str,
        policy: (&str, &Policy),
        (called, source): (&str, &Source),
        parts: &[Part],
    ) -> Vec<SourceProtection> {
        let has = |part: &&Part| source.stream.is_none() && part.may_have(&source.paths);
        let others: Vec<_> = parts.iter().skip(1).filter(has).map(|part| &*part.class).collect();
        let of = |class| self.source(node, policy, (called, source), class);
        let usual = of(WantedClass::Usual { but: &others });
        let others = others.iter().map(|class| of(WantedClass::One(class)));
        std::iter::once(usual).chain(others).collect()
    }

    fn source(
        &self,
        node: &str,
        (name, policy): (&str, &Policy),
        (called, source): (&str, &Source),
        wanted: WantedClass<'_>,
    ) -> SourceProtection {
        let class = match wanted {
            WantedClass::One(class) => Some(class),
            WantedClass::Usual { .. } => None,
        };
        let key = class_key(source, class);
        let state = self.states.get(&(node, name, &*key)).copied();
        let wanted = Wanted { node, policy: name, source: called, class: wanted };
        let complete = self.complete(state, wanted);
        let promise_secs = policy.promise.map(clock::Span::signed_secs);
        let verdict = self.verdict(node, (state, &complete), promise_secs, true);
        let paths = source.paths.iter().chain(&source.stream).cloned().collect();
        SourceProtection {
            policy: Some(name.to_owned()),
            source: Some(called.to_owned()),
            class: class.map(str::to_owned),
            paths,
            is_manual: policy.schedules.is_empty(),
            promise_secs,
            ..self.shown(node, (state, complete), verdict)
        }
    }

    fn without_policy(&self, node: &str) -> SourceProtection {
        let state = self.states.get(&(node, "", "")).copied();
        let enrolled = self.nodes.get(node).map_or("", |node| node.domain.as_str());
        // Of policies that it has no more, too.
        let complete = self.snapshots.newest_of_node(enrolled, said(state), node);
        let verdict = self.verdict(node, (state, &complete), None, false);
        self.shown(node, (state, complete), verdict)
    }

    /// The newest complete backup whose snapshot exists and is not in doubt. What a repository has that cannot be read
    /// now, nobody knows: then what its jobs said counts.
    fn complete(&self, state: Option<&BackupState>, wanted: Wanted<'_>) -> Option<Complete> {
        let said = said(state);
        let Some(enrolled) = self.nodes.get(wanted.node) else { return said };
        self.snapshots.newest(enrolled.domain.as_str(), said, wanted)
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
                is_forked: enrolled.is_some_and(|node| node.revoked && node.alarm.is_some()),
                has_expired: enrolled
                    .and_then(|node| node.certificate_expires)
                    .is_some_and(|end| end <= self.time),
                cut_off_on: enrolled
                    .and_then(|node| self.cut_off.get(&node.domain))
                    .map(Name::as_str),
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
            class: None,
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

/// What the jobs of a source say.
fn said(state: Option<&BackupState>) -> Option<Complete> {
    let said = state.and_then(|state| state.complete.as_ref());
    said.map(|it| Complete { secs: it.begun, snapshot: it.snapshot.clone() })
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
        class: None,
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
pub(crate) mod tests;
