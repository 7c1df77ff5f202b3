//! What a policy says reaches the node of its job, and is carried out there.

use crate::administration::govern;
use crate::machine::{ended, length, random};
use crate::node_commands::Ordered;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

const ALLOW: &str = "backup_below = [\"{}\"]\nrestore_below = [\"{}/allowed\"]\n";
const LONG: Duration = Duration::from_secs(180);

/// A node with the site `site`, in which `{}` is the folder of its machine.
fn with_site(site: &str) -> Ordered {
    let ordered = Ordered::new(ALLOW);
    apply(&ordered, site);
    ordered
}

fn apply(ordered: &Ordered, site: &str) {
    let machine = &ordered.machine;
    let folder = machine.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let file = machine.path("site.toml");
    std::fs::write(&file, site.replace("{}", &folder)).unwrap();
    govern(machine, &["apply", file.to_str().unwrap(), "--yes"]).ends(0);
}

/// A list of programs beside the identity of the agent.
fn list(ordered: &Ordered, name: &str, text: &str) {
    let file = ordered.machine.path(&format!("agent/{name}"));
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
}

fn jobs(ordered: &Ordered) -> Vec<Value> {
    let jobs = govern(&ordered.machine, &["jobs", "--json"]).ends(0).lines();
    jobs.into_iter().filter(|job| job["plan"].is_object()).collect()
}

/// Starts the policy and waits until as many jobs have ended as it starts; they, the first one first.
fn run(ordered: &Ordered, policy: &str) -> Vec<Value> {
    let started = govern(&ordered.machine, &["start", policy, "--json"]).ends(0).lines();
    let numbers: Vec<_> = started.iter().filter_map(|job| job["job"].as_u64()).collect();
    numbers.into_iter().map(|number| wait(ordered, number, |job| !is_open(job))).collect()
}

fn is_open(job: &Value) -> bool {
    ["queued", "running"].contains(&job["state"].as_str().unwrap())
}

