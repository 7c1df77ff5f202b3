//! A fault at the N-th system call that touches the repository, for N = 1, 2, … until the command
//! ends untouched: killed before it, failing, said to fail although done, or half of the bytes.
//!
//! Each run begins on a copy of one repository. Behind it, `check` finds nothing, every snapshot
//! restores as it was, and the next backup works, without any repair by hand.

mod calls;
mod stage;
mod tracer;

use crate::options::Asked;
use nix::errno::Errno;
use simulation::Random;
use stage::{Stage, Task};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tracer::Fault;

const FAULTS: [Fault; 7] = [
    Fault::Kill,
    Fault::Fails(Errno::EIO),
    Fault::Fails(Errno::ENOSPC),
    Fault::Fails(Errno::EROFS),
    Fault::Fails(Errno::EINTR),
    Fault::SaidToFail(Errno::EIO),
    Fault::Short,
];

struct Options {
    binary: PathBuf,
    /// A sample of calls for this long, instead of all.
    limit: Option<Duration>,
    seed: u64,
    /// Only this command.
    only: Option<String>,
}

#[derive(Default)]
struct Counts {
    killed: u64,
    failed: u64,
    done: u64,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    crate::options::said("inject", options(arguments).and_then(|options| run(&options)))
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let asked = Asked::parse(arguments, &["--only"])?;
    let only = asked.text("--only").map(str::to_lowercase);
    Ok(Options { binary: asked.binary(), limit: asked.limit()?, seed: asked.seed()?, only })
}

fn run(options: &Options) -> Result<String, String> {
    let begun = Instant::now();
    let work = std::env::temp_dir().join(format!("icecore-inject-{}", std::process::id()));
    let result = rounds(options, &work);
    let Counts { killed, failed, done } =
        result.map_err(|error| format!("{error}\nkept: {}", work.display()))?;
    std::fs::remove_dir_all(&work).map_err(crate::failed("remove the working directory"))?;
    let runs = killed + failed + done;
    let secs = begun.elapsed().as_secs();
    Ok(format!(
        "{runs} runs met a fault at a system call: {killed} killed, {failed} failed, {done} completed anyway; nothing acknowledged was lost, {secs} s"
    ))
}

fn rounds(options: &Options, work: &Path) -> Result<Counts, String> {
    let mut stage = Stage::make(&options.binary, work)?;
    let mut counts = Counts::default();
    match options.limit {
        None => {
            let is_wanted = |task: &Task| {
                let name = format!("{task:?}").to_lowercase();
                options.only.as_ref().is_none_or(|only| *only == name)
            };
            for task in Task::ALL.into_iter().filter(is_wanted) {
                for fault in FAULTS {
                    every_call(&mut stage, &mut counts, task, fault)?;
                }
            }
        }
        Some(limit) => sample(&mut stage, &mut counts, limit, options.seed)?,
    }
    Ok(counts)
}

/// N = 1, 2, … until the command ends untouched.
fn every_call(
    stage: &mut Stage,
    counts: &mut Counts,
    task: Task,
    fault: Fault,
) -> Result<(), String> {
    stage.calls_of(task, fault)?;
    let mut picked = 1;
    while one(stage, counts, task, fault, picked)? {
        picked += 1;
    }
    println!("{task:?}, {fault:?}: {} calls", picked - 1);
    Ok(())
}

/// Calls at random for some time; the repository, too, changes with the seed.
fn sample(
    stage: &mut Stage,
    counts: &mut Counts,
    limit: Duration,
    seed: u64,
) -> Result<(), String> {
    println!("seed {seed}");
    let (begun, mut random) = (Instant::now(), Random::new(seed));
    while begun.elapsed() < limit {
        let (task, fault) = (*random.pick(&Task::ALL), *random.pick(&FAULTS));
        let calls = stage.calls_of(task, fault)?;
        if calls > 0 {
            one(stage, counts, task, fault, 1 + random.below(calls))?;
        }
    }
    Ok(())
}

/// Whether the call was reached. What must hold after it does, or there is an error.
fn one(
    stage: &mut Stage,
    counts: &mut Counts,
    task: Task,
    fault: Fault,
    picked: u64,
) -> Result<bool, String> {
    let told = |error: String| format!("{task:?}, {fault:?} at call {picked}: {error}");
    let ended = stage.run(task, fault, picked).map_err(told)?;
    if ended.calls < picked {
        return Ok(false);
    }
    match ended.code {
        None => counts.killed += 1,
        Some(0) => counts.done += 1,
        Some(_) => counts.failed += 1,
    }
    stage.verify(task, fault, ended.code).map_err(told)?;
    Ok(true)
}
