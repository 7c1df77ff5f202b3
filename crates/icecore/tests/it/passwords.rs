//! Where passwords come from, and what opens a repository.

use crate::machine::{Machine, PASSWORD, ended};
use std::process::Command;

/// A command without any password in its environment.
fn without(machine: &Machine, arguments: &[&str]) -> Command {
    let mut command = machine.command(arguments);
    command.env_remove("ICECORE_PASSWORD");
    command
}

#[test]
fn a_password_comes_from_every_documented_place() {
    let machine = Machine::new();
    let file = machine.path("pass");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let (file, echo) = (file.to_str().unwrap(), format!("echo '{PASSWORD}'"));
    let from_flags: [&[&str]; 2] =
        [&["snapshots", "--password-file", file], &["snapshots", "--password-command", &echo]];
    for arguments in from_flags {
        assert_eq!(ended(&mut without(&machine, arguments)).code, 0, "{arguments:?}");
    }
    for (name, value) in [
        ("ICECORE_PASSWORD", PASSWORD),
        ("ICECORE_PASSWORD_FILE", file),
        ("ICECORE_PASSWORD_COMMAND", &echo),
    ] {
        assert_eq!(ended(without(&machine, &["snapshots"]).env(name, value)).code, 0, "{name}");
    }
    let none = ended(&mut setsid(&machine));
    assert_eq!(none.code, 2, "{}", none.stderr);
    assert!(none.stderr.contains("ICECORE_PASSWORD_FILE"), "{}", none.stderr);
}

/// Away from the terminal that the tests may have.
fn setsid(machine: &Machine) -> Command {
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(env!("CARGO_BIN_EXE_icecore")).arg("snapshots").env_clear();
    command
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", machine.path("home"));
    command.env("ICECORE_REPO", machine.path("repository")).stdin(std::process::Stdio::null());
    command
}

#[test]
fn a_flag_goes_before_the_environment() {
    let machine = Machine::new();
    std::fs::write(machine.path("wrong"), "wrong").unwrap();
    let wrong = machine.path("wrong");
    machine.run(["snapshots", "--password-file", wrong.to_str().unwrap()]).ends(12);
}

#[test]
fn a_profile_names_repository_password_node_and_tags() {
    let machine = Machine::new();
    std::fs::write(machine.path("pass"), PASSWORD).unwrap();
    let (pass, repo) = (machine.path("pass"), machine.path("repository"));
    let text = format!(
        "[profile.mine]\nrepo = {repo:?}\npassword-file = {pass:?}\nnode = \"web-1\"\ntags = [\"nightly\"]\n"
    );
    std::fs::create_dir_all(machine.path("config/icecore")).unwrap();
    std::fs::write(machine.path("config/icecore/config.toml"), text).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = without(&machine, arguments);
        ended(command.env_remove("ICECORE_REPO").env("XDG_CONFIG_HOME", machine.path("config")))
    };
    let source = machine.source();
    run(&["backup", source.to_str().unwrap(), "--profile", "mine"]).ends(0);
    let listed = run(&["snapshots", "--profile", "mine", "--json"]).ends(0).lines();
    assert_eq!((&listed[0]["node"], &listed[0]["tags"][0]), (&"web-1".into(), &"nightly".into()));
    let other = run(&["snapshots", "--profile", "other"]).ends(2);
    assert!(other.stderr.contains("there are: mine"), "{}", other.stderr);
    run(&["snapshots"]).ends(2);
}

#[test]
fn a_failing_or_empty_password_source_never_means_another_password() {
    let machine = Machine::new();
    ended(&mut without(&machine, &["snapshots", "--password-command", "exit 1"])).ends(1);
    ended(&mut without(&machine, &["snapshots", "--password-command", "true"])).ends(2);
    ended(&mut without(&machine, &["snapshots", "--password-file", "/does/not/exist"])).ends(1);
    ended(machine.command(["snapshots"]).env("ICECORE_PASSWORD", "")).ends(2);
}

