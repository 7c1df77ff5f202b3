//! What options are set to, and where: `icecore options`, and what a backup does with them.

use crate::administration::{Running, agent, govern, start, token};
use crate::machine::{Machine, Ran, ended};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const CONFIG: &str = "\
compression = 3
limit-read = \"900M\"
exclude = [\"*.tmp\"]
skip-if-unchanged = true

[profile.work]
compression = 5
node = \"desk\"
";

fn with_config(text: &str) -> Machine {
    let machine = Machine::new();
    let folder = machine.path("home/.config/icecore");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
    machine
}

/// The option `name` in the output of `icecore options --json`.
fn option(ran: &Ran, name: &str) -> Value {
    ran.lines().into_iter().find(|line| line["option"] == name).unwrap()
}

fn places(said: &Value) -> Vec<&str> {
    said.as_array().unwrap().iter().map(|one| one["place"].as_str().unwrap()).collect()
}

#[test]
fn each_option_shows_its_value_its_origin_and_what_it_overrides() {
    let machine = with_config(CONFIG);
    let file = machine.path("home/.config/icecore/config.toml").display().to_string();
    let words = ["options", "--json", "--profile", "work", "--compression", "9", "--exclude", "x"];
    let ran = ended(machine.command(words).env("ICECORE_COMPRESSION", "7")).ends(0);
    let compression = option(&ran, "compression");
    assert_eq!(compression["origin"], "command-line");
    assert_eq!(compression["effective"][0]["values"], json!(["9"]));
    let lost = ["ICECORE_COMPRESSION", &format!("{file}:7"), &format!("{file}:1")];
    assert_eq!(places(&compression["overridden"]), lost);
    assert_eq!(option(&ran, "node")["origin"], "profile");
    assert_eq!(option(&ran, "limit-read")["origin"], "config-file");
    assert_eq!(option(&ran, "nice")["origin"], "default");
    assert_eq!(places(&option(&ran, "exclude")["effective"]), [&format!("{file}:3"), "--exclude"]);
    assert_eq!(option(&ran, "repo")["origin"], "environment");
    assert_eq!(ran.last()["config_file"], file.as_str());
}

#[test]
fn what_is_kept_is_shown_with_its_origin() {
    let text = "keep = { last = 3 }\n[profile.work]\nkeep = { daily = 7, within = \"30d\" }\n";
    let machine = with_config(text);
    for (words, origin, rules) in [
        (&["options", "--json"][..], "config-file", json!(["last=3"])),
        (&["options", "--json", "--profile", "work"], "profile", json!(["daily=7", "within=30d"])),
    ] {
        let keep = option(&machine.run(words).ends(0), "keep");
        assert_eq!((&keep["origin"], &keep["effective"][0]["values"]), (&origin.into(), &rules));
    }
    let text = machine.run(["options", "--set"]).ends(0).text();
    assert!(text.contains("keep") && text.contains("last=3"), "{text}");
}

#[test]
fn people_see_a_table_and_never_a_password() {
    let machine = with_config(CONFIG);
    let text = machine.run(["options", "--set", "--compression", "9"]).ends(0).text();
    assert!(text.contains("OVERRIDES") && text.contains("not shown"), "{text}");
    assert!(!text.contains(crate::machine::PASSWORD) && !text.contains("chunk-cache"), "{text}");
    let json = machine.run(["options", "--json"]).ends(0).text();
    assert!(!json.contains(crate::machine::PASSWORD), "{json}");
}

#[test]
fn a_backup_does_what_the_options_show() {
    let machine = with_config(CONFIG);
    machine.write("a.tmp", b"excluded by the file");
    machine.write("b.log", b"excluded by the environment");
    machine.write("c.txt", b"excluded by the command line");
    let source = machine.source();
    // The folders above change while other tests run.
    let words = ["backup", "--json", "--exclude", "c.txt", "--as", "/s", source.to_str().unwrap()];
    let backup = |tags: &str| {
        let mut command = machine.command(words);
        ended(command.env("ICECORE_EXCLUDE", "*.log").env("ICECORE_TAGS", tags)).ends(0).last()
    };
    let first = backup("one\ntwo");
    assert_eq!(backup("one\ntwo")["is_skipped"], true, "skip-if-unchanged of the file");
    assert_eq!(first["is_skipped"], false);
    let listed = machine.run(["snapshots", "--json"]).ends(0).lines();
    assert_eq!(listed[0]["tags"], json!(["one", "two"]));
    let names = machine.run(["ls", "-R", "latest"]).ends(0).text();
    assert!(names.contains("hello.txt"), "{names}");
    ["a.tmp", "b.log", "c.txt"].iter().for_each(|name| assert!(!names.contains(name), "{name}"));
}

#[test]
fn a_value_that_an_option_does_not_take_is_refused_with_its_line() {
    let machine = with_config("\ncompression = 20\n");
    let source = machine.source();
    for words in [["backup", source.to_str().unwrap()], ["options", "--set"]] {
        let ran = machine.run(words).ends(2);
        assert!(
            ran.stderr.contains("config.toml:2") && ran.stderr.contains("-7 to 19"),
            "{}",
            ran.stderr
        );
    }
    machine.run(["snapshots"]).ends(0);
    let ran = ended(machine.command(["snapshots"]).env("ICECORE_STREAMS", "11")).ends(2);
    assert!(ran.stderr.contains("ICECORE_STREAMS"), "{}", ran.stderr);
}

/// A node of a server, enrolled.
fn node() -> (Machine, Running) {
    let machine = Machine::bare();
    let server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    (machine, server)
}

/// A command on the node: its repository is the one of the server.
fn on_node(machine: &Machine, words: &[&str]) -> Ran {
    ended(machine.command(words).env_remove("ICECORE_REPO"))
}

fn backup(machine: &Machine, flags: &[&str]) -> Ran {
    let source = machine.source();
    on_node(machine, &[&["backup", source.to_str().unwrap()], flags].concat()).ends(0)
}

#[test]
fn the_server_forces_and_suggests_options_and_the_node_keeps_them() {
    let (machine, server) = node();
    machine.write("film.iso", b"excluded by the server");
    let set = [
        "options",
        "web",
        "--force",
        "exclude=*.iso",
        "--force",
        "compression=5",
        "--suggest",
        "nice=3",
    ];
    let shown = govern(&machine, &set).ends(0);
    assert!(shown.text().contains("has not asked"), "{}", shown.text());
    let ran = backup(&machine, &["--compression", "9", "--nice", "4"]);
    assert!(ran.stderr.contains("--compression does not apply"), "{}", ran.stderr);
    assert!(!on_node(&machine, &["ls", "-R", "latest"]).ends(0).text().contains("film.iso"));
    drop(server); // what the server said is in effect while it is away
    let ran =
        on_node(&machine, &["options", "--json", "--compression", "9", "--nice", "4"]).ends(0);
    assert_eq!(option(&ran, "compression")["origin"], "server-forced");
    assert_eq!(places(&option(&ran, "compression")["overridden"]), ["--compression"]);
    assert_eq!(option(&ran, "nice")["origin"], "command-line");
    let ran = on_node(&machine, &["options", "--json"]).ends(0);
    assert_eq!(option(&ran, "nice")["origin"], "server-suggested");
    // A repository that is not the server's is none of its business.
    let ran = machine.run(["options", "--json"]).ends(0);
    assert_eq!(option(&ran, "compression")["origin"], "default");
}

#[test]
fn what_the_node_keeps_as_its_own_the_server_does_not_set_and_is_told() {
    let (machine, _server) = node();
    let allow = machine.path("agent/allow.toml");
    std::fs::write(&allow, "own = [\"compression\"]\n").unwrap();
    std::fs::set_permissions(&allow, PermissionsExt::from_mode(0o600)).unwrap();
    govern(&machine, &["options", "web", "--force", "compression=5", "--force", "nice=3"]).ends(0);
    let ran = on_node(&machine, &["options", "--json", "--refresh"]).ends(0);
    assert_eq!(option(&ran, "compression")["origin"], "default");
    assert_eq!(option(&ran, "nice")["origin"], "server-forced");
    let told = govern(&machine, &["options", "web", "--json"]).ends(0).last();
    assert_eq!(told["report"]["own"], json!(["compression"]));
    assert!(govern(&machine, &["options", "web"]).ends(0).text().contains("kept as its own"));
    // A file that others may write to is not believed, so that the server sets nothing at all.
    std::fs::set_permissions(&allow, PermissionsExt::from_mode(0o666)).unwrap();
    let ran = on_node(&machine, &["options", "--json", "--refresh"]).ends(0);
    assert_eq!(option(&ran, "nice")["origin"], "default");
    let told = govern(&machine, &["options", "web", "--json"]).ends(0).last();
    assert!(told["report"]["refused"]["nice"].as_str().unwrap().contains("others may write"));
    std::fs::set_permissions(&allow, PermissionsExt::from_mode(0o600)).unwrap();
    govern(&machine, &["options", "web", "--unset", "nice"]).ends(0);
    let ran = on_node(&machine, &["options", "--json", "--refresh"]).ends(0);
    assert_eq!(option(&ran, "nice")["origin"], "default");
}

#[test]
fn what_no_server_may_set_is_refused_before_it_is_sent() {
    let (machine, _server) = node();
    for wrong in
        ["password-command=sh", "repo=/x", "compression=20", "exclude=!a", "verbs=1", "nice"]
    {
        govern(&machine, &["options", "web", "--force", wrong]).ends(2);
    }
    govern(&machine, &["options", "nobody", "--force", "nice=1"]).ends(1);
    govern(&machine, &["options", "web", "--force", "nice=1", "--suggest", "nice=2"]).ends(2);
    let audited = govern(&machine, &["audit", "--json"]).ends(0).text();
    assert!(!audited.contains("options.change"), "{audited}");
    govern(&machine, &["options", "web", "--force", "nice=1"]).ends(0);
    let audited = govern(&machine, &["audit", "--json"]).ends(0).text();
    assert!(audited.contains("options.change") && audited.contains("force nice=1"), "{audited}");
}
