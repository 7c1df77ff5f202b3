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

/// An `init` that is killed leaves one of the two settings files.
#[test]
fn without_parity_a_repair_writes_again_what_is_stored_twice() {
    for lost in ["config", "config.copy", "keys/list", "keys/list.copy"] {
        let machine = Machine::new();
        machine.backup();
        std::fs::remove_file(machine.path("repository").join(lost)).unwrap();
        machine.backup();
        let told = machine.run(["check"]).ends(14).text();
        assert!(told.contains("(check --repair writes it again)"), "{lost}: {told}");
        assert!(told.contains("\n  icecore check --repair"), "{lost}: {told}");
        assert!(!told.contains("parity") && !told.contains("sectors"), "{lost}: {told}");
        let told = machine.run(["check", "--repair"]).ends(0).text();
        assert!(told.contains(&format!("repaired: {lost}: ")), "{told}");
        assert!(machine.path("repository").join(lost).is_file());
        assert!(machine.run(["check"]).ends(0).text().contains("No damage found"));
    }
}

#[test]
fn a_repair_without_parity_and_copy_says_what_it_cannot_mend() {
    let machine = Machine::new();
    machine.write("noise", &random(400_000));
    machine.backup();
    let path = machine.container_over(300_000);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40_960..45_056].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let told = machine.run(["check", "--repair"]).ends(14).text();
    assert!(told.contains("icecore check --repair --copies REPOSITORY"), "{told}");
    assert!(!told.contains("repaired:"), "{told}");
}

#[test]
fn parity_beyond_a_quarter_is_refused() {
    let machine = Machine::bare();
    machine.run(["init", "--parity", "26"]).ends(2);
    machine.run(["init", "--parity", "x"]).ends(2);
    machine.run(["init", "--parity", "25"]).ends(0);
}
