//! What a server does to its domains by itself, while nodes back up.

mod copy_checks;

use crate::administration::{Running, agent, govern, start, start_with, token};
use crate::locking::{ALLOW, back_up, lock_for};
use crate::machine::{Machine, Ran};
use crate::node_commands::Ordered;
use crate::waiting::ended_job;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::noise;
use testkit::s3::Gateway;

/// A server with the node `web`.
struct Site {
    machine: Machine,
    server: Option<Running>,
}

impl Site {
    fn new() -> Self {
        Self::with(&[])
    }

    /// Its server has these variables.
    fn with(variables: &[(&str, String)]) -> Self {
        let machine = Machine::bare();
        let server = Some(start_with(&machine, variables));
        let [url, token] = token(&machine, &["web"]);
        agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
        Self { machine, server }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.machine.command(words);
        command.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD");
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        crate::machine::ended(&mut self.command(words))
    }

    /// Backs up a source of `content` and what else is there.
    fn back_up(&self, content: &[u8]) {
        self.machine.write("noise", content);
        self.run(&["backup", self.machine.source().to_str().unwrap()]).ends(0);
    }

    /// A backup that has begun and waits for its input.
    fn open_backup(&self) -> Child {
        let mut command = self.command(&["backup", "--stdin", "stream", "-q"]);
        let mut backup = command.stdin(Stdio::piped()).spawn().unwrap();
        backup.stdin.as_mut().unwrap().write_all(&noise(77, 3 << 20)).unwrap();
        self.waits_until("a session", || {
            !govern(&self.machine, &["sessions", "--json"]).ends(0).last()["count"].eq(&0)
        });
        backup
    }

    fn waits_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts a task in the domain, and waits for its end.
    fn upkeep(&self, task: &str) -> Value {
        let words = ["upkeep", "start", "default", "--domain", "web", "--task", task, "--json"];
        self.started(&words)
    }

    /// Starts what `words` say, and waits for the end of its first job.
    fn started(&self, words: &[&str]) -> Value {
        let started = govern(&self.machine, words).ends(0).lines();
        self.ended(started[0]["job"].as_u64().unwrap())
    }

    fn ended(&self, id: u64) -> Value {
        ended_job(&self.machine, id)
    }

    fn containers(&self) -> Vec<PathBuf> {
        let shards =
            std::fs::read_dir(self.machine.path("data/pool/domains/web/containers")).unwrap();
        let files = shards.flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap());
        files.map(|file| file.unwrap().path()).collect()
    }

    fn stored_bytes(&self) -> u64 {
        self.containers().iter().map(|file| length(file)).sum()
    }

    /// Whether the newest snapshot of the source is restored as the source is.
    fn restores_exactly(&self, target: &str) {
        let (source, target) = (self.machine.source(), self.machine.path(target));
        let snapshot = format!("latest:{}", source.display());
        self.run(&["restore", &snapshot, "--target", target.to_str().unwrap()]).ends(0);
        let mut diff = Command::new("diff");
        diff.arg("-r").arg(&source).arg(&target);
        crate::machine::ended(&mut diff).ends(0);
    }
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}

fn report(job: &Value) -> Value {
    serde_json::from_str(job["report"].as_str().unwrap()).unwrap()
}

#[test]
fn a_server_reclaims_and_checks_a_domain_while_a_node_backs_up_to_it() {
    let site = Site::new();
    site.back_up(&noise(1, 6 << 20));
    site.back_up(&noise(2, 5 << 20));
    govern(&site.machine, &["forget", "web", "--keep-last", "1"]).ends(0);
    let before = site.stored_bytes();
    let mut backup = site.open_backup();
    let job = site.upkeep("reclaim");
    assert_eq!(job["state"], "complete", "{job}");
    assert!(report(&job)["bytes_freed"].as_u64().unwrap() > 3 << 20, "{job}");
    assert!(before - site.stored_bytes() > 2 << 20, "{job}");
    let job = site.upkeep("check");
    assert_eq!(
        (job["state"].as_str(), job["node"].as_str()),
        (Some("complete"), Some("")),
        "{job}"
    );
    assert_eq!(report(&job)["damaged"], 0, "{job}");
    drop(backup.stdin.take());
    assert!(backup.wait().unwrap().success());
    site.restores_exactly("back");
}

