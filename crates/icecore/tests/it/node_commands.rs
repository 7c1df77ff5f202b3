//! Node commands reach nothing outside of the folders that the node's own file names.

use crate::administration::{Running, agent, govern, start, token};
use crate::machine::Machine;
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A node whose agent runs, and its server.
pub(crate) struct Ordered {
    pub(crate) machine: Machine,
    _server: Running,
    agent: Child,
}

impl Drop for Ordered {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

fn started_agent(machine: &Machine) -> Child {
    let folder = machine.path("agent");
    let mut command = machine.command(["agent", "--agent-dir", folder.to_str().unwrap()]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl Ordered {
    /// `allow` may name `{}`, the folder of the machine.
    pub(crate) fn new(allow: &str) -> Self {
        let machine = Machine::bare();
        let server = start(&machine);
        Self::of(machine, server, allow)
    }

    /// The same with this server.
    pub(crate) fn of(machine: Machine, server: Running, allow: &str) -> Self {
        let [url, token] = token(&machine, &["web"]);
        agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
        for name in ["allowed", "outside"] {
            std::fs::create_dir(machine.path(name)).unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(machine.path(name), mode).unwrap();
        }
        let allow = allow.replace("{}", machine.path("").to_str().unwrap().trim_end_matches('/'));
        std::fs::write(machine.path("agent/allow.toml"), allow).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(machine.path("agent/allow.toml"), mode).unwrap();
        let agent = started_agent(&machine);
        Self { machine, _server: server, agent }
    }

    /// The agent is killed, and another one starts.
    pub(crate) fn kill_agent(&mut self) {
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
        self.agent = started_agent(&self.machine);
    }

    fn path(&self, name: &str) -> String {
        self.machine.path(name).to_str().unwrap().to_owned()
    }

    /// Gives a command and waits for its end: whether it was done, and its words.
    fn command(&self, words: &[&str]) -> (bool, String) {
        let told = govern(&self.machine, &[&["--json"], words].concat()).ends(0).last();
        let begun = Instant::now();
        loop {
            let commands = govern(&self.machine, &["commands", "--json"]).ends(0).lines();
            let command = commands.iter().find(|command| command["id"] == told["id"]).unwrap();
            let message = command["message"].as_str().unwrap_or_default().to_owned();
            match command["state"].as_str() {
                Some("done") => return (true, message),
                Some("failed") => return (false, message),
                _ => assert!(begun.elapsed() < Duration::from_secs(90), "{command}"),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Restores the source, or `paths` of it, to `target`.
    pub(crate) fn restore(&self, target: &str, paths: &[&str]) -> (bool, String) {
        let snapshot = format!("latest:{}", self.path("source"));
        let target = self.path(target);
        let words = ["restore", "web", "--snapshot", &snapshot, "--target", &target, "--"];
        let paths: Vec<_> = paths.iter().map(|name| self.path(&format!("source/{name}"))).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        self.command(&[&words[..], &paths].concat())
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let names = std::fs::read_dir(self.machine.path(folder)).unwrap();
        let mut names: Vec<_> =
            names.map(|name| name.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// What the newest snapshot has, as lines of JSON.
    fn stored(&self) -> Vec<Value> {
        let folder = self.path("agent");
        let mut command = self.machine.command(["ls", "--json", "-R", "latest", "--agent-dir"]);
        command.arg(folder).env_remove("ICECORE_REPO");
        crate::machine::ended(&mut command).ends(0).lines()
    }

    fn has_stored(&self, name: &str) -> bool {
        let ends = |line: &Value| line["path"].as_str().is_some_and(|path| path.ends_with(name));
        self.stored().iter().any(ends)
    }
}

const ALLOW: &str = "backup_below = [\"{}/source\"]\nrestore_below = [\"{}/allowed\"]\n";

#[test]
fn two_restores_by_command_do_not_leave_the_folder_through_a_link_of_the_first() {
    let node = Ordered::new(ALLOW);
    symlink(node.path("outside"), node.machine.path("source/x")).unwrap();
    assert!(node.command(&["backup", "web", &node.path("source")]).0);
    let (done, words) = node.restore("allowed", &[]);
    assert!(done, "{words}");
    assert!(node.machine.path("allowed/x").is_symlink(), "the first one brings the link");
    for target in ["allowed/x", "allowed/x/y", "outside", "allowed/../outside"] {
        let (done, words) = node.restore(target, &[]);
        assert!(!done && !words.is_empty(), "{target}: {words}");
    }
    assert_eq!(node.names("outside"), [""; 0]);
    let (done, words) = node.restore("allowed/new/deeper", &[]);
    assert!(done, "{words}");
    assert_eq!(node.names("allowed/new/deeper"), ["folder", "hello.txt", "x"]);
}

#[test]
fn a_folder_for_restores_that_others_may_write_to_or_that_is_a_link_is_not_used() {
    let node = Ordered::new(
        "backup_below = [\"{}/source\"]\nrestore_below = [\"{}/allowed\", \"{}/link\"]\n",
    );
    assert!(node.command(&["backup", "web", &node.path("source")]).0);
    symlink(node.path("outside"), node.machine.path("link")).unwrap();
    assert!(!node.restore("link/y", &[]).0);
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(node.machine.path("allowed"), mode).unwrap();
    assert!(!node.restore("allowed/y", &[]).0);
    assert_eq!((node.names("outside").len(), node.names("allowed").len()), (0, 0));
}

/// Seen: every user of the machine could run as root what the server had put into its own snapshot.
#[test]
fn a_restore_by_command_gives_no_rights_of_others_unless_the_machine_says_so() {
    let node = Ordered::new(ALLOW);
    node.machine.write("program", b"#!/bin/true");
    let program = node.machine.path("source/program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    assert!(node.command(&["backup", "web", &node.path("source")]).0);
    let mode = |name: &str| {
        let found = std::fs::metadata(node.machine.path(name)).unwrap();
        found.permissions().mode() & 0o7777
    };
    let (done, words) = node.restore("allowed/x", &[]);
    assert!(done && words.contains("partial"), "{words}");
    assert_eq!(mode("allowed/x/program"), 0o755);
    let allow = node.machine.path("agent/allow.toml");
    let text = std::fs::read_to_string(&allow).unwrap();
    std::fs::write(&allow, format!("restore_privileged = true\n{text}")).unwrap();
    let (done, words) = node.restore("allowed/y", &[]);
    assert!(done && words.contains("complete"), "{words}");
    assert_eq!(mode("allowed/y/program"), 0o4755);
}

#[test]
fn backups_by_command_see_nothing_outside_of_their_folders() {
    let node = Ordered::new(ALLOW);
    std::fs::write(node.machine.path("outside/secret"), "secret").unwrap();
    symlink(node.path("outside"), node.machine.path("source/way")).unwrap();
    symlink(node.path("source"), node.machine.path("other")).unwrap();
    for path in ["outside", "source/way/secret", "source/way/", "other/hello.txt", ""] {
        let (done, words) = node.command(&["backup", "web", &node.path(path)]);
        let is_link_itself = path == "source/way/";
        assert!(done == is_link_itself, "{path}: {words}");
    }
    assert!(!node.has_stored("secret"));
    let (done, words) = node.command(&["backup", "web", &node.path("source/hello.txt")]);
    assert!(done && node.has_stored("hello.txt"), "{words}");
}

#[test]
fn a_machine_that_allows_nothing_is_not_read() {
    let node = Ordered::new("");
    for path in ["source", "source/hello.txt", "home"] {
        let (done, words) = node.command(&["backup", "web", &node.path(path)]);
        assert!(!done && words.contains("backup_below"), "{words}");
    }
    assert!(!node.command(&["backup", "web"]).0, "no paths anywhere");
}

#[test]
fn paths_of_a_command_are_literal() {
    let node = Ordered::new(ALLOW);
    for name in ["a1", "a[1]", "b*", "bb", "end ", "#hash", "!not"] {
        node.machine.write(name, name.as_bytes());
    }
    assert!(node.command(&["backup", "web", &node.path("source")]).0);
    for (at, name) in ["a[1]", "b*", "end ", "#hash", "!not"].iter().enumerate() {
        let target = format!("allowed/{at}");
        let (done, words) = node.restore(&target, &[name]);
        assert!(done, "{name}: {words}");
        assert_eq!(node.names(&target), [*name]);
    }
    let (done, words) = node.restore("allowed/none", &["hello.txt", "c*"]);
    assert!(!done && words.contains("c*"), "one that is missing is told: {words}");
    assert!(!node.machine.path("allowed/none").exists(), "before anything is written");
}

#[test]
fn a_config_file_of_the_machine_does_not_lead_a_command_elsewhere() {
    let node = Ordered::new(ALLOW);
    std::fs::create_dir_all(node.machine.path("home/.config/icecore")).unwrap();
    node.machine.run(["init"]).ends(0);
    let config = format!("repo = {:?}\n", node.path("repository"));
    std::fs::write(node.machine.path("home/.config/icecore/config.toml"), config).unwrap();
    let (done, words) = node.command(&["backup", "web", &node.path("source")]);
    assert!(done, "{words}");
    assert!(node.machine.snapshots().is_empty(), "it went into the machine's own repository");
    assert_eq!(govern(&node.machine, &["snapshots", "web"]).ends(0).text().lines().count(), 2);
}
