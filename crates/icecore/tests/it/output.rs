//! What is printed, for people and for programs.

use crate::machine::Machine;

#[test]
fn the_last_line_of_json_is_a_summary_or_an_error() {
    let machine = Machine::new();
    machine.backup();
    let (source, out) = (machine.source(), machine.path("out"));
    let (source, out) = (source.to_str().unwrap(), out.to_str().unwrap());
    let pages = machine.path("pages");
    let table: Vec<(Vec<&str>, i32)> = vec![
        (vec!["backup", source], 0),
        (vec!["backup", source, "--dry-run"], 0),
        (vec!["backup", "/does/not/exist"], 1),
        (vec!["snapshots"], 0),
        (vec!["ls", "latest"], 0),
        (vec!["ls", "ffff"], 1),
        (vec!["ls", "latest:/nothing"], 1),
        (vec!["ls"], 2),
        (vec!["find", "*"], 0),
        (vec!["find", "["], 1),
        (vec!["diff", "latest", "latest"], 0),
        (vec!["map", "latest"], 0),
        (vec!["map", "latest", "--failed"], 0),
        (vec!["restore", "latest", "--target", out], 0),
        (vec!["check"], 0),
        (vec!["check", "--read-data=10%"], 0),
        (vec!["check", "--read-data=200%"], 2),
        (vec!["stats"], 0),
        (vec!["stats", "--report", "latest"], 0),
        (vec!["key", "list"], 0),
        (vec!["key", "recovery"], 0),
        (vec!["key", "remove", "ffff"], 1),
        (vec!["tag", "add", "latest", "word"], 0),
        (vec!["tag", "remove", "latest", "other"], 0),
        (vec!["forget"], 2),
        (vec!["forget", "--keep-last", "1", "--dry-run"], 0),
        (vec!["forget", "--keep-last", "1"], 0),
        (vec!["reclaim", "--dry-run"], 0),
        (vec!["reclaim"], 0),
        (vec!["rebuild"], 0),
        (vec!["explain", source], 0),
        (vec!["bench", "walk", source], 0),
        (vec!["bench", "read", source], 0),
        (vec!["bench", "storage", "--size", "1M"], 0),
        (vec!["exit-codes"], 0),
        (vec!["man", "--dir", pages.to_str().unwrap()], 0),
        (vec!["no-such-command"], 2),
    ];
    for (arguments, code) in table {
        let ran = machine.run(arguments.iter().chain(&["--json"])).ends(code);
        // What prints the bytes of files has its summary beside them.
        let text = if ran.stdout.is_empty() { ran.stderr.clone() } else { ran.text() };
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, before) = lines.split_last().unwrap();
        // To find nothing is an answer, with its counts.
        let has_answer = matches!(code, 0 | 3) || arguments[0] == "find";
        let expected = if has_answer { "summary" } else { "error" };
        assert_eq!(last["message_type"], expected, "{arguments:?}");
        assert_eq!(last["code"], code, "{arguments:?}");
        assert!(last["name"].is_string(), "{arguments:?}");
        let is_last = |line: &serde_json::Value| {
            matches!(line["message_type"].as_str(), Some("summary" | "error") | None)
        };
        assert!(!before.iter().any(is_last), "{arguments:?}");
    }
}

#[test]
fn the_session_report_has_its_fields_cost_and_advice() {
    let machine = Machine::new();
    let source = machine.source();
    let words = ["backup", source.to_str().unwrap(), "--report", "full"];
    let text = machine.run(words).ends(0).text();
    for field in [
        "Total number of objects inspected:",
        "Elapsed processing time:",
        "Cost: ",
        "page faults",
        "Saved snapshot ",
    ] {
        assert!(text.contains(field), "{field}\n{text}");
    }
    assert!(!text.contains("Bottleneck:"), "too little to say: {text}");
    let stored = machine.run(["stats", "--report", "latest"]).ends(0).text();
    assert!(stored.contains("Total number of objects inspected:"));
}

