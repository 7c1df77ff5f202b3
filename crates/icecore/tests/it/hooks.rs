//! Hooks around a backup: which run, when, and what they learn.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, PASSWORD, Ran, ended};
use std::os::unix::fs::PermissionsExt;

/// A machine whose hooks write what happens to the file `log`.
fn with_hooks(machine: Machine) -> Machine {
    let log = machine.path("log");
    let note = format!(
        "echo \\\"$ICECORE_HOOK $ICECORE_HOOK_STAGE $ICECORE_HOOK_CODE\\\" >> {}",
        log.display()
    );
    let dump = machine.path("source/dump.sql");
    let mut text = String::new();
    for (name, script) in [
        ("dump", format!("{note}; env > {}; echo dumped; echo loud >&2", dump.display())),
        ("fails", format!("{note}; echo no database >&2; exit 4")),
        ("tidy", note.clone()),
        ("slow", format!("{note}; sleep 600")),
    ] {
        let limit = if name == "slow" { "1s" } else { "60s" };
        text += &format!(
            "[hook.{name}]\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\ntime-limit = \"{limit}\"\n"
        );
    }
    std::fs::create_dir_all(machine.path("agent")).unwrap();
    let file = machine.path("agent/hooks.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    machine
}

fn backup(machine: &Machine, flags: &[&str]) -> Ran {
    let source = machine.source();
    machine.run([&["backup", "--json", source.to_str().unwrap()], flags].concat())
}

fn log(machine: &Machine) -> Vec<String> {
    let text = std::fs::read_to_string(machine.path("log")).unwrap_or_default();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn hooks_run_around_a_backup_in_their_order_and_see_no_secret() {
    let machine = with_hooks(Machine::new());
    let ran = backup(
        &machine,
        &["--hook-pre", "dump", "--hook-post", "tidy", "--hook-on-failure", "fails"],
    )
    .ends(0);
    assert_eq!(log(&machine), ["dump pre", "tidy post 0"]);
    let seen = machine.run(["cat".to_owned(), machine.stored("latest", "dump.sql")]).ends(0).text();
    assert!(seen.contains("ICECORE_HOOK=dump") && !seen.contains(PASSWORD), "{seen}");
    assert!(!seen.contains("ICECORE_REPO") && !seen.contains("ICECORE_PASSWORD"), "{seen}");
    let summary = ran.lines().into_iter().find(|line| line["message_type"] == "summary").unwrap();
    let hook = &summary["hooks"][0];
    assert_eq!(
        (&hook["name"], &hook["stage"], &hook["ending"]),
        (&"dump".into(), &"pre".into(), &"good".into())
    );
    let output = hook["output"].as_str().unwrap();
    assert!(output.contains("dumped") && output.contains("loud"), "{output}");
}

#[test]
fn a_hook_that_fails_before_keeps_the_backup_from_running_and_the_others_clean_up() {
    let machine = with_hooks(Machine::new());
    let flags = [
        "--hook-pre",
        "fails",
        "--hook-pre",
        "dump",
        "--hook-on-failure",
        "tidy",
        "--hook-post",
        "tidy",
    ];
    let ran = backup(&machine, &flags).ends(18);
    let last = ran.lines().into_iter().find(|line| line["message_type"] == "error").unwrap();
    assert_eq!(last["name"], "hook-failed");
    assert!(last["message"].as_str().unwrap().contains("no database"), "{last}");
    assert_eq!(log(&machine), ["fails pre", "tidy on-failure 18", "tidy post 18"]);
    assert!(machine.snapshots().is_empty());
}

#[test]
fn a_hook_that_takes_too_long_is_ended_and_one_that_is_unknown_is_told() {
    let machine = with_hooks(Machine::new());
    let begun = std::time::Instant::now();
    let ran = backup(&machine, &["--hook-pre", "slow", "--hook-post", "tidy"]).ends(18);
    assert!(ran.text().contains("took longer"), "{}", ran.text());
    assert!(begun.elapsed().as_secs() < 60);
    assert_eq!(log(&machine), ["slow pre", "tidy post 18"]);
    let ran = backup(&machine, &["--hook-pre", "nobody"]).ends(18);
    assert!(ran.text().contains("no hook 'nobody'"), "{}", ran.text());
    backup(&machine, &["--hook-pre", "../x"]).ends(2);
    assert!(machine.snapshots().is_empty());
}

#[test]
fn a_hook_that_fails_afterwards_is_told_and_the_snapshot_stays() {
    let machine = with_hooks(Machine::new());
    backup(&machine, &["--hook-post", "fails", "--hook-post", "tidy"]).ends(18);
    assert_eq!(log(&machine), ["fails post 0", "tidy post 0"], "both run");
    assert_eq!(machine.snapshots().len(), 1);
    backup(&machine, &["--dry-run", "--hook-pre", "fails"]).ends(0);
    assert_eq!(log(&machine).len(), 2, "a dry run runs none");
}

#[test]
fn a_list_that_others_may_write_runs_nothing() {
    let machine = with_hooks(Machine::new());
    for mode in [0o666, 0o620] {
        let mode = PermissionsExt::from_mode(mode);
        std::fs::set_permissions(machine.path("agent/hooks.toml"), mode).unwrap();
        let ran = backup(&machine, &["--hook-pre", "dump", "--hook-post", "tidy"]).ends(18);
        assert!(ran.text().contains("others may write"), "{}", ran.text());
    }
    assert!(log(&machine).is_empty() && machine.snapshots().is_empty());
}

#[test]
fn a_server_names_hooks_and_never_says_what_they_are() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let machine = with_hooks(machine);
    let run = |code| {
        let source = machine.source();
        let mut command = machine.command(["backup", "--json", source.to_str().unwrap()]);
        ended(command.env_remove("ICECORE_REPO")).ends(code)
    };
    for wrong in ["hook-pre=/bin/sh", "hook-pre=sh -c x", "hook-pre=-x"] {
        govern(&machine, &["options", "web", "--force", wrong]).ends(2);
    }
    govern(&machine, &["options", "web", "--force", "hook-pre=dump"]).ends(0);
    run(0);
    assert_eq!(log(&machine), ["dump pre"]);
    govern(&machine, &["options", "web", "--force", "hook-pre=sh"]).ends(0);
    run(18);
    let allow = machine.path("agent/allow.toml");
    std::fs::write(&allow, "own = [\"hook-pre\"]\n").unwrap();
    std::fs::set_permissions(&allow, PermissionsExt::from_mode(0o600)).unwrap();
    run(0);
    assert_eq!(log(&machine).len(), 1, "a node can keep its hooks to itself");
}

/// The log of the newest job of a server.
fn job_log(machine: &Machine) -> Vec<serde_json::Value> {
    let jobs = govern(machine, &["jobs", "--json"]).ends(0).lines();
    let number = jobs.iter().filter_map(|job| job["id"].as_u64()).max().unwrap().to_string();
    let lines = govern(machine, &["jobs", &number, "--log", "--json"]).ends(0).lines();
    lines.into_iter().filter(|line| line["code"].is_string()).collect()
}

#[test]
fn what_hooks_print_after_a_failed_backup_is_in_the_log_of_its_job() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let machine = with_hooks(machine);
    let hooks = ["--hook-pre", "tidy", "--hook-on-failure", "dump", "--hook-post", "fails"];
    let words = [&["backup", "--command", "out"], &hooks[..], &["--", "/bin/false"]].concat();
    let ran = ended(machine.command(words).env_remove("ICECORE_REPO")).ends(1);
    assert!(ran.stderr.contains("No snapshot was made"), "{}", ran.stderr);
    assert_eq!(log(&machine), ["tidy pre", "dump on-failure 1", "fails post 1"]);
    let log = job_log(&machine);
    let said = |code: &str, text: &str| {
        let is_it = |line: &&serde_json::Value| {
            line["code"] == code && line["message"].as_str().unwrap().contains(text)
        };
        assert!(log.iter().any(|line| is_it(&line)), "{code} {text}: {log:?}");
    };
    said("hook", "pre tidy: done");
    said("hook", "on-failure dump: done");
    said("hook", "dumped");
    said("hook-failed", "post fails: failed: exit status: 4 no database");
    said("ended", "command /bin/false");
}

#[test]
fn a_backup_that_found_nothing_new_is_no_failed_job() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let source = machine.source();
    let source = source.to_str().unwrap();
    // Without the folders above it, which other tests change.
    let words = ["backup", "--skip-if-unchanged", "--json", source, "--as", "/s"];
    let backup = || ended(machine.command(words).env_remove("ICECORE_REPO")).ends(0).last();
    let is_skipped = [backup(), backup()].map(|summary| summary["is_skipped"].clone());
    assert_eq!(is_skipped, [false, true]);
    let jobs = govern(&machine, &["jobs", "--json"]).ends(0).lines();
    let states: Vec<_> = jobs.iter().filter_map(|job| job["state"].as_str()).collect();
    assert_eq!(states, ["complete", "complete"], "{jobs:?}");
}
