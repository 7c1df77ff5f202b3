//! The days to come of a policy.

use super::Retention;
use crate::sites::zone;
use crate::{Error, Result};
use ::retention::{Facts, Simulation as Days};
use api::retention::{SimulatedDay, Simulation, SimulationQuery};
use clock::{Reading, civil};
use ids::SnapshotId;
use jiff::tz::TimeZone;
use schedule::Timetable;
use site::{Policy, Site};
use std::collections::{BTreeMap, BTreeSet};

const DAYS_DEFAULT: u32 = 365;
const DAYS_MAX: u32 = 3_660;
/// Backups to come, and snapshots judged on all days together, that a simulation looks at: some seconds.
const ARRIVALS_MAX: usize = 200_000;
const JUDGED_MAX: usize = 20_000_000;

impl Retention {
    /// What there is at the end of each of the next days, if the policy, its schedules and its nodes stay as they are
    /// and each backup is complete.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such policy, or if that would take too long; as [`Retention::snapshots`].
    pub(crate) fn simulate(&self, policy: &str, wanted: &SimulationQuery) -> Result<Simulation> {
        self.catch_up(None)?;
        let now = self.clock.read()?;
        let (stored, rules) = self.rules()?;
        let site = &stored.site;
        let Some(found) = site.policies.get(policy) else {
            let list = "icecore server policy list";
            return Err(Error::Usage(format!("there is no policy '{policy}': {list}")));
        };
        let zone = retention_zone(site, found)?;
        let days = wanted.days.unwrap_or(DAYS_DEFAULT).clamp(1, DAYS_MAX);
        let is_meant = |facts: &Facts| {
            facts.policy == policy && wanted.node.as_ref().is_none_or(|node| *node == facts.node)
        };
        let domains = self.table.all()?;
        let known = domains.values().flat_map(|facts| facts.iter());
        let known = known.filter(|facts| is_meant(facts));
        let snapshots: Vec<_> = known.map(|facts| site.bound(facts.clone())).collect();
        let until_secs = now.secs.saturating_add(i64::from(days) * 86_400);
        let nodes = self.members(found, wanted.node.as_deref())?;
        let arrivals = arrivals(site, (policy, found), &nodes, (now, until_secs))?;
        let arrivals = with_paths(arrivals, &snapshots);
        too_many(&snapshots, &arrivals, days)?;
        let today = civil::local(&zone, now.secs).date();
        let name = zone.iana_name().unwrap_or("UTC").to_owned();
        let simulated = Days::new(&rules, zone.clone(), today, snapshots.clone(), arrivals.clone());
        let mut counter = Counter::new(&snapshots, &arrivals, &zone);
        let days = simulated.take(days as usize).map(|day| counter.day(&day)).collect();
        Ok(Simulation { policy: policy.to_owned(), zone: name, days })
    }

    fn members(&self, policy: &Policy, only: Option<&str>) -> Result<Vec<String>> {
        let stored = self.sites.stored()?;
        let nodes = self.catalog.nodes()?.into_iter().filter(|node| !node.revoked);
        let enrolled: BTreeSet<String> = nodes.map(|node| node.name.to_string()).collect();
        let members = stored.site.members(policy, &enrolled).into_iter();
        let members = members.filter(|node| only.is_none_or(|only| only == *node));
        Ok(members.map(|node| node.to_string()).collect())
    }
}

fn retention_zone(site: &Site, policy: &Policy) -> Result<TimeZone> {
    let retention = policy.retention.as_ref().and_then(|name| site.retentions.get(name));
    let name = retention.map_or("UTC", |retention| retention.zone.as_str());
    zone(name).ok_or_else(|| Error::Usage(format!("this machine knows no time zone '{name}'")))
}

fn too_many(snapshots: &[Facts], arrivals: &[Facts], days: u32) -> Result<()> {
    // Half of the arrivals are there on an average day, if none goes.
    let judged = (snapshots.len() + arrivals.len() / 2).saturating_mul(days as usize);
    if arrivals.len() < ARRIVALS_MAX && judged <= JUDGED_MAX {
        return Ok(());
    }
    let what = "these are too many snapshots to simulate so many days; name a node (--node) or fewer days (--days)";
    Err(Error::Usage(what.to_owned()))
}

