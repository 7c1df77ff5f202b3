//! Output that nobody reads, or that cannot be written: what was done stays done, and the exit
//! code says it.

use crate::machine::{Machine, Ran, length, random};
use std::fs::File;
use std::process::Stdio;

/// Runs with a reader that has gone before the first byte.
fn unheard(machine: &Machine, arguments: &[&str]) -> Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = machine.command(arguments).stdout(Stdio::from(writer)).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code().unwrap(), stdout: Vec::new(), stderr }
}

#[test]
fn the_code_is_that_of_the_work() {
    let machine = Machine::new();
    let source = machine.source();
    let source = source.to_str().unwrap();
    for json in [&[][..], &["--json"]] {
        let run = |arguments: &[&str], code| {
            unheard(&machine, &[arguments, json].concat()).ends(code);
        };
        run(&["backup", source], 0);
        run(&["backup", source, "/does/not/exist"], 3);
        run(&["backup", "/does/not/exist"], 1);
        run(&["check"], 0);
        run(&["snapshots"], 0);
    }
    machine.write("random", &random(400_000));
    machine.backup();
    let file = machine.container_over(100_000);
    let half = length(&file) / 2;
    File::options().write(true).open(&file).unwrap().set_len(half).unwrap();
    unheard(&machine, &["check", "--read-data"]).ends(14);
    unheard(&machine, &["check", "--read-data", "--json"]).ends(14);
}

/// More than a buffer holds, so that printing fails long before the end.
#[test]
fn a_long_list_that_nobody_reads_keeps_nothing_from_being_forgotten() {
    let machine = Machine::new();
    let tag = "a long tag ".repeat(400);
    (0..4).for_each(|_| drop(machine.backup_with(&["--tag", &tag])));
    unheard(&machine, &["forget", "--keep-last", "1"]).ends(0);
    assert_eq!(machine.snapshots().len(), 1);
}

#[test]
fn a_report_that_cannot_be_written_says_that_the_snapshot_is_there() {
    let machine = Machine::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let source = machine.source();
    let mut command = machine.command(["backup", source.to_str().unwrap()]);
    let output = command.stdout(full).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(15), "{text}");
    let id = &machine.snapshots()[0][..8];
    assert!(text.contains(&format!("The snapshot {id} was saved")), "{text}");
}

#[test]
fn a_recovery_key_that_was_not_shown_opens_nothing() {
    let machine = Machine::new();
    let ran = unheard(&machine, &["key", "recovery"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("removed again"), "{}", ran.stderr);
    assert_eq!(machine.run(["key", "list", "--json"]).ends(0).last()["keys"], 1);
}

/// The bytes are what was asked for: `dump | ssh host tar x` must not end well while the other machine has none of it.
#[test]
fn a_file_or_archive_that_nobody_read_to_its_end_is_not_done() {
    let machine = Machine::new();
    machine.write("random", &random(400_000));
    machine.write("short", b"fits into a buffer");
    machine.backup();
    let [random, short] = ["random", "short"].map(|name| machine.stored("latest", name));
    for arguments in [["cat", &random], ["cat", &short], ["dump", "latest"], ["dump", &short]] {
        for json in [&[][..], &["--json"]] {
            let ran = unheard(&machine, &[&arguments, json].concat()).ends(1);
            assert!(ran.stderr.contains("stopped before its end"), "{arguments:?}: {}", ran.stderr);
            assert!(!ran.stderr.contains("complete"), "{arguments:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn an_error_that_cannot_be_written_as_json_is_told_to_people() {
    let machine = Machine::new();
    machine.backup();
    for arguments in [["snapshots", "--json"], ["check", "--json"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = machine.command(arguments).stdout(full).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(15), "{text}");
        assert!(text.contains("cannot write the output: No space left"), "{text}");
    }
}
