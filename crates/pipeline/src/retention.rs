//! Retention: which snapshots of each source are kept, and forgetting the others.
//!
//! Other groups are possible: backups whose paths change count as many sources.
//!
//! The rules are those of the crate `retention`; here they meet snapshots whose time may be in doubt.
//! Pure except for [`UnlockedRepository::forget`] and [`UnlockedRepository::decide`]: the day of a time depends on the time zone, so
//! the caller passes the calendar. A policy that would keep nothing of a source is refused, because
//! nobody means that.
//!
//! See [`crate::effective_time`] for the time that a snapshot counts for.

mod groups;
mod roots;

pub use ::retention::{CalendarTime, Keep, KeepRules as RetentionPolicy, KeepWithin};
pub use groups::{Group, GroupBy, GroupKey};
pub use roots::Roots;

use crate::effective_time::{self, EffectiveTime};
use crate::manifest::{self, Snapshot};
use crate::{Error, Result, UnlockedRepository};
use ::retention::{Candidate, Why};
use format::entry::Time;
use ids::SnapshotId;
use repository::snapshots::SnapshotRef;
use std::collections::{BTreeMap, BTreeSet};

/// Snapshots in one tombstone.
const TOMBSTONE_NAMES_MAX: usize = 4096;

/// Converts a time to the local calendar.
pub type Calendar<'a> = &'a dyn Fn(Time) -> CalendarTime;

/// Whether a snapshot is kept, and why.
#[derive(Clone, Debug)]
pub struct RetentionDecision<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The reasons to keep it; without any it is forgotten.
    pub reasons: Vec<String>,
}

impl Group<'_> {
    /// Whether the rules of the policy would keep nothing of the group.
    pub fn loses_all(&self) -> bool {
        let newest_complete = Why::NewestComplete.to_string();
        let is_own = |why: &String| *why != newest_complete && !why.starts_with(SUSPECT);
        let is_dated = |decision: &RetentionDecision<'_>| decision.suspect_reason().is_none();
        self.decisions.iter().any(is_dated)
            && !self.decisions.iter().any(|decision| decision.reasons.iter().any(is_own))
    }

    /// The newest complete snapshot.
    pub fn newest_complete(&self) -> Option<&Snapshot> {
        let mut snapshots = self.decisions.iter().map(|decision| decision.snapshot);
        snapshots.find(|snapshot| !snapshot.body.partial)
    }
}

impl RetentionDecision<'_> {
    /// Why the snapshot is suspect, if it is.
    pub fn suspect_reason(&self) -> Option<&str> {
        self.reasons.iter().find_map(|why| why.strip_prefix(SUSPECT))
    }
}

const SUSPECT: &str = "suspect: ";

/// Why a snapshot that a rule would keep is not relied on.
pub const UNREADABLE: &str = "its tree cannot be read";

/// A snapshot and its effective time.
type Dated<'a> = (&'a Snapshot, Time);

/// Applies `policy` to the `snapshots` that `takes` selects, separately for each source. Suspect
/// snapshots are kept and push no other out; they are recognized by all snapshots of their source.
pub fn apply<'a>(
    policy: &RetentionPolicy,
    snapshots: &'a [Snapshot],
    takes: &dyn Fn(&Snapshot) -> bool,
    calendar: Calendar<'_>,
    now_secs: i64,
) -> Vec<Group<'a>> {
    let unreadable = BTreeSet::new();
    apply_grouped(GroupBy::SOURCE, policy, snapshots, takes, &unreadable, calendar, now_secs)
}

/// Like [`apply`], separately for each group. Suspect snapshots are always recognized by their
/// source. Those that are `unreadable` are suspect, too.
pub fn apply_grouped<'a>(
    by: GroupBy,
    policy: &RetentionPolicy,
    snapshots: &'a [Snapshot],
    takes: &dyn Fn(&Snapshot) -> bool,
    unreadable: &BTreeSet<SnapshotId>,
    calendar: Calendar<'_>,
    now_secs: i64,
) -> Vec<Group<'a>> {
    let mut sources: BTreeMap<GroupKey<'_>, Vec<&Snapshot>> = BTreeMap::new();
    for snapshot in snapshots {
        sources.entry(GroupBy::SOURCE.key(snapshot)).or_default().push(snapshot);
    }
    let mut groups: BTreeMap<GroupKey<'_>, Members<'_>> = BTreeMap::new();
    for of_source in sources.into_values() {
        distribute(of_source, takes, unreadable, now_secs, by, &mut groups);
    }
    groups
        .into_iter()
        .map(|(key, it)| Group { key, decisions: it.decide(policy, calendar) })
        .collect()
}

/// The snapshots of a group.
#[derive(Default)]
struct Members<'a> {
    /// Those with a known time, the newest of each source first.
    dated: Vec<Dated<'a>>,
    /// Suspect ones, which are kept.
    suspects: Vec<RetentionDecision<'a>>,
}

impl<'a> Members<'a> {
    /// The decisions, the newest snapshot first.
    fn decide(
        mut self,
        policy: &RetentionPolicy,
        calendar: Calendar<'_>,
    ) -> Vec<RetentionDecision<'a>> {
        // Stable: equal times keep the order of the source.
        self.dated.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        self.suspects.append(&mut decide(policy, &self.dated, calendar));
        self.suspects
    }
}

