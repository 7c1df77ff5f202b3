//! What happens to a site at random: what administrators do, what breaks, and what changes on the machines.

use super::Rig;
use super::declared::{PARTS, policies};
use super::machine::now_ms;
use api::jobs::{Job, JobState};
use serde_json::json;
use simulation::Random;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest that an agent, the server and a link are alink.
const AGENT_AWAY_MS_MAX: u64 = 6_000;
const SERVER_AWAY_MS_MAX: u64 = 2_000;
const LINK_AWAY_MS_MAX: u64 = 3_000;
/// Between two kills of the server some jobs run from their beginning to their end.
const BETWEEN_KILLS: Duration = Duration::from_secs(20);
/// Between two looks at what runs.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const PAUSE_MS: u64 = 120;

/// What was done, by name.
pub(super) type Counts = BTreeMap<&'static str, u64>;

impl Rig {
    /// One thing after the other until `deadline`.
    pub(super) fn trouble(&mut self, deadline: Instant) -> Result<(), String> {
        let mut looked = Instant::now();
        while Instant::now() < deadline {
            sleep(Duration::from_millis(1 + self.random.below(PAUSE_MS)));
            self.come_back(false)?;
            let what = self.one_thing()?;
            *self.counts.entry(what).or_default() += 1;
            if looked.elapsed() >= LOOK_EVERY {
                self.look()?;
                looked = Instant::now();
            }
        }
        Ok(())
    }

    fn one_thing(&mut self) -> Result<&'static str, String> {
        match self.random.below(50) {
            0..=24 => self.change(),
            25..=26 => self.ask("cancel", JobState::Running),
            27 => self.ask("cancel", JobState::Queued),
            28..=29 => self.ask("suspend", JobState::Running),
            30 => self.ask("suspend", JobState::Queued),
            31..=34 => self.ask("resume", JobState::Suspended),
            35..=36 => self.prefer(),
            37 => self.retry(),
            38..=40 => self.kill_agent(),
            41 => self.kill_backups(),
            42..=44 => self.cut(),
            45..=46 => self.start_by_hand(),
            47 => self.turn(),
            48 => self.declare_anew(),
            _ => self.kill_server(),
        }
    }

    fn change(&mut self) -> Result<&'static str, String> {
        let at = self.random.index(self.machines.len());
        self.machines[at].change(&mut self.random)?;
        Ok("files changed")
    }

    /// A job in this state, if there is one.
    fn job(&mut self, state: JobState) -> Result<Option<Job>, String> {
        let jobs = self.reach.in_state(state)?;
        Ok((!jobs.is_empty()).then(|| self.random.pick(&jobs).clone()))
    }

    fn ask(&mut self, word: &'static str, state: JobState) -> Result<&'static str, String> {
        let Some(job) = self.job(state)? else { return Ok("nothing") };
        self.touched.insert(job.id);
        self.reach.post(&format!("/jobs/{}/{word}", job.id), &())?;
        Ok(word)
    }

    fn prefer(&mut self) -> Result<&'static str, String> {
        let Some(job) = self.job(JobState::Queued)? else { return Ok("nothing") };
        self.touched.insert(job.id);
        let priority = json!({ "priority": self.random.below(101) });
        self.reach.post(&format!("/jobs/{}/priority", job.id), &priority)?;
        Ok("priority")
    }

    fn retry(&mut self) -> Result<&'static str, String> {
        let ended = self.reach.newest(50)?;
        let ended: Vec<_> = ended.into_iter().filter(|job| job.plan.is_some()).collect();
        if ended.is_empty() {
            return Ok("nothing");
        }
        let job = self.random.pick(&ended).id;
        self.reach.post(&format!("/jobs/{job}/retry"), &())?;
        Ok("retry")
    }

    fn kill_agent(&mut self) -> Result<&'static str, String> {
        let at = self.random.index(self.machines.len());
        let away = Duration::from_millis(self.random.below(AGENT_AWAY_MS_MAX));
        let is_whole = self.random.one_in(2);
        self.machines[at].kill(is_whole, away);
        Ok("agent killed")
    }

    fn kill_backups(&mut self) -> Result<&'static str, String> {
        let Some(job) = self.job(JobState::Running)? else { return Ok("nothing") };
        let machine = self.machines.iter().find(|machine| machine.name == job.node);
        let killed = machine.map_or(0, |machine| machine.kill_backups());
        Ok(if killed > 0 { "backup killed" } else { "nothing" })
    }

    fn cut(&mut self) -> Result<&'static str, String> {
        let at = self.random.index(self.machines.len());
        let Some(link) = self.machines[at].link() else { return Ok("nothing") };
        let time = Duration::from_millis(200 + self.random.below(LINK_AWAY_MS_MAX));
        match self.random.below(4) {
            0 => link.cut(true),
            1 => link.cut(false),
            2 => link.stall(time),
            _ => link.refuse(time),
        };
        Ok("connections cut")
    }

    fn start_by_hand(&mut self) -> Result<&'static str, String> {
        let names: Vec<_> = policies().collect();
        let number = self.random.index(names.len());
        let (policy, part) = (names[number], number % PARTS);
        let members: Vec<_> = self.machines.iter().skip(part).step_by(PARTS).collect();
        let node = (!members.is_empty()).then(|| self.random.pick(&members).name.clone());
        let wanted = match (self.random.below(4), node) {
            (0, _) => json!({ "group": format!("part-{part}") }),
            (1, Some(node)) => json!({ "node": node, "complete": true }),
            (2, Some(node)) => json!({ "node": node, "priority": self.random.below(101) }),
            _ => json!({ "dry_run": true }),
        };
        self.reach.post(&format!("/policies/{policy}/start"), &wanted)?;
        Ok("started by hand")
    }

    fn turn(&mut self) -> Result<&'static str, String> {
        let at = self.random.index(self.machines.len());
        self.machines[at].turn(self.random.one_in(3))?;
        Ok("hook turned")
    }

    /// The site changes: a policy goes or comes back, units get slots or lose them.
    fn declare_anew(&mut self) -> Result<&'static str, String> {
        let mut declared = self.declared.clone();
        if self.random.one_in(2) {
            declared.has_gone = !declared.has_gone;
        } else {
            declared.has_more_slots = !declared.has_more_slots;
        }
        self.reach.apply(&declared.text())?;
        self.declared = declared;
        Ok("site applied")
    }

    fn kill_server(&mut self) -> Result<&'static str, String> {
        if self.kills.last().is_some_and(|at| now_ms() - at < BETWEEN_KILLS.as_millis() as i64) {
            return Ok("nothing");
        }
        self.measure_server();
        self.server.kill();
        self.kills.push(now_ms());
        sleep(Duration::from_millis(self.random.below(SERVER_AWAY_MS_MAX)));
        self.server.start()?;
        Ok("server killed")
    }

    /// What runs now: no unit more than its slots, even with those that it lost, and no node two jobs.
    fn look(&mut self) -> Result<(), String> {
        let running = self.reach.in_state(JobState::Running)?;
        super::judge::slots_are_kept(&running)?;
        self.server.has_not_panicked()?;
        self.looks += 1;
        Ok(())
    }
}

/// A number of milliseconds that begins anywhere.
pub(super) fn seeded(seed: u64) -> Random {
    Random::new(seed)
}
