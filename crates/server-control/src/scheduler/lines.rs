//! What the policies want, line by line: a policy, a node, a source, and a schedule or none.

use api::Name;
use api::commands::{NewBackup, Task};
use api::jobs::{JobPlan, StartPolicy};
use api::options::OptionValue;
use catalog::schedules::{NewRun, ScheduleKey};
use jiff::tz::TimeZone;
use schedule::{Level, Occurrence, Schedule, Start, Timetable};
use site::{ChangeDetection, MAIN_SOURCE, Part, Policy, Said, Site, Source};

/// Who says an option that was given with a start.
const BY_HAND: &str = "the start of this job";

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
    /// The paths, one in a line: what the server calls the source. Of a stream `stream NAME`, and of a class that is
    /// not the usual one with a last line `class NAME`.
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
    /// From when on a catch-up reads what changed.
    since_secs: Option<i64>,
    /// Nothing happens before this time, unless something else does.
    pub(super) wake_secs: i64,
}

/// All targets of a policy: one for each node, source and class.
pub(super) fn targets(site: &Site, name: &str, policy: &Policy, nodes: &[Member]) -> Vec<Target> {
    let enrolled = nodes.iter().map(|node| node.name.to_string()).collect();
    let chosen = site.members(policy, &enrolled);
    let members = nodes.iter().filter(|member| chosen.contains(member.name.as_str()));
    let parts = policy.parts(site.class_of(policy));
    let of = |member: &Member| {
        let base = Target::new(site, (name, policy), member);
        let of_source = |(called, source): (&str, Source)| base.of_source(called, &source, &parts);
        policy.sources().into_iter().flat_map(of_source).collect::<Vec<_>>()
    };
    members.flat_map(of).collect()
}

impl Target {
    /// What all sources of a policy on a node have in common.
    fn new(site: &Site, (name, policy): (&str, &Policy), member: &Member) -> Self {
        let mut task = NewBackup::of(member.name.clone(), Vec::new());
        task.full = policy.change_detection == ChangeDetection::Full;
        task.ignore_inode = policy.change_detection == ChangeDetection::IgnoreInode;
        task.has_options = true;
        let said = site.options_of_job(name, policy, member.name.as_str());
        for (option, Said { option: value, origin }) in said {
            let force = value.force;
            let values = value.value.texts();
            task.options.insert(option.clone(), OptionValue { values, force });
            task.origins.insert(option, origin);
        }
        Self {
            policy: name.to_owned(),
            member: member.clone(),
            unit: policy.unit().to_owned(),
            priority: policy.priority.into(),
            source: String::new(),
            source_name: String::new(),
            class: site.class_of(policy).to_owned(),
            task,
        }
    }

    /// One for each class that the source may have anything of. A stream is of the usual class.
    fn of_source(&self, called: &str, source: &Source, parts: &[Part]) -> Vec<Self> {
        let (source_name, key) = (called.to_owned(), source_key(source));
        let mut whole = Self { source_name, source: key, ..self.clone() };
        if let Some(stream) = &source.stream {
            whole.task.stream = Some(stream.clone());
            return vec![whole];
        }
        whole.task.paths.clone_from(&source.paths);
        whole.task.excludes.clone_from(&source.excludes);
        let parts = parts.iter().filter(|part| part.may_have(&source.paths));
        parts.map(|part| whole.of_part(part)).collect()
    }

    fn of_part(&self, part: &Part) -> Self {
        let mut target = self.clone();
        if part.only.is_empty() {
            return target;
        }
        target.task.only.clone_from(&part.only);
        let is_usual = part.class == self.class;
        target.task.series = Some(if is_usual { String::new() } else { part.class.clone() });
        if !is_usual {
            target.class.clone_from(&part.class);
            target.source += &class_line(&part.class);
        }
        target
    }
}

/// What jobs call a source; of a class that is not the usual one, that class of it.
pub(crate) fn class_key(source: &Source, class: Option<&str>) -> String {
    source_key(source) + &class.map_or_else(String::new, class_line)
}

fn class_line(class: &str) -> String {
    format!("\nclass {class}")
}

