//! What is said was measured: figures of reports.

use crate::machine::{Machine, random};

/// What was left out was counted with what would be backed up.
#[test]
fn a_dry_run_counts_what_is_left_out_for_itself() {
    let machine = Machine::new();
    machine.write("large", &random(3 << 20));
    let source = machine.source();
    let words = ["backup", source.to_str().unwrap(), "--dry-run"];
    let count = |more: &[&str]| {
        let text = machine.run([&words[..], more].concat()).ends(0).text();
        let (_, said) = text.split_once("Would back up ").expect(&text);
        (said.split(' ').next().unwrap().parse::<u64>().unwrap(), said.to_owned())
    };
    let (all, _) = count(&[]);
    let (fewer, said) = count(&["--exclude-larger-than", "1M"]);
    assert_eq!(fewer, all - 1, "{said}");
    assert!(said.contains(&format!("{fewer} new · 1 left out by size")), "{said}");
}

#[test]
fn a_repository_without_data_is_not_told_to_read_it() {
    let machine = Machine::new();
    for words in [&["check"][..], &["check", "--read-data"]] {
        let text = machine.run(words).ends(0).text();
        assert!(text.contains("nothing: no data is stored yet"), "{text}");
        assert!(!text.contains("--read-data"), "{text}");
    }
}

#[test]
fn a_dry_run_tells_what_it_would_read_and_no_rate() {
    let machine = Machine::new();
    machine.backup();
    machine.write("new", &random(3000));
    let source = machine.source();
    let words = ["backup", source.to_str().unwrap(), "--dry-run"];
    let text = machine.run(words).ends(0).text();
    let last = text.lines().last().unwrap();
    assert!(
        last.contains(" to read. Nothing was read or stored") && !last.contains("/s"),
        "{text}"
    );
    assert!(text.lines().any(|it| it.contains("2.93 KiB  ") && it.ends_with("/new")), "{text}");
    let lines = machine.run(words.iter().chain(&["--json"])).ends(0).lines();
    let (summary, would_read) = lines.split_last().unwrap();
    // What was written a moment before the backup is read again, too.
    let sizes: u64 = would_read.iter().map(|line| line["size"].as_u64().unwrap()).sum();
    assert!(sizes >= 3000, "{lines:?}");
    assert_eq!((&summary["bytes_to_read"], &summary["bottleneck"]), (&sizes.into(), &().into()));
}

#[test]
fn the_report_and_the_list_say_the_same_and_nothing_absurd() {
    let machine = Machine::new();
    machine.backup();
    machine.write("hello.txt", b"hello again, and a little longer than what lies in its entry");
    let source = machine.source();
    let words = ["backup", source.to_str().unwrap()];
    let text = machine.run(words.iter().chain(&["--report", "full"])).ends(0).text();
    assert!(!text.contains(": -") && !text.contains("waiting for the server"), "{text}");
    assert!(text.contains("more than the data, for names and encryption"), "{text}");
    assert!(!text.to_lowercase().contains("bottleneck"), "nothing of this took time: {text}");
    machine.write("folder/more", &random(100_000));
    let report = machine.run(words.iter().chain(&["--json"])).ends(0).last();
    let listed = machine.run(["stats", "--report", "latest", "--json"]).ends(0).last();
    let figure = &report["report"]["bytes_transferred"];
    assert!(figure.as_u64() > Some(100_000), "{report}");
    assert_eq!(*figure, listed["report"]["bytes_transferred"]);
    let table = machine.run(["stats"]).ends(0).text();
    assert!(table.contains("none") && !table.contains(" -"), "{table}");
}

#[test]
fn what_was_there_is_not_counted_as_restored() {
    let machine = Machine::new();
    std::os::unix::fs::symlink("hello.txt", machine.source().join("link")).unwrap();
    machine.backup();
    let out = machine.path("out");
    let stored = machine.stored("latest", "");
    let words = ["restore", &stored, "--target", out.to_str().unwrap(), "--json"];
    let first = machine.run(words).ends(0).last();
    assert_eq!((&first["report"]["links"], &first["report"]["unchanged"]), (&1.into(), &0.into()));
    let again = machine.run(words).ends(0).last();
    assert_eq!((&again["report"]["links"], &again["report"]["unchanged"]), (&0.into(), &3.into()));
}

#[test]
fn reclaim_counts_what_an_unfinished_container_gave_back() {
    let machine = Machine::new();
    machine.backup();
    let folder = machine.path("repository/containers/00000000");
    let numbers = std::fs::read_dir(&folder).unwrap().count();
    std::fs::write(folder.join("0000000000.part"), random(50_000)).unwrap();
    let freed = |words: &[&str]| machine.run(words).ends(0).last()["bytes_freed"].clone();
    assert_eq!(freed(&["reclaim", "--dry-run", "--json"]), 50_000);
    assert_eq!(freed(&["reclaim", "--json"]), 50_000);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), numbers);
    assert_eq!(freed(&["reclaim", "--json"]), 0);
}
