//! The contract of all storages, kept by a directory and by the simulated disk.

use repository::local::LocalStorage;
use simulation::Random;
use simulation::contract::CLAUSES;
use simulation::disk::Disk;

#[test]
fn a_directory_keeps_the_contract() {
    for (what, clause) in CLAUSES {
        println!("{what}");
        let folder = tempfile::tempdir().expect("a folder");
        clause(&LocalStorage::open(folder.path()).expect("a storage"));
    }
}

#[test]
fn the_simulated_disk_keeps_the_contract() {
    for (what, clause) in CLAUSES {
        println!("{what}");
        clause(&Disk::new(Random::new(1), false).process());
    }
}
