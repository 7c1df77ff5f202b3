//! A server and its nodes as one types them: `icecore server`, `icecore agent`.

use crate::machine::{Machine, Ran};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that runs, until it is dropped: then it is killed, as a server may be at any moment.
pub(crate) struct Running {
    server: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts a server, and waits until it serves.
pub(crate) fn start(machine: &Machine) -> Running {
    start_with(machine, &[])
}

/// The same with these variables.
pub(crate) fn start_with(machine: &Machine, variables: &[(&str, String)]) -> Running {
    let data = machine.path("data");
    let mut command = machine.command(["server", "--listen", "127.0.0.1:0", "--data"]);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.arg(data);
    started(&mut command)
}

/// A server that is ready once it says where.
pub(crate) fn started(command: &mut Command) -> Running {
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("serving https://127.0.0.1:"), "{line}");
    Running { server }
}

pub(crate) fn govern(machine: &Machine, words: &[&str]) -> Ran {
    let data = machine.path("data");
    let words =
        ["server", "--data", data.to_str().unwrap()].into_iter().chain(words.iter().copied());
    machine.run(words)
}

pub(crate) fn agent(machine: &Machine, folder: &str, words: &[&str]) -> Ran {
    let folder = machine.path(folder);
    let words =
        ["agent", "--agent-dir", folder.to_str().unwrap()].into_iter().chain(words.iter().copied());
    machine.run(words)
}

/// Address and token, as the line to type has them.
pub(crate) fn token(machine: &Machine, words: &[&str]) -> [String; 2] {
    let words: Vec<_> = ["token"].iter().chain(words).copied().collect();
    let text = govern(machine, &words).ends(0).text();
    let line = text.lines().last().unwrap();
    let words: Vec<_> = line.strip_prefix("icecore agent enroll ").unwrap().split(' ').collect();
    [words[0].to_owned(), words[1].to_owned()]
}

#[test]
fn the_line_that_a_token_prints_makes_a_node() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    let told = agent(&machine, "agent", &["enroll", &url, &token, "--json"]).ends(0).last();
    assert_eq!((told["node"].as_str(), told["keys"].as_str()), (Some("web"), Some("managed")));
    let status = agent(&machine, "agent", &["status", "--json"]).ends(0).last();
    assert_eq!(status["repository"], told["repository"]);
    agent(&machine, "agent", &["renew"]).ends(0);
    agent(&machine, "agent", &["renew", "--if-due"]).ends(0);
    let nodes = govern(&machine, &["nodes", "--json"]).ends(0).lines();
    assert_eq!(nodes[0]["name"], "web");
    govern(&machine, &["revoke", "web"]).ends(0);
    let refused = agent(&machine, "agent", &["renew"]).ends(13);
    assert!(refused.stderr.contains("is revoked"), "{}", refused.stderr);
    govern(&machine, &["audit"]).ends(0);
}

#[test]
fn a_node_backs_up_under_its_own_name_alone() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let backup = |node: &str| {
        let mut command = machine.command(["backup", "--node", node, "--agent-dir"]);
        command.arg(machine.path("agent")).arg(machine.source()).env_remove("ICECORE_REPO");
        crate::machine::ended(&mut command)
    };
    let refused = backup("db").ends(2);
    assert!(refused.stderr.contains("is the node 'web'"), "{}", refused.stderr);
    assert!(refused.stderr.contains("Leave out --node"), "{}", refused.stderr);
    backup("web").ends(0);
}

#[test]
fn a_server_that_was_killed_goes_on_where_it_was() {
    let machine = Machine::bare();
    let server = start(&machine);
    let [url, used] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &used]).ends(0);
    let [_, open] = token(&machine, &["db"]);
    drop(server);
    let refused = govern(&machine, &["nodes"]).ends(16);
    assert!(refused.stderr.contains("unreachable"), "{}", refused.stderr);
    let _server = start(&machine);
    let address = std::fs::read_to_string(machine.path("data/address")).unwrap();
    let url = address.lines().next().unwrap();
    agent(&machine, "other", &["enroll", url, &used]).ends(13);
    agent(&machine, "other", &["enroll", url, &open]).ends(0);
    assert_eq!(govern(&machine, &["nodes", "--json"]).ends(0).last()["nodes"], 2);
    govern(&machine, &["audit"]).ends(0);
}

