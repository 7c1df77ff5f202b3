//! Snapshots that an administrator names: to be deleted, or to be brought back.

use super::Retention;
use super::explain::{Judged, by_id};
use super::shown::retained;
use crate::{Error, Result, by, error};
use ::retention::{State, Trashed, TrashedBy, Verdict, Why};
use api::Name;
use api::retention::{DomainExpiry, NamedDone, NamedSnapshots, RefusedSnapshot};
use catalog::snapshots::{DeletedSource, TrashChange};
use clock::Reading;
use ids::SnapshotId;
use std::collections::{BTreeMap, BTreeSet};

/// By domain.
type Changes = BTreeMap<String, Vec<TrashChange>>;

impl Retention {
    /// Puts snapshots into the trash; or deletes them now. What is locked or held stays.
    ///
    /// # Errors
    /// [`Error::Usage`], [`Error::Catalog`], if an id fits no snapshot or several: then nothing changed. Those of the
    /// repository, when they are deleted now.
    pub(crate) fn delete_named(&self, who: &str, wanted: &NamedSnapshots) -> Result<NamedDone> {
        self.catch_up(None)?;
        let now = self.clock.read()?;
        let put = {
            let _alone = self.gate.enter();
            let all = self.judged(None, now)?;
            let mut put = Put::default();
            wanted.ids.iter().try_for_each(|id| put.add(by_id(&all, id)?, now, wanted.now))?;
            if !wanted.dry_run {
                self.change(who, &put.changes)?;
            }
            put
        };
        let ids: Vec<_> = put.changes.values().flatten().map(|one| one.id).collect();
        let mut done =
            NamedDone { snapshots: Vec::new(), deleted: Vec::new(), refused: put.refused };
        if wanted.now && !wanted.dry_run {
            self.delete_now(who, &put.changes, now, &mut done)?;
            self.take_back(who, &put.changes, &done)?;
        }
        done.snapshots = self.shown(&ids, now)?;
        Ok(done)
    }

    fn delete_now(
        &self,
        who: &str,
        changes: &Changes,
        now: Reading,
        done: &mut NamedDone,
    ) -> Result<()> {
        for (domain, changes) in changes {
            let domain: Name = error::parse_name(domain)?;
            let ids: BTreeSet<_> = changes.iter().map(|one| one.id).collect();
            let mut report = DomainExpiry::default();
            let only = (Some(&ids), &(|| true) as &dyn Fn() -> bool);
            self.expire_in(by(who), &domain, (now, false), only, &mut report)?;
            done.deleted.extend(report.expired);
            done.refused.extend(report.refused);
        }
        Ok(())
    }

    /// What the repository refused to delete stays as it was: else it would go with a later expiry, and whoever named
    /// it was told that it stays.
    fn take_back(&self, who: &str, changes: &Changes, done: &NamedDone) -> Result<()> {
        let refused: BTreeSet<_> = done.refused.iter().map(|one| one.id.as_str()).collect();
        let _alone = self.gate.enter();
        let back = changes.iter().map(|(domain, changes)| {
            let stayed = changes.iter().filter(|one| refused.contains(&*one.id.to_string()));
            let undo =
                |one: &TrashChange| TrashChange { before: one.after, after: one.before, ..*one };
            (domain.clone(), stayed.map(undo).collect())
        });
        let back = back.filter(|(_, stayed): &(String, Vec<_>)| !stayed.is_empty());
        self.change(who, &back.collect())
    }

    /// Brings snapshots back from the trash.
    ///
    /// # Errors
    /// [`Error::Usage`], [`Error::Catalog`], if an id fits no snapshot or several: then nothing changed.
    pub(crate) fn undelete_named(&self, who: &str, wanted: &NamedSnapshots) -> Result<NamedDone> {
        self.catch_up(None)?;
        let now = self.clock.read()?;
        let _alone = self.gate.enter();
        let all = self.judged(None, now)?;
        let mut done =
            NamedDone { snapshots: Vec::new(), deleted: Vec::new(), refused: Vec::new() };
        let (mut changes, mut ids) = (Changes::new(), Vec::new());
        for id in &wanted.ids {
            let one = by_id(&all, id)?;
            let (id, before) = (one.facts.id, one.facts.trashed);
            if before.is_none() {
                let why = "it does not lie in the trash".to_owned();
                done.refused.push(RefusedSnapshot { id: id.to_string(), why });
                continue;
            }
            ids.push(id);
            let change = TrashChange { id, before, after: None };
            changes.entry(one.domain.clone()).or_default().push(change);
        }
        if !wanted.dry_run {
            self.change(who, &changes)?;
        }
        done.snapshots = self.shown(&ids, now)?;
        Ok(done)
    }