fn wait(ordered: &Ordered, number: u64, is_there: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let found = jobs(ordered).into_iter().find(|job| job["id"] == number);
        match found {
            Some(job) if is_there(&job) => return job,
            found => assert!(begun.elapsed() < LONG, "{found:?}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The report of a job.
fn report(ordered: &Ordered, job: &Value) -> Value {
    let number = job["id"].to_string();
    let shown = govern(&ordered.machine, &["jobs", &number, "--json"]).ends(0).lines();
    let text = shown.iter().find_map(|line| line["report"].as_str()).unwrap().to_owned();
    serde_json::from_str(&text).unwrap()
}

/// A command of the node, by hand.
fn by_hand(ordered: &Ordered, words: &[&str]) -> Command {
    let folder = ordered.machine.path("agent");
    let mut command = ordered.machine.command(words);
    command.args(["--agent-dir", folder.to_str().unwrap()]).env_remove("ICECORE_REPO");
    command
}

/// The paths of a snapshot, below the source.
fn paths(ordered: &Ordered, snapshot: &str) -> Vec<String> {
    let lines = ended(&mut by_hand(ordered, &["ls", "--json", "-R", snapshot])).ends(0).lines();
    let source = format!("{}/", ordered.machine.source().display());
    let below = |line: &Value| Some(line["path"].as_str()?.strip_prefix(&source)?.to_owned());
    lines.iter().filter_map(below).collect()
}

const OPTIONS: &str = r#"
[node.web]
options = { nice = { value = 3 } }

[policy.source]
nodes = ["web"]
paths = ["{}/source"]
compression = 9
change_detection = "ignore-inode"
hooks = { pre = "note", post = "note", on_failure = "note" }
options = { limit-write = { value = "500M", force = true }, limit-cpu = { value = 90 }, tags = { value = ["of-policy"] } }
"#;

#[test]
fn what_a_policy_says_is_carried_out_and_what_the_node_keeps_is_told() {
    let ordered = with_site(OPTIONS);
    let log = ordered.machine.path("log");
    let script = format!("echo $ICECORE_HOOK_STAGE >> {}; echo noted", log.display());
    let hook =
        format!("[hook.note]\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\nuser = \"root\"\n");
    list(&ordered, "hooks.toml", &hook);
    list(
        &ordered,
        "allow.toml",
        &format!("backup_below = [{:?}]\nown = [\"limit-cpu\"]\n", ordered.machine.path("")),
    );
    let job = run(&ordered, "source").remove(0);
    assert_eq!(job["state"], "complete", "{job}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "pre\npost\n");
    let report = report(&ordered, &job);
    let stages: Vec<_> = report["hooks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hook| (&hook["stage"], &hook["output"]))
        .collect();
    let expected = ["pre", "post"].map(Value::from);
    let output = Value::from("noted\n");
    assert_eq!(stages, [(&expected[0], &output), (&expected[1], &output)]);
    assert_eq!(report["ignored_options"]["own"], serde_json::json!(["limit-cpu"]));
    let snapshots = ended(&mut by_hand(&ordered, &["snapshots", "--json"])).ends(0).lines();
    assert_eq!(snapshots[0]["tags"], serde_json::json!(["of-policy"]));

    let shown = ended(&mut by_hand(&ordered, &["options", "--refresh", "--set", "--json"])).ends(0);
    let place = |name: &str| {
        let line = shown.lines().into_iter().find(|line| line["option"] == name)?;
        line["effective"][0]["place"].as_str().map(str::to_owned)
    };
    assert_eq!(place("limit-write").as_deref(), Some("policy source (forced)"));
    assert_eq!(place("nice").as_deref(), Some("node web (suggested)"));
    assert_eq!(place("compression"), None, "for backups of the policy only");
    assert_eq!(place("hook-pre"), None, "for backups of the policy only");
}

#[test]
fn a_hook_that_fails_before_ends_the_job_with_its_own_cause() {
    let ordered = with_site(
        "[policy.source]\nnodes = [\"web\"]\npaths = [\"{}/source\"]\nhooks = { pre = \"fails\" }\n",
    );
    list(&ordered, "hooks.toml", "[hook.fails]\ncommand = [\"/bin/false\"]\n");
    let job = run(&ordered, "source").remove(0);
    assert_eq!((&job["state"], &job["cause"]), (&"failed".into(), &"hook-failed".into()), "{job}");
    std::fs::remove_file(ordered.machine.path("agent/hooks.toml")).unwrap();
    let job = run(&ordered, "source").remove(0);
    assert_eq!(
        job["cause"], "hook-failed",
        "a hook that is not there is none that succeeded: {job}"
    );
}

const STREAMS: &str = r#"
[policy.dumps]
type = "stream"
nodes = ["web"]

[policy.dumps.source.shop]
stream = "shop"

[policy.dumps.source.other]
stream = "other"
"#;

#[test]
fn a_stream_is_what_the_machine_lists_and_nothing_else() {
    let ordered = with_site(STREAMS);
    let command = "[stream.shop]\ncommand = [\"/bin/echo\", \"all the goods\"]\n";
    list(&ordered, "streams.toml", command);
    let jobs = run(&ordered, "dumps");
    let of = |name: &str| jobs.iter().find(|job| job["plan"]["source_name"] == name).unwrap();
    assert_eq!(of("shop")["state"], "complete", "{}", of("shop"));
    assert_eq!(of("other")["state"], "failed", "{}", of("other"));
    assert!(
        of("other")["error"].as_str().unwrap().contains("no stream 'other'"),
        "{}",
        of("other")
    );
    let shown = ended(&mut by_hand(&ordered, &["cat", "latest:shop"])).ends(0).text();
    assert_eq!(shown, "all the goods\n");
}

const CLASSES: &str = r#"
[retention.all.class.long]
keep_last = "all"

[retention.all.class.short]
keep_last = 3

[policy.source]
nodes = ["web"]
paths = ["{}/source"]
retention = "all"
class = "long"
"#;

const RULES: &str = r#"
[[policy.source.classes]]
include = ["{}/source/log/keep/**"]
class = "long"

[[policy.source.classes]]
include = ["{}/source/log/**", "/**/*.tmp"]
class = "short"
"#;

#[test]
fn each_path_is_in_the_snapshot_of_its_class_and_in_no_other() {
    let ordered = with_site(CLASSES);
    for name in ["log/a", "log/keep/b", "x.tmp", "log/keep/y.tmp"] {
        ordered.machine.write(name, name.as_bytes());
    }
    assert_eq!(run(&ordered, "source").len(), 1);
    apply(&ordered, &format!("{CLASSES}{RULES}"));
    let jobs = run(&ordered, "source");
    let of = |class: &str| jobs.iter().find(|job| job["plan"]["class"] == class).unwrap();
    let (long, short) = (of("long"), of("short"));
    assert_eq!((&long["state"], &short["state"]), (&"complete".into(), &"complete".into()));
    let files = |job: &Value| {
        let all = paths(&ordered, job["snapshot"].as_str().unwrap());
        let is_file = |path: &String| ordered.machine.source().join(path).is_file();
        let mut files: Vec<_> = all.into_iter().filter(is_file).collect();
        files.sort();
        files
    };
    let kept = ["folder/large", "hello.txt", "log/keep/b", "log/keep/y.tmp"];
    assert_eq!(
        (files(long), files(short)),
        (kept.map(str::to_owned).into(), vec!["log/a".to_owned(), "x.tmp".to_owned()])
    );
    assert_eq!(report(&ordered, long)["report"]["objects_rebound"], 2, "they changed their class");
    assert_eq!(report(&ordered, long)["report"]["objects_expired"], 0);
    let again = run(&ordered, "source");
    let short = again.iter().find(|job| job["plan"]["class"] == "short").unwrap();
    assert_eq!(
        report(&ordered, short)["report"]["objects_backed_up"],
        0,
        "it follows its own last one"
    );
}

/// A backup that takes its time: it reads slowly.
const SLOW: &str = r#"
[policy.slow]
nodes = ["web"]
paths = ["{}/source"]
options = { limit-read = { value = "100K", force = true } }
"#;

#[test]
fn a_job_is_suspended_resumed_and_done_again_with_other_words() {
    let ordered = with_site(SLOW);
    ordered.machine.write("much", &random(8 << 20));
    let job = |words: &[&str]| govern(&ordered.machine, &[&["job"], words].concat());
    let started = govern(&ordered.machine, &["start", "slow", "--json"]).ends(0).lines();
    let number = started[0]["job"].as_u64().unwrap();
    let id = number.to_string();
    wait(&ordered, number, |job| job["progress"]["bytes_read"].as_u64() > Some(0));
    job(&["suspend", &id]).ends(0);
    let suspended = wait(&ordered, number, |job| job["state"] == "suspended");
    assert!(suspended["waits"].as_str().unwrap().contains("job resume"), "{suspended}");
    job(&["priority", &id, "90"]).ends(0);
    assert_ne!(job(&["retry", &id]).code, 0, "it has not ended");
    apply(&ordered, &SLOW.replace("100K", "100M"));
    job(&["resume", &id]).ends(0);
    wait(&ordered, number, |job| job["state"] == "running");
    job(&["cancel", &id]).ends(0);
    let ended = wait(&ordered, number, |job| job["state"] == "cancelled");
    assert_eq!(ended["plan"]["priority"], 90);

    let words = ["start", "slow", "--set", "limit-read=100M", "--level", "complete", "--json"];
    let started = govern(&ordered.machine, &words).ends(0).lines();
    let number = started[0]["job"].as_u64().unwrap();
    let done = wait(&ordered, number, |job| !is_open(job) && job["state"] != "suspended");
    assert_eq!(done["state"], "complete", "{done}");
    let retried = job(&["retry", &number.to_string(), "--json"]).ends(0).last();
    let number = retried["job"].as_u64().unwrap();
    assert_eq!(wait(&ordered, number, |job| !is_open(job))["state"], "complete");
    govern(&ordered.machine, &["start", "slow", "--set", "limit-read=fast"]).ends(2);
    govern(&ordered.machine, &["start", "slow", "--group", "nobody"]).ends(2);
}

/// The process of a backup of the agent: by the paths that it has open, and so of this test alone.
fn process_of(ordered: &Ordered) -> u32 {
    let begun = Instant::now();
    loop {
        let folder = ordered.machine.path("agent/running");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let holder = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let found = holder
            .filter_map(|text| serde_json::from_str::<Value>(&text).ok()?["process"].as_u64());
        if let Some(process) = found.last() {
            return process as u32;
        }
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_backup_that_is_killed_frees_its_slot_at_once_and_keeps_no_lock() {
    let ordered = with_site(SLOW);
    ordered.machine.write("much", &random(8 << 20));
    let started = govern(&ordered.machine, &["start", "slow", "--json"]).ends(0).lines();
    let number = started[0]["job"].as_u64().unwrap();
    let is_reading = |job: &Value| job["progress"]["bytes_read"].as_u64() > Some(0);
    wait(&ordered, number, is_reading);

    let source = ordered.machine.source();
    let backup = || by_hand(&ordered, &["backup", source.to_str().unwrap()]);
    let refused = ended(&mut backup()).ends(11);
    assert!(refused.stderr.contains(&format!("job {number} of the server")), "{}", refused.stderr);

    let process = process_of(&ordered);
    let begun = Instant::now();
    Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    let job = wait(&ordered, number, |job| !is_open(job));
    assert_eq!((&job["state"], &job["cause"]), (&"failed".into(), &"killed".into()), "{job}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    apply(&ordered, &SLOW.replace("100K", "100M"));
    assert_eq!(run(&ordered, "slow")[0]["state"], "complete");
    ended(&mut backup()).ends(0);
}

const EXCLUDES: &str = r#"
[policy.source]
nodes = ["web"]
paths = ["{}/PATH"]
excludes = ["*.log", "!keep.log", "!*.secret", "!private/"]
"#;

#[test]
fn a_policy_takes_nothing_into_a_backup_that_the_node_excludes() {
    let ordered = with_site(&EXCLUDES.replace("PATH", "source"));
    let config = ordered.machine.path("home/.config/icecore");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "exclude = [\"*.secret\", \"private/\"]\n").unwrap();
    for name in ["a.secret", "b.log", "keep.log", "private/x"] {
        ordered.machine.write(name, b"x");
    }
    let job = run(&ordered, "source").remove(0);
    assert_eq!(job["state"], "complete", "{job}");
    let stored = paths(&ordered, "latest");
    assert_eq!(stored, ["folder", "folder/large", "hello.txt", "keep.log"]);
    for name in ["source/private/x", "source/private", "source/a.secret"] {
        apply(&ordered, &EXCLUDES.replace("PATH", name));
        let job = run(&ordered, "source").remove(0);
        let error = job["error"].as_str().unwrap_or_default();
        assert!(job["state"] == "failed" && error.contains("this machine excludes"), "{job}");
    }
}

#[test]
fn the_map_of_a_job_is_made_on_a_node_at_any_time() {
    let ordered = with_site(CLASSES);
    let first = run(&ordered, "source").remove(0);
    ordered.machine.write("new,\"file\"", b"new");
    ordered.machine.write("large.bin", &random(100_000));
    let second = run(&ordered, "source").remove(0);
    let map = |job: &Value, more: &[&str]| {
        let number = job["id"].to_string();
        let words = [&["map", "--job", &number], more].concat();
        ended(&mut by_hand(&ordered, &words)).ends(0)
    };
    let names = |ran: crate::machine::Ran| {
        let lines = ran.lines();
        let objects = lines.iter().filter(|line| line["message_type"] == "object");
        let name =
            |line: &Value| line["path"].as_str().unwrap().rsplit('/').next().map(str::to_owned);
        objects.filter_map(name).collect::<Vec<_>>()
    };
    let old = names(map(&first, &["--json", "--type", "file"]));
    assert_eq!(old, ["large", "hello.txt"], "as it was then");
    let new = map(&second, &["--json", "--changed", "--type", "file"]);
    assert!(new.lines().iter().all(|line| line["change"] != "content"), "{}", new.text());
    assert_eq!(names(new), ["large.bin", "new,\"file\""]);
    let large = names(map(&second, &["--json", "--larger-than", "50K", "--smaller-than", "200K"]));
    assert_eq!(large, ["large.bin"]);
    let csv = map(&second, &["--name", "new*"]).text();
    assert!(csv.starts_with("path,type,") && csv.lines().count() == 2, "{csv}");
    assert!(csv.contains("/new,\"\"file\"\"\",file,"), "{csv}");
    let text = map(&second, &["--name", "new*", "--format", "text"]).text();
    assert!(text.starts_with("-rw") && text.ends_with("new,\"file\"\n"), "{text}");
    ended(&mut by_hand(&ordered, &["map", "--job", "4711"])).ends(13);
    std::fs::remove_dir_all(ordered.machine.source()).unwrap();
    let failed = run(&ordered, "source").remove(0)["id"].to_string();
    let ran = ended(&mut by_hand(&ordered, &["map", "--job", &failed])).ends(1);
    assert!(ran.stderr.contains("made no snapshot"), "{}", ran.stderr);
}

#[test]
fn what_a_list_names_is_backed_up_once_at_a_time() {
    let ordered = with_site("");
    let machine = &ordered.machine;
    std::fs::write(machine.path("list"), format!("{}\n", machine.source().display())).unwrap();
    machine.write("slow", &random(4 << 20));
    let list = machine.path("list");
    let words = ["backup", "--files-from", list.to_str().unwrap()];
    let mut slow = by_hand(&ordered, &[&words[..], &["--limit-read", "100K"]].concat());
    let mut slow = slow.spawn().unwrap();
    let begun = Instant::now();
    let is_held = || {
        let locks = std::fs::read_dir(machine.path("agent/running"));
        locks.is_ok_and(|mut locks| locks.any(|lock| length(&lock.unwrap().path()) > 0))
    };
    while !is_held() {
        assert!(begun.elapsed() < LONG && slow.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    let refused = ended(&mut by_hand(&ordered, &words)).ends(11);
    let typed = ["backup", machine.source().to_str().unwrap()].map(str::to_owned);
    let typed: Vec<_> = typed.iter().map(String::as_str).collect();
    ended(&mut by_hand(&ordered, &typed)).ends(11);
    assert!(refused.stderr.contains("being backed up already"), "{}", refused.stderr);
    slow.kill().unwrap();
    slow.wait().unwrap();
    ended(&mut by_hand(&ordered, &words)).ends(0);
}

/// What a node believes to be unchanged is read again: all of it, or what changed since a time.
#[test]
fn a_catch_up_reads_again_what_changed_since_then_and_a_complete_one_everything() {
    let ordered = with_site("[policy.source]\nnodes = [\"web\"]\npaths = [\"{}/source\"]\n");
    let source = ordered.machine.source();
    std::fs::remove_dir_all(&source).unwrap();
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("old"), random(300_000)).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let since = jiff::Timestamp::now().to_string();
    std::fs::write(source.join("new"), random(70_000)).unwrap();
    std::thread::sleep(write_back_time() + Duration::from_secs(3));
    let read = |words: &[&str]| {
        let job = started(&ordered, words);
        assert_eq!(job["state"], "complete", "{job}");
        report(&ordered, &job)["report"]["bytes_processed"].as_u64().unwrap()
    };
    assert_eq!(read(&[]), 370_000);
    assert_eq!(read(&[]), 0);
    assert_eq!(read(&["--level", "complete"]), 370_000);
    assert_eq!(read(&["--level", "catch-up", "--since", &since]), 70_000);
    assert_eq!(read(&["--level", "catch-up", "--since", "7d"]), 370_000);
    let ran = govern(&ordered.machine, &["start", "source", "--level", "catch-up"]).ends(2);
    assert!(ran.stderr.contains("--since"), "{}", ran.stderr);
    let ran = govern(&ordered.machine, &["start", "source", "--since", "7d"]).ends(2);
    assert!(ran.stderr.contains("--level catch-up"), "{}", ran.stderr);
}

/// What is younger is read in any case: a store through a mapping may still follow (`RacyWindow`).
fn write_back_time() -> Duration {
    let centisecs = |name: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap();
        text.trim().parse().unwrap()
    };
    let kernel = centisecs("dirty_expire_centisecs") + centisecs("dirty_writeback_centisecs");
    Duration::from_millis(kernel * 10) + Duration::from_secs(25)
}

/// The one job of the policy `source`, started with these words.
fn started(ordered: &Ordered, words: &[&str]) -> Value {
    let all = [&["start", "source", "--json"], words].concat();
    let started = govern(&ordered.machine, &all).ends(0).lines();
    let number = started.iter().find_map(|job| job["job"].as_u64()).unwrap();
    wait(ordered, number, |job| !is_open(job))
}

const HOOKED: &str = r#"
[policy.hooked]
nodes = ["web"]
paths = ["{}/source"]
hooks = { pre = "long" }
"#;

/// It has no session yet that the server could end.
#[test]
fn a_job_that_is_cancelled_during_its_hook_ends_with_the_hook() {
    let ordered = with_site(HOOKED);
    list(
        &ordered,
        "hooks.toml",
        "[hook.long]\ncommand = [\"/bin/sleep\", \"600\"]\ntime-limit = \"20m\"\n",
    );
    let started = govern(&ordered.machine, &["start", "hooked", "--json"]).ends(0).lines();
    let number = started[0]["job"].as_u64().unwrap();
    let process = process_of(&ordered);
    let begun = Instant::now();
    govern(&ordered.machine, &["cancel", &number.to_string()]).ends(0);
    let job = wait(&ordered, number, |job| !is_open(job));
    assert_eq!(job["state"], "cancelled", "{job}");
    let is_there = || std::path::Path::new(&format!("/proc/{process}")).exists();
    while is_there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
        std::thread::sleep(Duration::from_millis(200));
    }
    // The next one finds nothing in its way.
    list(&ordered, "hooks.toml", "[hook.long]\ncommand = [\"/bin/true\"]\n");
    assert_eq!(run(&ordered, "hooked")[0]["state"], "complete");
}

#[test]
fn a_backup_that_outlived_its_agent_and_is_killed_frees_its_slot_soon() {
    let mut ordered = with_site(SLOW);
    ordered.machine.write("much", &random(8 << 20));
    let started = govern(&ordered.machine, &["start", "slow", "--json"]).ends(0).lines();
    let number = started[0]["job"].as_u64().unwrap();
    wait(&ordered, number, |job| job["progress"]["bytes_read"].as_u64() > Some(0));
    let process = process_of(&ordered);
    ordered.kill_agent();
    // The new one has its command again by then.
    std::thread::sleep(Duration::from_secs(5));
    let begun = Instant::now();
    Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    let job = wait(&ordered, number, |job| !is_open(job));
    assert_eq!((&job["state"], &job["cause"]), (&"failed".into(), &"killed".into()), "{job}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    apply(&ordered, &SLOW.replace("100K", "100M"));
    assert_eq!(run(&ordered, "slow")[0]["state"], "complete");
}
