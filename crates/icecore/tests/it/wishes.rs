//! What people from other programs look for on the first day.

use crate::machine::{Machine, Ran, ended};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn with_config(text: &str) -> Machine {
    let machine = Machine::new();
    let file = machine.path("home/.config/icecore/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    machine
}

impl Machine {
    /// What `snapshots` lists with these words.
    fn listed(&self, words: &[&str]) -> Vec<Value> {
        let ran = self.run(["snapshots", "--json"].iter().chain(words)).ends(0);
        let lines = ran.lines().into_iter();
        lines.filter(|line| line["message_type"] == "snapshot").collect()
    }

    /// A backup of the standard input that holds the repository until its input ends.
    fn writer(&self, progress_secs: &str) -> Child {
        let mut command = self.command(["backup", "--stdin", "name", "--json"]);
        command.env("ICECORE_PROGRESS_SECS", progress_secs);
        let (begun, lease) = (Instant::now(), self.path("repository/lease"));
        let _ = std::fs::remove_file(&lease);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        while !lease.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the lease was never taken");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }
}

#[test]
fn paths_come_from_lists_too() {
    let machine = Machine::new();
    machine.write("odd\nname", b"x");
    let source = machine.source().display().to_string();
    let list = machine.path("list");
    std::fs::write(&list, format!("{source}/hello.txt\n\nsource/folder\n")).unwrap();
    let run = |words: &[&str], input: &str| {
        let mut command = machine.command(["backup", "--json"].iter().chain(words));
        let mut child = command
            .current_dir(machine.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().status.code()
    };
    assert_eq!(run(&["--files-from", list.to_str().unwrap()], ""), Some(0));
    let raw = format!("{source}/odd\nname\0{source}/hello.txt\0");
    assert_eq!(run(&["--files-from-raw", "-"], &raw), Some(0));
    let listed = machine.listed(&[]);
    let paths = [format!("{source}/folder"), format!("{source}/hello.txt")];
    assert_eq!(listed[0]["paths"], json!(paths));
    assert_eq!(listed[1]["paths"][1], format!("{source}/odd\\nname"));
    assert_eq!(run(&["--files-from", "-"], "\n\n"), Some(2), "a list of nothing is no backup");
    assert_eq!(run(&["--files-from", "/does/not/exist"], ""), Some(2));
    assert_eq!(run(&["--exclude-from", "/does/not/exist", "/etc/hostname"], ""), Some(2));
    assert_eq!(run(&[], ""), Some(2));
    assert_eq!(machine.listed(&[]).len(), 2);
}

#[test]
fn what_the_config_file_names_is_backed_up_and_kept() {
    let machine = with_config("");
    let source = machine.source().display().to_string();
    let file = machine.path("home/.config/icecore/config.toml");
    let config = format!("node = \"one\"\npaths = [{source:?}]\nkeep = {{ last = 1 }}\n");
    std::fs::write(&file, &config).unwrap();
    (0..2).for_each(|_| drop(machine.run(["backup"]).ends(0)));
    machine.run(["backup", "--node", "other", &source]).ends(0);
    machine.run(["backup", "--node", "other", &source]).ends(0);
    machine.run(["forget"]).ends(0);
    let nodes: Vec<_> = machine.listed(&[]).iter().map(|it| it["node"].clone()).collect();
    assert_eq!(nodes, ["one", "other", "other"], "what others backed up is not this profile's");
    std::fs::write(&file, "paths = [\"relative\"]\nkeep = { last = 0 }\n").unwrap();
    assert!(machine.run(["backup"]).ends(2).stderr.contains("relative"));
    assert!(machine.run(["forget"]).ends(2).stderr.contains("`keep`"));
    assert_eq!(machine.listed(&[]).len(), 3);
}

#[test]
fn the_config_file_says_what_a_policy_looks_at_together() {
    let machine = with_config("");
    let source = machine.source().display().to_string();
    let file = machine.path("home/.config/icecore/config.toml");
    let write =
        |keep: &str| std::fs::write(&file, format!("node = \"one\"\n[keep]\n{keep}")).unwrap();
    write("last = 1\ngroup-by = \"node,tags\"\n");
    for tag in ["a", "a", "b"] {
        machine.run(["backup", &source, "--tag", tag]).ends(0);
    }
    let listed = || machine.listed(&[]).iter().map(|it| it["tags"][0].clone()).collect::<Vec<_>>();
    machine.run(["forget"]).ends(0);
    assert_eq!(listed(), ["a", "b"], "the newest of each tag");
    write("last = 1\ngroup-by = \"day\"\n");
    let refused = machine.run(["forget"]).ends(2).stderr;
    assert!(refused.contains("`keep`") && refused.contains("cannot group by 'day'"), "{refused}");
    assert_eq!(listed().len(), 2);
    write("last = 1\ngroup-by = \"tags\"\n");
    machine.run(["forget", "--group-by", "source"]).ends(0);
    assert_eq!(listed(), ["b"], "the command line comes first");
}

#[test]
fn nothing_new_makes_no_snapshot_when_that_is_asked() {
    let machine = Machine::new();
    let source = machine.source().display().to_string();
    let run = || {
        let words = ["backup", &source, "--as", "/s", "--skip-if-unchanged", "--json"];
        machine.run(words).ends(0).last()
    };
    let first = run();
    assert_eq!(first["is_skipped"], false);
    let second = run();
    assert_eq!(
        (&second["is_skipped"], &second["snapshot_id"]),
        (&true.into(), &first["snapshot_id"])
    );
    machine.write("new", b"x");
    assert_eq!(run()["is_skipped"], false);
    assert_eq!(machine.listed(&[]).len(), 2);
    machine.run(["check", "--read-data"]).ends(0);
}

#[test]
fn what_is_read_again_and_equal_is_called_unchanged() {
    let machine = Machine::new();
    machine.backup();
    let source = machine.source().display().to_string();
    let report = machine.run(["backup", &source, "--json"]).ends(0).last()["report"].clone();
    // All of it was written a moment before the first backup.
    assert!(report["objects_read_again"].as_u64() >= Some(2), "{report}");
    assert!(report["objects_unchanged"].as_u64() >= report["objects_read_again"].as_u64());
    let text = machine.run(["backup", &source]).ends(0).text();
    assert!(text.contains(" read again, unchanged"), "{text}");
}

#[test]
fn a_key_that_cannot_read_still_knows_what_changed() {
    let machine = Machine::new();
    let pass = machine.path("pass");
    std::fs::write(&pass, "timer").unwrap();
    let pass = pass.to_str().unwrap();
    machine.run(["key", "add", "--write-only", "--new-password-file", pass]).ends(0);
    let source = machine.source().display().to_string();
    let run = || {
        let words = ["backup", &source, "--as", "/s", "--password-file", pass, "--json"];
        let ran = ended(machine.command(words).env_remove("ICECORE_PASSWORD")).ends(0);
        ran.last()["report"].clone()
    };
    assert!(run()["objects_backed_up"].as_u64() >= Some(4));
    machine.write("new", b"x");
    let second = run();
    assert_eq!(second["objects_backed_up"], 1, "{second}");
    assert!(second["objects_unchanged"].as_u64() >= Some(2), "{second}");
    assert!(machine.path("agent/cache").is_dir());
}

#[test]
fn a_backup_may_have_another_time_but_none_to_come() {
    let machine = Machine::new();
    let source = machine.source().display().to_string();
    machine.run(["backup", &source, "--time", "2020-02-03 04:05:06"]).ends(0);
    assert_eq!(machine.listed(&[])[0]["time"], "2020-02-03T04:05:06Z");
    // As from a machine whose clock has stopped: nobody would learn that no rule counts it.
    let told = |time| machine.run(["backup", &source, "--time", time]).ends(0).stderr;
    assert!(!told("2020-02-03 03:56").contains("newest one of its source"));
    assert!(told("2020-02-03 03:45").contains("ten minutes before"), "it is suspect");
    machine.run(["backup", &source]).ends(0);
    let shown = machine.run(["snapshots"]).ends(0).text();
    let footer = shown.lines().last().unwrap();
    assert!(footer.contains("newest just now") && footer.contains("days ago"), "{footer}");
    machine.run(["backup", &source, "--time", "2020-02-03 03:45"]).ends(0);
    let shown = machine.run(["snapshots"]).ends(0).text();
    assert_eq!(shown.lines().last().unwrap().replacen('5', "4", 1), footer);
    machine.run(["backup", &source, "--time", "2999-01-01"]).ends(2);
    machine.run(["backup", &source, "--time", "yesterday"]).ends(2);
}

#[test]
fn the_newest_of_each_group_are_listed() {
    let machine = Machine::new();
    for (node, tag) in [("a", "x"), ("b", "x"), ("a", "y")] {
        machine.backup_with(&["--node", node, "--tag", tag]);
    }
    let nodes = |words: &[&str]| {
        let listed = machine.listed(words);
        listed.iter().map(|it| format!("{}{}", it["node"], it["tags"][0])).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&["--latest", "1"]), [r#""a""y""#, r#""b""x""#]);
    assert_eq!(nodes(&["--latest", "1", "--group-by", "tags"]), [r#""b""x""#, r#""a""y""#]);
    assert_eq!(nodes(&["--latest", "9"]).len(), 3);
    let text = machine.run(["snapshots", "--group-by", "node"]).ends(0).text();
    assert!(text.contains("node a:\n") && text.contains("\nnode b:\n"), "{text}");
    assert_eq!(machine.listed(&["--host", "b"]).len(), 1);
    machine.run(["snapshots", "--group-by", "day"]).ends(2);
}

#[test]
fn tags_of_many_snapshots_are_changed_at_once() {
    let machine = Machine::new();
    for node in ["a", "a", "b"] {
        machine.backup_with(&["--node", node, "--tag", "old"]);
    }
    let tags = || machine.listed(&[]).iter().map(|it| it["tags"].clone()).collect::<Vec<_>>();
    let ran = machine.run(["tag", "--add", "kept,more", "--node", "a", "--json"]).ends(0);
    assert_eq!(ran.last()["changed"], 2);
    assert_eq!(
        tags(),
        [json!(["old", "kept", "more"]), json!(["old", "kept", "more"]), json!(["old"])]
    );
    machine.run(["tag", "--set", "only", "--with-tag", "kept"]).ends(0);
    assert_eq!(tags(), [json!(["only"]), json!(["only"]), json!(["old"])]);
    let id = machine.snapshots()[2].clone();
    machine.run(["tag", "--remove", "old", &id]).ends(0);
    assert_eq!(tags()[2], json!([]));
    for words in [
        &["tag"][..],
        &["tag", "--add", "x"],
        &["tag", "--node", "a"],
        &["tag", "--add", "x", "--node", "a", "latest"],
        &["tag", "--add", "x", "--set", "y", "latest"],
    ] {
        machine.run(words).ends(2);
    }
    let none = machine.run(["tag", "--add", "x", "--node", "typo"]).ends(1);
    assert!(none.stderr.contains("no snapshot matches --node typo"), "{}", none.stderr);
    machine.run(["check"]).ends(0);
}

#[test]
fn forgetting_can_give_the_space_back_at_once() {
    let machine = Machine::new();
    machine.write("random", &crate::machine::random(400_000));
    machine.backup();
    std::fs::remove_file(machine.source().join("random")).unwrap();
    machine.backup();
    let ran = machine.run(["forget", "--keep-within-daily", "7d", "--prune", "--json"]).ends(0);
    assert_eq!(ran.last()["removed"], 1);
    assert!(ran.last()["reclaimed"]["bytes_freed"].as_u64() > Some(300_000), "{}", ran.last());
    machine.run(["check", "--read-data"]).ends(0);
    machine.run(["forget", "--keep-last", "1", "--prune", "--dry-run"]).ends(2);
}

/// Nothing is told as removed that is there.
fn told_nothing(ran: &Ran) {
    assert!(!ran.text().contains("remove"), "{}", ran.text());
}

#[test]
fn who_waits_gets_the_repository_and_who_does_not_is_told_nothing_untrue() {
    let machine = Machine::new();
    machine.backup();
    machine.backup();
    let mut writer = machine.writer("");
    let words = ["forget", "--keep-last", "1"];
    told_nothing(&machine.run(words).ends(11));
    let begun = Instant::now();
    let short = machine.run(words.iter().chain(&["--wait", "1s"])).ends(11);
    told_nothing(&short);
    assert!(begun.elapsed() >= Duration::from_secs(1) && short.stderr.contains("waiting for it"));
    let mut waiting = machine.command(["reclaim", "--retry-lock", "10m"]);
    let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    assert!(waiting.wait().unwrap().success());
    machine.run(["forget", "--wait", "soon", "latest"]).ends(2);
}

#[test]
fn a_program_can_follow_the_progress() {
    let machine = Machine::new();
    let mut writer = machine.writer("1");
    std::thread::sleep(Duration::from_millis(2500));
    drop(writer.stdin.take());
    let output = writer.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let status: Value = serde_json::from_str(stderr.lines().next().unwrap()).unwrap();
    assert_eq!(status["message_type"], "status");
    assert!(status["seconds_elapsed"].as_f64() > Some(0.5), "{status}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(!stdout.contains("\"status\""), "{stdout}");
}

#[test]
fn owners_can_be_left_out_of_a_restore() {
    let machine = Machine::new();
    machine.backup();
    let out = machine.path("out");
    let words = ["restore", "latest", "--target", out.to_str().unwrap(), "--no-owner", "--verify"];
    machine.run(words).ends(0);
    machine.run(words.iter().chain(&["--numeric-owners"])).ends(2);
}

#[test]
fn words_of_other_programs_are_answered() {
    let machine = Machine::new();
    machine.backup();
    for word in ["prune", "gc"] {
        let ran = machine.run([word]).ends(0);
        assert!(
            ran.text().contains("reclaim") && ran.stderr.contains("icecore reclaim"),
            "{ran:?}"
        );
    }
    let to = machine.path("exported");
    machine.run(["export", "--to", to.to_str().unwrap()]).ends(0);
    assert!(to.join("config").exists());
    let mount = machine.run(["mount", "/mnt/x"]).ends(2);
    assert!(mount.stderr.contains("cannot be mounted yet"), "{}", mount.stderr);
    assert!(machine.run(["unlock"]).ends(2).stderr.contains("nothing to unlock"));
    assert!(machine.run(["version"]).ends(0).text().starts_with("icecore "));
    assert!(machine.run(["version", "--json"]).ends(0).last()["version"].is_string());
    let none = machine.run(["find", "no-such-file"]).ends(1);
    assert!(none.stderr.contains("nothing in 1 snapshot matches"), "{}", none.stderr);
}