/// Backups to come show the paths that the newest one of their source shows.
fn with_paths(arrivals: Vec<Facts>, snapshots: &[Facts]) -> Vec<Facts> {
    let mut newest: BTreeMap<(&str, &str), &Facts> = BTreeMap::new();
    for one in snapshots.iter().filter(|one| !one.is_partial && one.paths.is_some()) {
        let known = newest.entry((&one.node, &one.source)).or_insert(one);
        if known.received_secs < one.received_secs {
            *known = one;
        }
    }
    let paths = |one: &Facts| newest.get(&(&*one.node, &*one.source)).and_then(|one| one.paths);
    arrivals.into_iter().map(|one| Facts { paths: paths(&one), ..one }).collect()
}

/// The backups that the schedules of a policy will bring.
fn arrivals(
    site: &Site,
    (name, policy): (&str, &Policy),
    nodes: &[String],
    (now, until_secs): (Reading, i64),
) -> Result<Vec<Facts>> {
    let mut due = BTreeSet::new();
    for schedule in policy.schedules.iter().filter_map(|name| site.schedules.get(name)) {
        let zone = zone(&schedule.zone.0);
        let zone =
            zone.ok_or_else(|| Error::Usage("this machine knows no such zone".to_owned()))?;
        let timetable = Timetable::new(schedule.clone(), zone);
        let timetable = timetable.map_err(|error| Error::Usage(error.to_string()))?;
        let times = timetable.occurrences(now.secs).map(|run| run.due_secs);
        due.extend(times.take_while(|secs| *secs < until_secs).take(ARRIVALS_MAX));
        let aged = schedule.older_than.map_or(i64::MAX, |span| span.signed_secs().max(60));
        let steps = std::iter::successors(Some(now.secs), |secs| secs.checked_add(aged));
        due.extend(steps.skip(1).take_while(|secs| *secs < until_secs).take(ARRIVALS_MAX));
    }
    let class = site.class_of(policy);
    let mut arrivals = Vec::new();
    for node in nodes {
        for (source, _) in policy.sources() {
            for secs in due.iter().take(ARRIVALS_MAX.saturating_sub(arrivals.len())) {
                let number = arrivals.len() as u64;
                arrivals.push(arrival(number, [node, source, name, class], *secs));
            }
        }
    }
    Ok(arrivals)
}

/// A backup to come. Its id is no hash: those of two arrivals differ, and nobody sees it.
fn arrival(number: u64, [node, source, policy, class]: [&str; 4], received_secs: i64) -> Facts {
    let mut id = SnapshotId([0xff; SnapshotId::LEN]);
    id.0[SnapshotId::LEN - 8..].copy_from_slice(&number.to_be_bytes());
    Facts {
        id,
        number: u64::MAX / 2 + number,
        node: node.to_owned(),
        source: source.to_owned(),
        policy: policy.to_owned(),
        class: class.to_owned(),
        received_secs,
        is_partial: false,
        suspect: None,
        tags: None,
        locked_until_secs: None,
        paths: None,
        has_deleted_objects: None,
        source_deleted_secs: None,
        trashed: None,
    }
}

/// Counts what a simulation says of each day.
struct Counter<'a> {
    existing: BTreeSet<SnapshotId>,
    in_trash: BTreeSet<SnapshotId>,
    arrivals: Vec<i64>,
    zone: &'a TimeZone,
}

impl<'a> Counter<'a> {
    fn new(snapshots: &[Facts], arrivals: &[Facts], zone: &'a TimeZone) -> Self {
        let mut times: Vec<i64> = arrivals.iter().map(|one| one.received_secs).collect();
        times.sort_unstable();
        let trashed = snapshots.iter().filter(|one| one.trashed.is_some());
        Self {
            existing: snapshots.iter().map(|one| one.id).collect(),
            in_trash: trashed.map(|one| one.id).collect(),
            arrivals: times,
            zone,
        }
    }

    fn day(&mut self, day: &::retention::Day) -> SimulatedDay {
        let begin = civil::start_of_day(self.zone, day.day);
        let end = day.day.tomorrow().map_or(i64::MAX, |next| civil::start_of_day(self.zone, next));
        let before = |secs: i64| self.arrivals.partition_point(|time| *time < secs);
        let received = (before(end) - before(begin)) as u64;
        let existing = |ids: &[SnapshotId]| -> Vec<String> {
            ids.iter().filter(|id| self.existing.contains(id)).map(ToString::to_string).collect()
        };
        let fresh = day.trash.iter().filter(|id| !self.in_trash.contains(id));
        let fresh: Vec<_> = fresh.copied().collect();
        let (trashed, expired) = (existing(&fresh), existing(&day.expired));
        self.in_trash = day.trash.iter().copied().collect();
        let (kept, trash) = (day.kept.len() as u64, day.trash.len() as u64);
        SimulatedDay { day: day.day.to_string(), received, kept, trash, trashed, expired }
    }
}
