//! Switches off one guard after the other: the simulation must find each.

use simulation::sabotage::{Sabotage, first_detection};
use std::io::Error;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

/// Seeds tried for each.
const SEEDS: u64 = 20_000;

/// `[SEEDS] [--only NAME]`. Without a name every sabotage gets a process of its own, as many at a time as there are
/// processors: a guard is off in all of a process.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let (seeds, name) = match arguments {
        [] => (Some(SEEDS), None),
        [seeds] => (seeds.parse().ok(), None),
        [seeds, only, name] if only == "--only" => (seeds.parse().ok(), Some(name)),
        _ => (None, None),
    };
    let Some(seeds) = seeds else {
        eprintln!("sabotage: the arguments are [SEEDS [--only NAME]]");
        return ExitCode::from(2);
    };
    match name {
        Some(name) => one(name, seeds),
        None => all(seeds),
    }
}

fn one(name: &str, seeds: u64) -> ExitCode {
    match Sabotage::all().find(|sabotage| sabotage.name() == name) {
        Some(sabotage) if is_seen(sabotage, seeds) => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
        None => {
            eprintln!("sabotage: there is none with the name {name}");
            ExitCode::from(2)
        }
    }
}

fn all(seeds: u64) -> ExitCode {
    let names: Vec<_> = Sabotage::all().map(|sabotage| sabotage.name()).collect();
    let (next, unseen) = (AtomicUsize::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let is_seen = in_a_process(name, seeds).unwrap_or_else(|error| {
                        eprintln!("sabotage {name}: {error}");
                        false
                    });
                    unseen.fetch_add(u32::from(!is_seen), Ordering::Relaxed);
                }
            });
        }
    });
    let unseen = unseen.into_inner();
    println!("{unseen} of {} sabotages were not detected", names.len());
    if unseen == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the sabotage `name` is seen. What the process says goes where this one's does.
fn in_a_process(name: &str, seeds: u64) -> Result<bool, Error> {
    let program = std::env::current_exe()?;
    let status =
        Command::new(program).args(["sabotage", &seeds.to_string(), "--only", name]).status()?;
    Ok(status.success())
}

fn is_seen(sabotage: Sabotage, seeds: u64) -> bool {
    let begun = Instant::now();
    let found = first_detection(sabotage, 0..seeds);
    let said = found.as_deref().unwrap_or("NOT DETECTED");
    println!("{:<32} {:>6.1} s  {said}", sabotage.name(), begun.elapsed().as_secs_f64());
    found.is_some()
}
