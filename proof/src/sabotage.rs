//! Switches off one guard after the other: the simulation must find each.

use simulation::sabotage::{Sabotage, first_detection};
use std::process::ExitCode;
use std::time::Instant;

/// Seeds tried for each.
const SEEDS: u64 = 20_000;

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let seeds = arguments.first().map_or(Some(SEEDS), |text| text.parse().ok());
    let Some(seeds) = seeds else {
        eprintln!("sabotage: the argument is a number of seeds");
        return ExitCode::from(2);
    };
    let mut unseen = 0;
    for sabotage in Sabotage::all() {
        unseen += u32::from(!is_seen(sabotage, seeds));
    }
    println!("{unseen} sabotages were not detected");
    if unseen == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_seen(sabotage: Sabotage, seeds: u64) -> bool {
    let begun = Instant::now();
    let found = first_detection(sabotage, 0..seeds);
    let said = found.as_deref().unwrap_or("NOT DETECTED");
    println!("{:<32} {:>6.1} s  {said}", sabotage.name(), begun.elapsed().as_secs_f64());
    found.is_some()
}
