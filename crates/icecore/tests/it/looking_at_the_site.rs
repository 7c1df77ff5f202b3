//! How a server says how it stands: protection, reports, logs of jobs, causes; of a real agent.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, Ran, random};
use crate::node_commands::Ordered;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Of the file that is backed up.
const SIZE: usize = 32 << 20;

const SITE: &str = r#"
[policy.source]
nodes = ["web"]
paths = ["{}/source"]
promise = "26 hours"

[policy.forbidden]
nodes = ["web"]
paths = ["/etc"]
promise = "26 hours"
"#;

fn with_policies() -> Ordered {
    let ordered = Ordered::new("backup_below = [\"{}/source\"]\n");
    let machine = &ordered.machine;
    // Enough that its processor time can be measured.
    std::fs::write(machine.path("source/file"), random(SIZE)).unwrap();
    let folder = machine.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    std::fs::write(machine.path("site.toml"), SITE.replace("{}", &folder)).unwrap();
    let file = machine.path("site.toml");
    govern(machine, &["apply", file.to_str().unwrap()]).ends(0);
    ordered
}

/// Starts the backup of a policy and waits for its end.
fn run(ordered: &Ordered, policy: &str) -> Value {
    let started = govern(&ordered.machine, &["start", policy, "--json"]).ends(0).lines();
    let id = started[0]["job"].as_u64().unwrap().to_string();
    let begun = Instant::now();
    loop {
        let job = govern(&ordered.machine, &["jobs", &id, "--json"]).ends(0).lines().remove(0);
        if !["queued", "running"].contains(&job["state"].as_str().unwrap()) {
            return job;
        }
        assert!(begun.elapsed() < Duration::from_secs(240), "{job}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn protection(ordered: &Ordered, flags: &[&str]) -> Ran {
    govern(&ordered.machine, &[&["protection", "--json"], flags].concat())
}

/// The server has seen the policies: it looks every two seconds.
fn is_new(ordered: &Ordered) {
    let begun = Instant::now();
    while protection(ordered, &["--state", "new"]).ends(0).lines().len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_server_says_how_it_stands_and_what_its_backups_did() {
    let ordered = with_policies();
    let machine = &ordered.machine;
    is_new(&ordered);
    let summary = protection(&ordered, &[]).ends(0).last();
    assert_eq!((&summary["sources"], &summary["new"]), (&2.into(), &2.into()), "{summary}");

    let job = run(&ordered, "source");
    assert_eq!(job["state"], "complete", "{job}");
    // A name that nobody has is no good news.
    for unknown in [["--node", "nobody"], ["--policy", "nobody"]] {
        let told = protection(&ordered, &unknown).ends(1);
        assert!(told.text().contains("nobody"), "{}", told.text());
    }
    let one = protection(&ordered, &["--policy", "source"]).ends(0).lines().remove(0);
    assert_eq!((&one["state"], &one["snapshot"]), (&"protected".into(), &job["snapshot"]));
    assert_eq!(one["is_manual"], true);

    let failed = run(&ordered, "forbidden");
    assert_eq!(failed["state"], "failed", "{failed}");
    let all = protection(&ordered, &[]).ends(0);
    let forbidden = all.lines().into_iter().find(|one| one["policy"] == "forbidden").unwrap();
    assert_eq!(forbidden["last_run"]["job"], failed["id"], "{forbidden}");
    let uncovered = govern(machine, &["policy", "change", "forbidden", "--unset", "promise"]);
    uncovered.ends(0);
    let shown = govern(machine, &["protection"]).ends(19).text();
    assert!(shown.contains("unprotected") && shown.contains("1 protected"), "{shown}");

    the_log_of(&ordered, &job, &["queued", "started", "session", "ended"]);
    the_log_of(&ordered, &failed, &["queued", "started", "ended"]);
    let causes = govern(machine, &["jobs", "--by-cause", "--since", "1d", "--json"]).ends(0);
    let cause = causes.lines().remove(0);
    assert_eq!((&cause["cause"], &cause["jobs"]), (&"not-allowed".into(), &1.into()), "{cause}");
    let error = cause["error"].as_str().unwrap();
    assert!(error.starts_with("this machine does not let"), "without the words around it: {error}");
    assert!(cause["advice"].as_str().unwrap().contains("allow.toml"), "{cause}");
    reports(&ordered, &job);

    let snapshot = job["snapshot"].as_str().unwrap();
    govern(machine, &["snapshot", "delete", snapshot, "--yes"]).ends(0);
    let one = protection(&ordered, &["--policy", "source"]).ends(19).lines().remove(0);
    assert!(one["snapshot"].is_null(), "a snapshot in the trash protects nothing: {one}");
}

/// Paths that were mistyped neither look like a backup nor cost one.
#[test]
fn a_policy_whose_paths_change_is_new_and_keeps_what_it_had() {
    let ordered = with_policies();
    let machine = &ordered.machine;
    is_new(&ordered);
    let site = std::fs::read_to_string(machine.path("site.toml")).unwrap();
    let one = "[retention.one.class.standard]\nkeep_last = 1\ntrash = \"1 second\"\n";
    let site =
        site.replace("[policy.source]", &format!("{one}[policy.source]\nretention = \"one\""));
    let apply = |site: &str| {
        std::fs::write(machine.path("site.toml"), site).unwrap();
        govern(machine, &["apply", machine.path("site.toml").to_str().unwrap(), "--yes"]).ends(0);
    };
    apply(&site);
    let old = run(&ordered, "source");
    std::fs::create_dir(machine.path("source/new")).unwrap();
    std::fs::write(machine.path("source/new/file"), "new").unwrap();
    apply(&site.replacen("/source\"", "/source/new\"", 1));
    let state = || protection(&ordered, &["--policy", "source"]).lines().remove(0);
    // Unprotected until the server has seen the change, then new.
    assert_ne!(state()["state"], "protected", "{}", state());
    let of_new: Vec<_> = (0..2).map(|_| run(&ordered, "source")).collect();
    assert_eq!(
        (&state()["state"], &state()["snapshot"]),
        (&"protected".into(), &of_new[1]["snapshot"])
    );
    for _ in 0..2 {
        govern(machine, &["expire"]).ends(0);
        std::thread::sleep(Duration::from_millis(1_100));
    }
    let folder = machine.path("agent");
    let words = ["snapshots", "--json", "--agent-dir", folder.to_str().unwrap()];
    let mut command = machine.command(words);
    let left = crate::machine::ended(command.env_remove("ICECORE_REPO")).ends(0).lines();
    let left: Vec<_> = left.iter().filter_map(|one| one["snapshot_id"].as_str()).collect();
    assert_eq!(left, [&old, &of_new[1]].map(|job| job["snapshot"].as_str().unwrap()));
}

fn the_log_of(ordered: &Ordered, job: &Value, codes: &[&str]) {
    let id = job["id"].to_string();
    let log = govern(&ordered.machine, &["jobs", &id, "--log", "--json"]).ends(0).lines();
    let found: Vec<_> = log.iter().filter_map(|entry| entry["code"].as_str()).collect();
    let waits = |code: &&&str| !code.starts_with("waits");
    assert_eq!(found.iter().filter(waits).copied().collect::<Vec<_>>(), codes, "{log:?}");
}

fn reports(ordered: &Ordered, job: &Value) {
    let report = |flags: &[&str]| govern(&ordered.machine, &[&["report"], flags].concat()).ends(0);
    let csv = report(&["client-backups", "--since", "1d", "--format", "csv"]).text();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "one backup made a snapshot: {csv}");
    assert!(lines[0].starts_with("client,backup_time,policy,number_of_files,kilobytes,"), "{csv}");
    let values: Vec<_> = lines[1].split(',').collect();
    assert_eq!(([values[0], values[2]], values[6]), (["web", "source"], "incremental"), "{csv}");
    assert!(values[4].parse::<usize>().unwrap() >= SIZE / 1024, "{csv}");

    let row = report(&["dedup", "--json"]).lines().remove(0);
    assert_eq!(row["job"], job["id"]);
    let figure = |name: &str| row["figures"][name].as_u64().unwrap() as usize;
    assert!(figure("bytes_read") >= SIZE && figure("bytes_stored") >= SIZE, "{row}");
    let cost = report(&["cost", "--since", "1d", "--json"]).lines().remove(0);
    assert_eq!((&cost["node"], &cost["measured"]), (&"web".into(), &1.into()), "{cost}");
    assert!(cost["cpu_percent"].as_f64().unwrap() > 0.0, "{cost}");
    let capacity = report(&["capacity", "--json"]).lines();
    let of = |policy: &str| capacity.iter().find(|row| row["policy"] == policy).unwrap();
    assert!(of("source")["bytes"].as_u64().unwrap() as usize >= SIZE, "{capacity:?}");
    assert!(of("forbidden")["stored_bytes"].is_null(), "nobody measured it: {capacity:?}");
    let text = report(&["protection"]).text();
    assert!(text.contains("LAST COMPLETE") && text.contains("unprotected"), "{text}");
}

/// `icecore server jobs --watch`, and the jobs that it tells.
struct Watcher {
    child: Child,
    lines: Receiver<Value>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watcher {
    fn new(machine: &Machine) -> Self {
        let data = machine.path("data");
        let words = ["server", "--data", data.to_str().unwrap(), "jobs", "--watch", "--json"];
        let mut command = machine.command(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        Self { child, lines }
    }

    /// Waits until the job is told to be in this state.
    fn tells(&self, id: u64, state: &str) {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(120)).unwrap();
            if line["message_type"] == "job" && line["id"] == id && line["state"] == state {
                return;
            }
        }
    }
}

#[test]
fn a_watcher_goes_on_over_the_kill_of_the_server() {
    let machine = Machine::bare();
    let server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let policy =
        ["policy", "create", "etc", "--set", "nodes=[\"web\"]", "--set", "paths=[\"/etc\"]"];
    govern(&machine, &policy).ends(0);
    let watcher = Watcher::new(&machine);
    // Its agent is away: the job waits. The watcher may have come before or after it.
    let queue = || {
        govern(&machine, &["start", "etc"]).ends(0);
        let jobs = govern(&machine, &["jobs", "--state", "queued", "--json"]).ends(0).lines();
        jobs[0]["id"].as_u64().unwrap()
    };
    let mut first = queue();
    while watcher.lines.recv_timeout(Duration::from_secs(3)).is_err() {
        govern(&machine, &["cancel", &first.to_string()]).ends(0);
        first = queue();
    }
    drop(server);
    let _server = start(&machine);
    govern(&machine, &["cancel", &first.to_string()]).ends(0);
    // It may have ended while nobody listened.
    watcher.tells(first, "cancelled");
    watcher.tells(queue(), "queued");
}