    fn change(&self, who: &str, changes: &Changes) -> Result<()> {
        changes.iter().try_for_each(|(domain, changes)| {
            self.table.change_trash(by(who), domain, changes).map(drop)
        })
    }

    fn shown(
        &self,
        ids: &[SnapshotId],
        now: Reading,
    ) -> Result<Vec<api::retention::RetainedSnapshot>> {
        let all = self.judged(None, now)?;
        Ok(all.iter().filter(|one| ids.contains(&one.facts.id)).map(retained).collect())
    }

    /// An administrator says that a source is gone, or that it is there after all. The rules for versions of such
    /// sources apply from now on.
    ///
    /// # Errors
    /// [`Error::Usage`] if nothing is known of it, or it was not gone; [`Error::Catalog`].
    pub(crate) fn delete_source(
        &self,
        who: &str,
        [node, policy, source]: [&str; 3],
        is_gone: bool,
    ) -> Result<()> {
        self.catch_up(None)?;
        let since = self.clock.read()?.secs;
        let _alone = self.gate.enter();
        let is_it = |one: &::retention::Facts| {
            one.node == node && one.policy == policy && one.source == source
        };
        let is_known = self.table.all()?.values().any(|facts| facts.iter().any(is_it));
        if !is_known {
            let what = format!(
                "there is no snapshot of the source '{source}' of the policy '{policy}' on the node '{node}'"
            );
            return Err(Error::Usage(what));
        }
        let [node_text, policy_text, source_text] = [node, policy, source].map(str::to_owned);
        let gone =
            DeletedSource { node: node_text, policy: policy_text, source: source_text, since };
        let done = match is_gone {
            true => self.catalog.delete_source(by(who), &gone).map(|()| true),
            false => self.catalog.undelete_source(by(who), node, policy, source),
        };
        self.table.forget();
        if done? {
            return Ok(());
        }
        Err(Error::Usage(format!("the source '{source}' of the node '{node}' was not deleted")))
    }
}

/// What is put into the trash by name.
#[derive(Default)]
struct Put {
    changes: Changes,
    refused: Vec<RefusedSnapshot>,
}

impl Put {
    fn add(&mut self, one: &Judged, now: Reading, is_at_once: bool) -> Result<()> {
        let (id, before) = (one.facts.id, one.facts.trashed);
        if let Some(why) = stays(&one.verdict, now) {
            self.refused.push(RefusedSnapshot { id: id.to_string(), why });
            return Ok(());
        }
        let by = if is_at_once { TrashedBy::NameAtOnce } else { TrashedBy::Name };
        // What lies there already keeps its time: to name it again is not to begin anew.
        let since_secs = before.map_or(now.secs, |before| before.since_secs);
        let after = Some(Trashed { since_secs, by });
        let changes = self.changes.entry(one.domain.clone()).or_default();
        if !changes.iter().any(|known| known.id == id) {
            changes.push(TrashChange { id, before, after });
        }
        Ok(())
    }
}

/// What stands above a name.
pub(super) fn stays(verdict: &Verdict, now: Reading) -> Option<String> {
    let hold = verdict.reasons.iter().find_map(|reason| match &reason.why {
        Why::Hold(name) => Some(name),
        _ => None,
    });
    match (verdict.state, hold, now.doubt) {
        (State::Locked { until_secs }, ..) => {
            let until = jiff::Timestamp::from_second(until_secs)
                .map_or_else(|_| format!("@{until_secs}"), |time| time.to_string());
            Some(format!("it is locked until {until}, and nothing shortens that"))
        }
        (_, Some(hold), _) => {
            Some(format!("the hold '{hold}' keeps it: icecore server hold remove {hold}"))
        }
        (.., Some(doubt)) => Some(format!("nothing is deleted while {doubt}")),
        _ => None,
    }
}
