//! A slice of the simulation; `cargo proof sim` runs as many seeds as you like.

use simulation::world;

/// Seeds run here.
const SEEDS: u64 = 300;

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    let mut faults = 0;
    for seed in 0..SEEDS {
        match world::run(seed, false) {
            Ok(outcome) => faults += outcome.faults,
            Err(failure) => {
                panic!("seed {seed}: {}\ncargo proof sim --first {seed} --log", failure.what)
            }
        }
    }
    assert!(faults > SEEDS, "only {faults} faults happened");
}

#[test]
fn a_disk_that_damages_what_it_holds_costs_no_more_than_that() {
    for seed in 0..SEEDS {
        if let Err(failure) = world::corruption::run(seed, false) {
            panic!("seed {seed}: {}\ncargo proof sim --first {seed} --log", failure.what)
        }
    }
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in 0..20 {
        let first = world::run(seed, false).unwrap();
        assert_eq!(first, world::run(seed, false).unwrap(), "seed {seed}");
        let rotten = world::corruption::run(seed, false).unwrap();
        assert_eq!(rotten, world::corruption::run(seed, false).unwrap(), "seed {seed}");
        assert_ne!(first.trace, world::run(seed + 1000, false).unwrap().trace);
    }
}
