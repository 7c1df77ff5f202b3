//! What options are set to, and where: `icecore options`, and what a backup does with them.

use crate::machine::{Machine, Ran, ended};
use serde_json::{Value, json};

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
fn people_see_a_table_and_never_a_password() {
    let machine = with_config(CONFIG);
    let text = machine.run(["options", "--set"]).ends(0).text();
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
    let words = ["backup", "--json", "--exclude", "c.txt", source.to_str().unwrap()];
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
