//! Backups of a policy that an administrator starts now.

use super::{Known, Scheduler, lines};
use crate::jobs::check_priority;
use crate::{Error, Result};
use api::jobs::{JobPlan, SkippedNode, StartPolicy, StartedJob, StartedPolicy};
use catalog::By;
use catalog::nodes::Node;
use catalog::schedules::NewRun;
use site::{Policy, Site};
use std::collections::{BTreeMap, BTreeSet};

impl Scheduler {
    /// Queues the runs of a policy now, on all its nodes or on one: what was queued, what has an open job already, and
    /// which of its nodes cannot back up.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such policy, or it has no such node; [`Error::Catalog`].
    pub(crate) fn start(
        &self,
        by: By<'_>,
        policy: &str,
        wanted: &StartPolicy,
    ) -> Result<StartedPolicy> {
        wanted.priority.map_or(Ok(()), check_priority)?;
        let known = &mut *self.known.lock();
        self.refresh_lines(known, by.now_secs)?;
        let Some(found) = known.site.policies.get(policy) else {
            return Err(Error::Usage(format!(
                "there is no policy '{policy}': icecore server policy list"
            )));
        };
        let nodes = self.catalog.nodes()?;
        let wants = wanted_nodes(&known.site, found, wanted, &nodes)?;
        let skipped = skipped(known, &wants, &nodes, by.now_secs);
        let targets = lines::targets(&known.site, policy, found, &known.nodes);
        let targets = targets.iter().filter(|target| wants.contains(target.member.name.as_str()));
        let runs: Vec<_> =
            targets.filter_map(|target| target.by_hand(by.now_secs, wanted)).collect();
        if runs.is_empty() {
            return Err(Error::Usage(backs_up_nothing(policy, wanted, &skipped)));
        }
        let queue = |run: NewRun| {
            let job = if wanted.dry_run { None } else { self.catalog.queue_run(by, &run)? };
            let JobPlan { source, unit, .. } = run.plan;
            Ok(StartedJob { node: run.node, source, unit, job })
        };
        let jobs: Result<Vec<_>> = runs.into_iter().map(queue).collect();
        self.jobs.have_changed();
        Ok(StartedPolicy { jobs: jobs?, skipped })
    }
}

/// The nodes of the policy that are meant, also those that it names and that are not enrolled.
fn wanted_nodes(
    site: &Site,
    policy: &Policy,
    wanted: &StartPolicy,
    nodes: &[Node],
) -> Result<BTreeSet<String>> {
    let mut all: BTreeSet<_> = nodes.iter().map(|node| node.name.to_string()).collect();
    let mut wants = site.members(policy, &all);
    wants.extend(policy.nodes.iter().cloned());
    all.extend(policy.nodes.iter().cloned());
    wants.retain(|name| wanted.node.as_ref().is_none_or(|node| node.as_str() == name));
    let Some(group) = &wanted.group else { return Ok(wants) };
    if !site.groups.contains_key(group) {
        return Err(Error::Usage(format!(
            "there is no group '{group}': icecore server group list"
        )));
    }
    let of_group = site::Policy { groups: vec![group.clone()], ..site::Policy::default() };
    let members = site.members(&of_group, &all);
    wants.retain(|name| members.contains(name));
    Ok(wants)
}

/// Those of `wants` that cannot back up, and why.
fn skipped(
    known: &Known,
    wants: &BTreeSet<String>,
    nodes: &[Node],
    now_secs: i64,
) -> Vec<SkippedNode> {
    let able: BTreeSet<_> = known.nodes.iter().map(|member| member.name.as_str()).collect();
    let nodes: BTreeMap<_, _> = nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let why = |name: &str| match nodes.get(name) {
        Some(node) if node.alarm.is_some() => Some("two machines have shown its certificates"),
        Some(node) if node.revoked => Some("it is revoked"),
        Some(node) if node.certificate_expires.is_some_and(|end| end <= now_secs) => {
            Some("its certificate has expired; its job waits until it is enrolled again")
        }
        Some(_) => (!able.contains(name)).then_some("it enrolled just now: start it again"),
        None => Some("it is not enrolled"),
    };
    let left = wants.iter().filter_map(|name| Some((name, why(name)?)));
    left.map(|(name, reason)| SkippedNode { node: name.clone(), reason: reason.to_owned() })
        .collect()
}

fn backs_up_nothing(policy: &str, wanted: &StartPolicy, skipped: &[SkippedNode]) -> String {
    let node = wanted.node.as_ref().map(|node| format!(" on the node '{node}'"));
    let group = wanted.group.as_ref().map(|group| format!(" in the group '{group}'"));
    let of: String = [node, group].into_iter().flatten().collect();
    let why = skipped.iter().map(|left| format!("; {}: {}", left.node, left.reason));
    format!("the policy '{policy}' backs up nothing{of}{}", why.collect::<String>())
}