#[test]
fn a_backup_ends_with_a_few_lines_and_what_failed_stands_last() {
    let machine = Machine::new();
    let source = machine.source();
    let backup = |more: &[&str], code| {
        let words = ["backup", source.to_str().unwrap()];
        machine.run(words.iter().chain(more)).ends(code).text()
    };
    let first = backup(&[], 0);
    assert!(first.starts_with("Saved snapshot ") && first.lines().count() <= 5, "{first}");
    assert!(first.contains("objects     ") && first.contains(" new\n"), "{first}");
    machine.write("hello.txt", b"changed");
    machine.write("another", b"new");
    let second = backup(&[], 0);
    assert!(second.contains("1 new · ") && second.contains(" changed · "), "{second}");
    let missing: Vec<_> = (0..9).map(|number| format!("/does/not/exist/{number}")).collect();
    let missing: Vec<_> = missing.iter().map(String::as_str).collect();
    let partial = backup(&missing, 3);
    assert!(partial.starts_with("Saved partial snapshot "), "{partial}");
    assert!(partial.contains("9 objects could not be read"), "{partial}");
    assert!(partial.contains("/does/not/exist/0  "), "{partial}");
    assert!(partial.contains("and 6 more") && partial.lines().count() <= 12, "{partial}");
    // What is in no snapshot is named by the one that lacks it.
    let listed = machine.run(["map", "latest", "--failed"]).ends(0).text();
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines[0], "path,reason", "{listed}");
    assert_eq!(lines[1], "/does/not/exist/0,cannot inspect: No such file or directory");
    assert_eq!(lines.len(), 10, "{listed}");
    let last = machine.run(["map", "latest", "--failed", "--json"]).ends(0).last();
    assert_eq!((&last["listed"], &last["not_listed"]), (&9.into(), &0.into()));
    let none = machine.run(["map", &machine.snapshots()[0], "--failed"]);
    assert_eq!(none.ends(0).text(), "Nothing failed in this backup.\n");
    machine.run(["map", "latest:/etc", "--failed"]).ends(2);
}

#[test]
fn lists_have_headings_and_say_what_to_do_when_they_are_empty() {
    let machine = Machine::new();
    let none = machine.run(["snapshots"]).ends(0).text();
    assert!(none.contains("icecore backup"), "{none}");
    machine.backup_with(&["--tag", "daily"]);
    let text = machine.run(["snapshots"]).ends(0).text();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("ID        TIME "), "{text}");
    assert_eq!(lines[0].find("TAGS"), lines[1].find("daily"), "{text}");
    assert_eq!(lines[2], "1 snapshot, made just now");
    let none = machine.run(["snapshots", "--tag", "other"]).ends(0).text();
    assert_eq!(none, "No snapshot matches. All of them: icecore snapshots\n");
    let keys = machine.run(["key", "list"]).ends(0).text();
    let heading = keys.lines().next().unwrap();
    assert!(heading.contains("KEY ") && heading.contains("ROLE"), "{keys}");
    let history = machine.run(["stats"]).ends(0).text();
    assert!(history.starts_with("ID        TIME "), "{history}");
}

#[test]
fn counts_add_up() {
    let machine = Machine::new();
    let source = machine.source();
    for _ in 0..2 {
        let report =
            machine.run(["backup", "--json", source.to_str().unwrap()]).ends(0).last()["report"]
                .clone();
        let get = |name: &str| report[name].as_u64().unwrap();
        let parts = [
            "objects_backed_up",
            "objects_updated",
            "objects_unchanged",
            "objects_failed",
            "objects_skipped",
        ];
        assert_eq!(parts.map(get).iter().sum::<u64>(), get("objects_inspected"), "{report}");
    }
}

#[test]
fn quiet_commands_say_nothing_when_all_is_well() {
    let machine = Machine::new();
    let source = machine.source();
    for arguments in [
        &["backup", source.to_str().unwrap(), "-q"][..],
        &["forget", "--keep-last", "1", "-q"],
        &["reclaim", "-q"],
        &["check", "-q"],
    ] {
        let ran = machine.run(arguments).ends(0);
        assert_eq!((ran.text().as_str(), ran.stderr.as_str()), ("", ""), "{arguments:?}");
    }
}

/// Broken by hand and by the terminal's width, a paragraph has lines of one word.
#[test]
fn paragraphs_of_help_are_filled() {
    let machine = Machine::new();
    let commands: [&[&str]; 12] = [
        &["backup"],
        &["restore"],
        &["forget"],
        &["reclaim"],
        &["check"],
        &["init"],
        &["find"],
        &["agent", "enroll"],
        &["server", "token"],
        &["server", "limit"],
        &["server", "grant"],
        &["server", "reclaim"],
    ];
    for command in commands {
        let help = machine.run(command.iter().chain(&["--help"])).ends(0).text();
        let lines: Vec<_> = help.lines().collect();
        for pair in lines.windows(2).filter(|pair| is_prose(pair[0]) && is_prose(pair[1])) {
            let word = pair[1].split(' ').next().unwrap();
            let would_fit = pair[0].len() + 1 + word.len() <= 100;
            assert!(!would_fit, "{command:?}: '{word}' fits behind: {}", pair[0]);
        }
    }
}

