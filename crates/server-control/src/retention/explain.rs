//! What becomes of each snapshot and why, as an administrator asks.

use super::shown::retained;
use super::{Retention, facts};
use crate::{Error, Result, now_secs};
use ::retention::{Facts, Verdict};
use api::Name;
use api::retention::{RetainedSnapshot, RetainedSnapshots, SnapshotFilter, UnreadDomain};
use clock::Reading;
use ids::SnapshotId;
use repository::snapshots::SnapshotRef;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, ScopedJoinHandle};

/// Snapshots of a list.
const LIMIT_DEFAULT: u32 = 1_000;
const LIMIT_MAX: u32 = 100_000;
/// How often all repositories are read again, whatever is known to have changed: once an hour.
const READ_EVERY_SECS: i64 = 3_600;
/// Snapshots that are read and noted at once.
const READ_AT_ONCE: usize = 4_096;
/// From so many snapshots on, all processors judge them.
const SHARED_FROM: usize = 10_000;
/// The word for snapshots that no policy made.
const NO_POLICY: &str = "none";

/// A snapshot with what becomes of it. The class is the one that rules it now.
pub(super) struct Judged {
    pub(super) domain: String,
    pub(super) facts: Facts,
    pub(super) verdict: Verdict,
}

impl Retention {
    /// The repository of this domain has changed, or may have.
    pub(crate) fn has_changed(&self, domain: &str) {
        self.read.lock().retain(|known| known.as_str() != domain);
    }

    /// The snapshots that fit a filter, newest first.
    ///
    /// # Errors
    /// [`Error::Catalog`], also when there is no such domain; [`Error::Usage`] if the rules cannot be made.
    pub(crate) fn snapshots(&self, filter: &SnapshotFilter) -> Result<RetainedSnapshots> {
        let unread = self.catch_up(filter.domain.as_deref())?;
        let now = self.clock.read()?;
        let is_wanted = |name: &str, known: &[Facts]| {
            filter.domain.as_deref().is_none_or(|wanted| wanted == name)
                && known.iter().any(|facts| are_wanted(filter, facts))
        };
        let judged = self.judged_where(now, is_wanted)?;
        // There may be very many: they are not moved about.
        let mut found: Vec<&Judged> = judged.iter().filter(|one| fits(filter, one)).collect();
        found.sort_by_key(|one| std::cmp::Reverse((one.facts.received_secs, one.facts.number)));
        let total = found.len() as u64;
        let limit = filter.limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
        let shown = found.iter().take(limit as usize);
        let snapshots = shown.map(|one| retained(one)).collect();
        let doubt = now.doubt.map(|doubt| doubt.to_string());
        Ok(RetainedSnapshots { snapshots, total, doubt, unread })
    }

    /// One snapshot, by its id or the beginning of it.
    ///
    /// # Errors
    /// As [`Retention::snapshots`]; [`Error::Usage`] if there is none, or several.
    pub(crate) fn snapshot(&self, id: &str) -> Result<RetainedSnapshot> {
        self.catch_up(None)?;
        let may_be_meant = |facts: &Facts| facts.id.begins_with(id);
        let is_wanted = |_: &str, known: &[Facts]| known.iter().any(may_be_meant);
        let all = self.judged_where(self.clock.read()?, is_wanted)?;
        Ok(retained(by_id(&all, id)?))
    }

    /// Reads the repositories again that may have changed. Those that cannot be read are told.
    pub(crate) fn catch_up(&self, domain: Option<&str>) -> Result<Vec<UnreadDomain>> {
        self.jobs.take_domains().iter().for_each(|domain| self.has_changed(domain));
        let now_secs = now_secs();
        let age = now_secs - self.read_at.load(Ordering::Relaxed);
        if !(0..READ_EVERY_SECS).contains(&age) {
            self.read.lock().clear();
            self.read_at.store(now_secs, Ordering::Relaxed);
        }
        let mut unread = Vec::new();
        for domain in self.domains(domain)? {
            if self.read.lock().contains(&domain) {
                continue;
            }
            if let Err(error) = self.reconcile(&domain) {
                let (domain, error) = (domain.to_string(), error.to_string());
                unread.push(UnreadDomain { domain, error });
            }
        }
        Ok(unread)
    }

    /// The same of a domain that has not been read since it may have changed.
    ///
    /// # Errors
    /// As [`Retention::reconcile`].
    pub(super) fn read_once(&self, domain: &Name) -> Result<()> {
        if self.read.lock().contains(domain) { Ok(()) } else { self.reconcile(domain) }
    }

    /// Makes what is known of a domain what its repository has: the repository is right.
    ///
    /// # Errors
    /// When it cannot be read; [`Error::Catalog`].
    pub(super) fn reconcile(&self, domain: &Name) -> Result<()> {
        // First: what is committed from now on is read the next time.
        self.read.lock().insert(domain.clone());
        let done = self.read_repository(domain);
        if done.is_err() {
            self.read.lock().remove(domain);
        }
        done
    }

