//! The config file and the environment.

use crate::machine::{Machine, Ran};
use std::path::PathBuf;

fn file(machine: &Machine) -> PathBuf {
    machine.path("home/.config/icecore/config.toml")
}

fn with_config(text: &str) -> Machine {
    let machine = Machine::new();
    std::fs::create_dir_all(file(&machine).parent().unwrap()).unwrap();
    std::fs::write(file(&machine), text).unwrap();
    machine
}

/// Wrong usage, told on two lines with the file's name and what to do.
fn is_refused(machine: &Machine, ran: &Ran, words: &[&str]) {
    assert_eq!((ran.code, ran.stderr.lines().count()), (2, 2), "{}", ran.stderr);
    let file = file(machine).display().to_string();
    let words = words.iter().copied().chain([file.as_str(), "Correct it"]);
    words.for_each(|word| assert!(ran.stderr.contains(word), "'{word}': {}", ran.stderr));
    assert!(!ran.stderr.contains(r"\n"), "{}", ran.stderr);
}

#[test]
fn a_mistake_in_the_config_file_is_told_with_its_line() {
    let machine = with_config("node = \"x\"\n\n[profile.b]\nnodes = \"x\"\n");
    is_refused(&machine, &machine.run(["snapshots"]), &["line 4", "`nodes`", "`node`"]);
    std::fs::write(file(&machine), "repo = \n").unwrap();
    is_refused(&machine, &machine.run(["snapshots"]), &["line 1"]);
    std::fs::write(file(&machine), "repo = 3\n").unwrap();
    is_refused(&machine, &machine.run(["snapshots"]), &["repo", "integer"]);
    std::fs::write(file(&machine), "").unwrap();
    let ran = machine.run(["snapshots", "--profile", "home"]);
    is_refused(&machine, &ran, &["there is no profile 'home'", "none"]);
}

#[test]
fn without_a_config_file_a_profile_is_told_where_to_be_written() {
    let machine = Machine::new();
    let ran = machine.run(["snapshots", "--profile", "home"]).ends(2);
    assert!(ran.stderr.contains(&file(&machine).display().to_string()), "{}", ran.stderr);
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let machine = with_config("node = \"x\"\n");
    let run = |name: &str| crate::machine::ended(machine.command(["snapshots"]).env(name, ""));
    run("ICECORE_PROFILE").ends(0);
    let ran = run("ICECORE_REPO").ends(2);
    assert!(ran.stderr.contains("no repository given"), "{}", ran.stderr);
    let repo = machine.path("repository");
    std::fs::write(file(&machine), format!("repo = {repo:?}\n")).unwrap();
    run("ICECORE_REPO").ends(0);
}

#[test]
fn the_environment_names_the_profile_and_flags_go_before_it() {
    let machine = with_config(
        "tags = [\"all\"]\n[profile.a]\nnode = \"node-a\"\nexclude = [\"folder\"]\n[profile.b]\nnode = \"node-b\"\n",
    );
    let source = machine.source();
    let backup = |flags: &[&str]| {
        let arguments = ["backup", "-q", source.to_str().unwrap()];
        let mut command = machine.command(arguments.iter().chain(flags));
        crate::machine::ended(command.env("ICECORE_PROFILE", "a")).ends(0);
        machine.run(["snapshots", "--json"]).ends(0).lines().into_iter().rev().nth(1).unwrap()
    };
    let by_profile = backup(&[]);
    assert_eq!((&by_profile["node"], &by_profile["tags"][0]), (&"node-a".into(), &"all".into()));
    assert!(!machine.run(["ls", "-R", "latest"]).ends(0).text().contains("large"));
    assert_eq!(backup(&["--profile", "b"])["node"], "node-b");
    let by_flags = backup(&["--node", "mine", "--tag", "one"]);
    assert_eq!(
        (&by_flags["node"], &by_flags["tags"]),
        (&"mine".into(), &serde_json::json!(["one"]))
    );
}

/// Whoever writes the file would run commands as us.
#[test]
fn a_password_command_of_a_file_that_others_may_write_is_not_run() {
    use std::os::unix::fs::PermissionsExt;
    let marker = "ran";
    let machine = with_config("");
    let command = format!("touch '{}'; echo x", machine.path(marker).display());
    std::fs::write(file(&machine), format!("password-command = {command:?}\n")).unwrap();
    let run = || {
        let mut command = machine.command(["snapshots"]);
        crate::machine::ended(command.env_remove("ICECORE_PASSWORD"))
    };
    for mode in [0o666, 0o620] {
        std::fs::set_permissions(file(&machine), PermissionsExt::from_mode(mode)).unwrap();
        let ran = run();
        assert!(ran.code != 0 && ran.stderr.contains("chmod go-w"), "{}", ran.stderr);
        assert!(!machine.path(marker).exists(), "{mode:o}");
    }
    std::fs::set_permissions(file(&machine), PermissionsExt::from_mode(0o644)).unwrap();
    run();
    assert!(machine.path(marker).exists());
}
