//! Upkeep beside backups: nodes back up changing trees to one domain without a pause, a session is open in it all the
//! time, and its server reclaims and checks it meanwhile, in turn with times of rest. Measures what that costs the
//! backups, and whether the domain gets its space back.

mod nodes;
mod server_jobs;

use crate::client::Client;
use crate::failed;
use crate::options::{Asked, report};
use crate::server::{NewNode, Server};
use nodes::{Nodes, OpenSession};
use serde_json::json;
use server_jobs::ServerJobs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) const DOMAIN: &str = "busy";
const NODES: u64 = 12;
/// Whole time of both kinds of phases.
const SECONDS: u64 = 240;
/// Times of rest and of upkeep, in turn.
const CYCLES: u32 = 3;
/// What is left of the rate of backups while upkeep runs.
const RATE_MIN: f64 = 0.8;
/// What the domain may take after a cycle, of what a new repository with the same snapshots takes. The server manages
/// its keys, so it repacks records that are partly unused.
const SPACE_MAX: f64 = 1.1;

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match Asked::parse(arguments, &["--nodes"]) {
        Ok(asked) => report("upkeep", |work| run(&asked, work), Ok(())),
        Err(error) => {
            eprintln!("upkeep: {error}");
            ExitCode::from(2)
        }
    }
}

/// What one cycle showed.
struct Cycle {
    /// Backups per second at rest, and under upkeep.
    rates: [f64; 2],
    /// Bytes of containers, before and after the last reclaim, and of the new repository.
    bytes: [u64; 3],
    tasks: usize,
}

impl Cycle {
    fn rate(&self) -> f64 {
        self.rates[1] / self.rates[0].max(f64::MIN_POSITIVE)
    }

    fn space(&self) -> f64 {
        self.bytes[1] as f64 / self.bytes[2].max(1) as f64
    }
}

/// A server whose domain never rests.
struct Rig<'a> {
    nodes: Nodes,
    open: OpenSession,
    jobs: ServerJobs,
    binary: &'a Path,
    work: &'a Path,
    /// A short run beside other work.
    is_small: bool,
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let count = asked.number("--nodes")?.unwrap_or(NODES);
    let seconds = asked.number("--seconds")?.unwrap_or(SECONDS);
    let (binary, phase) = (asked.binary(), Duration::from_secs(seconds) / (2 * CYCLES));
    let server = Server::start_in(work, &binary)?;
    let nodes = Nodes::start(&server, work, count)?;
    let stream = NewNode { name: "stream", domain: DOMAIN, is_elsewhere: false };
    let stream = server.enroll(&stream, &work.join("stream"), server.port())?;
    let open = OpenSession::begin(stream)?;
    let jobs = ServerJobs::new(&binary, &work.join("server"));
    // Few nodes beside other work say nothing of time.
    let is_small = count < NODES;
    let mut rig = Rig { nodes, open, jobs, binary: &binary, work, is_small };
    let mut cycles = Vec::new();
    for number in 0..CYCLES {
        let cycle = rig.cycle(phase)?;
        let Cycle { rates: [calm, busy], bytes: [before, after, ideal], tasks } = cycle;
        println!(
            "{}",
            json!({"cycle": number, "backups_per_sec": calm, "under_upkeep": busy, "tasks": tasks,
                "bytes_before": before, "bytes": after, "bytes_of_new_repository": ideal})
        );
        cycles.push(cycle);
    }
    let backups = rig.nodes.end()?;
    rig.open.end()?;
    server.has_not_panicked()?;
    let told = verdict(&cycles, is_small)?;
    Ok(format!(
        "{count} nodes, {backups} backups, no error: {told}, {} s",
        begun.elapsed().as_secs()
    ))
}

fn verdict(cycles: &[Cycle], is_small: bool) -> Result<String, String> {
    let of = |at: usize| cycles.iter().map(|cycle| cycle.rates[at]).sum::<f64>();
    let rate = of(1) / of(0).max(f64::MIN_POSITIVE);
    let (least, largest) = (
        cycles.iter().map(Cycle::rate).fold(f64::MAX, f64::min),
        cycles.iter().map(Cycle::space).fold(0.0, f64::max),
    );
    let tasks: usize = cycles.iter().map(|cycle| cycle.tasks).sum();
    let told = format!(
        "{tasks} tasks of upkeep left {:.0} % of the rate of backups (least of a cycle {:.0} %); the domain took at most \
         {largest:.3} × what a new repository takes",
        rate * 100.0,
        least * 100.0
    );
    match () {
        () if !is_small && rate < RATE_MIN => Err(format!("backups were slowed down: {told}")),
        () if largest > SPACE_MAX => Err(format!("space did not come back: {told}")),
        () if is_small => Ok(format!("{told}; times are not judged of so few")),
        () => Ok(told),
    }
}

impl Rig<'_> {
    /// A time of rest, then one of upkeep; then the nodes pause, and a last reclaim shows the space.
    fn cycle(&mut self, phase: Duration) -> Result<Cycle, String> {
        let begun = Instant::now();
        self.nodes.wait(phase)?;
        let calm = self.nodes.rate(begun, Instant::now());
        let (begun, mut tasks) = (Instant::now(), 0);
        while begun.elapsed() < phase {
            tasks += self.jobs.forget_reclaim_check()?;
            self.nodes.wait(Duration::ZERO)?;
        }
        let busy = self.nodes.rate(begun, Instant::now());
        self.nodes.pause();
        // There is always a session: the next one begins before the last one ends.
        self.open.renew()?;
        let before = self.stored();
        self.jobs.forget_reclaim_check()?;
        let (mut after, ideal) = (self.stored(), self.ideal()?);
        if self.is_small && after as f64 > ideal as f64 * SPACE_MAX {
            // On a busy machine the session of before may still have ended while it ran: what that one had pinned stays
            // for the next one.
            self.jobs.forget_reclaim_check()?;
            after = self.stored();
        }
        self.nodes.go_on();
        Ok(Cycle { rates: [calm, busy], bytes: [before, after, ideal], tasks })
    }

    fn stored(&self) -> u64 {
        containers_bytes(&self.work.join("server/pool/domains").join(DOMAIN))
    }

    /// What a new repository takes into which each node backs its tree up once.
    fn ideal(&self) -> Result<u64, String> {
        let repository = self.work.join("ideal");
        let client = Client::new(self.binary, &repository);
        client.ends(&["init"], &[0])?;
        for source in self.nodes.sources() {
            client.back_up(source)?;
        }
        let bytes = containers_bytes(&repository);
        std::fs::remove_dir_all(&repository).map_err(failed("remove a repository"))?;
        Ok(bytes)
    }
}

/// Bytes of all containers of a repository.
fn containers_bytes(repository: &Path) -> u64 {
    let list = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let files = list(&repository.join("containers")).flat_map(|shard| list(&shard.path()));
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(rates: [f64; 2], bytes: [u64; 3]) -> Cycle {
        Cycle { rates, bytes, tasks: 3 }
    }

    #[test]
    fn slow_backups_and_space_that_stays_are_told() {
        let good = cycle([4.0, 3.6], [900, 104, 100]);
        let told = verdict(&[good], false).expect("a good one");
        assert!(told.contains("90 %") && told.contains("1.040 ×"), "{told}");
        assert!(verdict(&[cycle([4.0, 3.0], [900, 104, 100])], false).is_err());
        assert!(verdict(&[cycle([4.0, 3.0], [900, 104, 100])], true).is_ok(), "few nodes");
        assert!(verdict(&[cycle([4.0, 4.0], [900, 111, 100])], true).is_err());
    }
}