/// Every other file goes: no record is unused as a whole, and a tenth of the space would come back without the key.
/// `kill -9` of the server in the middle of a check: what was read without damage is not read again.
#[test]
fn a_check_whose_server_starts_anew_goes_on_behind_what_it_has_read() {
    let mut site = Site::new();
    (1..=5).for_each(|number| site.back_up(&noise(number, 3 << 20)));
    let (tasks, throttle) = ("tasks=[\"check\"]", "throttle=1M");
    let words = ["upkeep", "create", "slow", "--set", tasks, "--set", throttle, "--yes"];
    govern(&site.machine, &words).ends(0);
    let all = site.containers().len() as u64;
    let started = govern(&site.machine, &["upkeep", "start", "slow", "--json"]).ends(0).lines();
    let id = started[0]["job"].as_u64().unwrap().to_string();
    site.waits_until("progress", || {
        let job = &govern(&site.machine, &["jobs", &id, "--json"]).ends(0).lines()[0];
        job["progress"]["bytes"].as_u64() > Some(11 << 20)
    });
    drop(site.server.take());
    site.server = Some(start(&site.machine));
    let job = site.ended(id.parse().unwrap());
    let report = report(&job);
    assert_eq!((&job["state"], &report["damaged"]), (&"complete".into(), &0.into()), "{job}");
    let read = report["containers_read"].as_u64().unwrap();
    assert!(read > 0 && read < all, "{read} of {all}");
}

#[test]
fn a_server_that_manages_the_keys_packs_anew_what_is_partly_unused() {
    let site = Site::new();
    let name = |number: u64| format!("small/{number:02}");
    for number in 0..48 {
        site.machine.write(&name(number), &noise(number, 200 << 10));
    }
    site.back_up(b"first");
    for number in (0..48).step_by(2) {
        std::fs::remove_file(site.machine.source().join(name(number))).unwrap();
    }
    site.back_up(b"second");
    govern(&site.machine, &["forget", "web", "--keep-last", "1"]).ends(0);
    let mut backup = site.open_backup();
    let job = site.upkeep("reclaim");
    assert_eq!(job["state"], "complete", "{job}");
    drop(backup.stdin.take());
    assert!(backup.wait().unwrap().success());
    // 24 files of 200 KiB, and the stream of the session that was open.
    let (used, stored) = (24 * (200 << 10) + (3 << 20), site.stored_bytes());
    assert!(stored * 10 < used * 11, "{stored} bytes for {used}: {job}");
    site.restores_exactly("back");
    assert_eq!(report(&site.upkeep("check"))["damaged"], 0);
}

/// The files of the containers of the domain `web`, the largest first.
fn containers(site: &Site) -> Vec<PathBuf> {
    let shard = site.machine.path("data/pool/domains/web/containers/00000000");
    let files = std::fs::read_dir(shard).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|it| it == "ice")).collect();
    files.sort_by_key(|file| std::cmp::Reverse(std::fs::metadata(file).unwrap().len()));
    files
}

/// The server keeps a copy of its domains, and has made it.
fn copied(site: &Site) {
    let second = site.machine.path("second");
    std::fs::create_dir(&second).unwrap();
    std::fs::write(second.join("icecore-copies"), "").unwrap();
    declare_copies(site);
    site.started(&["upkeep", "start", "second", "--json"]);
}

fn declare_copies(site: &Site) {
    declare_copies_in(site, "second");
}

/// In the folder of that name.
fn declare_copies_in(site: &Site, name: &str) {
    let to = format!("to={}", site.machine.path(name).display());
    let words = ["upkeep", "create", name, "--set", "tasks=[\"copy\"]", "--set", &to, "--yes"];
    govern(&site.machine, &words).ends(0);
}