#[test]
fn a_recovery_key_opens_like_a_password() {
    let machine = Machine::new();
    let text = machine.run(["key", "recovery"]).ends(0).text();
    let key = text.trim();
    ended(machine.command(["snapshots"]).env("ICECORE_PASSWORD", key)).ends(0);
    ended(
        machine
            .command(["snapshots"])
            .env("ICECORE_PASSWORD", key.to_lowercase().replace('-', " ")),
    )
    .ends(0);
    let listed = machine.run(["key", "list", "--json"]).ends(0).lines();
    assert_eq!(listed.iter().filter(|line| line["kind"] == "recovery").count(), 1);
}

/// Whoever forgot the password opens with the recovery key. Once a new password took its place, and the forgotten one
/// still opened.
#[test]
fn a_recovery_key_is_no_password_to_change_and_helps_to_a_new_one() {
    let machine = Machine::new();
    let key = machine.run(["key", "recovery"]).ends(0).text();
    let forgotten = machine.run(["key", "list", "--json"]).ends(0).lines();
    let forgotten = forgotten.iter().find(|line| line["kind"] == "password").unwrap();
    let forgotten = forgotten["key"].as_str().unwrap();
    let new = machine.path("new");
    std::fs::write(&new, "new one\n").unwrap();
    let file = ["--new-password-file", new.to_str().unwrap()];
    let with = |words: &[&str]| {
        ended(machine.command(words).args(file).env("ICECORE_PASSWORD", key.trim()))
    };
    let denied = with(&["key", "passwd"]).ends(2);
    assert!(denied.stderr.contains("icecore key add"), "{}", denied.stderr);
    with(&["key", "add"]).ends(0);
    let recovered = |words: &[&str]| {
        ended(machine.command(words).env("ICECORE_PASSWORD", key.trim())).ends(0);
    };
    recovered(&["key", "remove", forgotten]);
    recovered(&["snapshots"]);
    ended(machine.command(["snapshots"]).env("ICECORE_PASSWORD", "new one")).ends(0);
}

#[test]
fn keys_are_added_and_removed_but_never_the_last() {
    let machine = Machine::new();
    std::fs::write(machine.path("pass"), "second").unwrap();
    let pass = machine.path("pass");
    let added = machine
        .run([
            "key",
            "add",
            "--label",
            "two",
            "--new-password-file",
            pass.to_str().unwrap(),
            "--json",
        ])
        .ends(0);
    ended(machine.command(["snapshots"]).env("ICECORE_PASSWORD", "second")).ends(0);
    let key = added.last()["key"].as_str().unwrap().to_owned();
    machine.run(["key", "remove", &key[..6]]).ends(0);
    ended(machine.command(["snapshots"]).env("ICECORE_PASSWORD", "second")).ends(12);
    let listed = machine.run(["key", "list", "--json"]).lines();
    let last = listed[0]["key"].as_str().unwrap().to_owned();
    let refused = machine.run(["key", "remove", &last]).ends(2);
    assert!(refused.stderr.contains("last full key"), "{}", refused.stderr);
}

#[test]
fn a_password_is_changed_and_the_old_one_opens_nothing() {
    let machine = Machine::new();
    machine.backup();
    std::fs::write(machine.path("new"), "another one\n").unwrap();
    let new = machine.path("new");
    let new = new.to_str().unwrap();
    machine.run(["key", "passwd", "--new-password-file", new]).ends(0);
    assert_ne!(machine.run(["snapshots"]).code, 0);
    let with = |arguments: &[&str]| {
        ended(
            without(&machine, &[arguments, &["--password-file", new]].concat()).env("LC_ALL", "C"),
        )
    };
    assert_eq!(with(&["snapshots", "--json"]).ends(0).lines().len(), 2);
    let keys = with(&["key", "list"]).ends(0);
    assert_eq!(keys.text().matches("first key").count(), 1, "{}", keys.text());
    with(&["check"]).ends(0);
}

