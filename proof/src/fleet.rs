//! A fleet: a thousand nodes that back up at once, ten thousand agents that wait for commands, and
//! strangers that mean harm, all at one real server process over TLS.

mod harm;
mod idle;
mod member;
mod node;
mod storm;
mod wire;

use crate::client::Client;
use crate::failed;
use crate::options::{Asked, report};
use crate::server::{NewNode, Server};
use member::{Fleet, Member};
use serde_json::json;
use simulation::Random;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const NODES: u64 = 1_000;
const IDLE: u64 = 10_000;
/// A server of so many nodes at work takes less memory than this, and one of so many waiting agents.
const WORKING_MIB_MAX: u64 = 1024;
const WAITING_MIB_MAX: u64 = 1536;
/// No node is slower than the one in the middle by more than this, nor has less than this part of
/// what that one has at half time.
const SLOWEST_MAX: f64 = 2.0;
const LEAST_PART: f64 = 0.5;
/// What harm may cost a backup that runs meanwhile.
const HARM_MAX: f64 = 1.5;
/// How much longer a backup may wait for its turn among them, now and then.
const WAITS_SECS_MAX: f64 = 5.0;
/// The same on a machine that does other work.
const WAITS_SECS_MAX_SMALL: f64 = 60.0;
/// Source of that backup, and how often it is measured.
const LARGE_BYTES: u64 = 96 << 20;
const TIMES: usize = 5;
/// Snapshots of the fleet that are restored by the real program.
const RESTORED: usize = 3;

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match Asked::parse(arguments, &["--nodes", "--idle"]) {
        Ok(asked) => report("fleet", |work| run(&asked, work), Ok(())),
        Err(error) => {
            eprintln!("fleet: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(asked: &Asked, work: &Path) -> Result<String, String> {
    let begun = Instant::now();
    let nodes = asked.number("--nodes")?.unwrap_or(NODES);
    let idle = asked.number("--idle")?.unwrap_or(IDLE);
    raise_open_files()?;
    let mut fleet = Fleet::enroll(work, nodes, idle)?;
    println!("{nodes} nodes and {idle} agents enrolled, {} s", begun.elapsed().as_secs());
    let server = Server::start_in(work, &asked.binary())?;
    let runtime = Runtime::new().map_err(failed("make a runtime"))?;
    let members = std::mem::take(&mut fleet.nodes);
    let storm = runtime.block_on(storm::run(server.port(), members))?;
    let working_mib = peak_mib(&server)?;
    println!("{}", json!({"storm": storm.to_json(), "server_peak_mib": working_mib}));
    restores(&fleet.samples, &server, asked, work)?;

    let robbed = fleet.idle.first().cloned().ok_or("no agents")?;
    let agents = runtime.block_on(idle::connect(server.port(), std::mem::take(&mut fleet.idle)))?;
    let waiting_mib = peak_mib(&server)?;
    println!(
        "{}",
        json!({"idle": idle, "connected_secs": agents.secs, "server_peak_mib": waiting_mib})
    );
    let honest = NewNode { name: "honest", domain: "honest", is_elsewhere: false };
    let honest = server.enroll(&honest, &work.join("honest"), server.port())?;
    let mut rig = Honest { client: honest, source: work.join("large"), random: Random::new(nodes) };
    let [calm, _] = rig.measure()?;
    let harm = harm::begin(&runtime, server.port(), &robbed);
    std::thread::sleep(Duration::from_secs(3));
    let [harmed, longest] = rig.measure()?;
    let ratio = harmed / calm;
    let strangers = harm.end();
    println!(
        "{}",
        json!({"backup_secs": calm, "backup_secs_under_harm": harmed, "longest_of_them": longest, "ratio": ratio, "strangers": strangers})
    );
    let left = agents.still_connected();
    server.has_not_panicked()?;
    // Few nodes on a machine that does other work say nothing of time.
    let is_small = nodes < NODES;
    let waits_max = if is_small { WAITS_SECS_MAX_SMALL } else { WAITS_SECS_MAX };
    let verdicts = [
        (
            is_small || storm.slowest <= SLOWEST_MAX,
            "the slowest node took more than twice the usual time",
        ),
        (
            is_small || storm.least_part >= LEAST_PART,
            "a node had less than half of the usual at half time",
        ),
        (working_mib <= WORKING_MIB_MAX, "the server took too much memory for nodes at work"),
        (waiting_mib <= WAITING_MIB_MAX, "the server took too much memory for idle agents"),
        (left == idle, "idle agents lost their connection"),
        (is_small || ratio <= HARM_MAX, "strangers slowed a backup"),
        (longest <= calm + waits_max, "hostile clients kept a backup from starting"),
    ];
    if let Some((_, what)) = verdicts.iter().find(|(is_well, _)| !is_well) {
        return Err((*what).to_owned());
    }
    let judged = if is_small { "; times are not judged of so few" } else { "" };
    Ok(format!(
        "{nodes} nodes at once: all completed, the slowest in {:.2} × the median time, the minimum at half time {:.2} of the median, server {working_mib} MiB; {idle} idle agents: server {waiting_mib} MiB; a backup under harm took {ratio:.2} × as long{judged}, {} s",
        storm.slowest,
        storm.least_part,
        begun.elapsed().as_secs()
    ))
}

/// Some snapshots of the fleet, restored by the real program, are what was sent.
fn restores(samples: &[Member], server: &Server, asked: &Asked, work: &Path) -> Result<(), String> {
    for member in samples.iter().take(RESTORED) {
        let folder = work.join("sample").join(&member.name);
        member.keep(&folder, server.port())?;
        let mut client = Client::new(&asked.binary(), Path::new("/nonexistent"));
        client.agent = Some(folder.clone());
        let target = folder.join("target");
        let to = target.to_string_lossy().into_owned();
        client.ends(&["restore", "latest", "--target", &to], &[0])?;
        for (name, bytes) in member.files() {
            let found = std::fs::read(target.join("tree").join(&name)).unwrap_or_default();
            if found != bytes {
                return Err(format!("{}: {name} was not restored as it was", member.name));
            }
        }
    }
    Ok(())
}

/// A real backup that is measured.
struct Honest {
    client: Client,
    source: std::path::PathBuf,
    random: Random,
}

impl Honest {
    /// Median and longest seconds of a backup of new content.
    fn measure(&mut self) -> Result<[f64; 2], String> {
        let mut times = Vec::new();
        for _ in 0..TIMES {
            std::fs::create_dir_all(&self.source).map_err(failed("make a source"))?;
            let words = (0..LARGE_BYTES / 8).flat_map(|_| self.random.next().to_le_bytes());
            let bytes: Vec<u8> = words.collect();
            std::fs::write(self.source.join("large"), bytes).map_err(failed("make a source"))?;
            let begun = Instant::now();
            self.client.back_up(&self.source)?;
            times.push(begun.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok([times[TIMES / 2], times[TIMES - 1]])
    }
}

/// Most memory that the server ever had.
fn peak_mib(server: &Server) -> Result<u64, String> {
    let id = server.id().ok_or("the server does not run")?;
    let status = std::fs::read_to_string(format!("/proc/{id}/status"));
    let status = status.map_err(failed("ask how much memory the server takes"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib >> 10).ok_or_else(|| "the system does not report its memory".to_owned())
}

fn raise_open_files() -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    let limits = Rlimit { current: limits.maximum, ..limits };
    setrlimit(Resource::Nofile, limits).map_err(|error| format!("open files: {error}"))
}

/// Numbers in the order of their size.
fn sorted(numbers: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = numbers.into_iter().collect();
    all.sort_by(f64::total_cmp);
    all
}
