//! A whole site: a server process that runs twenty policies on real agents by itself, while jobs are cancelled,
//! suspended and done again, agents, backups and the server are killed, connections break, and the site changes. In the
//! end every job must be in the state that the data proves. Time is not made faster: what a site does in a night is
//! declared for each minute (`docs/adr/0034-schedules-are-compressed.md`).

mod declared;
mod fair;
mod judge;
mod machine;
mod postgresql;
mod reach;
mod trouble;

use crate::client::Client;
use crate::disconnects::proxy::Proxy;
use crate::failed;
use crate::options::{Asked, report};
use crate::server::{NewNode, Server};
use api::jobs::{Job, JobState};
use api::status::Audit;
use declared::{Declared, name};
use fair::Fairness;
use judge::Found;
use machine::{Machine, now_ms};
use simulation::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use trouble::Counts;

const NODES: u64 = 200;
const SECONDS: u64 = 1200;
/// Every so many nodes one is behind a link that breaks, and so many share a link.
const BEHIND_LINK: usize = 4;
const LINK_NODES: usize = 10;
/// Every so many nodes share a domain; the others have one each.
const SHARED: usize = 4;
/// What is quiet has no open job within this time.
const QUIET_WITHIN: Duration = Duration::from_secs(600);
/// Snapshots that are restored, besides one of each policy, and domains that are read whole.
const RESTORES: usize = 60;
const CHECKED: usize = 20;

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    // Each agent sees a folder of its own under the same path.
    let possible = match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err("machines with a view of their own need root".to_owned()),
    };
    match Asked::parse(arguments, &["--nodes", "--catalog"]) {
        Ok(asked) => report("site", |work| run(&asked, work), possible),
        Err(error) => {
            eprintln!("site: {error}");
            ExitCode::from(2)
        }
    }
}

/// On both catalogs, half of the time each, or on one.
fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let seed = asked.seed()?;
    println!("seed {seed}");
    let catalogs = match asked.text("--catalog") {
        None => vec!["SQLite", "PostgreSQL"],
        Some("sqlite") => vec!["SQLite"],
        Some("postgresql") => vec!["PostgreSQL"],
        Some(other) => return Err(format!("--catalog {other}: write sqlite or postgresql")),
    };
    let seconds = asked.number("--seconds")?.unwrap_or(SECONDS) / catalogs.len() as u64;
    let mut said = Vec::new();
    for catalog in catalogs {
        let work = work.join(catalog);
        let told = on_catalog(asked, &work, catalog, Duration::from_secs(seconds), seed);
        let told = told.map_err(|error| format!("{catalog}: {error}\nseed {seed}"))?;
        println!("{told}");
        said.push(told);
    }
    Ok(said.join("; "))
}

fn on_catalog(
    asked: &Asked,
    work: &Path,
    catalog: &str,
    time: Duration,
    seed: u64,
) -> Result<String, String> {
    let database = postgresql::start(catalog == "PostgreSQL", &work.join("server"))?;
    let nodes = asked.number("--nodes")?.unwrap_or(NODES) as usize;
    let mut rig = Rig::start(work, &asked.binary(), nodes, seed)?;
    let begun = Instant::now();
    let happened = rig.trouble(begun + time);
    let ended = happened.and_then(|()| rig.end());
    let told = ended.map(|ended| format!("{catalog}: {}", rig.told(&ended, begun.elapsed())));
    // The agents end before their server, and that before its database.
    drop(rig);
    drop(database);
    told
}

struct Rig {
    machines: Vec<Machine>,
    server: Server,
    reach: reach::Reach,
    random: Random,
    declared: Declared,
    work: PathBuf,
    /// What each agent calls its own folder.
    own: PathBuf,
    counts: Counts,
    /// Jobs that somebody cancelled, suspended or preferred.
    touched: BTreeSet<u64>,
    /// When the server was killed.
    kills: Vec<i64>,
    looks: u64,
    server_kib: u64,
    agent_kib: u64,
}

