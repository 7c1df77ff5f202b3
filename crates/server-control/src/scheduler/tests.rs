//! The scheduler beside a model: nodes that come and go, backups that end as they like, servers that are killed.

mod by_hand;
mod sessions;

use super::*;
use crate::Control;
use api::commands::{CommandState, what_of};
use api::jobs::{Job, JobCause, JobFilter, StartPolicy};
use catalog::objects::ObjectChange;
use catalog::tokens::TokenTerms;
use jiff::tz::TimeZone;
use schedule::Timetable;
use serde_json::json;
use server_contract::access_control::JobEnd;
use std::collections::BTreeSet;
use tempfile::TempDir;
use testkit::Random;

/// A server with a clock of its own.
struct Rig {
    folder: TempDir,
    control: Option<Arc<Control>>,
    now: i64,
}

impl Rig {
    fn new(nodes: &[&str], objects: &[(&str, &str, serde_json::Value)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::open(folder.path(), &[]).unwrap();
        nodes.iter().for_each(|node| enroll(&control.catalog, node));
        let put = |(kind, name, body): &(&str, &str, serde_json::Value)| {
            ObjectChange::put(*kind, *name, body.clone())
        };
        let changes: Vec<_> = objects.iter().map(put).collect();
        control.catalog.change_objects(crate::by("test"), 0, &changes).unwrap();
        Self { folder, control: Some(control), now: crate::now_secs() / 86_400 * 86_400 }
    }

    fn control(&self) -> &Arc<Control> {
        self.control.as_ref().unwrap()
    }

    /// The server is killed and started again.
    fn restart(&mut self) {
        drop(self.control.take());
        self.control = Some(Control::open(self.folder.path(), &[]).unwrap());
    }

    /// Some time passes.
    fn after(&mut self, secs: i64) -> &mut Self {
        self.now += secs;
        self.control().scheduler.tick_at(Reading::certain(self.now)).unwrap();
        self
    }

    fn jobs(&self) -> Vec<Job> {
        let filter = JobFilter { limit: Some(1000), ..JobFilter::default() };
        let mut jobs = self.control().jobs.history(&filter).unwrap().jobs;
        jobs.reverse();
        jobs
    }

    fn states(&self) -> Vec<JobState> {
        self.jobs().iter().map(|job| job.state).collect()
    }

    fn last(&self) -> Job {
        self.jobs().pop().unwrap()
    }

    /// The command that the agent of a node has to carry out.
    fn command(&self, node: &str) -> Option<u64> {
        self.control().catalog.open_commands(node).unwrap().first().map(|command| command.id)
    }

    /// The node makes the backup of its command, which ends so.
    fn back_up(&self, node: &str, end: &JobEnd) {
        let command = self.command(node).unwrap();
        let job = self.control().jobs.begin(node, node, "backup", &what_of(command));
        self.control().jobs.end(job, end, "{}");
        self.done(node, command);
    }

    fn done(&self, node: &str, command: u64) {
        let control = self.control();
        control.scheduler.command_done(&control.domains, (node, command), true, "").unwrap();
        let (name, state) = (node.parse().unwrap(), CommandState::Done);
        let _ = control.catalog.update_command(crate::by("node"), &name, command, state, None);
    }
}

/// When certificates of these nodes end.
pub(crate) const EXPIRES: i64 = 4_000_000_000;

pub(crate) fn enroll(catalog: &Catalog, node: &str) {
    let name: api::Name = node.parse().unwrap();
    let repository = None;
    let keys = api::enroll::KeyMode::Client;
    let (sealed, storage, settings) = Default::default();
    let new = catalog::domains::Domain {
        name: name.clone(),
        keys,
        repository,
        sealed,
        made: 0,
        storage,
        pool: None,
        settings,
    };
    catalog.add_domain(crate::by("test"), &new).unwrap();
    let hash = pki::fingerprint(node.as_bytes());
    let (storage, settings) = Default::default();
    let role = api::enroll::Role::Full;
    let terms = TokenTerms {
        node: name.clone(),
        domain: name.clone(),
        role,
        keys,
        expires: crate::now_secs() + 1000,
        storage,
        pool: None,
        settings,
    };
    catalog.add_token(crate::by("test"), &hash, &terms).unwrap();
    let answer = api::enroll::EnrollReply {
        node: name.clone(),
        domain: name,
        keys,
        role,
        settings: Default::default(),
        repository: None,
        key: None,
        certificate: String::new(),
        ca_certificate: String::new(),
        expires: 0,
    };
    let serial = node.to_owned();
    let certificate =
        catalog::certificates::Certificate { serial, not_before: 0, not_after: EXPIRES };
    let (token, request, version) = (&hash, &[9; 32], "1");
    let new = catalog::tokens::Enrollment {
        token,
        request,
        answer: &answer,
        certificate: &certificate,
        version,
    };
    catalog.enroll(crate::by("test"), new).unwrap();
}

fn wanted(node: Option<api::Name>, dry_run: bool) -> StartPolicy {
    StartPolicy { node, dry_run, ..StartPolicy::default() }
}

#[test]
fn a_suspended_job_waits_beside_nobody_and_goes_on_when_it_is_resumed() {
    let mut rig = hourly("always");
    rig.after(0).after(3600);
    let command = rig.command("web").unwrap();
    let job = rig.control().jobs.begin("web", "web", "backup", &what_of(command));
    let jobs = rig.control().jobs.clone();
    jobs.suspend("admin", job).unwrap();
    assert!(jobs.is_cancelled(job), "its session ends");
    jobs.end(job, &JobEnd::Failed("ended".into()), "");
    assert_eq!((rig.states(), rig.command("web")), (vec![JobState::Suspended], None));
    rig.after(3 * 3600);
    drop(jobs);
    rig.restart();
    rig.control().agents.connected("web");
    rig.after(10).after(10);
    assert_eq!(rig.states().last(), Some(&JobState::Suspended), "its source has a job: this one");
    let jobs = rig.control().jobs.clone();
    assert!(jobs.retry("admin", job).is_err());
    jobs.set_priority("admin", job, 100).unwrap();
    assert!(jobs.set_priority("admin", job, 101).is_err());
    jobs.resume_suspended("admin", job).unwrap();
    assert!(jobs.resume_suspended("admin", job).is_err());
    rig.after(10).after(10);
    assert_eq!(rig.control().jobs.job(job).unwrap().state, JobState::Running);
    rig.back_up("web", &complete());
    assert_eq!(rig.control().jobs.job(job).unwrap().state, JobState::Complete);
}

#[test]
fn a_restore_that_failed_is_no_backup_that_failed() {
    let rig = hourly("always");
    let jobs = rig.control().jobs.clone();
    for (kind, cause) in [("restore", JobCause::RestoreFailed), ("backup", JobCause::BackupFailed)]
    {
        let job = jobs.begin("web", "web", kind, "");
        jobs.end(job, &JobEnd::Failed("no snapshot matches latest".into()), "");
        assert_eq!(jobs.job(job).unwrap().cause, Some(cause));
    }
}

fn complete() -> JobEnd {
    JobEnd::Complete { snapshot: Some("5a".into()), is_partial: false }
}

/// A policy for the node `web` with a run each hour.
fn hourly(window: &str) -> Rig {
    let rig = Rig::new(
        &["web"],
        &[
            ("schedule", "hourly", json!({"every": "1 hour", "window": window})),
            (
                "policy",
                "daily",
                json!({"nodes": ["web"], "paths": ["/etc"], "schedules": ["hourly"]}),
            ),
        ],
    );
    rig.control().agents.connected("web");
    rig
}

#[test]
fn a_run_that_is_due_becomes_a_job_and_ends_as_its_data_proves() {
    let mut rig = hourly("always");
    rig.after(0);
    assert!(rig.jobs().is_empty(), "a schedule applies from now on");
    rig.after(3600);
    assert_eq!(rig.last().state, JobState::Running);
    assert_eq!(rig.last().plan.unwrap().due, rig.now);
    for (end, state) in [
        (complete(), JobState::Complete),
        (JobEnd::Complete { snapshot: None, is_partial: true }, JobState::Partial),
        (JobEnd::Lost, JobState::Lost),
    ] {
        rig.back_up("web", &end);
        assert_eq!(rig.last().state, state);
        rig.after(3600);
    }
    let before = rig.last().id;
    rig.done("web", rig.command("web").unwrap());
    let job = rig.control().jobs.job(before).unwrap();
    assert_eq!((job.state, job.cause), (JobState::Failed, Some(api::jobs::JobCause::NoSnapshot)));
}

#[test]
fn a_node_that_is_away_is_waited_for_and_then_its_run_is_missed() {
    let mut rig = hourly("always");
    rig.after(0);
    rig.control().agents.disconnected("web");
    rig.after(3600).after(10);
    let job = rig.last();
    assert_eq!(job.state, JobState::Queued);
    assert_eq!(job.waits.as_deref(), Some("the agent of web is not connected"));
    assert_eq!(rig.control().jobs.history(&JobFilter::default()).unwrap().jobs.len(), 1);
    rig.after(3600);
    let missed = rig.control().jobs.job(job.id).unwrap();
    assert_eq!(missed.cause, Some(api::jobs::JobCause::NodeAway));
    rig.control().agents.connected("web");
    rig.after(10).after(10);
    assert_eq!(rig.last().state, JobState::Running);
}

#[test]
fn runs_that_passed_while_the_server_was_off_are_missed_and_the_last_is_made_up_for() {
    let mut rig = hourly("always");
    rig.after(0);
    rig.restart();
    rig.control().agents.connected("web");
    rig.after(5 * 3600 + 60);
    assert_eq!(rig.states(), [JobState::Missed, JobState::Running]);
    let runs: Vec<_> = rig.jobs().into_iter().map(|job| job.plan.unwrap().runs).collect();
    assert_eq!(runs, [4, 1]);
}

#[test]
fn a_job_that_waits_for_a_slot_says_how_long_as_soon_as_that_was_measured() {
    let policy =
        json!({"nodes": ["db", "web"], "paths": ["/etc"], "schedules": ["hourly"], "unit": "one"});
    let mut rig = Rig::new(
        &["db", "web"],
        &[
            ("unit", "one", json!({"max_jobs": 1})),
            ("schedule", "hourly", json!({"every": "1 hour", "window": "always"})),
            ("policy", "daily", policy),
        ],
    );
    // What ends, ends by the clock of the machine: long after it began.
    rig.now -= 86_400;
    ["db", "web"].iter().for_each(|node| rig.control().agents.connected(node));
    rig.after(0).after(3600);
    let wait = |rig: &Rig| {
        rig.jobs()
            .iter()
            .find_map(|job| job.waits.clone().filter(|_| job.state == JobState::Queued))
    };
    assert_eq!(wait(&rig).unwrap(), "waits for a slot of unit one: it is the next");
    for _ in 0..2 {
        let next = ["db", "web"].into_iter().find(|node| rig.command(node).is_some()).unwrap();
        rig.back_up(next, &complete());
        rig.after(0);
    }
    rig.after(3600);
    let said = wait(&rig).unwrap();
    let minutes =
        said.strip_prefix("waits for a slot of unit one: it is the next, about ").unwrap();
    assert!(minutes.strip_suffix(" min").unwrap().parse::<u32>().unwrap() > 0, "{said}");
}

#[test]
fn a_job_that_runs_when_the_server_is_killed_goes_on_and_is_not_started_again() {
    let mut rig = hourly("always");
    rig.after(0).after(3600);
    let command = rig.command("web").unwrap();
    let job = rig.control().jobs.begin("web", "web", "backup", &what_of(command));
    rig.restart();
    rig.after(10);
    assert_eq!(rig.states(), [JobState::Running]);
    assert_eq!(rig.command("web"), Some(command));
    // Its node begins its session again.
    assert_eq!(rig.control().jobs.begin("web", "web", "backup", &what_of(command)), job);
    rig.control().jobs.end(job, &complete(), "{}");
    assert_eq!(rig.states(), [JobState::Complete]);
}

#[test]
fn a_failed_run_is_started_again_after_a_pause_and_not_for_ever() {
    let mut rig = hourly("always");
    rig.now += 86_400;
    rig.after(0).after(3600);
    for attempt in 1..=4 {
        assert_eq!(rig.last().plan.unwrap().attempt, attempt);
        rig.back_up("web", &JobEnd::Failed("disk".into()));
        rig.after(60).after(1);
    }
    assert_eq!(rig.states(), [JobState::Failed; 4]);
}

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn schedules() -> Vec<(&'static str, serde_json::Value)> {
    vec![
        ("often", json!({"every": "15 minutes", "window": "always", "jitter": "5 minutes"})),
        ("night", json!({"window": "22:00-02:00", "missed": "skip"})),
        ("noon", json!({"at": ["11:30", "12:00"], "retry": {"times": 1}})),
    ]
}

fn site() -> Vec<(&'static str, &'static str, serde_json::Value)> {
    let policy = |unit: &str, nodes: &[&str], schedules: &[&str], paths: &[&str]| {
        let (unit, paths) = (json!(unit), json!(paths));
        json!({"unit": unit, "nodes": nodes, "schedules": schedules, "paths": paths})
    };
    let mut all = vec![
        ("unit", "disk", json!({"max_jobs": 2})),
        ("unit", "tape", json!({"max_jobs": 1})),
        ("policy", "one", policy("disk", &NODES, &["often", "night"], &["/etc"])),
        ("policy", "two", policy("tape", &NODES[..3], &["noon"], &["/home"])),
        ("policy", "same", policy("disk", &NODES[1..2], &["noon"], &["/etc"])),
    ];
    all.extend(schedules().into_iter().map(|(name, body)| ("schedule", name, body)));
    all
}

/// What the nodes of a site do.
struct World {
    rig: Rig,
    random: Random,
    here: BTreeSet<&'static str>,
    /// Sessions of nodes: the command, and its job.
    sessions: BTreeMap<&'static str, (u64, u64)>,
}

impl World {
    fn step(&mut self) {
        match self.random.index(20) {
            0 => self.restart(),
            1 => {
                let node = NODES[self.random.index(NODES.len())];
                let policy = ["one", "two", "same"][self.random.index(3)];
                let by = By { who: "admin", now_secs: self.rig.now };
                let node = Some(node.parse().unwrap());
                let _ = self.rig.control().scheduler.start(by, policy, &wanted(node, false));
            }
            2 => {
                let jobs = self.rig.jobs();
                let open: Vec<_> = jobs.iter().filter(|job| job.state.is_open()).collect();
                if !open.is_empty() {
                    let id = open[self.random.index(open.len())].id;
                    self.rig.control().jobs.cancel("admin", id).unwrap();
                }
            }
            3 | 4 => self.comes_or_goes(),
            _ => {}
        }
        for node in NODES {
            self.works(node);
        }
        let passed = self.random.signed(900);
        self.rig.after(passed);
        self.check();
    }

