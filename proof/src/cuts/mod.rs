//! A server, nodes that back up to it again and again, and everything between them: `kill -9` of the
//! server and of backups, connections that are reset, closed, stalled or refused. Whoever was cut off
//! goes on by itself, and what was acknowledged is there.

mod node;
mod proxy;

use crate::failed;
use crate::options::{Asked, report};
use crate::server::Server;
use node::{Counts, Node, Seen};
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
    backups: u64,
    cuts: u64,
}

struct Rig {
    server: Server,
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
        Ok(asked) => report("cuts", |work| run(&asked, work), Ok(())),
        Err(error) => {
            eprintln!("cuts: {error}");
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
        self.servers + self.backups + self.cuts
    }
}

impl Rig {
    fn start(asked: &Asked, work: &Path, seed: u64) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let server = Server::start_in(work, &asked.binary())?;
        let mut nodes = Vec::new();
        for number in 1..=asked.number("--nodes")?.unwrap_or(NODES).max(1) {
            let name = format!("node-{number}");
            // Two of them share what they store.
            let domain = if number == 2 { "node-1" } else { &name };
            let proxy = Arc::new(Proxy::start(server.port())?);
            let client = server.enrol(&name, domain, &work.join(&name), proxy.port)?;
            let random = Random::new(random.next());
            nodes.push(Node::new(&name, domain, client, proxy, work, random)?);
        }
        let (deadline, work) = (asked.deadline()?, work.to_owned());
        let (events, verified, restored) = Default::default();
        Ok(Self { server, nodes, work, random, deadline, events, verified, restored })
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }

    /// All nodes work, while one thing after the other happens to them.
    fn spell(&mut self, until: u64) -> Result<(), String> {
        let is_over = AtomicBool::new(false);
        let Self { server, nodes, random, events, deadline, .. } = self;
        let victims: Vec<_> =
            nodes.iter().map(|node| (node.proxy.clone(), node.seen.clone())).collect();
        std::thread::scope(|scope| {
            let working: Vec<_> =
                nodes.iter_mut().map(|node| scope.spawn(|| node.work(&is_over))).collect();
            let mut happened = Ok(());
            let late = || deadline.is_some_and(|deadline| Instant::now() > deadline);
            let failed = || working.iter().any(|thread| thread.is_finished());
            while events.all() < until && happened.is_ok() && !late() && !failed() {
                happened = happens(server, &victims, random, events);
            }
            is_over.store(true, Relaxed);
            for thread in working {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            happened
        })?;
        self.nodes.iter().for_each(|node| node.proxy.calm());
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        self.server.has_not_panicked()?;
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
        self.server.kill();
        for node in &mut self.nodes {
            let folder = self.work.join(&node.name);
            let client = self.server.repository_of(&node.domain, &folder)?;
            client.ends(&["check", "--read-data"], &[0])?;
            self.restored += node.holds(&client, RESTORES_LAST)?;
        }
        bytes_below(&self.work.join("server/pool")).map_err(failed("measure the repositories"))
    }

    fn said(&self, stored: u64, elapsed: Duration) -> String {
        let Events { servers, backups, cuts } = self.events;
        let sum = |figure: fn(&Counts) -> u64| -> u64 {
            self.nodes.iter().map(|node| figure(&node.counts)).sum()
        };
        let mib = |bytes: u64| bytes >> 20;
        let up: u64 = self.nodes.iter().map(|node| node.proxy.bytes_up()).sum();
        let resets: u64 = self.nodes.iter().map(|node| node.proxy.resets()).sum();
        format!(
            "{} events: server killed {servers} times, {backups} kills sent to jobs ({} met one that still ran), connections cut, stalled or refused {cuts} times (and {resets} in the middle of a file); {} backups, of which {} lost their connection and went on ({} began again since the killed server had lost their session), {} partial; {} restores meanwhile; {} jobs found no server at their start; of {} MiB that backups sent {} MiB were sent twice (on the wire {} MiB in all, {} MiB stored); {} looks at all, {} snapshots restored as they were, check --read-data clean, {} s",
            servers + backups + cuts,
            sum(|it| it.killed),
            sum(|it| it.backups),
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

/// One thing happens, at a moment that nobody chose.
fn happens(
    server: &mut Server,
    victims: &[(Arc<Proxy>, Arc<Seen>)],
    random: &mut Random,
    events: &mut Events,
) -> Result<(), String> {
    sleep(Duration::from_millis(10 + random.below(300)));
    let (proxy, seen) = random.pick(victims);
    match random.below(12) {
        0..=2 => {
            for (_, seen) in victims {
                seen.server_kills.fetch_add(1, Relaxed);
            }
            server.kill();
            if random.one_in(2) {
                sleep(Duration::from_millis(random.below(AWAY_MS_MAX)));
            }
            server.start()?;
            events.servers += 1;
        }
        3..=5 if seen.is_running.load(Relaxed) => {
            seen.is_to_be_killed.store(true, Relaxed);
            events.backups += 1;
        }
        6.. => events.cuts += u64::from(trouble(proxy, random) > 0),
        _ => {}
    }
    Ok(())
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

fn bytes_below(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let (path, metadata) = entry.and_then(|it| Ok((it.path(), it.metadata()?)))?;
        bytes += if metadata.is_dir() { bytes_below(&path)? } else { metadata.len() };
    }
    Ok(bytes)
}