#[test]
fn an_enrollment_that_was_cut_off_is_finished_with_the_same_token() {
    let machine = Machine::bare();
    let server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    drop(server);
    let (pending, told) = (machine.path("agent/pending.toml"), machine.path("agent/agent.toml"));
    agent(&machine, "agent", &["enroll", &url, &token]).ends(16);
    let kept = std::fs::read(&pending).unwrap();
    is_private(&pending);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(16);
    assert_eq!(std::fs::read(&pending).unwrap(), kept, "the same is sent again");
    agent(&machine, "agent", &["status"]).ends(1);

    let _server = start(&machine);
    let address = std::fs::read_to_string(machine.path("data/address")).unwrap();
    let url = address.lines().next().unwrap();
    agent(&machine, "agent", &["enroll", url, &token]).ends(0);
    assert!(!pending.exists(), "an answered request is not kept");
    // Killed before the answer was kept: it is given once more.
    std::fs::remove_file(&told).unwrap();
    std::fs::write(&pending, &kept).unwrap();
    agent(&machine, "agent", &["enroll", url, &token]).ends(0);
    agent(&machine, "agent", &["renew"]).ends(0);
}

fn is_private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{}", file.display());
}

#[test]
fn secrets_are_for_their_owner_only() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    for name in [
        "catalog.sqlite",
        "catalog.sqlite-wal",
        "admin-token",
        "master.key",
        "server.key",
        "ca/ca.key",
    ] {
        is_private(&machine.path("data").join(name));
    }
    ["node.pem", "managed.key", "agent.toml"]
        .iter()
        .for_each(|name| is_private(&machine.path("agent").join(name)));
}

#[test]
fn a_new_machine_of_a_node_that_alone_has_its_keys_is_told_how_it_gets_them() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let enroll = |folder: &str| {
        let [url, token] = token(&machine, &["web", "--keys", "client"]);
        agent(&machine, folder, &["enroll", &url, &token])
    };
    enroll("old").ends(0);
    let refused = enroll("new").ends(12);
    assert!(refused.stderr.contains("Copy slot.key"), "{}", refused.stderr);
    // Followed to the letter, that helps.
    std::fs::copy(machine.path("old/slot.key"), machine.path("new/slot.key")).unwrap();
    machine.write("file", b"of the node");
    let mut backup = machine.command(["backup", "--agent-dir"]);
    backup.arg(machine.path("new")).arg(machine.source()).env_remove("ICECORE_REPO");
    crate::machine::ended(&mut backup).ends(0);
}

#[test]
fn a_node_follows_its_server_to_another_name_and_port() {
    let machine = Machine::bare();
    let server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    drop(server);
    let data = machine.path("data");
    let words = ["server", "--listen", "127.0.0.1:0", "--name", "127.0.0.1", "--data"];
    let _server = started(machine.command(words).arg(&data));
    let address = std::fs::read_to_string(data.join("address")).unwrap();
    let port = address.lines().last().unwrap().rsplit(':').next().unwrap().to_owned();
    let file = machine.path("agent/agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(&format!("server = \"{url}")), "{text}");
    let other = format!("https://127.0.0.1:{port}");
    std::fs::write(&file, text.replace(url.trim_end_matches('/'), &other)).unwrap();
    machine.write("file", b"of the node");
    let mut backup = machine.command(["backup", "--agent-dir"]);
    backup.arg(machine.path("agent")).arg(machine.source()).env_remove("ICECORE_REPO");
    crate::machine::ended(&mut backup).ends(0);
    let told = agent(&machine, "agent", &["status"]).ends(0).text();
    assert!(told.contains(&other), "{told}");
}

/// Anybody could guess one of few bytes.
#[test]
fn a_server_does_not_start_with_a_token_that_is_none() {
    let machine = Machine::bare();
    drop(start(&machine));
    let path = machine.path("data/admin-token");
    let zeros = "\0".repeat(64);
    for token in ["", "\n", "0123456789", &zeros] {
        std::fs::write(&path, token).unwrap();
        // No machine has this address: a server that took it would end for another reason, and not run.
        let refused = govern(&machine, &["--listen", "192.0.2.1:0"]);
        assert!(refused.stderr.contains("admin-token holds no token"), "{}", refused.stderr);
        refused.ends(2);
    }
    std::fs::remove_file(&path).unwrap();
    let _server = start(&machine);
    govern(&machine, &["status"]).ends(0);
}

