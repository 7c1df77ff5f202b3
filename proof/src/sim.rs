//! Many seeds of the simulation, on all processors.

use simulation::world::{self, Failure, Outcome};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SEEDS: u64 = 1000;

struct Options {
    first: u64,
    seeds: u64,
    limit: Option<Duration>,
    is_logged: bool,
}

#[derive(Default)]
struct Totals {
    seeds: u64,
    outcome: Outcome,
    failed: Option<(u64, Failure)>,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match Options::parse(arguments) {
        Ok(options) if options.is_logged => print_log(options.first),
        Ok(options) => run(&options),
        Err(reason) => {
            eprintln!("sim: {reason}");
            ExitCode::from(2)
        }
    }
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self { first: 0, seeds: SEEDS, limit: None, is_logged: false };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().ok_or(format!("{word} needs a number"))?;
                value.parse().map_err(|_| format!("{word} {value} is not a number"))
            };
            match word.as_str() {
                "--first" => options.first = number()?,
                "--seeds" => options.seeds = number()?,
                "--seconds" => options.limit = Some(Duration::from_secs(number()?)),
                "--log" => options.is_logged = true,
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(options)
    }
}

fn print_log(seed: u64) -> ExitCode {
    match world::run(seed, true).and_then(|_| world::corruption::run(seed, true)) {
        Ok(outcome) => {
            println!("seed {seed}: {outcome:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            failure.log.iter().for_each(|line| println!("{line}"));
            println!("seed {seed}: {}", failure.what);
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> ExitCode {
    let (begun, next) = (Instant::now(), AtomicU64::new(options.first));
    let totals = Mutex::new(Totals::default());
    let is_over = || options.limit.is_some_and(|limit| begun.elapsed() > limit);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| while !is_over() && one(options, &next, &totals) {});
        }
    });
    let totals = totals.into_inner().unwrap_or_default();
    let Totals { seeds, outcome, failed } = totals;
    let Some((seed, failure)) = failed else {
        println!(
            "{seeds} seeds in {:.1} s: {} operations, {} faults, {} backups; every acknowledged snapshot is there, and damage lost only what it covered",
            begun.elapsed().as_secs_f64(),
            outcome.operations,
            outcome.faults,
            outcome.backups
        );
        return ExitCode::SUCCESS;
    };
    eprintln!("sim: seed {seed}: {}", failure.what);
    eprintln!("sim: to repeat: cargo proof sim --first {seed} --log");
    ExitCode::FAILURE
}

/// Runs the next seed. Returns whether to continue.
fn one(options: &Options, next: &AtomicU64, totals: &Mutex<Totals>) -> bool {
    let seed = next.fetch_add(1, Ordering::Relaxed);
    if seed - options.first >= options.seeds {
        return false;
    }
    // Once with faults that may not cost anything, once with damage.
    let result = world::run(seed, false).and_then(|outcome| {
        let rotten = world::corruption::run(seed, false)?;
        Ok(outcome.and(&rotten))
    });
    let Ok(mut totals) = totals.lock() else { return false };
    totals.seeds += 1;
    match result {
        Ok(outcome) => {
            totals.outcome = totals.outcome.and(&outcome);
        }
        // The lowest seed is the one to look at.
        Err(failure) if totals.failed.as_ref().is_none_or(|(first, _)| seed < *first) => {
            totals.failed = Some((seed, failure));
        }
        Err(_) => {}
    }
    totals.failed.is_none()
}
