//! A server that was taken over sends commands that it should not. The agent runs nothing but this program,
//! restores only to where its machine lets it, and goes on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use hostile_server::{Asked, Fake, Reply};
use parking_lot::Mutex;
use protocol::Packet;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What an agent said of a command: its number, whether it went well, its words.
type Done = (u64, bool, String);

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Commands, each of which must be refused; JSON or not.
fn commands(outside: &str) -> Vec<Vec<u8>> {
    let restore = |target: &str, snapshot: &str, paths: &[&str]| json!({"kind": "restore", "node": "web", "snapshot": snapshot, "paths": paths, "target": target});
    let backup = |paths: &[&str]| json!({"kind": "backup", "node": "web", "paths": paths});
    let evil = format!("{outside}/evil");
    let allowed = format!("{outside}/../allowed/../evil");
    let tasks = [
        restore(&evil, "latest", &[]),
        restore(&allowed, "latest", &[]),
        restore("/", "latest", &[]),
        restore("--target=/", "latest", &[]),
        restore("", "latest", &[]),
        backup(&["--stdin-from-command"]),
        backup(&["--command", "touch", &evil]),
        backup(&["-", &evil]),
        backup(&[]),
        json!({"kind": "run", "command": format!("touch {evil}")}),
        json!({"kind": "backup", "node": "web", "paths": ["/etc"], "command": "sh"}),
        json!(null),
        json!([1, 2]),
    ];
    let command = |(at, task): (usize, Value)| {
        let command = json!({
            "id": at + 1, "task": task, "made": "1970-01-01T00:00:00Z", "state": "pending"
        });
        serde_json::to_vec(&command).unwrap()
    };
    let mut all: Vec<Vec<u8>> = tasks.into_iter().enumerate().map(command).collect();
    let garbage: [&[u8]; 4] = [b"", b"{", b"\xff\xfe\x00", b"[[[[[[[["];
    all.extend(garbage.map(<[u8]>::to_vec));
    all.push("[".repeat(200_000).into_bytes());
    all
}

#[test]
fn commands_that_go_too_far_are_refused_and_the_agent_goes_on() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().canonicalize().unwrap();
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    for name in ["outside", "allowed"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    let commands = commands(&path("outside"));
    let (count, done) = (commands.len(), Arc::new(Mutex::new(Vec::<Done>::new())));
    let heard = done.clone();
    let packets = commands.into_iter().zip(1..);
    let packets: Vec<_> =
        packets.map(|(json, command)| Packet::Command { command, json }).collect();
    let fake = Fake::start(None, move |asked: Asked<'_>| match asked.packet {
        Packet::Open { .. } => {
            Reply::Say(asked.honest.into_iter().chain(packets.clone()).collect())
        }
        Packet::CommandDone { command, is_complete, report } => {
            let words = String::from_utf8_lossy(report).into_owned();
            let mut heard = heard.lock();
            heard.push((*command, *is_complete, words));
            // Each of them twice: one that comes again is not done again, and its end is told again.
            let again = (heard.len() == count).then(|| packets.clone()).into_iter().flatten();
            Reply::Say(asked.honest.into_iter().chain(again).collect())
        }
        _ => asked.honestly(),
    });
    fake.enroll(&folder.join("agent"));
    let allow = format!(
        "restore_below = [{:?}]\nbackup_below = [{:?}]\n",
        path("allowed"),
        path("allowed")
    );
    std::fs::write(path("agent/allow.toml"), allow).unwrap();
    let _agent = start(&path("agent"), &path(""));
    let begun = Instant::now();
    while done.lock().len() < 2 * count {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", done.lock());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let done = done.lock();
    assert_eq!(done.len(), 2 * count, "each is answered as often as it comes");
    for (number, one) in done.iter().enumerate() {
        let same = |other: &&Done| other.0 == one.0;
        assert_eq!(done.iter().filter(same).count(), 2, "answer {number}");
        assert!(done.iter().filter(same).all(|other| other == one), "what was done counts again");
    }
    for (command, is_complete, words) in done.iter() {
        assert!(!is_complete && !words.is_empty(), "command {command}: {words}");
    }
    let left = std::fs::read_dir(path("outside")).unwrap().count();
    assert_eq!((left, std::fs::read_dir(path("allowed")).unwrap().count()), (0, 0));
    assert!(!folder.join("evil").exists());
}

/// Another server counts anew, and one whose catalog came back from a copy gives its last numbers again.
#[test]
fn a_number_that_comes_again_with_another_command_is_not_answered_from_memory() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().canonicalize().unwrap();
    let command = |target: &str, made: &str| {
        let task = json!({"kind": "restore", "node": "web", "snapshot": "latest", "paths": [], "target": target});
        let json = json!({"id": 7, "task": task, "made": made, "state": "pending"});
        Packet::Command { command: 7, json: serde_json::to_vec(&json).unwrap() }
    };
    let (first, later) = ("2026-11-20T14:00:00Z", "2026-11-21T14:00:00Z");
    let commands = [command("/one", first), command("/two", first), command("/two", later)];
    let done = Arc::new(Mutex::new(Vec::<String>::new()));
    let heard = done.clone();
    let fake = Fake::start(None, move |asked: Asked<'_>| match asked.packet {
        Packet::Open { .. } => {
            Reply::Say(asked.honest.into_iter().chain(commands.first().cloned()).collect())
        }
        Packet::CommandDone { report, .. } => {
            let mut heard = heard.lock();
            heard.push(String::from_utf8_lossy(report).into_owned());
            let next = commands.get(heard.len()).cloned();
            Reply::Say(asked.honest.into_iter().chain(next).collect())
        }
        _ => asked.honestly(),
    });
    fake.enroll(&folder.join("agent"));
    let _agent = start(&folder.join("agent").to_string_lossy(), &folder.to_string_lossy());
    let begun = Instant::now();
    while done.lock().len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", done.lock());
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = done.lock();
    for (words, target) in done.iter().zip(["/one", "/two", "/two"]) {
        assert!(words.contains(&format!("restore to {target}:")), "{done:?}");
    }
}

fn start(agent: &str, home: &str) -> Agent {
    let mut command = Command::new(env!("CARGO_BIN_EXE_icecore"));
    command
        .args(["agent", "--agent-dir", agent])
        .env_clear()
        .env("HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Agent(command.spawn().unwrap())
}
