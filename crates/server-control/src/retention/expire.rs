//! Carrying out: into the trash, back from it, and out of the repository.

use super::Retention;
use super::explain::{Judged, is_same};
use crate::{Result, SERVER, by, now_secs};
use ::retention::{Facts, State, Trashed, TrashedBy};
use api::Name;
use api::retention::{DomainExpiry, Expire, Expiry, RefusedSnapshot};
use catalog::By;
use catalog::snapshots::TrashChange;
use clock::Reading;
use ids::SnapshotId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// Snapshots that are deleted in one step, with one entry in the audit log.
const EXPIRED_AT_ONCE: usize = 500;
/// How often expiry runs by itself.
const EVERY_SECS: i64 = 86_400;
/// How soon it runs again when a domain could not be read or written.
const AGAIN_SECS: i64 = 3_600;

/// What is to be done in a domain.
#[derive(Default)]
struct Plan {
    kept: u64,
    trash: u64,
    changes: Vec<TrashChange>,
    expired: Vec<SnapshotId>,
}

impl Plan {
    fn of(judged: &[Judged], only: Option<&BTreeSet<SnapshotId>>) -> Self {
        let mut plan = Self::default();
        let is_meant = |one: &&Judged| only.is_none_or(|only| only.contains(&one.facts.id));
        judged.iter().filter(is_meant).for_each(|one| plan.add(&one.facts, one.verdict.state));
        plan
    }

    fn add(&mut self, facts: &Facts, state: State) {
        let (id, before) = (facts.id, facts.trashed);
        match state {
            State::Expired => self.expired.push(id),
            State::Trash { since_secs, .. } => {
                self.trash += 1;
                let after = Some(Trashed { since_secs, by: TrashedBy::Rules });
                if before.is_none() {
                    self.changes.push(TrashChange { id, before, after });
                }
            }
            State::Locked { .. } | State::Held | State::Kept => {
                self.kept += 1;
                // What somebody named stays in the trash until it is brought back by name.
                if before.is_some_and(|trashed| trashed.by == TrashedBy::Rules) {
                    self.changes.push(TrashChange { id, before, after: None });
                }
            }
        }
    }

    fn report(&self, domain: &Name) -> DomainExpiry {
        let ids = |is_put: bool| {
            let of = self.changes.iter().filter(move |one| one.after.is_some() == is_put);
            of.map(|one| one.id.to_string()).collect()
        };
        DomainExpiry {
            domain: domain.to_string(),
            kept: self.kept,
            trash: self.trash,
            trashed: ids(true),
            undeleted: ids(false),
            expired: self.expired.iter().map(ToString::to_string).collect(),
            ..DomainExpiry::default()
        }
    }
}

impl Retention {
    /// Carries out retention once a day, in all domains. What fails is logged, and done the next day. Blocks.
    pub(crate) fn expire_if_due(&self) {
        let now = now_secs();
        let passed = now - self.expired_at.load(Ordering::Relaxed);
        if (0..EVERY_SECS).contains(&passed) {
            return;
        }
        self.expired_at.store(now, Ordering::Relaxed);
        match self.expire_daily() {
            Ok(done) => self.log(&done),
            Err(error) => tracing::error!(%error, "nothing expired"),
        }
    }

    /// All domains but those that an upkeep deals with by its own schedules.
    fn expire_daily(&self) -> Result<Expiry> {
        let (now, (stored, _)) = (self.clock.read()?, self.rules()?);
        let mut domains = self.domains(None)?;
        domains.retain(|domain| !stored.site.expires_by_schedule(domain.as_str()));
        Ok(self.expire_all(by(SERVER), &domains, (now, false)))
    }

    /// A domain whose storage server was away is not left for a day: all is looked at again in an hour.
    fn log(&self, done: &Expiry) {
        log(done);
        if done.domains.iter().any(|one| one.error.is_some()) {
            self.expired_at.fetch_sub(EVERY_SECS - AGAIN_SECS, Ordering::Relaxed);
        }
    }

    /// The same now, or what it would do.
    ///
    /// # Errors
    /// As [`Retention::expire`].
    pub(crate) fn expire_now(&self, who: &str, wanted: &Expire) -> Result<Expiry> {
        self.expire(by(who), wanted, self.clock.read()?)
    }

    /// Carries out retention at a time. Domains are independent: what fails in one is told, and keeps no other from
    /// being dealt with.
    ///
    /// # Errors
    /// [`Error::Catalog`], also when there is no such domain; [`Error::Object`], [`Error::Usage`] if the rules cannot be
    /// made: then nothing went anywhere.
    pub(crate) fn expire(&self, by: By<'_>, wanted: &Expire, now: Reading) -> Result<Expiry> {
        self.rules()?;
        let domains = self.domains(wanted.domain.as_deref())?;
        Ok(self.expire_all(by, &domains, (now, wanted.dry_run)))
    }

    fn expire_all(&self, by: By<'_>, domains: &[Name], (now, dry_run): (Reading, bool)) -> Expiry {
        let one = |domain: &Name| {
            let mut report = DomainExpiry { domain: domain.to_string(), ..Default::default() };
            let done = self.expire_in(by, domain, (now, dry_run), (None, &|| true), &mut report);
            report.error = done.err().map(|error| error.to_string());
            report
        };
        let doubt = now.doubt.map(|doubt| doubt.to_string());
        Expiry { dry_run, doubt, domains: domains.iter().map(one).collect() }
    }