/// Both are wanted at one time: each has its jobs, and neither hides that the other one fails.
#[test]
fn two_upkeeps_make_two_copies_and_each_has_its_own_alarm() {
    let site = Site::new();
    site.back_up(&noise(1, 1 << 20));
    for name in ["second", "third"] {
        std::fs::create_dir(site.machine.path(name)).unwrap();
        declare_copies_in(&site, name);
    }
    let alarms = || {
        let rows = govern(&site.machine, &["upkeep", "status", "--json"]).ends(0).lines();
        let copies = rows.into_iter().filter(|row| row["task"] == "copy");
        let alarms = copies.map(|row| (row["upkeeps"][0].clone(), !row["alarm"].is_null()));
        alarms.collect::<Vec<_>>()
    };
    let start = || {
        ["second", "third"].map(|name| {
            let words = ["upkeep", "start", name, "--json"];
            govern(&site.machine, &words).ends(0).lines()[0]["job"].as_u64().unwrap()
        })
    };
    std::fs::write(site.machine.path("third/icecore-copies"), "").unwrap();
    let states = start().map(|id| site.ended(id)["state"].clone());
    assert_eq!(states, ["failed", "complete"]);
    assert_eq!(alarms(), [("second".into(), true), ("third".into(), false)]);
    std::fs::write(site.machine.path("second/icecore-copies"), "").unwrap();
    assert_eq!(start().map(|id| site.ended(id)["state"].clone()), ["complete", "complete"]);
    assert_eq!(alarms(), [("second".into(), false), ("third".into(), false)]);
    let third = site.machine.path("third/web/snapshots");
    assert_eq!(std::fs::read_dir(third).unwrap().count(), 1);
    // What nobody declares any more has no alarm either.
    govern(&site.machine, &["upkeep", "remove", "second", "--yes"]).ends(0);
    assert_eq!(alarms(), [("third".into(), false)]);
}

/// Of the two containers of the domain, one is damaged in its middle and the other is gone.
fn lose(site: &Site) {
    let [damaged, gone] = containers(site).try_into().unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[3 << 20] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    std::fs::remove_file(gone).unwrap();
}

#[test]
fn a_restore_reads_what_the_domain_has_lost_from_the_copy_that_the_server_keeps() {
    let site = Site::new();
    for (name, seed, length) in [("first", 1, 6 << 20), ("second", 2, 3 << 20)] {
        site.machine.write(name, &noise(seed, length));
        site.run(&["backup", site.machine.source().to_str().unwrap()]).ends(0);
    }
    copied(&site);
    lose(&site);
    let target = site.machine.path("without");
    let restore = |target: &str| {
        let snapshot = format!("latest:{}", site.machine.source().display());
        site.run(&["restore", &snapshot, "--target", target])
    };
    // Without a word of a copy it is lost, and said to be.
    govern(&site.machine, &["upkeep", "remove", "second", "--yes"]).ends(0);
    assert_ne!(restore(target.to_str().unwrap()).code, 0);
    declare_copies(&site);
    site.restores_exactly("back");
    let audit = govern(&site.machine, &["audit", "--json"]).ends(0).lines();
    let read = audit.iter().find(|entry| entry["action"] == "copy.read").expect("an entry");
    assert_eq!(read["subject"], "web");
    assert!(read["detail"].as_str().unwrap().ends_with("/second/web for web"), "{read}");
}