#[test]
fn an_administrator_elsewhere_is_told_what_was_not_given() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let ca = machine.path("data/ca/ca.pem");
    let words =
        ["server", "--server", "https://localhost:1", "--ca", ca.to_str().unwrap(), "nodes"];
    let refused = machine.run(words).ends(2);
    assert!(refused.stderr.contains("missing: ICECORE_ADMIN_TOKEN"), "{}", refused.stderr);
    assert!(refused.stderr.contains("the file admin-token"), "{}", refused.stderr);
}

#[test]
fn the_words_of_the_server_do_what_their_help_says() {
    let machine = Machine::bare();
    let _server = start(&machine);
    for node in ["web", "spare"] {
        let [url, token] = token(&machine, &[node]);
        agent(&machine, node, &["enroll", &url, &token]).ends(0);
    }
    let table: &[(&[&str], i32)] = &[
        (&["grant", "spare", "web", "--for", "1d"], 0),
        (&["grants"], 0),
        (&["restore", "spare", "--from", "web", "--target", "/restored", "/etc"], 0),
        (&["backup", "web"], 0),
        (&["commands"], 0),
        (&["ungrant", "spare", "web"], 0),
        (&["ungrant", "spare", "web"], 1),
        (&["restore", "spare", "--from", "web", "--target", "/restored"], 13),
        (&["limit", "add", "--network", "10.0.0.0/8", "--hours", "08:00-18:00", "--up", "2M"], 0),
        (&["limit", "add", "--node", "web", "--days", "never"], 2),
        (&["limit", "add", "--up", "2M"], 2),
        (&["limit", "list"], 0),
        (&["limit", "remove", "1"], 0),
        (&["limit", "remove", "1"], 1),
        (&["domains"], 0),
        (&["snapshots", "web"], 0),
        (&["snapshots", "nobody"], 1),
        (&["sessions"], 0),
        (&["jobs", "--node", "web", "--state", "failed"], 0),
        (&["jobs", "--domain", "web", "--kind", "backup"], 0),
        (&["jobs", "--domain", "../web"], 2),
        (&["token", "more", "--domain", "web"], 0),
        (&["token", "more", "--domain", "a b"], 2),
        (&["jobs", "7"], 1),
        (&["cancel", "7"], 1),
        (&["status"], 0),
        (&["token", "../web"], 2),
        (&["token", "web", "--keys", "client"], 2),
        (&["token", "web", "--valid", "31d"], 2),
        (&["revoke", "nobody"], 1),
        (&["remove", "web"], 0),
        (&["remove", "web"], 1),
    ];
    for (words, code) in table {
        let ran = govern(&machine, words);
        assert_eq!(ran.code, *code, "{words:?}: {}{}", ran.text(), ran.stderr);
        assert!(*code == 0 || !ran.stderr.is_empty(), "{words:?} says nothing");
    }
}

#[test]
fn a_second_server_in_the_same_folder_is_refused() {
    let machine = Machine::bare();
    let _server = start(&machine);
    govern(&machine, &["--listen", "127.0.0.1:0"]).ends(11);
}

#[test]
fn what_is_no_token_or_no_server_is_told_before_anything_is_sent() {
    let machine = Machine::bare();
    agent(&machine, "agent", &["enroll", "https://127.0.0.1:1", "ice1-abc"]).ends(2);
    agent(&machine, "agent", &["enroll", "ftp://x", "ice1-abc"]).ends(2);
    agent(&machine, "agent", &["status"]).ends(1);
    agent(&machine, "agent", &["renew"]).ends(1);
    assert!(!machine.path("agent").exists());
}

/// Enrolls a node, which backs its source up. The result runs a command on it.
fn backed_up_node(machine: &Machine) -> impl Fn(&[&str]) -> Ran + '_ {
    let [url, token] = token(machine, &["web"]);
    agent(machine, "agent", &["enroll", &url, &token]).ends(0);
    let folder = machine.path("agent");
    let on_node = move |words: &[&str]| {
        let mut command = machine.command(words.iter().copied());
        command.arg("--agent-dir").arg(&folder).env_remove("ICECORE_REPO");
        crate::machine::ended(&mut command)
    };
    on_node(&["backup", machine.source().to_str().unwrap()]).ends(0);
    on_node
}

