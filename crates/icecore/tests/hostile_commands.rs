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
    let fake = Fake::start(None, move |asked: Asked<'_>| match asked.packet {
        Packet::Open { .. } => {
            let commands = commands.iter().enumerate();
            let commands = commands
                .map(|(at, json)| Packet::Command { command: at as u64 + 1, json: json.clone() });
            // Each of them twice: one that comes again is not done again, and its end is told again.
            let commands: Vec<_> = commands.collect();
            let all = asked.honest.into_iter().chain(commands.clone()).chain(commands);
            Reply::Say(all.collect())
        }
        Packet::CommandDone { command, is_complete, report } => {
            let words = String::from_utf8_lossy(report).into_owned();
            heard.lock().push((*command, *is_complete, words));
            asked.honestly()
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
