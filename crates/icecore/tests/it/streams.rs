//! Backups of what programs print.

use crate::machine::{Machine, PASSWORD, ended};
use std::io::Write;
use std::process::Stdio;

#[test]
fn the_standard_input_becomes_a_file() {
    let machine = Machine::new();
    let mut child = machine
        .command(["backup", "--stdin", "dumps/shop.sql", "-q"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&b"insert;\n".repeat(100_000)).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(
        machine.run(["cat", "latest:dumps/shop.sql"]).ends(0).stdout,
        b"insert;\n".repeat(100_000)
    );
}

#[test]
fn what_a_command_prints_becomes_a_file() {
    let machine = Machine::new();
    machine
        .run(["backup", "--command", "out.txt", "-q", "--", "printf", "%s-%s", "a", "b"])
        .ends(0);
    assert_eq!(machine.run(["cat", "latest:out.txt"]).ends(0).stdout, b"a-b");
}

#[test]
fn a_command_that_fails_makes_no_snapshot() {
    let machine = Machine::new();
    for script in ["echo half; exit 3", "echo half; kill -9 $$"] {
        let ran = machine.run(["backup", "--command", "out.txt", "--", "sh", "-c", script]).ends(1);
        assert!(ran.stderr.contains("No snapshot was made"), "{}", ran.stderr);
    }
    machine.run(["backup", "--command", "out.txt", "--", "/no/such/program"]).ends(1);
    assert!(machine.snapshots().is_empty());
    machine.run(["check"]).ends(0);
}

#[test]
fn no_command_is_begun_in_vain() {
    let machine = Machine::new();
    let trace = machine.path("trace");
    let script = format!("touch {}; echo all", trace.display());
    machine.run(["backup", "--command", "../x", "--", "sh", "-c", &script]).ends(2);
    let mut writer = machine.command(["backup", "--stdin", "name", "-q"]);
    let mut writer = writer.stdin(Stdio::piped()).spawn().unwrap();
    while !machine.path("repository/lease").exists() {
        assert!(writer.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    machine.run(["backup", "--command", "x", "--", "sh", "-c", &script]).ends(11);
    assert!(!trace.exists());
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    machine.run(["backup", "--command", "x", "-q", "--", "sh", "-c", &script]).ends(0);
    assert!(trace.exists());
}

/// Another one takes over, and the containers are not where they were: what is met then has many
/// names.
#[test]
fn who_was_robbed_of_its_lock_says_so_whatever_it_meets() {
    let machine = Machine::new();
    let repository = machine.path("repository");
    let script = format!(
        "cd {0} && rm lock && ICECORE_PASSWORD='{3}' {1} backup -q {2} && mv containers elsewhere && touch containers && \
         head -c 200000000 /dev/urandom",
        repository.display(),
        env!("CARGO_BIN_EXE_icecore"),
        machine.source().display(),
        PASSWORD // commands are not told the one of who starts them
    );
    let ran = machine.run(["backup", "--command", "x", "--", "sh", "-c", &script]).ends(11);
    assert!(ran.stderr.contains("took over the lease"), "{}", ran.stderr);
    std::fs::remove_file(repository.join("containers")).unwrap();
    std::fs::rename(repository.join("elsewhere"), repository.join("containers")).unwrap();
    machine.run(["check", "--read-data"]).ends(0);
    assert_eq!(machine.snapshots().len(), 1);
}

#[test]
fn names_of_streams_stay_inside_and_flags_are_not_mixed() {
    let machine = Machine::new();
    machine.run(["backup", "--stdin", "../x"]).ends(2);
    machine.run(["backup", "--stdin", &format!("a/{}", "x".repeat(256))]).ends(2);
    machine.run(["backup", "--stdin", ""]).ends(2);
    machine.run(["backup", "--stdin", "x", "/etc"]).ends(2);
    machine.run(["backup", "--command", "x"]).ends(2);
    assert!(machine.snapshots().is_empty());
    ended(machine.command(["backup", "--stdin", "/rooted/is/fine", "-q"]).stdin(Stdio::null()))
        .ends(0);
    let longest = format!("a/{}", "x".repeat(255));
    ended(machine.command(["backup", "--stdin", &longest, "-q"]).stdin(Stdio::null())).ends(0);
}

/// `a//b` and `a/b` are one file of a snapshot, and were two sources: each had its own retention.
#[test]
fn one_name_of_a_stream_is_one_source_however_it_is_written() {
    let machine = Machine::new();
    let names = |all: [&str; 6]| {
        for name in all {
            let words = ["backup", "-q", "--command", name, "--", "echo", "x"];
            machine.run(words).ends(0);
        }
        let lines = machine.run(["snapshots", "--json"]).ends(0).lines();
        let paths = lines.iter().filter_map(|line| Some(line["paths"][0].as_str()?.to_owned()));
        paths.collect::<std::collections::BTreeSet<_>>()
    };
    let one = names(["a/b", "a//b", "a/./b", "a/b/", "./a/b", "a/b/."]);
    assert_eq!(one, ["a/b".to_owned()].into(), "one of all ways");
    let both = names(["/a/b", "//a/b", "/./a/b", "/a//b", "/a/b/", "/a/b/."]);
    assert_eq!(both, ["/a/b".to_owned(), "a/b".to_owned()].into(), "as it was begun");
    let kept = machine.run(["forget", "--keep-last", "1", "--json"]).ends(0);
    assert_eq!(machine.snapshots().len(), 2, "{}", kept.text());
    assert_eq!(machine.run(["cat", "latest:a/b"]).ends(0).stdout, b"x\n");
    for name in ["", "/", ".", "..", "a/../b", "./"] {
        let told = machine.run(["backup", "--command", name, "--", "echo", "x"]).ends(2).stderr;
        assert!(told.contains(&format!("--command '{name}'")), "{told}");
        let told = machine.run(["backup", "--stdin", name]).ends(2).stderr;
        assert!(told.contains("the path that the file has in the snapshot"), "{told}");
    }
}
