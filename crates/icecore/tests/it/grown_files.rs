//! Files of a repository that became longer than their writer makes them: garbage like any other.

use crate::machine::Machine;
use std::fs::OpenOptions;
use std::io::Write;

/// Appends more to `name` than any small file may have.
fn grow(machine: &Machine, name: &str) {
    let file = OpenOptions::new().append(true).open(machine.path("repository").join(name));
    file.unwrap().write_all(&vec![7; 2 << 20]).unwrap();
}

fn keys(machine: &Machine) -> Vec<String> {
    let names = std::fs::read_dir(machine.path("repository/keys")).unwrap();
    names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_lease_that_grew_stops_nobody() {
    let machine = Machine::new();
    machine.backup();
    grow(&machine, "lease");
    machine.backup();
    machine.run(["check", "--read-data"]).ends(0);
}

#[test]
fn a_key_file_that_grew_costs_its_own_password_only() {
    let machine = Machine::new();
    machine.backup();
    let before = keys(&machine);
    machine.run(["key", "recovery"]).ends(0);
    let second = keys(&machine).into_iter().find(|name| !before.contains(name)).unwrap();
    grow(&machine, &format!("keys/{second}"));
    machine.backup();
    machine.run(["snapshots"]).ends(0);
    let told = machine.run(["check"]).ends(14).text();
    assert!(told.contains(&second), "{told}");
}

#[test]
fn a_state_that_grew_is_mended_by_a_rebuild() {
    let machine = Machine::new();
    machine.backup();
    grow(&machine, "index/state");
    let told = machine.run(["backup", machine.source().to_str().unwrap()]).ends(14).stderr;
    assert!(told.contains("icecore rebuild"), "{told}");
    machine.run(["rebuild"]).ends(0);
    machine.run(["check", "--read-data"]).ends(0);
}

/// Nothing opens without one of them, so that a check cannot help. What helps is said, and does.
#[test]
fn two_settings_files_that_grew_come_back_from_the_copy() {
    let machine = Machine::new();
    machine.backup();
    let second = machine.path("second");
    machine.run(["copy", "--to", second.to_str().unwrap()]).ends(0);
    ["config", "config.copy"].iter().for_each(|name| grow(&machine, name));
    for command in ["snapshots", "check"] {
        let told = machine.run([command]).ends(14).stderr;
        let file = machine.path("repository/config").display().to_string();
        assert!(told.contains(&file) && told.contains("check --repair --repo"), "{told}");
    }
    std::fs::copy(second.join("config"), machine.path("repository/config")).unwrap();
    machine.run(["check", "--repair"]).ends(0);
    let repaired = std::fs::read(machine.path("repository/config.copy")).unwrap();
    assert_eq!(repaired, std::fs::read(second.join("config")).unwrap());
    assert_eq!(machine.snapshots().len(), 1);
}
