//! Which upkeep there is, and when it is due.

use catalog::upkeep::{NewUpkeepJob, UpkeepKey, UpkeepSettlement};
use jiff::tz::TimeZone;
use schedule::{Next, Schedule, Situation, Timetable};
use site::{DEFAULT_UPKEEP, Percent, Site, Upkeep, UpkeepTask};

/// When the default upkeep is due: nights are quiet, Sundays quieter.
const DEFAULT_AT: &str = "02:00";
const DEFAULT_ON: &str = "sunday";
/// Servers of one site do not begin at once.
const DEFAULT_JITTER: &str = "1 hour";
/// A twentieth a week: everything is read in less than half a year.
const DEFAULT_SAMPLE: Percent = Percent(500);

/// An upkeep with the schedules by which it is due.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) upkeep: Upkeep,
    schedules: Vec<(String, Schedule)>,
}

impl Part {
    /// Jobs for its tasks, or for one of them, in a domain.
    pub(super) fn jobs(&self, domain: &str, only: Option<UpkeepTask>) -> Vec<NewUpkeepJob> {
        let mut tasks = self.upkeep.tasks.clone();
        // A copy is checked by default, or by hand.
        if only == Some(UpkeepTask::CheckCopy) && self.upkeep.tasks.contains(&UpkeepTask::Copy) {
            tasks = vec![UpkeepTask::CheckCopy];
        }
        let tasks = tasks.into_iter().filter(|task| only.is_none_or(|only| only == *task));
        let job = |task: UpkeepTask| NewUpkeepJob {
            upkeep: self.name.clone(),
            schedule: None,
            domain: domain.to_owned(),
            task: task.name().to_owned(),
            until: None,
            to: None,
        };
        tasks.map(job).collect()
    }
}

/// A schedule of an upkeep for one domain.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) key: UpkeepKey,
    pub(super) part: Part,
    timetable: Timetable,
    /// It works in its windows only.
    has_window: bool,
}

impl Line {
    /// What is to be recorded: a schedule that is new applies from now on, and what is due is queued.
    pub(super) fn settle(&self, settled: Option<i64>, now_secs: i64) -> Option<UpkeepSettlement> {
        let key = self.key.clone();
        let Some(before) = settled else {
            return Some(UpkeepSettlement {
                key,
                before: None,
                settled: now_secs,
                jobs: Vec::new(),
            });
        };
        let decision = self.decide(before, now_secs);
        let start = match decision.next {
            Next::Due(start) => Some(start),
            Next::NotBefore(_) | Next::Waiting(_) => None,
        };
        if start.is_none() && decision.settled_secs == before {
            return None;
        }
        let until = start.map(|start| start.until_secs).filter(|until| *until < i64::MAX);
        let until = until.filter(|_| self.has_window);
        let schedule = Some(self.key.schedule.clone());
        let jobs = start.map(|_| self.part.jobs(&self.key.domain, None)).unwrap_or_default();
        let jobs =
            jobs.into_iter().map(|job| NewUpkeepJob { until, schedule: schedule.clone(), ..job });
        let settled = decision.settled_secs;
        Some(UpkeepSettlement { key, before: Some(before), settled, jobs: jobs.collect() })
    }

    /// When it is due next.
    pub(super) fn next_secs(&self, settled: Option<i64>, now_secs: i64) -> Option<i64> {
        match self.decide(settled.unwrap_or(now_secs), now_secs).next {
            Next::Due(start) => Some(start.due_secs),
            Next::NotBefore(secs) => Some(secs),
            Next::Waiting(_) => None,
        }
    }

    fn decide(&self, settled_secs: i64, now_secs: i64) -> schedule::Decision {
        // A job that still runs is found by the queue, which has one for each task and domain.
        let situation = Situation {
            settled_secs,
            is_running: false,
            failed: None,
            last_complete_secs: None,
            is_seen: true,
        };
        let UpkeepKey { upkeep, schedule, domain } = &self.key;
        let text = format!("{upkeep}\0{schedule}\0{domain}");
        self.timetable.decide(&text, clock::Reading::certain(now_secs), &situation)
    }
}

/// All upkeeps: those that are declared, and the default one unless it is.
pub(super) fn upkeeps(site: &Site) -> Vec<Part> {
    let declared = site.upkeeps.iter().map(|(name, upkeep)| {
        let schedule = |name: &String| Some((name.clone(), site.schedules.get(name)?.clone()));
        let schedules = upkeep.schedules.iter().filter_map(schedule).collect();
        Part { name: name.clone(), upkeep: upkeep.clone(), schedules }
    });
    let mut all: Vec<_> = declared.collect();
    if !site.upkeeps.contains_key(DEFAULT_UPKEEP) {
        all.push(default_upkeep());
    }
    all
}

