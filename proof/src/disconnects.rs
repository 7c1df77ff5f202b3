//! A server, a storage server, nodes that back up to them again and again, and everything between them: `kill -9`
//! of either server and of backups, connections that are reset, closed, stalled or refused. Whoever was cut off
//! goes on by itself, and what was acknowledged is there.

mod node;
mod places;
pub(crate) mod proxy;

use crate::options::{Asked, report};
use crate::server::NewNode;
use node::{Counts, Node, Seen};
use places::Places;
use proxy::Proxy;
use simulation::Random;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

const EVENTS: u64 = 1000;
const NODES: u64 = 3;
/// Events between two looks at everything.
const VERIFY_EVERY: u64 = 25;
/// Longest that a server stays away.
const AWAY_MS_MAX: u64 = 3000;
/// Snapshots of each node that are restored per look, and at the end.
const RESTORES: usize = 1;
const RESTORES_LAST: usize = 6;

/// What was done to them.
#[derive(Default)]
struct Events {
    servers: u64,
    storages: u64,
    backups: u64,
    cuts: u64,
}

/// Whom it happens to: a node, and all ways that its jobs need.
struct Victim {
    ways: Vec<Arc<Proxy>>,
    seen: Arc<Seen>,
    is_elsewhere: bool,
}

struct Rig {
    places: Places,
    nodes: Vec<Node>,
    work: PathBuf,
    random: Random,
    deadline: Option<Instant>,
    events: Events,
    verified: u64,
    restored: u64,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match Asked::parse(arguments, &["--runs", "--nodes"]) {
        Ok(asked) => report("disconnects", |work| run(&asked, work), Ok(())),
        Err(error) => {
            eprintln!("disconnects: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let (begun, seed) = (Instant::now(), asked.seed()?);
    let runs = asked.number("--runs")?.unwrap_or(EVENTS);
    println!("seed {seed}");
    let with_seed = |error: String| format!("{error}\nseed {seed}");
    let mut rig = Rig::start(asked, work, seed)?;
    while rig.events.all() < runs && !rig.is_over() {
        let until = (rig.events.all() + VERIFY_EVERY).min(runs);
        rig.spell(until).and_then(|()| rig.verify()).map_err(with_seed)?;
        println!("{} events, {} s", rig.events.all(), begun.elapsed().as_secs());
    }
    let stored = rig.last().map_err(with_seed)?;
    Ok(rig.said(stored, begun.elapsed()))
}

impl Events {
    fn all(&self) -> u64 {
        self.servers + self.storages + self.backups + self.cuts
    }
}

impl Rig {
    fn start(asked: &Asked, work: &Path, seed: u64) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let places = Places::start(work, &asked.binary())?;
        let mut nodes = Vec::new();
        for number in 1..=asked.number("--nodes")?.unwrap_or(NODES).max(1) {
            let name = format!("node-{number}");
            // Two of them share what they store, and every third is sent to the storage server.
            let domain = if number == 2 { "node-1" } else { &name };
            let new = NewNode { name: &name, domain, is_elsewhere: number % 3 == 0 };
            let (client, ways) = places.enroll(&new, work)?;
            nodes.push(Node::new(&new, client, ways, work, Random::new(random.next()))?);
        }
        let (deadline, work) = (asked.deadline()?, work.to_owned());
        let (events, verified, restored) = Default::default();
        Ok(Self { places, nodes, work, random, deadline, events, verified, restored })
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }

    /// All nodes work, while one thing after the other happens to them.
    fn spell(&mut self, until: u64) -> Result<(), String> {
        let is_over = AtomicBool::new(false);
        let Self { places, nodes, random, events, deadline, .. } = self;
        let victims: Vec<_> = nodes.iter().map(|node| Victim::new(node, places)).collect();
        std::thread::scope(|scope| {
            let working: Vec<_> =
                nodes.iter_mut().map(|node| scope.spawn(|| node.work(&is_over))).collect();
            let mut happened = Ok(());
            let late = || deadline.is_some_and(|deadline| Instant::now() > deadline);
            let failed = || working.iter().any(|thread| thread.is_finished());
            while events.all() < until && happened.is_ok() && !late() && !failed() {
                happened = happens(places, &victims, random, events);
            }
            is_over.store(true, Relaxed);
            for thread in working {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            happened
        })?;
        self.places.calm();
        self.nodes.iter().for_each(|node| node.ways.iter().for_each(|way| way.calm()));
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        self.places.have_not_panicked()?;
        for node in &mut self.nodes {
            let client = node.client.clone();
            self.restored += node.holds(&client, RESTORES)?;
        }
        self.verified += 1;
        Ok(())
    }

    /// All repositories as they lie on the disk, read whole; bytes that they take.
    fn last(&mut self) -> Result<u64, String> {
        self.verify()?;
        self.places.kill();
        for node in &mut self.nodes {
            let place = self.places.of(node.is_elsewhere);
            let client = place.repository_of(&node.domain, &self.work.join(&node.name))?;
            client.ends(&["check", "--read-data"], &[0])?;
            self.restored += node.holds(&client, RESTORES_LAST)?;
        }
        self.places.stored_bytes(&self.work)
    }

    fn said(&self, stored: u64, elapsed: Duration) -> String {
        let Events { servers, storages, backups, cuts } = self.events;
        let sum = |figure: fn(&Counts) -> u64| -> u64 {
            self.nodes.iter().map(|node| figure(&node.counts)).sum()
        };
        let mib = |bytes: u64| bytes >> 20;
        let ways = || self.nodes.iter().flat_map(|node| &node.ways);
        let up: u64 = ways().map(|way| way.bytes_up()).sum();
        let resets: u64 = ways().map(|way| way.resets()).sum();
        format!(
            "{} events: server killed {servers} times, storage server {storages} times, {backups} kills sent to jobs ({} met one that still ran), connections cut, stalled or refused {cuts} times (and {resets} in the middle of a file); {} backups ({} to the storage server), of which {} lost their connection and went on ({} began again since the killed server had lost their session), {} partial; {} restores meanwhile; {} jobs found no server at their start; of {} MiB that backups sent {} MiB were sent twice (on the wire {} MiB in all, {} MiB stored); {} looks at all, {} snapshots restored as they were, check --read-data clean, {} s",
            self.events.all(),
            sum(|it| it.killed),
            sum(|it| it.backups),
            self.nodes.iter().filter(|it| it.is_elsewhere).map(|it| it.counts.backups).sum::<u64>(),
            sum(|it| it.went_on),
            sum(|it| it.sessions_lost),
            sum(|it| it.partial),
            sum(|it| it.restores),
            sum(|it| it.not_begun),
            mib(sum(|it| it.sent_bytes)),
            mib(sum(|it| it.resent_bytes)),
            mib(up),
            mib(stored),
            self.verified,
            self.restored,
            elapsed.as_secs()
        )
    }
}

impl Victim {
    fn new(node: &Node, places: &Places) -> Self {
        let mut ways = node.ways.clone();
        if node.is_elsewhere {
            ways.push(places.asking.clone());
        }
        Self { ways, seen: node.seen.clone(), is_elsewhere: node.is_elsewhere }
    }
}

/// One thing happens, at a moment that nobody chose.
fn happens(
    places: &mut Places,
    victims: &[Victim],
    random: &mut Random,
    events: &mut Events,
) -> Result<(), String> {
    sleep(Duration::from_millis(10 + random.below(300)));
    let Victim { ways, seen, .. } = random.pick(victims);
    match random.below(13) {
        0..=2 => {
            dies(places, false, victims, random)?;
            events.servers += 1;
        }
        3 if victims.iter().any(|victim| victim.is_elsewhere) => {
            dies(places, true, victims, random)?;
            events.storages += 1;
        }
        4..=6 if seen.is_running.load(Relaxed) => {
            seen.is_to_be_killed.store(true, Relaxed);
            events.backups += 1;
        }
        7.. => {
            let way = random.pick(ways).clone();
            events.cuts += u64::from(trouble(&way, random) > 0);
        }
        _ => {}
    }
    Ok(())
}

/// `kill -9` of a server, which comes back at once or after a while.
fn dies(
    places: &mut Places,
    is_storage: bool,
    victims: &[Victim],
    random: &mut Random,
) -> Result<(), String> {
    // A job that begins while this is at it may still meet the server that dies.
    let its: Vec<_> = victims.iter().filter(|it| it.is_elsewhere == is_storage).collect();
    for victim in &its {
        victim.seen.server_kills.fetch_add(1, Relaxed);
    }
    let place = places.of_mut(is_storage);
    place.kill();
    for victim in &its {
        victim.seen.server_deaths.fetch_add(1, Relaxed);
    }
    if random.one_in(2) {
        sleep(Duration::from_millis(random.below(AWAY_MS_MAX)));
    }
    place.start()
}

/// Something with the way; how many connections it met.
fn trouble(proxy: &Proxy, random: &mut Random) -> usize {
    match random.below(6) {
        0 | 1 => proxy.cut(true),
        2 => proxy.cut(false),
        3 => proxy.stall(Duration::from_millis(200 + random.below(4000))),
        4 => proxy.refuse(Duration::from_millis(100 + random.below(2000))),
        _ => {
            proxy.reset_after(1 + random.below(8 << 20));
            0
        }
    }
}
