//! A disk that begins to rot under a repository with parity.

use crate::machine::{Machine, random};

/// A machine whose repository has parity and a file that lost a sector.
fn rotten() -> (Machine, std::path::PathBuf, Vec<u8>) {
    let machine = Machine::bare();
    machine.write("noise", &random(400_000));
    machine.run(["init", "--parity", "3"]).ends(0);
    machine.backup();
    let path = machine.container_over(300_000);
    let good = std::fs::read(&path).unwrap();
    let mut bytes = good.clone();
    bytes[40_960..45_056].fill(0);
    std::fs::write(&path, bytes).unwrap();
    (machine, path, good)
}

#[test]
fn a_restore_goes_on_over_rot_and_says_so() {
    let (machine, ..) = rotten();
    let target = machine.path("target");
    let stored = machine.stored("latest", "");
    let ran = machine.run(["restore", &stored, "--target", target.to_str().unwrap()]).ends(0);
    assert!(ran.text().contains("icecore check --repair"), "{}", ran.text());
    assert!(std::fs::read(target.join("noise")).unwrap() == random(400_000));
    let again = machine.path("again");
    let ran = machine.run(["restore", "--json", &stored, "--target", again.to_str().unwrap()]);
    assert_eq!(ran.ends(0).last()["report"]["healed_records"], 1);
}

#[test]
fn check_names_rot_and_repair_writes_what_was_there() {
    let (machine, path, good) = rotten();
    let ran = machine.run(["check", "--read-data"]).ends(14);
    assert!(ran.text().contains("parity can repair it"), "{}", ran.text());
    assert!(ran.text().contains("icecore check --repair"), "{}", ran.text());
    assert!(std::fs::read(&path).unwrap() != good, "a check changes nothing");
    let ran = machine.run(["check", "--repair"]).ends(0);
    assert!(ran.text().contains("repaired: container"), "{}", ran.text());
    assert!(std::fs::read(&path).unwrap() == good);
    machine.run(["check", "--read-data"]).ends(0);
    let ran = machine.run(["check", "--repair", "--json"]).ends(0);
    assert_eq!(ran.last()["repaired"].as_array().map(Vec::len), Some(0));
}

#[test]
fn without_parity_a_repair_says_that_it_cannot() {
    let machine = Machine::new();
    let ran = machine.run(["check", "--repair"]).ends(2);
    assert!(ran.stderr.contains("icecore init --parity"), "{}", ran.stderr);
}

#[test]
fn parity_beyond_a_quarter_is_refused() {
    let machine = Machine::bare();
    machine.run(["init", "--parity", "26"]).ends(2);
    machine.run(["init", "--parity", "x"]).ends(2);
    machine.run(["init", "--parity", "25"]).ends(0);
}