fn is_prose(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':')
}

#[test]
fn every_command_has_help_with_examples_and_a_manual_page() {
    let machine = Machine::bare();
    let help = machine.run(["--help"]).ends(0).text();
    let groups = ["Back up and restore:", "Maintain a repository:", "Servers and nodes:"];
    groups.iter().for_each(|heading| assert!(help.contains(&format!("\n{heading}\n  ")), "{help}"));
    let listed = help.lines().take_while(|line| *line != "Options:");
    let names: Vec<_> = listed
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|name| !matches!(*name, "help" | "exit-codes"))
        .collect();
    assert!(names.len() >= 20, "{names:?}");
    let pages = machine.path("pages");
    machine.run(["man", "--dir", pages.to_str().unwrap()]).ends(0);
    for name in names {
        let help = machine.run([name, "--help"]).ends(0).text();
        assert!(help.contains("Examples:"), "{name}");
        assert!(pages.join(format!("icecore-{name}.1")).exists(), "{name}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(machine.run(["completions", shell]).ends(0).text().contains("icecore"));
    }
}

#[test]
fn completions_offer_what_the_help_lists_and_no_more() {
    let machine = Machine::bare();
    let offered = |shell: &str| machine.run(["completions", shell]).ends(0).text();
    let bash = offered("bash");
    let has = |name: &str| bash.contains(&format!("icecore,{name})"));
    assert!(has("backup") && has("help") && bash.contains("--version") && bash.contains("--repo"));
    let zsh = offered("zsh");
    for name in ["mount", "unlock", "prune"] {
        assert!(!has(name) && !zsh.contains(&format!("'{name}:")), "{name}");
    }
    assert!(zsh.contains("'backup:"));
}

#[test]
fn without_a_command_the_help_lists_them() {
    let machine = Machine::new();
    let ran = machine.run([""; 0]).ends(2);
    assert!(ran.stderr.contains("\nBack up and restore:\n  init "), "{}", ran.stderr);
    assert!(!ran.stderr.contains("gc"), "hidden aliases: {}", ran.stderr);
    let ran = machine.run(["key", "-q"]).ends(2);
    assert!(ran.stderr.contains("Usage: icecore key "), "{}", ran.stderr);
}

#[test]
fn the_history_shows_each_backup() {
    let machine = Machine::new();
    machine.backup();
    machine.backup();
    let lines = machine.run(["stats", "--json"]).ends(0).lines();
    assert_eq!(lines.iter().filter(|line| line["message_type"] == "session").count(), 2);
    assert_eq!(lines.last().unwrap()["snapshots"], 2);
}

#[test]
fn json_names_what_is_missing_and_the_help_to_read() {
    let machine = Machine::new();
    let error = machine.run(["diff", "latest", "--json"]).ends(2).last();
    assert!(error["message"].as_str().unwrap().ends_with("<B[:PATH]>"), "{error}");
    assert_eq!(error["hint"], "icecore diff --help");
    let error = machine.run(["--json", "no-such-command"]).ends(2).last();
    assert_eq!(error["hint"], "icecore help");
}

#[test]
fn the_exit_codes_are_a_line_each() {
    let machine = Machine::bare();
    let text = machine.run(["exit-codes"]).ends(0).text();
    assert!(text.lines().all(|line| !line.is_empty()), "{text}");
    let lines = machine.run(["exit-codes", "--json"]).ends(0).lines();
    assert_eq!(text.lines().count(), lines.len() - 1);
}

#[test]
fn the_level_of_compression_is_auto_or_a_number_that_exists() {
    let machine = Machine::new();
    let help = machine.run(["backup", "--help"]).ends(0).text();
    let help =
        help.split("--compression").nth(1).unwrap().split("--nice").next().unwrap().to_owned();
    assert!(help.contains("`auto`") && help.contains("[default: auto]"), "{help}");
    for level in ["auto", "1", "19", "-7", "0"] {
        machine.backup_with(&["--full", "--compression", level]);
    }
    let source = machine.source();
    for level in ["20", "-8", "AUTO", "", "1.5", "fast"] {
        let ran = machine.run(["backup", source.to_str().unwrap(), "--compression", level]).ends(2);
        assert!(ran.stderr.contains("write auto, or a level from -7 to 19"), "{}", ran.stderr);
    }
    assert_eq!(machine.snapshots().len(), 5);
}
