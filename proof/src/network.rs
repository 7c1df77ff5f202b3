//! A network file system in user space with two machines on it: it cannot sync folders or keep a
//! name from being replaced, lists what was, takes files away that others have open, loses
//! requests and answers, and goes away. What was acknowledged is there, and nothing of it is
//! called damage.

mod conditions;
mod machine;
mod server;

use crate::client::{Client, Ran, Started};
use crate::options::{Asked, report};
use crate::{failed, mounted, tree};
use conditions::NetworkConditions;
use fuser::BackgroundSession;
use machine::{LIST_AGE, Locks};
use server::Server;
use simulation::Random;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FAILED: i32 = 1;
const IN_USE: i32 = 11;
const UNREACHABLE: i32 = 16;
/// Rounds when no time is given.
const ROUNDS: u64 = 80;
/// Snapshots beyond these are forgotten, the oldest first.
const KEEP: usize = 4;
/// Rounds between two looks at everything.
const VERIFY_EVERY: u64 = 8;

/// What the network does in one round.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// So many of ten thousand requests are lost.
    Losses(u64),
    /// The server is away for a while.
    Away {
        is_hard: bool,
    },
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
struct Counts {
    done: u64,
    /// Ended since the other worked, or the server could not be reached.
    refused: u64,
    checked: u64,
    restored: u64,
}

struct Rig {
    machines: [Client; 2],
    /// Neither changes under the feet of a backup of the other.
    sources: [PathBuf; 2],
    conditions: Arc<NetworkConditions>,
    work: PathBuf,
    random: Random,
    /// Snapshots that must be there.
    known: Vec<(String, tree::Copy)>,
    counts: Counts,
    _mounts: Vec<BackgroundSession>,
}