#[test]
fn keys_for_readers_and_nodes_do_what_they_are_for() {
    let machine = Machine::new();
    machine.backup();
    std::fs::write(machine.path("new"), "another one\n").unwrap();
    let new = machine.path("new");
    let new = new.to_str().unwrap();
    let with = |arguments: &[&str]| {
        ended(
            without(&machine, &[arguments, &["--password-file", new]].concat()).env("LC_ALL", "C"),
        )
    };
    let source = machine.source();
    let backup = ["backup", source.to_str().unwrap(), "--node", "web"];
    machine.run(["key", "add", "--read-only", "--new-password-file", new]).ends(0);
    with(&["snapshots"]).ends(0);
    let denied = with(&backup);
    assert!(denied.code != 0 && denied.stderr.contains("not back up"), "{}", denied.stderr);
    let denied = with(&["key", "passwd", "--new-password-file", new]);
    assert!(denied.stderr.contains("full key"), "{}", denied.stderr);
    std::fs::write(new, "a third one\n").unwrap();
    machine
        .run(["key", "add", "--read-write", "--node", "web", "--new-password-file", new])
        .ends(0);
    with(&backup).ends(0);
    let keys = machine.run(["key", "list"]).ends(0).text();
    assert!(keys.contains("read-only") && keys.contains("read-write"), "{keys}");
    machine.run(["key", "add", "--read-only", "--write-only"]).ends(2);
}

/// Review finding S17: the cost of each guess was what it was.
#[test]
fn what_a_password_costs_is_chosen_kept_and_shown() {
    let machine = Machine::bare();
    for [memory, passes] in [["18MiB", "2"], ["1025MiB", "2"], ["19MiB", "1"], ["19MiB", "17"]] {
        let words = ["init", "--password-cost", memory, "--password-passes", passes];
        machine.run(words).ends(2);
        assert!(!machine.path("repository").exists(), "{memory}, {passes}");
    }
    machine.run(["init", "--password-cost", "24MiB", "--password-passes", "3"]).ends(0);
    let costs = || {
        let keys = machine.run(["key", "list", "--json"]).ends(0).lines();
        let costs = keys.iter().filter(|key| key["message_type"] == "key");
        let cost = |it: &serde_json::Value| {
            (it["password_cost"]["memory_bytes"].as_u64(), it["password_cost"]["passes"].as_u64())
        };
        costs.map(cost).collect::<Vec<_>>()
    };
    assert_eq!(costs(), [(Some(24 << 20), Some(3))]);
    let text = machine.run(["key", "list"]).ends(0).text();
    assert!(text.contains("password  24 MiB, 3 passes"), "{text}");
    // A new password costs what the old one did, unless something else is said.
    let file = machine.path("new");
    let file = file.to_str().unwrap();
    std::fs::write(file, PASSWORD).unwrap();
    machine.run(["key", "passwd", "--new-password-file", file]).ends(0);
    assert_eq!(costs(), [(Some(24 << 20), Some(3))]);
    std::fs::write(file, "another one").unwrap();
    let most = ["--password-cost", "1GiB", "--new-password-file", file];
    machine.run(["key", "add", "--write-only"].iter().chain(&most)).ends(0);
    machine.run(["key", "recovery"]).ends(0);
    let mut all = costs();
    all.sort_unstable();
    assert_eq!(all, [(None, None), (Some(24 << 20), Some(3)), (Some(1 << 30), Some(2))]);
    machine.backup();
}

