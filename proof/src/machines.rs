//! Two machines that use one repository on a file system that both have mounted, with some trouble in each round. What
//! was acknowledged is there from either machine, and nothing of it is called damage.

use crate::client::{Client, Ran, Started};
use crate::{failed, tree};
use rustix::process::Signal;
use simulation::Random;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) const FAILED: i32 = 1;
const PARTIAL: i32 = 3;
const NO_REPOSITORY: i32 = 10;
const IN_USE: i32 = 11;
const UNREACHABLE: i32 = 16;
/// Rounds when no time is given.
const ROUNDS: u64 = 80;
/// Snapshots beyond these are forgotten, the oldest first.
const KEEP: usize = 4;
/// Rounds between two looks at everything.
const VERIFY_EVERY: u64 = 8;

/// A lock whose holder is gone ends by then.
const LOCKED_MAX: &str = "3m";
/// In one of so many rounds a command is killed.
const KILLED_ONE_IN: u64 = 4;

/// What goes wrong with a file system.
pub(crate) trait Troubles {
    type Trouble: Copy + fmt::Debug;

    /// One of them, which begins before the commands do.
    fn pick(&mut self, random: &mut Random) -> Self::Trouble;

    /// Whether a command that has the file system for itself succeeds nevertheless.
    fn is_harmless(&self, trouble: Self::Trouble) -> bool;

    /// Whether the directory may be an empty one for a while, in which there is no repository.
    fn hides(&self, _: Self::Trouble) -> bool {
        false
    }

    /// Happens while commands run.
    fn strike(&mut self, trouble: Self::Trouble, random: &mut Random) -> Result<(), String>;

    /// All is well again. The commands have ended.
    fn clear(&mut self, trouble: Self::Trouble) -> Result<(), String>;

    /// How old a listing may be on a machine that only reads.
    fn list_age(&self) -> Duration;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Backup,
    Forget,
    Reclaim,
    Check,
    Restore,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) rounds: u64,
    pub(crate) done: u64,
    /// Ended since the other worked, or the file system could not be reached.
    pub(crate) refused: u64,
    pub(crate) killed: u64,
    pub(crate) checked: u64,
    pub(crate) restored: u64,
}

pub(crate) struct Machines<T> {
    machines: [Client; 2],
    /// Neither changes under the feet of a backup of the other.
    sources: [PathBuf; 2],
    pub(crate) troubles: T,
    work: PathBuf,
    random: Random,
    /// Snapshots that must be there.
    known: Vec<(String, tree::Copy)>,
    pub(crate) counts: Counts,
}

/// What runs on a machine.
struct Running {
    act: Act,
    which: usize,
    started: Started,
    copy: Option<tree::Copy>,
}