    fn restart(&mut self) {
        self.sessions.clear();
        self.rig.restart();
        self.here.iter().for_each(|node| self.rig.control().agents.connected(node));
    }

    fn comes_or_goes(&mut self) {
        let node = NODES[self.random.index(NODES.len())];
        if self.here.remove(node) {
            self.rig.control().agents.disconnected(node);
        } else {
            self.here.insert(node);
            self.rig.control().agents.connected(node);
        }
    }

    /// An agent does one command after the other.
    fn works(&mut self, node: &'static str) {
        let control = self.rig.control().clone();
        if let Some((command, job)) = self.sessions.get(node).copied() {
            let end = match self.random.index(6) {
                0 => JobEnd::Failed("disk".into()),
                1 => JobEnd::Lost,
                2 => JobEnd::Complete { snapshot: Some("5a".into()), is_partial: true },
                3 => complete(),
                _ => return,
            };
            let end = if control.jobs.is_cancelled(job) { JobEnd::Failed("".into()) } else { end };
            control.jobs.end(job, &end, "{}");
            self.rig.done(node, command);
            self.sessions.remove(node);
        } else if self.here.contains(node) && self.random.index(2) == 0 {
            let Some(command) = self.rig.command(node) else { return };
            let job = control.jobs.begin(node, node, "backup", &what_of(command));
            self.sessions.insert(node, (command, job));
        }
    }