#[test]
fn a_restore_of_what_is_not_there_is_a_job_that_failed_and_says_why() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let on_node = backed_up_node(&machine);
    let target = machine.path("out");
    let words = ["restore", "nosuch", "--target", target.to_str().unwrap()];
    let said = on_node(&words);
    assert_ne!(said.code, 0);
    let jobs = govern(&machine, &["jobs", "--kind", "restore", "--json"]).ends(0).lines();
    assert_eq!(jobs[0]["state"], "failed", "{}", jobs[0]);
    let why = jobs[0]["error"].as_str().unwrap();
    assert!(why.contains("nosuch"), "{why}");
}

/// Seen: the list of jobs called a restore complete that ended with 3.
#[test]
fn a_restore_that_brought_a_part_is_a_job_that_did_a_part() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let on_node = backed_up_node(&machine);
    let (stored, target) = (machine.stored("latest", ""), machine.path("out"));
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("folder"), "in the way").unwrap();
    let words = ["restore", &stored, "--target", target.to_str().unwrap()];
    on_node(&[&words[..], &["--overwrite", "never"]].concat()).ends(3);
    on_node(&[&words[..], &["--overwrite", "never", "--include", "large"]].concat()).ends(1);
    on_node(&words).ends(0);
    let jobs = govern(&machine, &["jobs", "--kind", "restore", "--json"]).ends(0).lines();
    let states: Vec<_> = jobs[..3].iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["complete", "failed", "partial"], "{jobs:?}");
    let why = jobs[1]["error"].as_str().unwrap();
    assert!(!why.contains('{'), "{why}");
}

#[test]
fn who_waits_for_a_server_says_so_and_ends_at_once_when_asked() {
    let machine = Machine::bare();
    let server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    drop(server);
    let folder = machine.path("agent");
    let mut command = machine.command(["backup", machine.source().to_str().unwrap()]);
    command.arg("--agent-dir").arg(&folder).env_remove("ICECORE_REPO");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut backup = command.spawn().unwrap();
    let mut lines = BufReader::new(backup.stderr.take().unwrap()).lines();
    let said = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("retrying")));
    let said = said.unwrap().unwrap();
    assert!(said.contains("unreachable") && said.contains("up to 2 min"), "{said}");
    let pid = rustix::process::Pid::from_raw(backup.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let asked = std::time::Instant::now();
    assert_eq!(backup.wait().unwrap().code(), Some(130));
    // Far less than the two minutes for which it would retry.
    assert!(asked.elapsed() < std::time::Duration::from_secs(60), "{:?}", asked.elapsed());
}

#[test]
fn a_name_of_the_server_is_kept_and_what_is_none_is_refused() {
    let machine = Machine::bare();
    let data = machine.path("data");
    let mut command =
        machine.command(["server", "--listen", "127.0.0.1:0", "--name", "localhost", "--data"]);
    let mut first =
        command.arg(&data).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("serving https://localhost:"), "{line}");
    first.kill().unwrap();
    first.wait().unwrap();
    let mut again = machine.command(["server", "--listen", "127.0.0.1:0", "--data"]);
    let mut again = again.arg(&data).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(again.stdout.take().unwrap()).read_line(&mut line).unwrap();
    again.kill().unwrap();
    again.wait().unwrap();
    assert!(line.starts_with("serving https://localhost:"), "the name was not kept: {line}");
    let bad = machine.run(["server", "--name", "bad name", "--data", data.to_str().unwrap()]);
    assert!(bad.code == 2 && bad.stderr.contains("not a host name"), "{}", bad.stderr);
}

#[test]
fn a_limit_has_a_rate_a_unit_and_somebody_who_is_there() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let add = |words: &[&str]| govern(&machine, &[&["limit", "add"], words].concat());
    add(&["--node", "web"]).ends(2);
    let said = add(&["--node", "web", "--up", "10"]).ends(2).stderr;
    assert!(said.contains("add a unit"), "{said}");
    add(&["--node", "nobody", "--up", "10M"]).ends(1);
    add(&["--node", "web", "--up", "10M"]).ends(0);
    let said = add(&["--node", "web", "--down", "5M"]).ends(2).stderr;
    assert!(said.contains("limit remove 1"), "{said}");
    add(&["--node", "web", "--down", "5M", "--hours", "08:00-18:00"]).ends(0);
    let said = govern(&machine, &["limit", "remove", "7"]).ends(1).stderr;
    assert!(said.contains("icecore server limit list"), "{said}");
    govern(&machine, &["limit", "list"]).ends(0);
}