/// What runs on a machine.
struct Running {
    act: Act,
    which: usize,
    started: Started,
    copy: Option<tree::Copy>,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match Asked::parse(arguments, &[]) {
        Ok(asked) => report("network", |work| run(&asked, work), mounted::be_alone()),
        Err(error) => {
            eprintln!("network: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let (deadline, seed) = (asked.deadline()?, asked.seed()?);
    println!("seed {seed}");
    without_locks(&asked.binary(), work, Locks::None)?;
    without_locks(&asked.binary(), work, Locks::ForAll)?;
    let mut rig = Rig::start(&asked.binary(), work, seed)?;
    let with_seed = |error: String| format!("{error}\nseed {seed}");
    for number in 1.. {
        let is_over = match deadline {
            Some(deadline) => Instant::now() > deadline,
            None => number > ROUNDS,
        };
        if is_over {
            break;
        }
        rig.round().map_err(|error| with_seed(format!("round {number}: {error}")))?;
        if number % VERIFY_EVERY == 0 {
            rig.verify().map_err(|error| with_seed(format!("after round {number}: {error}")))?;
        }
    }
    rig.verify().map_err(with_seed)?;
    let Counts { done, refused, checked, restored } = rig.counts;
    Ok(format!(
        "{done} commands completed, {refused} reported an error; {} requests lost; {checked} checks clean, {restored} snapshots restored as they were; without locks no repository, {} s",
        rig.conditions.lost(),
        begun.elapsed().as_secs()
    ))
}

/// Where nobody can lock, there is to be no repository.
fn without_locks(binary: &Path, work: &Path, locks: Locks) -> Result<(), String> {
    let (exported, at) = (work.join("exported without locks"), work.join("without locks"));
    let mounted = mounted_at(0, &exported, &Arc::new(NetworkConditions::calm(1)), locks, &at)?;
    let ran = Client::new(binary, &at.join("repository")).run(&["init"])?;
    drop(mounted);
    if ran.code != Some(FAILED) || !ran.message().contains("lock") {
        return Err(format!("init on a file system without locks: {}", ran.told()));
    }
    Ok(())
}

fn mounted_at(
    number: usize,
    exported: &Path,
    conditions: &Arc<NetworkConditions>,
    locks: Locks,
    at: &Path,
) -> Result<BackgroundSession, String> {
    for folder in [exported, at] {
        std::fs::create_dir_all(folder).map_err(failed("make a folder"))?;
    }
    machine::mount(number, &Arc::new(Server::new(exported)), conditions, locks, at)
}

impl Rig {
    fn start(binary: &Path, work: &Path, seed: u64) -> Result<Self, String> {
        let exported = work.join("exported");
        std::fs::create_dir_all(&exported).map_err(failed("make a folder"))?;
        let server = Arc::new(Server::new(&exported));
        let conditions = Arc::new(NetworkConditions::calm(seed));
        let mut mounts = Vec::new();
        for number in 0..2 {
            let at = work.join(format!("machine {number}"));
            std::fs::create_dir_all(&at).map_err(failed("make a folder"))?;
            mounts.push(machine::mount(number, &server, &conditions, Locks::OfTheServer, &at)?);
        }
        let machines = [0, 1]
            .map(|number| Client::new(binary, &work.join(format!("machine {number}/repository"))));
        let mut random = Random::new(seed);
        let sources = ["one", "other"].map(|name| work.join(name));
        for source in &sources {
            tree::create(source, &mut random).map_err(failed("make a tree"))?;
        }
        machines[0].ends(&["init"], &[0])?;
        let work = work.to_owned();
        let (known, counts) = Default::default();
        let mut rig =
            Self { machines, sources, conditions, work, random, known, counts, _mounts: mounts };
        for which in [0, 1] {
            let copy = rig.change(which)?;
            let id = rig.machines[which].back_up(&rig.sources[which])?;
            rig.known.push((id, copy));
        }
        Ok(rig)
    }

    fn change(&mut self, which: usize) -> Result<tree::Copy, String> {
        let source = &self.sources[which];
        tree::mutate(source, &mut self.random).map_err(failed("change a tree"))?;
        std::fs::write(source.join("new"), self.random.bytes(2 << 20))
            .map_err(failed("change a tree"))?;
        tree::copy(source).map_err(failed("read a tree"))
    }

    /// One machine does something, or both at once, while the network has some trouble.
    fn round(&mut self) -> Result<(), String> {
        let trouble = *self.random.pick(&[
            Trouble::None,
            Trouble::Losses(20),
            Trouble::Losses(200),
            Trouble::Away { is_hard: true },
            Trouble::Away { is_hard: false },
        ]);
        let first = self.random.below(2) as usize;
        let both = self.random.one_in(3);
        if let Trouble::Losses(losses) = trouble {
            self.conditions.loses(losses);
        }
        let mut running = vec![self.begin(first)?];
        if both {
            running.push(self.begin(1 - first)?);
        }
        if let Trouble::Away { is_hard } = trouble {
            std::thread::sleep(Duration::from_millis(self.random.below(400)));
            self.conditions.goes_away(Duration::from_millis(300), is_hard);
        }
        let is_quiet = !both && matches!(trouble, Trouble::None | Trouble::Away { is_hard: true });
        let ended: Vec<_> = running
            .into_iter()
            .map(|running| (running.act, running.which, running.copy, running.started.end()))
            .collect();
        self.conditions.clears();
        for (act, which, copy, ran) in ended {
            let told = |error| format!("{act:?} on machine {which}, {trouble:?}: {error}");
            self.ended(act, copy, &ran?, is_quiet).map_err(told)?;
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
            Some(FAILED | IN_USE | UNREACHABLE) if !is_quiet => {
                self.counts.refused += 1;
                Ok(())
            }
            // It goes on without what it could not read, and says so.
            Some(3) if !is_quiet && act == Act::Restore => {
                self.counts.refused += 1;
                Ok(())
            }
            _ => Err(ran.told()),
        }
    }

    /// In good weather everything is there, from either machine.
    fn verify(&mut self) -> Result<(), String> {
        let which = self.random.below(2) as usize;
        // Who only reads may miss what another machine has just made.
        std::thread::sleep(LIST_AGE);
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