#[test]
fn a_check_heals_from_the_copy_that_the_server_keeps() {
    let site = Site::new();
    for (seed, length) in [(1, 6 << 20), (2, 3 << 20)] {
        site.back_up(&noise(seed, length));
    }
    copied(&site);
    lose(&site);
    let mut backup = site.open_backup();
    let words = ["upkeep", "create", "all", "--set", "tasks=[\"check\"]", "--yes"];
    govern(&site.machine, &words).ends(0);
    let check = || site.started(&["upkeep", "start", "all", "--json"]);
    let job = check();
    assert_eq!(job["state"], "complete", "{job}");
    assert_eq!(
        (&report(&job)["healed"], &report(&job)["damaged"]),
        (&2.into(), &0.into()),
        "{job}"
    );
    let alarm = || {
        let rows = govern(&site.machine, &["upkeep", "status", "--json"]).ends(0).lines();
        rows.iter().find(|row| row["task"] == "check").unwrap()["alarm"].clone()
    };
    assert!(alarm().as_str().unwrap().contains("healed from a copy"), "{}", alarm());
    drop(backup.stdin.take());
    assert!(backup.wait().unwrap().success());
    govern(&site.machine, &["check", "web"]).ends(0);
    let (target, snapshot) = (site.machine.path("out"), site.machine.source());
    let snapshot = format!("latest:{}", snapshot.display());
    site.run(&["restore", &snapshot, "--target", target.to_str().unwrap()]).ends(0);
    assert_eq!(std::fs::read(target.join("noise")).unwrap(), noise(2, 3 << 20));
    // Two rounds over everything without damage, and the alarm ends.
    for _ in 0..2 {
        assert!(alarm().is_string());
        assert_eq!(report(&check())["healed"], 0);
    }
    assert_eq!(alarm(), Value::Null);
}

#[test]
fn a_server_copies_a_domain_to_a_second_place_while_a_node_backs_up_to_it() {
    let site = Site::new();
    site.back_up(&noise(1, 6 << 20));
    let second = site.machine.path("second");
    std::fs::create_dir(&second).unwrap();
    declare_copies(&site);
    let copy = || site.started(&["upkeep", "start", "second", "--json"]);
    let alarm = || {
        let rows = govern(&site.machine, &["upkeep", "status", "--json"]).ends(0).lines();
        rows.iter().find(|row| row["task"] == "copy").unwrap()["alarm"].clone()
    };
    // As if the disk for copies were not mounted.
    let job = copy();
    assert_eq!(job["state"], "failed", "{job}");
    let told = alarm();
    assert!(told.as_str().unwrap().contains("touch '"), "{told}");
    assert!(std::fs::read_dir(&second).unwrap().next().is_none(), "nothing was made there");
    std::fs::write(second.join("icecore-copies"), "").unwrap();
    let mut backup = site.open_backup();
    let job = copy();
    assert_eq!((job["state"].as_str(), alarm()), (Some("complete"), Value::Null), "{job}");
    assert_eq!((&report(&job)["created"], &report(&job)["snapshots"]), (&true.into(), &1.into()));
    drop(backup.stdin.take());
    assert!(backup.wait().unwrap().success());
    let counts = report(&copy());
    assert_eq!((&counts["present"], &counts["snapshots"]), (&1.into(), &1.into()), "{counts}");
    let key = govern(&site.machine, &["key", "web", "--quiet"]).ends(0).text();
    let (target, copy) = (site.machine.path("out"), second.join("web"));
    let snapshot = format!("latest:{}", site.machine.source().display());
    let mut restore = site.machine.command(["restore", &snapshot, "--verify", "--target"]);
    restore.arg(&target).env("ICECORE_REPO", &copy).env("ICECORE_PASSWORD", key.trim());
    crate::machine::ended(&mut restore).ends(0);
    assert_eq!(std::fs::read(target.join("noise")).unwrap(), noise(1, 6 << 20));
}

