//! Names that are no text, or that try to be more than names.

use crate::machine::{Machine, ended};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Would clear the screen, forge a line, and is no UTF-8.
const EVIL: &[u8] = b"evil\x1b[2J\nerror: \xff\xe2\x80\xae";

fn machine() -> Machine {
    let machine = Machine::new();
    std::fs::write(machine.source().join(OsStr::from_bytes(EVIL)), "evil").unwrap();
    machine.backup();
    machine
}

#[test]
fn nothing_in_a_name_reaches_the_terminal() {
    let machine = machine();
    let stored = machine.stored("latest", "");
    let listings: [&[&str]; 5] = [
        &["ls", "-l", &stored],
        &["ls", "-R", "latest"],
        &["find", "evil*"],
        &["map", "latest"],
        &["snapshots"],
    ];
    for arguments in listings {
        let ran = machine.run(arguments).ends(0);
        let bad =
            ran.stdout.iter().filter(|byte| **byte != b'\n' && (**byte < b' ' || **byte == 0x7f));
        assert_eq!(bad.count(), 0, "{arguments:?}: {}", ran.text());
        assert!(str::from_utf8(&ran.stdout).is_ok(), "{arguments:?}");
        assert!(!ran.text().lines().any(|line| line.starts_with("error")), "{arguments:?}");
    }
    assert!(machine.run(["ls", &stored]).text().contains(r"evil\x1b[2J\nerror: \xff\xe2\x80\xae"));
}

#[test]
fn json_has_the_exact_bytes() {
    let machine = machine();
    let lines = machine.run(["ls", "--json", &machine.stored("latest", "")]).ends(0).lines();
    let evil = lines
        .iter()
        .find(|line| line["path"].as_str().is_some_and(|path| path.contains("evil")))
        .unwrap();
    assert!(evil["path"].as_str().unwrap().contains(r"\xff"));
    assert!(evil["path_base64"].is_string());
    let plain = lines
        .iter()
        .find(|line| line["path"].as_str().is_some_and(|path| path.ends_with("hello.txt")))
        .unwrap();
    assert!(plain["path_base64"].is_null());
}

#[test]
fn such_files_are_found_printed_and_restored() {
    let machine = machine();
    let mut stored = machine.stored("latest", "").into_bytes();
    stored.extend_from_slice(EVIL);
    assert_eq!(
        machine.run([OsStr::new("cat"), OsStr::from_bytes(&stored)]).ends(0).stdout,
        b"evil"
    );
    let out = machine.path("out");
    machine
        .run(["restore", &machine.stored("latest", ""), "--target", out.to_str().unwrap()])
        .ends(0);
    assert_eq!(std::fs::read(out.join(OsStr::from_bytes(EVIL))).unwrap(), b"evil");
}

#[test]
fn tags_and_nodes_cannot_carry_control_characters() {
    let machine = Machine::new();
    let source = machine.source();
    let source = source.to_str().unwrap();
    for flags in [
        ["--tag", "a\x1b[2J"],
        ["--tag", ""],
        ["--tag", "a,b"],
        ["--node", "a@b"],
        ["--node", "a:b"],
        ["--node", "\n"],
    ] {
        assert_eq!(machine.run(["backup", source].iter().chain(&flags)).code, 2, "{flags:?}");
    }
}

#[test]
fn a_repository_whose_name_is_no_text_is_left_out_of_its_own_backup() {
    let machine = Machine::bare();
    let repository = machine.source().join(OsStr::from_bytes(b"re\xffpo"));
    let run = |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        ended(command.env("ICECORE_REPO", &repository)).ends(0)
    };
    run(&["init"]);
    std::fs::create_dir(machine.source().join(OsStr::from_bytes(b"re\xfepo"))).unwrap();
    let source = machine.source();
    let report = run(&["backup", "--json", source.to_str().unwrap()]).last()["report"].clone();
    assert_eq!(report["objects_excluded"], 1, "{report}");
    // What it lies in, down from the top, and what lies beside it, whose name looks the same.
    let above = source.ancestors().count() as u64 - 1;
    assert_eq!(report["objects_inspected"], above + 4, "{report}");
}
