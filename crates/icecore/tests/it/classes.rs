//! The snapshots of a policy's classes, and which of them `latest` is.

use crate::machine::{Machine, Ran};

/// Backs up what the usual class takes, or the class `logs`.
fn backup_class(machine: &Machine, class: &str) -> String {
    let logs = format!("{}/log/**", machine.source().display());
    let (series, not_logs) = (format!("--series={class}"), format!("!{logs}"));
    match class {
        "" => machine.backup_with(&[&series, "--only", "/**", "--only", &not_logs]),
        _ => machine.backup_with(&[&series, "--only", &logs]),
    }
}

fn ls(machine: &Machine, name: &str) -> Ran {
    machine.run(["ls".to_owned(), machine.stored("latest", name)]).ends(0)
}

#[test]
fn a_path_is_taken_from_the_class_that_has_it_and_it_is_told_which() {
    let machine = Machine::new();
    machine.write("log/app", b"x");
    for order in [["", "logs"], ["logs", ""]] {
        let ids = order.map(|class| backup_class(&machine, class));
        let id_of = |class| &ids[order.iter().position(|one| *one == class).unwrap()][..8];
        let whole = ls(&machine, "");
        assert!(whole.text().contains("hello.txt"), "{order:?}: {}", whole.text());
        let is_told = whole.stderr.contains(&format!("{} is of the usual class", id_of("")));
        assert_eq!(is_told, order[1] == "logs", "{}", whole.stderr);
        let logs = ls(&machine, "log");
        assert!(logs.text().contains("app"), "{order:?}: {}", logs.text());
        let told = format!("snapshot {} is of the class logs", id_of("logs"));
        assert!(logs.stderr.contains(&told), "{}", logs.stderr);
        let all = machine.run(["ls", "-R", "latest"]).ends(0).text();
        assert!(all.contains("hello.txt") && !all.contains("app"), "{order:?}: {all}");
    }
}

#[test]
fn an_empty_directory_of_today_is_not_looked_for_in_an_old_snapshot_of_a_class() {
    let machine = Machine::new();
    machine.write("log/app", b"x");
    for class in ["logs", "", "logs", "", ""] {
        backup_class(&machine, class);
    }
    std::fs::remove_file(machine.source().join("log/app")).unwrap();
    backup_class(&machine, "");
    let logs = ls(&machine, "log");
    assert_eq!((logs.text().as_str(), logs.stderr.as_str()), ("There is nothing in it.\n", ""));
}