impl<T: Troubles> Machines<T> {
    /// Makes a repository, which lies at one of `repositories` on each machine, with a snapshot of each.
    pub(crate) fn start(
        binary: &Path,
        work: &Path,
        repositories: [PathBuf; 2],
        troubles: T,
        seed: u64,
    ) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let sources = ["one", "other"].map(|name| work.join(name));
        for source in &sources {
            tree::create(source, &mut random).map_err(failed("make a tree"))?;
        }
        let machines = repositories.map(|repository| Client::new(binary, &repository));
        machines[0].ends(&["init"], &[0])?;
        let work = work.to_owned();
        let (known, counts) = Default::default();
        let mut rig = Self { machines, sources, troubles, work, random, known, counts };
        for which in [0, 1] {
            let copy = rig.change(which)?;
            let id = rig.machines[which].back_up(&rig.sources[which])?;
            rig.known.push((id, copy));
        }
        Ok(rig)
    }

    /// Goes on until `deadline`, or for a number of rounds.
    pub(crate) fn run(&mut self, deadline: Option<Instant>) -> Result<(), String> {
        loop {
            let number = self.counts.rounds + 1;
            let is_over = match deadline {
                Some(deadline) => Instant::now() > deadline,
                None => number > ROUNDS,
            };
            if is_over {
                return self.verify();
            }
            self.round().map_err(|error| format!("round {number}: {error}"))?;
            self.counts.rounds = number;
            if number.is_multiple_of(VERIFY_EVERY) {
                self.verify().map_err(|error| format!("after round {number}: {error}"))?;
            }
        }
    }

    fn change(&mut self, which: usize) -> Result<tree::Copy, String> {
        let source = &self.sources[which];
        tree::mutate(source, &mut self.random).map_err(failed("change a tree"))?;
        std::fs::write(source.join("new"), self.random.bytes(2 << 20))
            .map_err(failed("change a tree"))?;
        tree::copy(source).map_err(failed("read a tree"))
    }

    /// One machine does something, or both at once, while the file system has some trouble.
    fn round(&mut self) -> Result<(), String> {
        let trouble = self.troubles.pick(&mut self.random);
        let first = self.random.below(2) as usize;
        let both = self.random.one_in(3);
        let mut running = vec![self.begin(first)?];
        if both {
            running.push(self.begin(1 - first)?);
        }
        self.troubles.strike(trouble, &mut self.random)?;
        if self.random.one_in(KILLED_ONE_IN) {
            self.random.pick(&running).started.signal(Signal::KILL);
        }
        let is_quiet = !both && self.troubles.is_harmless(trouble);
        let ended: Vec<_> = running
            .into_iter()
            .map(|running| (running.act, running.which, running.copy, running.started.end()))
            .collect();
        self.troubles.clear(trouble).map_err(|error| format!("after {trouble:?}: {error}"))?;
        if self.troubles.hides(trouble) {
            // The server may keep the lock of a machine that has lost the file system.
            self.machines[0].ends(&["reclaim", "--wait", LOCKED_MAX], &[0])?;
        }
        for (act, which, copy, ran) in ended {
            let told = |error| format!("{act:?} on machine {which}, {trouble:?}: {error}");
            let ran = ran?;
            if ran.code == Some(NO_REPOSITORY) && self.troubles.hides(trouble) {
                self.counts.refused += 1;
                continue;
            }
            self.ended(act, copy, &ran, is_quiet).map_err(told)?;
        }
        Ok(())
    }

    fn begin(&mut self, which: usize) -> Result<Running, String> {
        let acts = [Act::Backup, Act::Backup, Act::Forget, Act::Reclaim, Act::Check, Act::Restore];
        let act = *self.random.pick(&acts);
        // The last ones stay: something must be there to be lost.
        let act = if act == Act::Forget && self.known.len() < 3 { Act::Backup } else { act };
        let copy = if act == Act::Backup { Some(self.change(which)?) } else { None };
        let source = self.sources[which].to_string_lossy().into_owned();
        let target = self.work.join(format!("target {which}")).to_string_lossy().into_owned();
        let oldest = self.known.first().map(|(id, _)| id.clone()).unwrap_or_default();
        let words: Vec<&str> = match act {
            Act::Backup => vec!["backup", &source, "--json"],
            Act::Forget => {
                // From now on it may be gone.
                self.known.remove(0);
                vec!["forget", &oldest]
            }
            Act::Reclaim => vec!["reclaim", "--max-waste", "0"],
            Act::Check => vec!["check", "--read-data"],
            // The newest may be in no list here yet.
            Act::Restore => vec!["restore", &oldest, "--target", &target],
        };
        Ok(Running { act, which, started: self.machines[which].start(&words)?, copy })
    }

    /// A command ended well, or said why not; never that something is damaged.
    fn ended(
        &mut self,
        act: Act,
        copy: Option<tree::Copy>,
        ran: &Ran,
        is_quiet: bool,
    ) -> Result<(), String> {
        match ran.code {
            Some(0) => {
                self.counts.done += 1;
                if let Some(copy) = copy {
                    self.known.push((ran.acknowledged().ok_or_else(|| ran.told())?, copy));
                }
                Ok(())
            }
            None if ran.signal == Some(Signal::KILL.as_raw()) => {
                self.counts.killed += 1;
                Ok(())
            }
            Some(FAILED | IN_USE | UNREACHABLE) if !is_quiet => {
                self.counts.refused += 1;
                Ok(())
            }
            // It goes on without what it could not read, and says so.
            Some(PARTIAL) if !is_quiet && act == Act::Restore => {
                self.counts.refused += 1;
                Ok(())
            }
            _ => Err(ran.told()),
        }
    }

    /// Without trouble everything is there, from either machine.
    fn verify(&mut self) -> Result<(), String> {
        let which = self.random.below(2) as usize;
        // Who only reads may miss what another machine has just made.
        std::thread::sleep(self.troubles.list_age());
        self.machines[which].ends(&["check", "--read-data"], &[0])?;
        self.counts.checked += 1;
        (0..self.known.len()).try_for_each(|number| self.restores(which, number))?;
        while self.known.len() > KEEP {
            let (oldest, _) = self.known.remove(0);
            self.machines[1 - which].ends(&["forget", &oldest], &[0])?;
        }
        self.machines[which].ends(&["reclaim"], &[0]).map(|_| ())
    }

    fn restores(&mut self, which: usize, number: usize) -> Result<(), String> {
        let (id, was) = &self.known[number];
        self.machines[which].restores(id, was, &self.work.join("restored"))?;
        self.counts.restored += 1;
        Ok(())
    }
}
