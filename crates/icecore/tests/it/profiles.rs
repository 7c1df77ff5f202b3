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

/// Seen: it ended with 1, as if something had failed that the user cannot help.
#[test]
fn a_config_file_that_is_no_text_or_no_file_is_a_mistake_as_any_other() {
    let machine = with_config("");
    std::fs::write(file(&machine), b"# a\nrepo = \"/\xff\"\n").unwrap();
    is_refused(&machine, &machine.run(["snapshots"]), &["line 2 is not UTF-8"]);
    std::fs::remove_file(file(&machine)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(file(&machine)).unwrap();
    is_refused(&machine, &machine.run(["snapshots"]), &["not a regular file"]);
    std::fs::remove_file(file(&machine)).unwrap();
    std::fs::create_dir(file(&machine)).unwrap();
    is_refused(&machine, &machine.run(["snapshots"]), &["not a regular file"]);
    std::fs::write(machine.path("site.toml"), b"\n\n[policy.\xff]\n").unwrap();
    std::fs::remove_dir(file(&machine)).unwrap();
    let ran = machine.run(["run".as_ref(), machine.path("site.toml").as_os_str()]).ends(2);
    assert!(ran.stderr.contains("site.toml: ") && ran.stderr.contains("line 3"), "{ran:?}");
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

/// Backs up what the words say, with another content each time, so often; the ids.
fn backups(machine: &Machine, count: u8, words: &[&str]) -> Vec<String> {
    let one = |number| {
        machine.write("folder/changes", &[number; 9]);
        let ran = machine.run(["backup", "--json"].iter().chain(words)).ends(0);
        ran.last()["snapshot_id"].as_str().unwrap().to_owned()
    };
    (0..count).map(one).collect()
}

/// Seen: snapshots of other sources were forgotten that had the paths of the profile among theirs.
#[test]
fn what_a_profile_keeps_is_said_of_its_own_source_and_of_no_other() {
    let machine = with_config("");
    machine.write(r"b\ck/x", b"x");
    let (folder, odd) = (machine.source().join("folder"), machine.source().join(r"b\ck"));
    let hello = machine.source().join("hello.txt");
    std::os::unix::fs::symlink(&odd, machine.path("link")).unwrap();
    // As backup names them, whatever the file writes.
    let paths =
        [format!("{}/../source//folder/", machine.source().display()), odd.display().to_string()];
    let link = format!("{}/", machine.path("link").display());
    let text = format!(
        "keep = {{ last = 1 }}\n[profile.two]\npaths = {paths:?}\n[profile.link]\npaths = [{link:?}]\n[profile.all]\n"
    );
    std::fs::write(file(&machine), text).unwrap();
    let [folder, odd, hello] = [&folder, &odd, &hello].map(|path| path.to_str().unwrap());
    let more = backups(&machine, 2, &[folder, odd, hello, "--tag", "t"]);
    let two = backups(&machine, 2, &["--profile", "two", "--tag", "t"]);
    let linked = backups(&machine, 2, &["--profile", "link"]);
    let other = backups(&machine, 2, &["--profile", "two", "--node", "other"]);
    let left = |gone: &[&String]| {
        let mut all = [&more[..], &two, &linked, &other].concat();
        all.retain(|id| !gone.contains(&id));
        all
    };
    machine.run(["forget", "--profile", "two", "--tag", "none"]).ends(0);
    assert_eq!(machine.snapshots(), left(&[]));
    machine.run(["forget", "--profile", "two", "--tag", "t"]).ends(0);
    assert_eq!(machine.snapshots(), left(&[&two[0]]), "only of its own source");
    machine.run(["forget", "--profile", "two"]).ends(0);
    machine.run(["forget", "--profile", "link"]).ends(0);
    assert_eq!(machine.snapshots(), left(&[&two[0], &linked[0]]));
    machine.run(["forget", "--profile", "two", "--node", "other"]).ends(0);
    assert_eq!(machine.snapshots(), left(&[&two[0], &linked[0], &other[0]]));
    // Who types a path means all that have it.
    machine.run(["forget", "--keep-last", "1", "--path", folder]).ends(0);
    assert_eq!(machine.snapshots(), left(&[&two[0], &linked[0], &other[0], &more[0]]));
    // A source that is not there any more is told, and takes no other with it.
    std::fs::write(file(&machine), "paths = [\"/nowhere\"]\nkeep = { last = 1 }\n").unwrap();
    let ran = machine.run(["forget"]).ends(0);
    assert!(ran.stderr.contains("exactly these paths: /nowhere"), "{ran:?}");
}