/// How it ended.
struct End {
    jobs: Vec<Job>,
    found: Found,
    fairness: Vec<Fairness>,
    restored: usize,
    checked: usize,
}

impl Rig {
    fn start(work: &Path, binary: &Path, nodes: usize, seed: u64) -> Result<Self, String> {
        let own = work.join("machine");
        fs::create_dir_all(&own).map_err(failed("make a folder"))?;
        let server = Server::start_in(work, binary)?;
        let folder = own.to_string_lossy().into_owned();
        let (has_gone, has_more_slots, is_scheduled) = (true, false, true);
        let declared = Declared { nodes, folder, has_gone, has_more_slots, is_scheduled };
        let reach = reach::Reach::of(&work.join("server"));
        let random = trouble::seeded(seed);
        let (machines, counts, touched, kills) = Default::default();
        let (work, looks, server_kib, agent_kib) = (work.to_owned(), 0, 0, 0);
        let mut rig = Self {
            machines,
            server,
            reach,
            random,
            declared,
            work,
            own,
            counts,
            touched,
            kills,
            looks,
            server_kib,
            agent_kib,
        };
        rig.enroll()?;
        rig.reach.apply(&rig.declared.text())?;
        Ok(rig)
    }

    /// Makes the machines, and starts their agents.
    fn enroll(&mut self) -> Result<(), String> {
        let mut links = BTreeMap::new();
        for number in 0..self.declared.nodes {
            let (name, folder) = (name(number), self.work.join(name(number)));
            let shared = format!("shared-{}", number / SHARED);
            let domain = if number % 2 == 0 { &name } else { &shared };
            let link = (number % BEHIND_LINK == 0).then_some(number / LINK_NODES);
            let link = link.map(|link| self.link(&mut links, link)).transpose()?;
            let port = link.as_ref().map_or(self.server.port(), |link| link.port());
            let new = NewNode { name: &name, domain, is_elsewhere: false };
            let client = self.server.enroll(&new, &folder.join("agent"), port)?;
            let mut machine = Machine::new(&name, &folder, client, link)?;
            machine.allow(&self.own)?;
            machine.start(&self.own)?;
            self.machines.push(machine);
        }
        Ok(())
    }

    fn link(
        &self,
        links: &mut BTreeMap<usize, Arc<Proxy>>,
        number: usize,
    ) -> Result<Arc<Proxy>, String> {
        if let Some(link) = links.get(&number) {
            return Ok(link.clone());
        }
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let link = Arc::new(Proxy::start(at, self.server.at())?);
        links.insert(number, link.clone());
        Ok(link)
    }

    fn come_back(&mut self, now: bool) -> Result<(), String> {
        self.machines.iter_mut().try_for_each(|machine| machine.come_back(&self.own, now))
    }

    /// The most that the server took so far.
    fn measure_server(&mut self) {
        let file = format!("/proc/{}/status", self.server.id().unwrap_or(0));
        let text = fs::read_to_string(file).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        self.server_kib = self.server_kib.max(kib);
    }

    /// Nothing breaks any more; once nothing runs, everything is judged.
    fn end(&mut self) -> Result<End, String> {
        self.agent_kib = self.machines.iter().filter_map(Machine::memory_kib).sum();
        let stopped = self.quiet()?;
        self.measure_server();
        let jobs = self.reach.jobs()?;
        let snapshots = self.reach.snapshots()?;
        let found = judge::all(&jobs, &snapshots, &self.kills, stopped)?;
        let waits = fair::waits(&self.reach, &jobs, &self.touched)?;
        let fairness = fair::all(&waits, &self.kills)?;
        let audit: Audit = self.reach.get("/audit")?;
        if let Some(at) = audit.broken_at {
            return Err(format!("the audit log is broken at entry {at}"));
        }
        let restored = self.restore(&jobs)?;
        let checked = self.check()?;
        self.server.has_not_panicked()?;
        Ok(End { jobs, found, fairness, restored, checked })
    }