/// Distributes the snapshots of one source that `takes` selects to their groups.
fn distribute<'a>(
    mut snapshots: Vec<&'a Snapshot>,
    takes: &dyn Fn(&Snapshot) -> bool,
    unreadable: &BTreeSet<SnapshotId>,
    now_secs: i64,
    by: GroupBy,
    groups: &mut BTreeMap<GroupKey<'a>, Members<'a>>,
) {
    snapshots
        .sort_by_key(|snapshot| std::cmp::Reverse(effective_time::creation_order(&snapshot.head)));
    let heads: Vec<_> =
        snapshots.iter().map(|snapshot| (snapshot.head, snapshot.receipt.clone())).collect();
    let times = effective_time::effective_times(&heads, now_secs);
    for (snapshot, effective) in snapshots.into_iter().zip(times).filter(|(one, _)| takes(one)) {
        let group = groups.entry(by.key(snapshot)).or_default();
        let effective = match unreadable.contains(&snapshot.id()) {
            true => EffectiveTime::Suspect(UNREADABLE.to_owned()),
            false => effective,
        };
        match effective {
            EffectiveTime::Known(time) => group.dated.push((snapshot, time)),
            EffectiveTime::Suspect(why) => {
                let reasons = vec![format!("{SUSPECT}{why}")];
                group.suspects.push(RetentionDecision { snapshot, reasons });
            }
        }
    }
}

/// Decides on snapshots with a known time, the newest first.
fn decide<'a>(
    policy: &RetentionPolicy,
    newest_first: &[Dated<'a>],
    calendar: Calendar<'_>,
) -> Vec<RetentionDecision<'a>> {
    let candidate = |(snapshot, time): &Dated<'a>| Candidate {
        secs: time.secs,
        civil: calendar(*time),
        is_partial: snapshot.body.partial,
        tags: &snapshot.body.tags,
    };
    let candidates: Vec<_> = newest_first.iter().map(candidate).collect();
    let reasons = ::retention::keep(policy, &candidates);
    let decision = |((snapshot, _), reasons): (&Dated<'a>, Vec<::retention::Reason>)| {
        let reasons = reasons.iter().map(|reason| reason.why.to_string()).collect();
        RetentionDecision { snapshot, reasons }
    };
    newest_first.iter().zip(reasons).map(decision).collect()
}

impl UnlockedRepository {
    /// Forgets snapshots: they leave the list at once, and `reclaim` frees the data that only they
    /// needed. Returns how many there were.
    ///
    /// # Errors
    /// [`Error::NeedsFullKey`] on a server, for all but full keys.
    pub fn forget(&self, names: &[SnapshotRef]) -> Result<u64> {
        match self.local() {
            _ if names.is_empty() => Ok(0),
            Ok(_) => self.forget_here(names).map(|()| names.len() as u64),
            Err(_) => self.forget_there(names),
        }
    }

    /// The snapshots among these that nobody can remove yet, with the ends of their locks in seconds since 1970. On a
    /// server this is what their receipts say; the server itself decides.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn locked(&self, snapshots: &[&Snapshot]) -> Result<Vec<(SnapshotRef, i64)>> {
        if let Ok(here) = self.local() {
            let names: Vec<_> = snapshots.iter().map(|snapshot| snapshot.name).collect();
            return Ok(here.locked(&names)?);
        }
        let now_secs = self.now_secs();
        let lock = |snapshot: &&Snapshot| {
            let until_secs = snapshot.receipt.labels()?.lock?.until_secs;
            (until_secs > now_secs).then_some((snapshot.name, until_secs))
        };
        Ok(snapshots.iter().filter_map(lock).collect())
    }

    /// A key that is bound to a node is to forget nothing of others.
    ///
    /// # Errors
    /// [`Error::BoundKey`]; when one of them cannot be read.
    pub fn refuse_other_nodes(&self, names: &[SnapshotRef]) -> Result<()> {
        if !self.slot.bound {
            return Ok(());
        }
        let mut reader = manifest::ManifestReader::new(self)?;
        names.iter().try_for_each(|name| {
            let node = reader.read(*name)?.body.node;
            self.refuse_other_node(&node)
        })
    }

    fn forget_here(&self, names: &[SnapshotRef]) -> Result<()> {
        self.with_reclaim_lease("forget", |lease| {
            let sealer = self.sealer()?;
            for some in names.chunks(TOMBSTONE_NAMES_MAX) {
                let tombstone = manifest::tombstone(self, &sealer, some)?;
                self.local()?.forget(lease, some, &sealer.session_record(), &tombstone)?;
            }
            Ok(())
        })
    }

    /// A server requires the signature of a full key, so others need not try.
    fn forget_there(&self, names: &[SnapshotRef]) -> Result<u64> {
        if self.keys.certifier.is_none() {
            return Err(Error::NeedsFullKey);
        }
        let sealer = self.sealer()?;
        let mut count = 0;
        for some in names.chunks(TOMBSTONE_NAMES_MAX) {
            let tombstone = manifest::tombstone(self, &sealer, some)?;
            count += self.store.forget(&sealer.session_record(), &tombstone)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
