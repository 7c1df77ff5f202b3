//! What the policies want, line by line: a policy, a node, a source, and a schedule or none.

use api::Name;
use api::commands::{NewBackup, Task};
use api::jobs::JobPlan;
use catalog::schedules::{NewRun, ScheduleKey};
use jiff::tz::TimeZone;
use schedule::{Level, Occurrence, Schedule, Start, Timetable};
use site::{ChangeDetection, Policy, PolicyType, Site, Source};

/// A node that backups can be expected of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: Name,
    pub(super) domain: Name,
}

/// What is backed up for a policy, whenever it is.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) policy: String,
    pub(super) member: Member,
    pub(super) unit: String,
    pub(super) priority: i64,
    /// The paths, one in a line: what the server calls the source.
    pub(super) source: String,
    /// What its policy calls it.
    pub(super) source_name: String,
    pub(super) class: String,
    task: NewBackup,
}

/// A schedule of a target.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) target: Target,
    pub(super) key: ScheduleKey,
    pub(super) timetable: Timetable,
    /// Nothing happens before this time, unless something else does.
    pub(super) wake_secs: i64,
}

/// All targets of a policy.
pub(super) fn targets(site: &Site, name: &str, policy: &Policy, nodes: &[Member]) -> Vec<Target> {
    if policy.kind != PolicyType::Files {
        return Vec::new();
    }
    let enrolled = nodes.iter().map(|node| node.name.to_string()).collect();
    let chosen = site.members(policy, &enrolled);
    let is_chosen = |member: &&Member| chosen.contains(member.name.as_str());
    let of = |member: &Member| {
        let sources = policy.sources();
        let target = |(called, source): (&str, Source)| {
            target(site, (name, policy), member, (called, source))
        };
        sources.into_iter().filter(|(_, source)| source.stream.is_none()).map(target).collect()
    };
    nodes.iter().filter(is_chosen).flat_map(|member| -> Vec<Target> { of(member) }).collect()
}

fn target(
    site: &Site,
    (name, policy): (&str, &Policy),
    member: &Member,
    (called, source): (&str, Source),
) -> Target {
    let mut task = NewBackup::of(member.name.clone(), source.paths);
    task.excludes = source.excludes;
    task.full = policy.change_detection == ChangeDetection::Full;
    Target {
        policy: name.to_owned(),
        member: member.clone(),
        unit: policy.unit().to_owned(),
        priority: policy.priority.into(),
        source: source_key(&task.paths),
        source_name: called.to_owned(),
        class: site.class_of(policy).to_owned(),
        task,
    }
}

/// What jobs call a source: its paths, one in a line.
pub(crate) fn source_key(paths: &[String]) -> String {
    paths.join("\n")
}

/// All lines of a site. A schedule whose time zone this machine does not know is reported and left out.
pub(super) fn lines(site: &Site, nodes: &[Member]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, policy) in &site.policies {
        let targets = targets(site, name, policy, nodes);
        for schedule_name in &policy.schedules {
            let schedule = site.schedules.get(schedule_name);
            let Some(timetable) = schedule.and_then(|schedule| timetable(schedule_name, schedule))
            else {
                continue;
            };
            lines.extend(targets.iter().map(|target| line(target, schedule_name, &timetable)));
        }
    }
    lines
}

fn timetable(name: &str, schedule: &Schedule) -> Option<Timetable> {
    let zone = TimeZone::get(&schedule.zone.0);
    let zone = zone.inspect_err(|error| tracing::error!(%error, name, "the zone of a schedule"));
    let timetable = Timetable::new(schedule.clone(), zone.ok()?);
    timetable.inspect_err(|error| tracing::error!(%error, name, "a schedule")).ok()
}

fn line(target: &Target, schedule: &str, timetable: &Timetable) -> Line {
    let key = ScheduleKey {
        policy: target.policy.clone(),
        schedule: schedule.to_owned(),
        node: target.member.name.to_string(),
        source: target.source.clone(),
    };
    Line { target: target.clone(), key, timetable: timetable.clone(), wake_secs: i64::MIN }
}