/// What jobs call a source: its paths, one in a line; a stream by its name.
fn source_key(source: &Source) -> String {
    source.stream.as_ref().map_or_else(|| source.paths.join("\n"), |name| format!("stream {name}"))
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

fn timetable(name: &str, schedule: &Schedule) -> Option<(Timetable, Option<i64>)> {
    let zone = TimeZone::get(&schedule.zone.0);
    let zone = zone.inspect_err(|error| tracing::error!(%error, name, "the zone of a schedule"));
    let zone = zone.ok()?;
    let since = schedule.since.and_then(|day| day.begins_secs(&zone));
    let timetable = Timetable::new(schedule.clone(), zone);
    let timetable = timetable.inspect_err(|error| tracing::error!(%error, name, "a schedule"));
    Some((timetable.ok()?, since))
}

fn line(
    target: &Target,
    schedule: &str,
    (timetable, since_secs): &(Timetable, Option<i64>),
) -> Line {
    let key = ScheduleKey {
        policy: target.policy.clone(),
        schedule: schedule.to_owned(),
        node: target.member.name.to_string(),
        source: target.source.clone(),
    };
    let (target, timetable, since_secs) = (target.clone(), timetable.clone(), *since_secs);
    Line { target, key, timetable, since_secs, wake_secs: i64::MIN }
}

impl Target {
    /// Its run, started by hand now, with what an administrator wants otherwise; `None` if other paths are wanted and this is another
    /// source than the policy's own.
    pub(super) fn by_hand(&self, now_secs: i64, wanted: &StartPolicy) -> Option<NewRun> {
        let mut target = self.clone();
        if !wanted.paths.is_empty() {
            let is_whole = self.task.only.is_empty() && self.source_name == MAIN_SOURCE;
            target.source = Some(wanted.paths.join("\n")).filter(|_| is_whole)?;
            target.task.paths.clone_from(&wanted.paths);
        }
        target.task.full |= wanted.complete;
        for (name, value) in &wanted.options {
            let forced = OptionValue { force: true, ..value.clone() };
            target.task.options.insert(name.clone(), forced);
            target.task.origins.insert(name.clone(), BY_HAND.to_owned());
        }
        target.priority = wanted.priority.map_or(self.priority, i64::from);
        let level = if wanted.since.is_some() { Level::CatchUp } else { Level::Incremental };
        Some(target.run(target.plan(None, now_secs), level, wanted.since))
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

    fn run(&self, plan: JobPlan, level: Level, since: Option<i64>) -> NewRun {
        let mut task = self.task.clone();
        task.full |= level == Level::Complete;
        task.since = since.filter(|_| level == Level::CatchUp);
        // Without its day a catch-up would read too little.
        task.full |= level == Level::CatchUp && since.is_none();
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
        self.target.run(plan, start.level, self.since_secs)
    }

    /// Runs that were missed, as one entry: none if there are none.
    pub(super) fn missed(&self, missed: &[Occurrence]) -> Option<NewRun> {
        let (first, last) = (missed.first()?, missed.last()?);
        let plan = JobPlan {
            until: Some(last.due_secs),
            runs: u32::try_from(missed.len()).unwrap_or(u32::MAX),
            ..self.target.plan(Some(&self.key.schedule), first.due_secs)
        };
        Some(self.target.run(plan, Level::Incremental, None))
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
        set(Kind::Retention, "long", json!({"class": {"years": {"keep_yearly": 3}}}));
        let logs = json!({"logs": {"paths": ["/var/log"]}});
        let body =
            json!({"nodes": ["web"], "paths": ["/etc"], "source": logs, "retention": "long"});
        set(Kind::Policy, "all", body);
        let web = "web".parse().unwrap();
        let member = [Member { name: web, domain: "web".parse().unwrap() }];
        let targets = targets(&site, "all", &site.policies["all"], &member);
        let plans = targets.iter().filter_map(|target| target.by_hand(0, &StartPolicy::default()));
        let plans = plans.map(|run| run.plan);
        let named: Vec<_> = plans.map(|plan| (plan.source, plan.source_name, plan.class)).collect();
        let expected = [("/etc", "main", "years"), ("/var/log", "logs", "years")];
        assert_eq!(named, expected.map(|(a, b, c)| (a.into(), b.into(), c.into())));
    }
}