/// What only is missing in the domain stays in the copy: that may be what the copy is for.
/// A backup that no policy wanted, and one that a policy did: which of them is copied, the upkeep says.
#[test]
fn a_copy_of_chosen_policies_and_classes_has_no_other_snapshots() {
    let ordered = Ordered::new(ALLOW);
    let machine = &ordered.machine;
    lock_for(machine, "1 minute");
    let wanted = back_up(machine, 0);
    let mut own = machine.command(["backup", machine.source().to_str().unwrap()]);
    own.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD");
    crate::machine::ended(&mut own).ends(0);
    let key = govern(machine, &["key", "web", "--quiet"]).ends(0).text();
    let copied = |name: &str, chosen: &[&str]| {
        let second = machine.path(name);
        std::fs::create_dir(&second).unwrap();
        std::fs::write(second.join("icecore-copies"), "").unwrap();
        let to = format!("to={}", second.display());
        let mut words =
            vec!["upkeep", "create", name, "--set", "tasks=[\"copy\"]", "--set", &to, "--yes"];
        chosen.iter().for_each(|set| words.extend(["--set", *set]));
        govern(machine, &words).ends(0);
        let started = govern(machine, &["upkeep", "start", name, "--json"]).ends(0).lines();
        let job = ended_job(machine, started[0]["job"].as_u64().unwrap());
        assert_eq!(job["state"], "complete", "{job}");
        let mut list = machine.command(["snapshots", "--json", "--repo"]);
        list.arg(second.join("web")).env("ICECORE_PASSWORD", key.trim());
        let listed = crate::machine::ended(&mut list).ends(0).lines();
        let ids = listed.iter().filter_map(|line| line["snapshot_id"].as_str().map(str::to_owned));
        ids.collect::<Vec<_>>()
    };
    assert_eq!(copied("all", &[]).len(), 2);
    assert_eq!(copied("some", &["policies=[\"source\"]"]), std::slice::from_ref(&wanted));
    assert_eq!(copied("class", &["classes=[\"default\"]"]), [wanted]);
    let refused = govern(machine, &["upkeep", "change", "some", "--set", "classes=[\"none\"]"]);
    assert!(refused.ends(2).stderr.contains("no retention has a class 'none'"));
}