    /// No source and no node has two jobs at once, and no unit more than its slots.
    fn check(&self) {
        let jobs = self.rig.jobs();
        let (mut sources, mut nodes) = (BTreeSet::new(), BTreeSet::new());
        let mut units: BTreeMap<String, usize> = BTreeMap::new();
        for job in jobs.iter().filter(|job| job.state.is_open()) {
            let plan = job.plan.as_ref().unwrap();
            assert!(sources.insert((&job.node, &plan.source)), "twice at once: {job:?}");
            if job.state == JobState::Running {
                assert!(nodes.insert(&job.node), "a node runs two: {job:?}");
                *units.entry(plan.unit.clone()).or_default() += 1;
            } else {
                assert!(job.waits.is_some(), "nobody knows why it waits: {job:?}");
            }
        }
        assert!(units.get("disk").is_none_or(|used| *used <= 2), "{units:?}");
        assert!(units.get("tape").is_none_or(|used| *used <= 1), "{units:?}");
    }

    /// Each occurrence up to what is settled is one job or part of one entry of missed ones.
    fn all_is_accounted_for(&self, begun: i64) {
        let jobs = self.rig.jobs();
        let states = self.rig.control().catalog.schedule_states().unwrap();
        assert_eq!(states.len(), 2 * NODES.len() + 3 + 1);
        for ScheduleState { key, settled, .. } in states {
            let body = schedules().into_iter().find(|(name, _)| *name == key.schedule).unwrap().1;
            let schedule = serde_json::from_value(body).unwrap();
            let timetable = Timetable::new(schedule, TimeZone::UTC).unwrap();
            let due: Vec<i64> = timetable
                .occurrences(begun)
                .map(|one| one.due_secs)
                .take_while(|due| *due <= settled)
                .collect();
            let is_of = |job: &&Job| {
                let plan = job.plan.as_ref().unwrap();
                let (policy, schedule) = (plan.policy == key.policy, plan.schedule.as_ref());
                policy
                    && schedule == Some(&key.schedule)
                    && job.node == key.node
                    && plan.attempt == 1
            };
            let mut accounted = Vec::new();
            for job in jobs.iter().filter(is_of) {
                let plan = job.plan.as_ref().unwrap();
                // Only an entry of missed runs stands for several.
                let last = if plan.runs > 1 { plan.until.unwrap() } else { plan.due };
                let runs = due.iter().filter(|due| (plan.due..=last).contains(*due));
                accounted.extend(runs.copied());
            }
            accounted.sort_unstable();
            assert_eq!(accounted, due, "{key:?}");
        }
    }
}

#[test]
fn whatever_happens_no_source_runs_twice_and_no_run_is_missed_silently() {
    for seed in 0..3 {
        let rig = Rig::new(&NODES, &site());
        let (random, here) = (Random::new(seed), BTreeSet::from(NODES));
        here.iter().for_each(|node| rig.control().agents.connected(node));
        let mut world = World { rig, random, here, sessions: BTreeMap::new() };
        world.rig.after(0);
        let begun = world.rig.now;
        (0..150).for_each(|_| world.step());
        let states: BTreeSet<_> =
            world.rig.jobs().iter().map(|job| format!("{:?}", job.state)).collect();
        assert!(states.len() >= 6, "seed {seed}: {states:?}");
        world.all_is_accounted_for(begun);
    }
}

/// The goal is 50 ms for 1,000 nodes (median); a slow machine is allowed more.
#[test]
fn a_tick_over_a_thousand_nodes_takes_milliseconds() {
    let mut rig = Rig::new(&[], &[]);
    let names: Vec<String> = (0..1000).map(|number| format!("node-{number}")).collect();
    names.iter().for_each(|name| enroll(&rig.control().catalog, name));
    let objects = [
        ("schedule", "daily", json!({"at": ["22:00"], "jitter": "1 hour"})),
        ("schedule", "weekly", json!({"every": "1 week", "window": "08:00-18:00"})),
        (
            "policy",
            "all",
            json!({"nodes": names, "paths": ["/etc", "/home"], "schedules": ["daily", "weekly"]}),
        ),
    ];
    let changes = objects.map(|(kind, name, body)| ObjectChange::put(kind, name, body));
    rig.control().catalog.change_objects(crate::by("test"), 1, &changes).unwrap();
    for _ in 0..10 {
        rig.after(2);
    }
    assert_eq!(rig.control().catalog.schedule_states().unwrap().len(), 2000);
    let took = |rig: &mut Rig| {
        let begun = Instant::now();
        rig.after(2);
        begun.elapsed().as_millis()
    };
    let mut idle: Vec<_> = (0..15).map(|_| took(&mut rig)).collect();
    idle.sort_unstable();
    let mut changed: Vec<_> = (0..15)
        .map(|_| {
            rig.control().jobs.have_changed();
            took(&mut rig)
        })
        .collect();
    changed.sort_unstable();
    println!("2,000 schedules of 1,000 nodes: {idle:?} ms; after a change {changed:?} ms");
    assert!(idle[7] <= 50, "{idle:?}");
    assert!(changed[7] <= 250, "{changed:?}");
}