    /// The same in one domain, for as long as `goes_on` says so between two steps; also whether it came to its end. What
    /// is left expires the next time.
    ///
    /// # Errors
    /// As [`Retention::expire`].
    pub(crate) fn expire_while(
        &self,
        by: By<'_>,
        domain: &str,
        now: Reading,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(DomainExpiry, bool)> {
        self.rules()?;
        let mut report = DomainExpiry { domain: domain.to_owned(), ..Default::default() };
        let mut is_whole = true;
        for domain in self.domains(Some(domain))? {
            match self.expire_in(by, &domain, (now, false), (None, goes_on), &mut report) {
                Ok(whole) => is_whole = whole,
                Err(error) => report.error = Some(error.to_string()),
            }
        }
        Ok((report, is_whole))
    }

    /// One domain; `only` these snapshots, if some are named. Whether it came to its end before `goes_on` stopped it.
    ///
    /// # Errors
    /// When its repository cannot be read or written; [`Error::Catalog`]. `report` says what was done by then.
    pub(super) fn expire_in(
        &self,
        by: By<'_>,
        domain: &Name,
        (now, is_dry_run): (Reading, bool),
        (only, goes_on): (Option<&BTreeSet<SnapshotId>>, &dyn Fn() -> bool),
        report: &mut DomainExpiry,
    ) -> Result<bool> {
        // What is read for the first time takes long, and nobody waits for that.
        self.read_once(domain)?;
        let _alone = self.gate.enter();
        self.reconcile(domain)?;
        let plan = Plan::of(&self.judged(Some(domain.as_str()), now)?, only);
        *report = plan.report(domain);
        if is_dry_run {
            return Ok(true);
        }
        report.expired.clear();
        let changed = self.table.change_trash(by, domain.as_str(), &plan.changes)?;
        debug_assert_eq!(changed.len(), plan.changes.len(), "nobody else changes the trash");
        for ids in plan.expired.chunks(EXPIRED_AT_ONCE) {
            if !goes_on() {
                return Ok(false);
            }
            self.delete(by, domain, ids, now, report)?;
        }
        Ok(true)
    }

    /// Deletes snapshots that are out of the trash. What goes is read once more: a receipt says other things than the
    /// catalog only if somebody changed the catalog.
    fn delete(
        &self,
        by: By<'_>,
        domain: &Name,
        ids: &[SnapshotId],
        now: Reading,
        report: &mut DomainExpiry,
    ) -> Result<()> {
        let (ids, others) = self.confirmed(domain, ids)?;
        report.refused.extend(others.iter().map(|id| RefusedSnapshot {
            id: id.to_string(),
            why: "its receipt differs from the catalog: it is evaluated again next time".to_owned(),
        }));
        if ids.is_empty() {
            return Ok(());
        }
        self.catalog.note_expiry(by, domain.as_str(), &ids)?;
        let done = self.store.expire(domain, &ids, now)?;
        report.expired.extend(done.removed.iter().map(ToString::to_string));
        let refused = done.refused.into_iter();
        report.refused.extend(refused.map(|(id, why)| RefusedSnapshot { id: id.to_string(), why }));
        self.table.note(domain.as_str(), &[], &done.removed)
    }

    /// Those of `ids` of which the repository says what the catalog does; and the others, which are noted.
    fn confirmed(
        &self,
        domain: &Name,
        ids: &[SnapshotId],
    ) -> Result<(Vec<SnapshotId>, Vec<SnapshotId>)> {
        let wanted: BTreeSet<_> = ids.iter().collect();
        let names = self.store.names(domain)?.into_iter();
        let names: Vec<_> = names.filter(|name| wanted.contains(&name.id)).collect();
        let known = self.table.of(domain.as_str())?;
        let known: BTreeMap<_, _> = known.iter().map(|one| (one.id, one)).collect();
        let read = self.store.facts(domain, &names)?.into_iter();
        let is_known = |one: &Facts| known.get(&one.id).is_some_and(|known| is_same(known, one));
        let others: Vec<Facts> = read.filter(|one| !is_known(one)).collect();
        self.table.note(domain.as_str(), &others, &[])?;
        let others: Vec<SnapshotId> = others.iter().map(|one| one.id).collect();
        let same = ids.iter().filter(|id| !others.contains(id)).copied().collect();
        Ok((same, others))
    }
}

fn log(done: &Expiry) {
    if let Some(doubt) = &done.doubt {
        tracing::warn!(doubt, "nothing expires");
    }
    for one in &done.domains {
        let DomainExpiry { domain, trashed, undeleted, expired, refused, .. } = one;
        let counts = [trashed.len(), undeleted.len(), expired.len(), refused.len()];
        if let Some(error) = &one.error {
            tracing::error!(domain, error, "nothing expires in this domain");
        } else if counts != [0; 4] {
            let [trashed, undeleted, expired, refused] = counts;
            tracing::info!(domain, trashed, undeleted, expired, refused, "retention");
        }
    }
}