    /// Compares what is known with the names that each repository has: who forgets on its machine tells no server. What
    /// is gone protects nothing any more, and what is new is read when somebody asks. Of a repository that cannot be
    /// listed everything stays known. Blocks.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn compare_names(&self) -> Result<()> {
        for domain in self.domains(None)? {
            match self.drop_gone(&domain) {
                Ok((_, new)) if new.is_empty() => {}
                Ok(_) => self.has_changed(domain.as_str()),
                Err(error) => {
                    tracing::debug!(%error, %domain, "cannot list the snapshots of a domain");
                }
            }
        }
        Ok(())
    }

    /// Drops from what is known of a domain the snapshots that its repository does not have. Returns what is known, and
    /// the names that are not, or not well.
    ///
    /// # Errors
    /// When the repository cannot be listed: then nothing is dropped; [`Error::Catalog`].
    fn drop_gone(&self, domain: &Name) -> Result<(Arc<Vec<Facts>>, Vec<SnapshotRef>)> {
        // First: what is committed and noted while the names are listed is not in the list, and is not gone.
        let known = self.table.of(domain.as_str())?;
        let names = self.store.names(domain)?;
        let there: BTreeSet<_> = names.iter().map(|name| name.id).collect();
        let gone = known.iter().map(|one| one.id).filter(|id| !there.contains(id));
        self.table.note(domain.as_str(), &[], &gone.collect::<Vec<_>>())?;
        let is_read = |one: &&Facts| one.suspect.as_deref() != Some(facts::UNREAD);
        let read: BTreeSet<_> = known.iter().filter(is_read).map(|one| one.id).collect();
        let new = names.into_iter().filter(|name| !read.contains(&name.id)).collect();
        Ok((known, new))
    }

    fn read_repository(&self, domain: &Name) -> Result<()> {
        let (known, new) = self.drop_gone(domain)?;
        let known: BTreeMap<SnapshotId, &Facts> = known.iter().map(|one| (one.id, one)).collect();
        let is_new = |one: &Facts| known.get(&one.id).is_none_or(|old| !is_same(old, one));
        // What was read is kept, if the storage server of the domain goes away in the middle.
        new.chunks(READ_AT_ONCE).try_for_each(|some| {
            let found = self.store.facts(domain, some)?.into_iter();
            self.table.note(domain.as_str(), &found.filter(is_new).collect::<Vec<_>>(), &[])
        })
    }

    /// All snapshots that are known, or those of a domain, as they are judged at a time.
    pub(super) fn judged(&self, domain: Option<&str>, now: Reading) -> Result<Vec<Judged>> {
        self.judged_where(now, |name, _| domain.is_none_or(|wanted| wanted == name))
    }

    /// Those of the domains that are wanted, by their name and what is known of their snapshots. A domain is judged as
    /// a whole; very many are shared among the processors.
    fn judged_where(
        &self,
        now: Reading,
        is_wanted: impl Fn(&str, &[Facts]) -> bool,
    ) -> Result<Vec<Judged>> {
        let (stored, rules) = self.rules()?;
        let domains = self.table.all()?;
        let wanted = domains.iter().filter(|(name, known)| is_wanted(name, known));
        let wanted: Vec<_> = wanted.collect();
        let judge = |(name, known): &(&String, &Arc<Vec<Facts>>)| -> Vec<Judged> {
            let bound: Vec<_> = known.iter().map(|one| stored.site.bound(one.clone())).collect();
            let verdicts = rules.evaluate(&bound, now);
            let judged = |(facts, verdict)| Judged { domain: (*name).clone(), facts, verdict };
            bound.into_iter().zip(verdicts).map(judged).collect()
        };
        let count: usize = wanted.iter().map(|(_, known)| known.len()).sum();
        if count < SHARED_FROM {
            return Ok(wanted.iter().flat_map(judge).collect());
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let part = wanted.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let judge_all = |some: &[_]| some.iter().flat_map(judge).collect::<Vec<_>>();
            // Where the system starts no thread, this one does it.
            let begin = |some| {
                let begun = Builder::new().spawn_scoped(scope, move || judge_all(some));
                begun.map_err(|_| judge_all(some))
            };
            let parts: Vec<_> = wanted.chunks(part).map(begin).collect();
            let ended = |part: ScopedJoinHandle<'_, _>| {
                part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            Ok(parts.into_iter().flat_map(|part| part.map_or_else(|done| done, ended)).collect())
        })
    }
}

/// The one whose id begins so.
pub(super) fn by_id<'a>(all: &'a [Judged], id: &str) -> Result<&'a Judged> {
    let shown: String = id.chars().take(2 * SnapshotId::LEN).collect();
    let mut fitting = all.iter().filter(|one| one.facts.id.begins_with(id));
    match (id.is_empty(), fitting.next(), fitting.next()) {
        (false, Some(one), None) => Ok(one),
        (false, Some(_), Some(_)) => {
            Err(Error::Usage(format!("the ids of several snapshots begin with '{shown}'")))
        }
        _ => Err(crate::error::missing("received snapshot", &shown).into()),
    }
}

/// What the repository says of a snapshot is known already.
pub(super) fn is_same(known: &Facts, read: &Facts) -> bool {
    let source_deleted_secs = known.source_deleted_secs;
    *known == Facts { trashed: known.trashed, source_deleted_secs, ..read.clone() }
}

fn fits(filter: &SnapshotFilter, one: &Judged) -> bool {
    are_wanted(filter, &one.facts)
        && filter.state.is_none_or(|state| state == super::shown::state(&one.verdict))
}

/// The same as far as it can be said before they are judged.
fn are_wanted(filter: &SnapshotFilter, facts: &Facts) -> bool {
    let has = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|it| it == is);
    let policy = if facts.policy.is_empty() { NO_POLICY } else { &facts.policy };
    has(&filter.node, &facts.node)
        && has(&filter.policy, policy)
        && filter.id.as_deref().is_none_or(|id| facts.id.begins_with(id))
}