/// Seen: who had the password of a full key given to a write-only one could read all.
#[test]
fn a_new_password_is_none_of_another_key() {
    let machine = Machine::new();
    let file = machine.path("same");
    let file = file.to_str().unwrap();
    let new = ["--new-password-file", file];
    std::fs::write(file, "of the agent").unwrap();
    machine.run(["key", "add", "--write-only"].iter().chain(&new)).ends(0);
    std::fs::write(file, PASSWORD).unwrap();
    let refused = machine.run(["key", "add", "--write-only"].iter().chain(&new)).ends(2);
    assert!(refused.stderr.contains("(full)"), "{}", refused.stderr);
    // The own one again: to change its cost.
    machine.run(["key", "passwd", "--password-cost", "20MiB"].iter().chain(&new)).ends(0);
    std::fs::write(file, "of the agent").unwrap();
    let refused = machine.run(["key", "passwd"].iter().chain(&new)).ends(2);
    assert!(refused.stderr.contains("(write-only)"), "{}", refused.stderr);
    assert_eq!(machine.run(["key", "list", "--json"]).ends(0).lines().len(), 3);
}

#[test]
fn commands_on_keys_wait_for_who_writes() {
    let machine = Machine::new();
    let lock = std::fs::File::open(machine.path("repository/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let file = machine.path("new");
    let file = file.to_str().unwrap();
    std::fs::write(file, "another").unwrap();
    let add = ["key", "add", "--new-password-file", file];
    machine.run(add).ends(11);
    machine.run(add.iter().chain(&["--wait", "1s"])).ends(11);
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(2));
        drop(lock);
    });
    let ran = machine.run(add.iter().chain(&["--wait", "1m"])).ends(0);
    assert!(ran.stderr.contains("waiting for it"), "{}", ran.stderr);
    release.join().unwrap();
    let last = machine.run(["key", "recovery", "--wait", "1s", "--json"]).ends(0).last();
    let id = last["key"].as_str().unwrap().to_owned();
    machine.run(["key", "remove", &id, "--wait", "1s"]).ends(0);
    std::fs::write(file, "a third one").unwrap();
    machine.run(["key", "passwd", "--wait", "1s", "--new-password-file", file]).ends(0);
}

/// Seen: it was called a wrong password.
#[test]
fn a_key_whose_file_is_gone_is_told_as_missing_and_works_again_when_it_is_back() {
    let machine = Machine::new();
    machine.backup();
    let keys = machine.path("repository/keys");
    let list = || std::fs::read_dir(&keys).unwrap().map(|file| file.unwrap().path());
    let own = list().find(|file| !file.to_string_lossy().contains("list")).unwrap();
    let away = machine.path("away");
    std::fs::rename(&own, &away).unwrap();
    let id = own.file_name().unwrap().to_str().unwrap();
    for words in [&["snapshots"][..], &["rebuild"], &["check"]] {
        let refused = machine.run(words).ends(12);
        assert!(refused.stderr.contains(&format!("keys/{id}")), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("from a copy"), "{}", refused.stderr);
    }
    std::fs::rename(&away, &own).unwrap();
    machine.run(["snapshots"]).ends(0);
    // A removed key is none that is missing.
    let file = machine.path("second");
    std::fs::write(&file, "another one").unwrap();
    let add = ["key", "add", "--new-password-file", file.to_str().unwrap(), "--json"];
    let second = machine.run(add).ends(0).last()["key"].as_str().unwrap().to_owned();
    machine.run(["key", "remove", &second]).ends(0);
    let mut other = machine.command(["snapshots"]);
    let refused = ended(other.env("ICECORE_PASSWORD", "another one")).ends(12);
    assert!(!refused.stderr.contains("missing"), "{}", refused.stderr);
}

/// Seen: it took all memory of the machine.
#[test]
fn what_gives_the_password_may_not_go_on_for_ever() {
    let machine = Machine::new();
    let mut file = without(&machine, &["snapshots", "--password-file", "/dev/zero"]);
    let refused = ended(&mut file);
    assert!(refused.code != 0 && refused.stderr.contains("64 KiB"), "{refused:?}");
    let mut command = without(&machine, &["snapshots", "--password-command", "yes"]);
    let refused = ended(&mut command).ends(1);
    assert!(refused.stderr.contains("64 KiB"), "{}", refused.stderr);
}
