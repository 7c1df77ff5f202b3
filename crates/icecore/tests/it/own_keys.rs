//! Secrets of a node that enrolls again: what a server has seen opens nothing that it must not read, and what is
//! nowhere else is never written over.

use crate::administration::{agent, start, token};
use crate::hardened::node;
use crate::machine::{Machine, ended};
use std::fs;
use std::process::Stdio;
use std::time::Duration;

/// The machine becomes a node of the domain `domain`.
fn enroll(machine: &Machine, domain: &str, keys: &str) {
    let [url, token] = token(machine, &["web", "--domain", domain, "--keys", keys]);
    agent(machine, "web", &["enroll", "--replace", &url, &token]).ends(0);
}

fn back_up(machine: &Machine) {
    node(machine, "web", &["backup", machine.source().to_str().unwrap()]).ends(0);
}

fn read(machine: &Machine, name: &str) -> String {
    fs::read_to_string(machine.path("web").join(name)).unwrap()
}

/// The text that opens a slot like a recovery key.
fn text_of(secret: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&secret[2 * at..2 * at + 2], 16).unwrap();
    crypto::recovery_to_text(&std::array::from_fn(byte))
}

/// How `check` ends on the repository of `domain`, on the disk of the server, with this recovery key.
fn opens(machine: &Machine, domain: &str, key: &str) -> i32 {
    let repository = machine.path("data/pool/domains").join(domain);
    let words = ["check", "--repo", repository.to_str().unwrap()];
    ended(machine.command(words).env("ICECORE_PASSWORD", key)).code
}

/// Review finding: it went on with the `slot.key` that it had sent to the server.
#[test]
fn what_a_server_has_seen_opens_no_domain_whose_keys_only_nodes_know() {
    for is_older_version in [false, true] {
        let machine = Machine::bare();
        let _server = start(&machine);
        enroll(&machine, "theirs", "managed");
        back_up(&machine);
        let seen = read(&machine, "managed.key");
        if is_older_version {
            fs::rename(machine.path("web/managed.key"), machine.path("web/slot.key")).unwrap();
            back_up(&machine);
        }
        assert_eq!(opens(&machine, "theirs", &text_of(&seen)), 0);
        enroll(&machine, "ours", "client");
        back_up(&machine);
        let own = read(&machine, "slot.key");
        assert_ne!(own, seen);
        assert_eq!(opens(&machine, "ours", &text_of(&own)), 0);
        assert_eq!(opens(&machine, "ours", &text_of(&seen)), 12);
        // And back, and forth.
        for _ in 0..2 {
            enroll(&machine, "theirs", "managed");
            back_up(&machine);
            assert_eq!(read(&machine, "slot.key"), own);
            assert_ne!(read(&machine, "managed.key"), own);
            enroll(&machine, "ours", "client");
            back_up(&machine);
            assert_eq!(read(&machine, "slot.key"), own);
        }
    }
}

#[test]
fn the_recovery_key_of_another_domain_is_kept_under_its_name() {
    let machine = Machine::bare();
    let _server = start(&machine);
    enroll(&machine, "first", "client");
    let first = read(&machine, "recovery.key");
    let status = agent(&machine, "web", &["status", "--json"]).ends(0).last();
    enroll(&machine, "first", "client");
    assert_eq!(read(&machine, "recovery.key"), first, "the same domain has the same one");
    enroll(&machine, "second", "client");
    let second = read(&machine, "recovery.key");
    assert_ne!(first, second);
    let aside = format!("recovery.key.{}", status["repository"].as_str().unwrap());
    assert_eq!(read(&machine, &aside), first);
    assert_eq!(opens(&machine, "first", &first), 0);
    assert_eq!(opens(&machine, "second", &second), 0);
    assert_eq!(opens(&machine, "second", &first), 12);
    // With managed keys there is none to put away.
    enroll(&machine, "theirs", "managed");
    agent(&machine, "web", &["recovery"]).ends(1);
}

/// The node has not been here yet: no repository, and no secret.
fn forget_all(machine: &Machine) {
    fs::rename(machine.path("data/pool/domains/own"), machine.path("elsewhere")).unwrap();
    fs::remove_file(machine.path("web/slot.key")).unwrap();
    fs::remove_file(machine.path("web/recovery.key")).unwrap();
    forget_repository(machine);
}

fn forget_repository(machine: &Machine) {
    let text = read(machine, "agent.toml");
    let lines = text.lines().filter(|line| !line.starts_with("repository"));
    fs::write(machine.path("web/agent.toml"), lines.collect::<Vec<_>>().join("\n")).unwrap();
}

/// Review finding: the recovery key of the process that was too late stayed, and opened nothing.
#[test]
fn processes_that_open_a_domain_first_at_once_leave_keys_that_open_it() {
    let machine = Machine::bare();
    let _server = start(&machine);
    enroll(&machine, "own", "client");
    forget_all(&machine);
    // Nobody makes anything while another process of this machine may be at it.
    let lock = fs::File::create(machine.path("web/first-open.lock")).unwrap();
    lock.lock().unwrap();
    let open = |_| {
        let mut command = machine.command(["snapshots"]);
        command.env_remove("ICECORE_REPO").env("ICECORE_AGENT_DIR", machine.path("web"));
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let mut opened: Vec<_> = (0..4).map(open).collect();
    std::thread::sleep(Duration::from_secs(1));
    assert!(!machine.path("data/pool/domains/own/config").exists());
    assert!(!machine.path("web/slot.key").exists());
    drop(lock);
    for process in &mut opened {
        assert!(process.wait().unwrap().success());
    }
    assert_eq!(opens(&machine, "own", &read(&machine, "recovery.key")), 0);
    assert!(!machine.path("web/next-recovery.key").exists());
    back_up(&machine);
}

#[test]
fn a_recovery_key_gets_its_name_once_it_opens_the_repository() {
    let machine = Machine::bare();
    let _server = start(&machine);
    enroll(&machine, "own", "client");
    let first = read(&machine, "recovery.key");
    // The answer of the server was lost: the repository is there, and this node has not heard of it.
    fs::rename(machine.path("web/recovery.key"), machine.path("web/next-recovery.key")).unwrap();
    forget_repository(&machine);
    node(&machine, "web", &["snapshots"]).ends(0);
    assert_eq!(read(&machine, "recovery.key"), first);
    // The server refuses the repository: what is there stays, and the other key waits.
    fs::rename(machine.path("data/pool/domains/own"), machine.path("elsewhere")).unwrap();
    forget_repository(&machine);
    let told = read(&machine, "agent.toml");
    let file = machine.path("web/agent.toml");
    fs::write(&file, told.replace("\"standard\"", "\"hardened\"")).unwrap();
    node(&machine, "web", &["snapshots"]).ends(13);
    assert_eq!(read(&machine, "recovery.key"), first);
    let next = read(&machine, "next-recovery.key");
    // Then it takes it: that key opens it, and the other one is kept.
    fs::write(&file, told).unwrap();
    node(&machine, "web", &["snapshots"]).ends(0);
    assert_eq!(read(&machine, "recovery.key"), next);
    assert_eq!(opens(&machine, "own", &next), 0);
    let kept = fs::read_dir(machine.path("web")).unwrap().map(|entry| entry.unwrap().path());
    let mut kept = kept.filter(|path| path.to_string_lossy().contains("recovery.key.before-"));
    assert_eq!(fs::read_to_string(kept.next().unwrap()).unwrap(), first);
}