impl Target {
    /// Its run, started by hand now.
    pub(super) fn by_hand(&self, now_secs: i64) -> NewRun {
        self.run(self.plan(None, now_secs), Level::Incremental)
    }

    fn plan(&self, schedule: Option<&str>, due: i64) -> JobPlan {
        JobPlan {
            policy: self.policy.clone(),
            schedule: schedule.map(str::to_owned),
            source: self.source.clone(),
            source_name: self.source_name.clone(),
            class: self.class.clone(),
            unit: self.unit.clone(),
            priority: self.priority,
            due,
            until: None,
            attempt: 1,
            late: false,
            runs: 1,
        }
    }

    fn run(&self, plan: JobPlan, level: Level) -> NewRun {
        let mut task = self.task.clone();
        task.full |= level == Level::Complete;
        let (node, domain) = (self.member.name.to_string(), self.member.domain.to_string());
        NewRun { node, domain, plan, task: Task::Backup(task) }
    }
}

impl Line {
    /// The run that starts.
    pub(super) fn due(&self, start: &Start) -> NewRun {
        let plan = JobPlan {
            until: (start.until_secs < i64::MAX).then_some(start.until_secs),
            attempt: start.attempt,
            late: start.is_late,
            ..self.target.plan(Some(&self.key.schedule), start.due_secs)
        };
        self.target.run(plan, start.level)
    }

    /// Runs that were missed, as one entry: none if there are none.
    pub(super) fn missed(&self, missed: &[Occurrence]) -> Option<NewRun> {
        let (first, last) = (missed.first()?, missed.last()?);
        let plan = JobPlan {
            until: Some(last.due_secs),
            runs: u32::try_from(missed.len()).unwrap_or(u32::MAX),
            ..self.target.plan(Some(&self.key.schedule), first.due_secs)
        };
        Some(self.target.run(plan, Level::Incremental))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use site::Kind;

    #[test]
    fn a_group_of_all_nodes_leaves_none_out() {
        let mut site = Site::default();
        let mut set = |kind, name: &str, body| site.set(kind, name, &body).unwrap();
        set(Kind::Group, "every", json!({"all": true}));
        set(Kind::Group, "outer", json!({"groups": ["every"]}));
        set(Kind::Policy, "etc", json!({"groups": ["outer"], "paths": ["/etc"]}));
        let node =
            |name: &str| Member { name: name.parse().unwrap(), domain: name.parse().unwrap() };
        let nodes = ["db", "web"].map(node);
        let targets = targets(&site, "etc", &site.policies["etc"], &nodes);
        let names: Vec<_> = targets.iter().map(|target| target.member.name.as_str()).collect();
        assert_eq!(names, ["db", "web"]);
    }

    #[test]
    fn a_job_knows_what_its_policy_calls_the_source_and_its_class() {
        let mut site = Site::default();
        let mut set = |kind, name: &str, body| site.set(kind, name, &body).unwrap();
        set(Kind::Retention, "long", json!({"class": {"years": {}}}));
        let logs = json!({"logs": {"paths": ["/var/log"]}});
        let body =
            json!({"nodes": ["web"], "paths": ["/etc"], "source": logs, "retention": "long"});
        set(Kind::Policy, "all", body);
        let web = "web".parse().unwrap();
        let member = [Member { name: web, domain: "web".parse().unwrap() }];
        let targets = targets(&site, "all", &site.policies["all"], &member);
        let plans = targets.iter().map(|target| target.by_hand(0).plan);
        let named: Vec<_> = plans.map(|plan| (plan.source, plan.source_name, plan.class)).collect();
        let expected = [("/etc", "main", "years"), ("/var/log", "logs", "years")];
        assert_eq!(named, expected.map(|(a, b, c)| (a.into(), b.into(), c.into())));
    }
}
