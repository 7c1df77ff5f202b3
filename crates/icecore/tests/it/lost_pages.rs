//! Commands that look into a snapshot of which pages are lost: they name them, go on behind them, and end with 14.

use crate::machine::{Machine, Ran, length};

/// Enough for several pages.
const FILES: usize = 2000;

/// A newest snapshot whose root, and what is in `z`, lie in another container than what is in `a`, which is lost.
fn lost() -> Machine {
    let machine = Machine::new();
    // Lost content is something else: it ends a dump.
    std::fs::remove_dir_all(machine.source()).unwrap();
    for folder in ["a", "z"] {
        for number in 0..FILES {
            machine.write(&format!("{folder}/a-file-with-a-name-{number}"), b"");
        }
        machine.backup();
    }
    let first = machine.containers().remove(0);
    assert!(length(&first) > 0);
    std::fs::remove_file(first).unwrap();
    machine
}

/// Docs: `docs/EXIT-CODES.md`, 14.
#[test]
fn whoever_looks_into_a_snapshot_behind_a_lost_page_is_told_and_sees_the_rest() {
    let machine = lost();
    let last = format!("z/a-file-with-a-name-{}", FILES - 1);
    let is_named = |ran: &Ran| {
        let all = format!("{}{}", String::from_utf8_lossy(&ran.stdout), ran.stderr);
        assert!(all.contains("cannot be read (object "), "{}", ran.stderr);
        assert!(all.contains("source/a/a-file-with-a-name-"), "{}", ran.stderr);
    };
    let commands: [&[&str]; 4] =
        [&["ls", "-R", "latest"], &["find", "*-1999"], &["dump", "latest"], &["map", "latest"]];
    for words in commands {
        let ran = machine.run(words).ends(14);
        is_named(&ran);
        let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(shown.contains(&last), "{words:?} went on: {}", ran.stderr);
        // What `dump` prints is no JSON.
        if words[0] != "dump" {
            let ran = machine.run([words, &["--json"]].concat()).ends(14);
            assert_eq!(ran.last()["code"], 14, "{words:?}");
            is_named_in_json(&ran);
        }
    }
    let ran = machine.run(["find", "no-such-name"]).ends(14);
    is_named(&ran);
    machine.run(["ls", &machine.stored("latest", "z")]).ends(0);
}

/// What may be in a lost page of the other snapshot is no difference; a page that both have is not read.
///
/// Docs: `docs/EXIT-CODES.md`, 14.
#[test]
fn what_may_be_in_a_lost_page_is_no_difference() {
    let machine = lost();
    machine.write("zz/new", b"");
    machine.backup();
    let ran = machine.run(["diff", "latest~1", "latest"]).ends(0);
    let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(shown.contains("zz/new") && !shown.contains("a-file-with"), "{shown}");
    let commands: [&[&str]; 2] =
        [&["diff", "latest~2", "latest"], &["map", "latest~1", "--changed"]];
    for words in commands {
        let ran = machine.run(words).ends(14);
        let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(!shown.contains("source/a/") && !shown.contains("No difference"), "{shown}");
        assert!(ran.stderr.contains("nothing from here on can be read"), "{}", ran.stderr);
        let ran = machine.run([words, &["--json"]].concat()).ends(14);
        assert_eq!(ran.last()["code"], 14, "{words:?}");
        is_named_in_json(&ran);
    }
}

fn is_named_in_json(ran: &Ran) {
    let reasons = ran.lines().into_iter().filter_map(|line| {
        (line["message_type"] == "problem").then(|| line["reason"].as_str().unwrap().to_owned())
    });
    assert!(reasons.into_iter().any(|reason| reason.contains("is missing")), "{}", ran.text());
}