/// The fields of JSON that are times, wherever they stand.
fn times(value: &serde_json::Value, found: &mut Vec<(String, serde_json::Value)>) {
    const NAMES: [&str; 10] = [
        "time",
        "made",
        "begun",
        "ended",
        "until",
        "expires",
        "started",
        "last_seen",
        "certificate_expires",
        "created",
    ];
    match value {
        serde_json::Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            if NAMES.contains(&name.as_str()) {
                found.push((name.clone(), value.clone()));
            }
            // A disk may have as many free bytes as there are seconds since 1970.
            if !name.ends_with("bytes") {
                times(value, found);
            }
        }),
        serde_json::Value::Array(values) => values.iter().for_each(|value| times(value, found)),
        // No number is a time of today in seconds, whatever its name.
        serde_json::Value::Number(number) => {
            let is_epoch =
                number.as_i64().is_some_and(|it| (1_700_000_000..3_000_000_000).contains(&it));
            assert!(!is_epoch, "{number}");
        }
        _ => {}
    }
}

/// Friction 19 of the review by use: epoch seconds here, RFC 3339 there.
#[test]
fn every_time_in_json_is_rfc_3339() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let made = govern(&machine, &["token", "web", "--json"]).ends(0);
    let [url, token] = token(&machine, &["web"]);
    let mut all = vec![made, agent(&machine, "agent", &["enroll", &url, &token, "--json"]).ends(0)];
    let source = machine.source();
    let node = |words: &[&str]| {
        let mut command = machine.command(words.iter().chain(&["--json"]));
        crate::machine::ended(command.env_remove("ICECORE_REPO")).ends(0)
    };
    all.push(node(&["backup", source.to_str().unwrap()]));
    let [_, other] = self::token(&machine, &["db"]);
    agent(&machine, "db", &["enroll", &url, &other]).ends(0);
    all.push(govern(&machine, &["grant", "db", "web", "--for", "1d", "--json"]).ends(0));
    all.push(govern(&machine, &["backup", "web", "--json"]).ends(0));
    let looks: [&[&str]; 11] = [
        &["nodes"],
        &["domains"],
        &["snapshots", "web"],
        &["grants"],
        &["jobs"],
        &["jobs", "1"],
        &["sessions"],
        &["commands"],
        &["status"],
        &["audit"],
        &["token", "disk", "--storage"],
    ];
    all.extend(looks.map(|words| govern(&machine, &[words, &["--json"]].concat()).ends(0)));
    all.extend([&["agent", "status"][..], &["agent", "renew"], &["snapshots"]].map(node));
    let mut found = Vec::new();
    all.iter().flat_map(Ran::lines).for_each(|line| times(&line, &mut found));
    assert!(found.len() > 25, "{found:?}");
    for (name, time) in &found {
        let time = time.as_str().unwrap_or_else(|| panic!("{name}: {time}"));
        let is_good = time.len() >= 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T';
        assert!(is_good && time.starts_with("20"), "{name}: {time}");
    }
}

/// It read everything that they store.
#[test]
fn a_node_with_the_name_of_a_domain_of_others_does_not_join_it_unasked() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, secret] = token(&machine, &["web", "--domain", "team"]);
    agent(&machine, "agent", &["enroll", &url, &secret]).ends(0);
    let refused = govern(&machine, &["token", "team"]).ends(2).stderr;
    assert!(refused.contains("is that of other nodes, such as 'web'"), "{refused}");
    let (_, typed) = refused.split_once("icecore server ").unwrap();
    let words: Vec<_> = typed.split('.').next().unwrap().split_whitespace().collect();
    govern(&machine, &words).ends(0);
    let [url, secret] = token(&machine, &words[1..]);
    agent(&machine, "team", &["enroll", &url, &secret]).ends(0);
    govern(&machine, &["token", "team"]).ends(0);
}
