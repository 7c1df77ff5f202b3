//! Storage servers whose pools lie on a shared file system: one is frozen, killed or cut off while all nodes back up,
//! and another machine takes its pool over. Each backup ends complete, what was acknowledged restores, and the old
//! machine ends when it comes back.

mod network;
mod nodes;
mod servers;

use crate::alone::{self, INSIDE};
use crate::options::{Asked, report_in, skipped};
use crate::{failed, mounted, tree};
use network::Host;
use nodes::Node;
use rustix::process::Signal;
use servers::{Control, Storage};
use simulation::Random;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 6;
const SERVERS: usize = 3;
const NODES: usize = 12;
/// Last bytes of the addresses of storage servers, and of machines that take over.
const SERVERS_AT: u8 = 10;
const SPARES: u8 = 20;
const ROUNDS_MAX: u64 = 200;

#[derive(Clone, Copy, Debug)]
enum Harm {
    /// It stands still, and goes on when its pool was taken over.
    Frozen,
    /// The same, but it goes on only when all is over.
    FrozenForLong,
    Killed,
    /// It reaches its pool, but neither the control server nor the nodes.
    CutOff,
}

const HARMS: [Harm; 4] = [Harm::Frozen, Harm::Killed, Harm::FrozenForLong, Harm::CutOff];

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let asked = match Asked::parse(arguments, &["--rounds", INSIDE]) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("takeover: {error}");
            return ExitCode::from(2);
        }
    };
    if !rustix::process::geteuid().is_root() {
        return skipped("takeover", "needs root for networks of its own");
    }
    match asked.text(INSIDE) {
        Some(name) => report_in(name, "takeover", |work| run(&asked, work), mounted::be_alone()),
        None => alone::again("takeover", arguments),
    }
}

/// Everything that runs.
struct Rig {
    work: PathBuf,
    control: Control,
    storages: Vec<Storage>,
    nodes: Vec<Node>,
    random: Random,
    harms: Vec<Harm>,
    restored: u64,
    longest: Duration,
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let (deadline, seed) = (asked.deadline()?, asked.seed()?);
    println!("seed {seed}");
    let with_seed = |error: String| format!("{error}\nseed {seed}");
    let mut rig = start(work, &asked.binary(), seed).map_err(with_seed)?;
    let rounds = asked.number("--rounds")?.unwrap_or(ROUNDS).min(ROUNDS_MAX);
    for round in 0..rounds {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
        rig.round(round).map_err(with_seed)?;
    }
    let Rig { harms, restored, longest, .. } = rig;
    Ok(format!(
        "{} pools taken over ({harms:?}), {} backups of {NODES} nodes complete, the longest after {} s, {restored} snapshots restored as they were, {} s",
        harms.len(),
        harms.len() * NODES,
        longest.as_secs(),
        begun.elapsed().as_secs()
    ))
}

fn start(work: &Path, binary: &Path, seed: u64) -> Result<Rig, String> {
    network::bridge()?;
    let mut random = Random::new(seed);
    let control = Control::start(work, binary, Host::new("control", 2)?)?;
    let clients = Host::new("clients", 3)?;
    let (mut storages, mut nodes) = (Vec::new(), Vec::new());
    for number in 0..SERVERS {
        let name = server_name(number);
        let host = Host::new(&name, SERVERS_AT + number as u8)?;
        let (data, pool) = (work.join(&name), pool(work, number));
        std::fs::create_dir_all(&pool).map_err(failed("make a pool"))?;
        storages.push(Storage::start(&control, (&name, &host), (data, &pool), &[])?);
    }
    for number in 0..NODES {
        let home = number % SERVERS;
        let who = (number, home, &*server_name(home));
        nodes.push(Node::enroll(&control, (work, binary, &clients), who, &mut random)?);
    }
    let (work, harms) = (work.to_owned(), Vec::new());
    let (restored, longest) = (0, Duration::ZERO);
    Ok(Rig { work, control, storages, nodes, random, harms, restored, longest })
}

fn server_name(number: usize) -> String {
    format!("disk-{number}")
}

fn pool(work: &Path, number: usize) -> PathBuf {
    work.join("shared").join(server_name(number))
}

impl Rig {
    fn round(&mut self, round: u64) -> Result<(), String> {
        let harm = HARMS[self.harms.len() % HARMS.len()];
        let victim = self.random.below(SERVERS as u64) as usize;
        let since = Instant::now();
        let begun = self.begin()?;
        std::thread::sleep(Duration::from_millis(500 + self.random.below(3500)));
        let old = self.strike(harm, victim, round)?;
        if matches!(harm, Harm::Frozen) {
            self.comes_back(harm, old)?;
            self.end(begun)?;
        } else {
            self.end(begun)?;
            self.comes_back(harm, old)?;
        }
        self.longest = self.longest.max(since.elapsed());
        self.verify()?;
        println!("round {round}: {harm:?}, {} s", since.elapsed().as_secs());
        self.harms.push(harm);
        Ok(())
    }

    fn begin(&mut self) -> Result<Vec<(tree::Copy, crate::client::Started)>, String> {
        let random = &mut self.random;
        self.nodes.iter_mut().map(|node| node.begin(random)).collect()
    }

    fn end(&mut self, begun: Vec<(tree::Copy, crate::client::Started)>) -> Result<(), String> {
        self.nodes.iter_mut().zip(begun).try_for_each(|(node, begun)| node.end(begun))
    }

    /// Does harm to a storage server, and has another machine take its pool over; the one of before.
    fn strike(&mut self, harm: Harm, victim: usize, round: u64) -> Result<Storage, String> {
        let old = &self.storages[victim];
        match harm {
            Harm::Frozen | Harm::FrozenForLong => old.signal(Signal::STOP),
            Harm::Killed => old.signal(Signal::KILL),
            Harm::CutOff => old.host.is_connected(false)?,
        }
        let name = server_name(victim);
        let host = Host::new(&format!("spare-{round}"), SPARES + round as u8)?;
        let data = self.work.join(format!("{name}-{round}"));
        let there = (data, &*pool(&self.work, victim));
        let new = Storage::start(&self.control, (&name, &host), there, &["--take-over"])?;
        Ok(std::mem::replace(&mut self.storages[victim], new))
    }

    /// The old machine goes on, is told that it is none any more, and ends.
    fn comes_back(&self, harm: Harm, old: Storage) -> Result<(), String> {
        match harm {
            Harm::Frozen | Harm::FrozenForLong => old.signal(Signal::CONT),
            Harm::CutOff => old.host.is_connected(true)?,
            Harm::Killed => {}
        }
        let (name, code) = (old.name.clone(), old.end()?);
        match (harm, code) {
            (Harm::Killed, None) | (_, Some(13)) => Ok(()),
            _ => Err(format!("the old machine of {name} ended with {code:?} after {harm:?}")),
        }
    }

    fn verify(&mut self) -> Result<(), String> {
        for node in &self.nodes {
            self.storages[node.home].checks(&node.name)?;
            self.restored += node.restores(&mut self.random)?;
        }
        let jobs = self.control.govern(&["jobs", "--state", "running"])?;
        let running = jobs.iter().filter(|job| job["kind"] == "backup").count();
        match running {
            0 => Ok(()),
            _ => Err(format!("{running} backups are said to run, and all have ended")),
        }
    }
}