#[test]
fn a_copy_keeps_what_expired_for_as_long_as_it_is_told_and_what_was_lost_for_ever() {
    let site = Site::new();
    (1..=3).for_each(|number| site.back_up(&noise(number, 3 << 20)));
    copied(&site);
    let ids = || -> Vec<String> {
        let list = govern(&site.machine, &["snapshot", "list", "--json"]).ends(0).lines();
        list.iter().filter_map(|line| line["id"].as_str().map(str::to_owned)).collect()
    };
    let there = || std::fs::read_dir(site.machine.path("second/web/snapshots")).unwrap().count();
    let keep = |span: &str| {
        let set = format!("keep_expired={span}");
        govern(&site.machine, &["upkeep", "change", "second", "--set", &set, "--yes"]).ends(0);
        let job = site.started(&["upkeep", "start", "second", "--json"]);
        assert_eq!(job["state"], "complete", "{job}");
        report(&job)
    };
    let [_, lost, oldest] = &ids()[..] else { panic!("three snapshots") };
    govern(&site.machine, &["snapshot", "delete", oldest, "--now", "--yes"]).ends(0);
    let snapshots = site.machine.path("data/pool/domains/web/snapshots");
    let is_lost = |path: &PathBuf| path.to_str().unwrap().contains(lost);
    let mut files = std::fs::read_dir(snapshots).unwrap().map(|file| file.unwrap().path());
    std::fs::remove_file(files.find(is_lost).unwrap()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let kept = keep("1 day");
    assert_eq!((&kept["expired"], there()), (&0.into(), 3), "{kept}");
    let followed = keep("1 second");
    assert_eq!((&followed["expired"], there()), (&1.into(), 2), "{followed}");
    // Of records that also hold what is kept, nothing goes without a key.
    assert!(followed["bytes_freed"].as_u64().unwrap() > 1 << 20, "{followed}");
    assert_eq!((&keep("1 second")["expired"], there()), (&0.into(), 2));
    let key = govern(&site.machine, &["key", "web", "--quiet"]).ends(0).text();
    let (copy, target) = (site.machine.path("second/web"), site.machine.path("out"));
    let run = |words: &[&str]| {
        let mut command = site.machine.command(words);
        command.env("ICECORE_REPO", &copy).env("ICECORE_PASSWORD", key.trim());
        crate::machine::ended(&mut command)
    };
    run(&["check", "--read-data"]).ends(0);
    let (target, source) = (target.to_str().unwrap(), site.machine.source());
    let below = format!("{lost}:{}", source.display());
    run(&["restore", &below, "--verify", "--target", target]).ends(0);
    assert_eq!(std::fs::read(Path::new(target).join("noise")).unwrap(), noise(2, 3 << 20));
}

#[test]
fn a_copy_in_a_bucket_is_kept_read_and_healed_from_as_one_in_a_directory() {
    let gateway = Gateway::shared();
    let site = Site::with(&gateway.variables());
    (1..=3).for_each(|number| site.back_up(&noise(number, 3 << 20)));
    let address = format!("s3://{}/copies", gateway.bucket());
    let (to, keep) = (format!("to={address}"), "keep_expired=1 second");
    let words = ["upkeep", "create", "second", "--set", "tasks=[\"copy\"]", "--yes"];
    govern(&site.machine, &[&words[..], &["--set", &to, "--set", keep]].concat()).ends(0);
    let copy = || report(&site.started(&["upkeep", "start", "second", "--json"]));
    let made = copy();
    assert_eq!((&made["created"], &made["snapshots"]), (&true.into(), &3.into()), "{made}");
    let list = govern(&site.machine, &["snapshot", "list", "--json"]).ends(0).lines();
    let oldest = list.iter().filter_map(|line| line["id"].as_str()).next_back().unwrap();
    govern(&site.machine, &["snapshot", "delete", oldest, "--now", "--yes"]).ends(0);
    std::thread::sleep(Duration::from_secs(3));
    let followed = copy();
    assert_eq!((&followed["expired"], &followed["present"]), (&1.into(), &2.into()), "{followed}");
    assert!(followed["bytes_freed"].as_u64().unwrap() > 1 << 20, "{followed}");

    // The first one has what is not kept any more, here or there. The last one says that it expired.
    let mut containers = site.containers();
    containers.sort();
    containers[1..].iter().for_each(|container| std::fs::remove_file(container).unwrap());
    let (target, source) = (site.machine.path("out"), site.machine.source());
    let latest = format!("latest:{}", source.display());
    site.run(&["restore", &latest, "--verify", "--target", target.to_str().unwrap()]).ends(0);
    assert_eq!(std::fs::read(target.join("noise")).unwrap(), noise(3, 3 << 20));
    let audit = govern(&site.machine, &["audit", "--json"]).ends(0).lines();
    let read = audit.iter().find(|entry| entry["action"] == "copy.read").expect("an entry");
    assert!(
        read["detail"].as_str().unwrap().ends_with(&format!("{address}/web for web")),
        "{read}"
    );
    govern(&site.machine, &["upkeep", "create", "all", "--set", "tasks=[\"check\"]", "--yes"])
        .ends(0);
    let checked = report(&site.started(&["upkeep", "start", "all", "--json"]));
    assert_eq!(checked["damaged"], 0, "{checked}");
    assert_ne!(checked["healed"], 0, "{checked}");
    govern(&site.machine, &["check", "web"]).ends(0);
    let words = ["upkeep", "start", "second", "--task", "check-copy", "--json"];
    let read = report(&site.started(&words));
    assert_eq!((&read["damaged"], &read["healed"]), (&0.into(), &0.into()), "{read}");
    let requests = read["requests"]["reads"].as_u64().unwrap();
    assert!((1..40).contains(&requests), "whoever reads a bucket pays by requests: {read}");
}

/// Each time it is said what is wrong, and nothing else stops.
#[test]
fn a_bucket_that_cannot_be_used_for_copies_is_an_alarm() {
    let site = Site::new();
    site.back_up(b"little");
    let words = ["upkeep", "create", "second", "--set", "tasks=[\"copy\"]", "--yes"];
    for to in ["to=s3:///x", "to=s3://key:secret@copies/x", "to=copies"] {
        let wrong = govern(&site.machine, &[&words[..], &["--set", to]].concat()).ends(2);
        assert!(wrong.stderr.contains("s3://BUCKET/PREFIX"), "{to}: {}", wrong.stderr);
    }
    govern(&site.machine, &[&words[..], &["--set", "to=s3://nobody/x"]].concat()).ends(0);
    let job = site.started(&["upkeep", "start", "second", "--json"]);
    assert_eq!(job["state"], "failed", "{job}");
    let rows = govern(&site.machine, &["upkeep", "status", "--json"]).ends(0).lines();
    let alarm = &rows.iter().find(|row| row["task"] == "copy").unwrap()["alarm"];
    assert!(alarm.as_str().unwrap().contains("AWS_ACCESS_KEY_ID"), "{alarm}");
}