    /// Waits until no job is open; when the schedules were stopped, in seconds.
    fn quiet(&mut self) -> Result<i64, String> {
        self.declared.is_scheduled = false;
        let stopped = now_ms() / 1000;
        self.reach.apply(&self.declared.text())?;
        self.machines.iter().filter_map(Machine::link).for_each(Proxy::calm);
        self.come_back(true)?;
        let deadline = Instant::now() + QUIET_WITHIN;
        loop {
            for job in self.reach.in_state(JobState::Suspended)? {
                self.touched.insert(job.id);
                self.reach.post(&format!("/jobs/{}/resume", job.id), &())?;
            }
            let open = self.reach.open()?;
            if open.is_empty() {
                return Ok(stopped);
            }
            judge::slots_are_kept(&self.reach.in_state(JobState::Running)?)?;
            if Instant::now() > deadline {
                return Err(format!("{} jobs do not end, such as {:?}", open.len(), open[0]));
            }
            sleep(Duration::from_millis(500));
        }
    }

    /// Restores the newest snapshot of each policy, and some others.
    fn restore(&mut self, jobs: &[Job]) -> Result<usize, String> {
        let have = jobs.iter().filter(|job| job.snapshot.is_some() && job.plan.is_some());
        let have: Vec<_> = have.collect();
        let policy = |job: &&Job| job.plan.as_ref().map(|plan| plan.policy.clone());
        let newest: BTreeMap<_, _> = have.iter().map(|job| (policy(job), *job)).collect();
        let mut chosen: Vec<_> = newest.into_values().collect();
        let more = if have.is_empty() { 0 } else { RESTORES.min(have.len() / 4) };
        chosen.extend((0..more).map(|_| *self.random.pick(&have)));
        let own = self.own.to_string_lossy();
        for job in &chosen {
            let machine = self.machines.iter().find(|machine| machine.name == job.node);
            let id = job.snapshot.as_deref().unwrap_or_default();
            machine.ok_or("a job of no machine")?.restores(job, id, &own)?;
        }
        Ok(chosen.len())
    }

    /// Reads some repositories whole, as they lie on the disk.
    fn check(&mut self) -> Result<usize, String> {
        self.server.kill();
        let mut checked = 0;
        for number in (0..self.machines.len()).step_by(self.machines.len().div_ceil(CHECKED)) {
            // Nodes with an even number have a domain of their own.
            let name = name(number - number % 2);
            let folder = self.work.join(&name).join("agent");
            let client: Client = self.server.repository_of(&name, &folder)?;
            client.ends(&["check", "--read-data"], &[0])?;
            checked += 1;
        }
        Ok(checked)
    }

    fn told(&self, end: &End, elapsed: Duration) -> String {
        let counts = |all: &BTreeMap<String, u64>| {
            let words: Vec<_> = all.iter().map(|(word, count)| format!("{count} {word}")).collect();
            words.join(", ")
        };
        let happened = self.counts.iter().filter(|(what, _)| **what != "nothing");
        let happened = happened.map(|(what, count)| ((*what).to_owned(), *count)).collect();
        let fair = |it: &Fairness| {
            let Fairness { unit, waits, median_secs, max_secs, index } = it;
            format!(
                "{unit} {waits} starts, waited {median_secs} s (median), {max_secs} s (most), Jain's index {index:.2}"
            )
        };
        let fair: Vec<_> = end.fairness.iter().map(fair).collect();
        let Found { states, orphans, again, due, missed } = &end.found;
        format!(
            "{} agents ({} MiB) and their server (at most {} MiB) for {} s: {} jobs of {} sources ({}); {due} runs of schedules, {missed} of them told as missed; {}; {} looks at what ran; {orphans} snapshots of which a kill kept the job from knowing, {again} commands done again by agents that were killed; {}; {} snapshots restored as the files were, {} repositories read whole",
            self.machines.len(),
            self.agent_kib >> 10,
            self.server_kib >> 10,
            elapsed.as_secs(),
            end.jobs.len(),
            judge::sources(&end.jobs),
            counts(states),
            counts(&happened),
            self.looks,
            fair.join(", "),
            end.restored,
            end.checked,
        )
    }
}