fn default_schedule() -> Schedule {
    Schedule {
        at: DEFAULT_AT.parse().into_iter().collect(),
        on: DEFAULT_ON.parse().into_iter().collect(),
        jitter: DEFAULT_JITTER.parse().ok(),
        ..Schedule::default()
    }
}

/// What is done where nobody declares anything.
fn default_upkeep() -> Part {
    Part {
        name: DEFAULT_UPKEEP.to_owned(),
        upkeep: Upkeep {
            // What expires does so once a day, without a job.
            tasks: vec![UpkeepTask::Reclaim, UpkeepTask::Check],
            sample: Some(DEFAULT_SAMPLE),
            ..Upkeep::default()
        },
        schedules: vec![("weekly".to_owned(), default_schedule())],
    }
}

/// The share of a copy that one check reads: what is declared, or by default as much as of a domain.
pub(super) fn copy_sample(upkeep: &Upkeep) -> Option<Percent> {
    let is_declared = upkeep.tasks.contains(&UpkeepTask::CheckCopy);
    upkeep.sample.or_else(|| (!is_declared).then_some(DEFAULT_SAMPLE))
}

/// The checks of copies that the default upkeep does: those of directories that no other upkeep with a schedule reads.
/// Who reads from a bucket may have to pay for it.
fn default_checks(site: &Site, domain: &str) -> Vec<Part> {
    if site.upkeeps.contains_key(DEFAULT_UPKEEP) {
        return Vec::new();
    }
    let covering = || site.upkeeps.iter().filter(|(_, it)| it.covers(domain));
    let is_read = |to: &str| {
        let reads =
            |it: &Upkeep| it.tasks.contains(&UpkeepTask::CheckCopy) && !it.schedules.is_empty();
        covering().any(|(_, it)| it.to.as_deref() == Some(to) && reads(it))
    };
    let copying = covering().filter(|(_, it)| it.tasks.contains(&UpkeepTask::Copy));
    let unread = copying
        .filter(|(_, it)| it.to.as_deref().is_some_and(|to| to.starts_with('/') && !is_read(to)));
    let part = |(name, upkeep): (&String, &Upkeep)| Part {
        name: name.clone(),
        upkeep: Upkeep { tasks: vec![UpkeepTask::CheckCopy], ..upkeep.clone() },
        // No schedule of a site can have this name.
        schedules: vec![("weekly by default".to_owned(), default_schedule())],
    };
    unread.map(part).collect()
}

/// All lines of a site. The default upkeep does in a domain what no declared one with a schedule does there.
pub(super) fn lines(site: &Site, domains: &[String]) -> Vec<Line> {
    let upkeeps = upkeeps(site);
    let checks = |domain: &String| {
        let parts = default_checks(site, domain).into_iter();
        parts.flat_map(|part| lines_of(&part, domain)).collect::<Vec<_>>()
    };
    let mut lines: Vec<_> = domains.iter().flat_map(checks).collect();
    for part in &upkeeps {
        for domain in domains.iter().filter(|domain| part.upkeep.covers(domain)) {
            let part = if site.upkeeps.contains_key(&part.name) {
                part.clone()
            } else {
                without_declared(part, site, domain)
            };
            if !part.upkeep.tasks.is_empty() {
                lines.extend(lines_of(&part, domain));
            }
        }
    }
    lines
}

/// The default upkeep, without the tasks that another one does in this domain.
fn without_declared(part: &Part, site: &Site, domain: &str) -> Part {
    let does = |task: &UpkeepTask| {
        let covering = site.upkeeps.values().filter(|upkeep| upkeep.covers(domain));
        covering.into_iter().any(|it| it.tasks.contains(task) && !it.schedules.is_empty())
    };
    let mut part = part.clone();
    part.upkeep.tasks.retain(|task| !does(task));
    part
}

fn lines_of(part: &Part, domain: &str) -> Vec<Line> {
    let line = |(name, schedule): &(String, Schedule)| {
        let zone = TimeZone::get(&schedule.zone.0);
        let zone =
            zone.inspect_err(|error| tracing::error!(%error, name, "the zone of a schedule"));
        let timetable = Timetable::new(schedule.clone(), zone.ok()?);
        let timetable =
            timetable.inspect_err(|error| tracing::error!(%error, name, "a schedule")).ok()?;
        Some(Line {
            key: UpkeepKey {
                upkeep: part.name.clone(),
                schedule: name.clone(),
                domain: domain.to_owned(),
            },
            part: part.clone(),
            timetable,
            has_window: !schedule.window.is_empty(),
        })
    };
    part.schedules.iter().filter_map(line).collect()
}
