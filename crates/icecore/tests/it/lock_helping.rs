//! A server of a user of its own, with a lock helper of root beside it: what is left after somebody took it over.

use crate::administration::{Running, govern, started};
use crate::locking::{ALLOW, back_up, lock_for};
use crate::machine::{Machine, Ran, ended};
use crate::node_commands::Ordered;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A user that nobody has.
const SERVER: u32 = 54_321;

/// `icecore WORDS` as the user of the server. The program is where that user can execute it.
fn as_server(machine: &Machine, words: &[&str]) -> Command {
    let of_tests = machine.command(words);
    let mut command = Command::new(program(machine));
    command.args(words).env_clear().uid(SERVER).gid(SERVER);
    for (name, value) in of_tests.get_envs() {
        value.map(|value| command.env(name, value));
    }
    command.env("HOME", machine.path("data")).stdin(Stdio::null());
    command
}

fn program(machine: &Machine) -> PathBuf {
    machine.path("icecore")
}

/// A server of [`SERVER`], whose data is there.
fn server(machine: &Machine) -> Running {
    // By another process: one that other tests fork from this one could have it open for writing, and nobody may
    // execute it meanwhile.
    let copy = Command::new("cp").arg(env!("CARGO_BIN_EXE_icecore")).arg(program(machine)).status();
    assert!(copy.unwrap().success());
    std::fs::set_permissions(machine.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(machine.path("data")).unwrap();
    chown(machine.path("data"), Some(SERVER), Some(SERVER)).unwrap();
    let (data, socket) = (text(machine, "data"), text(machine, "socket"));
    let words = ["server", "--data", &data, "--listen", "127.0.0.1:0", "--lock-helper", &socket];
    started(&mut as_server(machine, &words))
}

fn text(machine: &Machine, name: &str) -> String {
    machine.path(name).to_str().unwrap().to_owned()
}

/// The helper, until it is dropped.
struct Helper(Child);

impl Helper {
    fn start(machine: &Machine) -> Self {
        let socket = text(machine, "socket");
        let mut command = helper(machine, &["--socket", &socket]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.starts_with("listening at ")));
        Self(child)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn helper(machine: &Machine, words: &[&str]) -> Command {
    let pool = text(machine, "data/pool");
    machine.command([&["lock-helper", "--pool", &pool], words].concat())
}

fn shell(machine: &Machine, script: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(machine.path("data/pool"));
    shell.uid(SERVER).gid(SERVER).stderr(Stdio::null()).status().unwrap().success()
}

/// Waits until the helper keeps something else than `before` files, and nothing failed.
fn kept(machine: &Machine, before: u64) -> u64 {
    let begun = Instant::now();
    loop {
        let status = govern(machine, &["status", "--json"]).ends(0).last();
        let of_helper = &status["lock_helper"];
        let files = of_helper["files"].as_u64().unwrap_or(0);
        if files != before && of_helper["problems"].as_array().is_some_and(Vec::is_empty) {
            return files;
        }
        assert!(begun.elapsed() < Duration::from_secs(150), "{status}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_server_that_was_taken_over_loses_no_locked_snapshot() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("the lock helper runs as root");
    }
    let machine = Machine::bare();
    let server = server(&machine);
    let helping = Helper::start(&machine);
    let ordered = Ordered::of(machine, server, ALLOW);
    let machine = &ordered.machine;
    lock_for(&ordered, "30 days");
    let first = back_up(&ordered, 0);
    let files = kept(machine, 0);
    machine.write("second", &[9; 500_000]);
    let second = back_up(&ordered, 1);
    assert!(kept(machine, files) > files, "the files of the second one, too");
    let listed = ended(&mut helper(machine, &["list", "--json"])).ends(0).lines();
    assert_eq!(
        (&listed[0]["domain"], listed[0]["files"].as_u64() > Some(files)),
        (&"web".into(), true)
    );
    assert!(ended(&mut helper(machine, &["list"])).ends(0).text().contains("web"));
    let key = govern(machine, &["key", "web", "--quiet"]).ends(0).text();
    reclaimed_beside(machine);

    // Somebody took the server over.
    assert!(shell(
        machine,
        "for f in $(find domains -name '*.ice'); do echo x 2>/dev/null > $f; done; true"
    ));
    assert!(shell(
        machine,
        "rm -rf domains/web && mkdir domains/web && echo forged > domains/web/config"
    ));
    drop(helping);
    let recovered = ended(&mut helper(machine, &["recover", "--json"])).ends(0).last();
    assert_eq!(
        (recovered["replaced"].as_u64(), recovered["recovered"].as_u64() > Some(files)),
        (Some(1), true)
    );

    let repo = text(machine, "data/pool/domains/web");
    let with_key = |words: &[&str]| -> Ran {
        let words = [words, &["--repo", &repo]].concat();
        ended(as_server(machine, &words).env("ICECORE_PASSWORD", key.trim()))
    };
    with_key(&["rebuild"]).ends(0);
    with_key(&["check", "--read-data"]).ends(0);
    let shown = with_key(&["snapshots", "--json"]).ends(0).lines();
    let ids: Vec<_> = shown.iter().filter_map(|line| line["snapshot_id"].as_str()).collect();
    assert_eq!(ids, [first, second]);
    let mut restore = machine.command(["restore", "latest", "--repo", &repo, "--target"]);
    ended(restore.arg(machine.path("back")).env("ICECORE_PASSWORD", key.trim())).ends(0);
    for name in ["hello.txt", "folder/large", "second", "kept"] {
        let source = machine.source().join(name);
        let back = machine.path("back").join(source.strip_prefix("/").unwrap());
        assert!(std::fs::read(&source).unwrap() == std::fs::read(&back).unwrap(), "{name}");
    }
}

/// The repository works as before for the server: it reads what is root's, and a reclaim leaves that alone.
fn reclaimed_beside(machine: &Machine) {
    govern(machine, &["upkeep", "start", "default", "--domain", "web"]).ends(0);
    let begun = Instant::now();
    loop {
        let jobs = govern(machine, &["jobs", "--json"]).ends(0).lines();
        let upkeep: Vec<_> = jobs.iter().filter(|job| job["plan"]["policy"] != "source").collect();
        let complete = upkeep.iter().filter(|job| job["state"] == "complete").count();
        if complete >= 2 {
            return;
        }
        assert!(upkeep.iter().all(|job| job["state"] != "failed"), "{upkeep:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{jobs:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Without its helper a server says so, and goes on.
#[test]
fn a_helper_that_does_not_answer_is_an_alarm_and_no_end_of_backups() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("the lock helper runs as root");
    }
    let machine = Machine::bare();
    let server = server(&machine);
    let ordered = Ordered::of(machine, server, ALLOW);
    lock_for(&ordered, "30 days");
    back_up(&ordered, 0);
    let begun = Instant::now();
    loop {
        let status = govern(&ordered.machine, &["status", "--json"]).ends(0).last();
        if let Some([problem]) = status["lock_helper"]["problems"].as_array().map(|all| &all[..]) {
            assert!(problem.as_str().unwrap().contains("cannot connect to"), "{problem}");
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{status}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let shown = govern(&ordered.machine, &["status"]).ends(0).text();
    assert!(shown.contains("locks") && shown.contains("web: cannot connect to"), "{shown}");
}
