//! Upkeep of a domain that lies on a storage server: the control server queues the jobs, the storage server does the
//! work beside its sessions, and either of them may be killed meanwhile.

use crate::storage_servers::Site;
use crate::waiting::ended_job;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;
use testkit::noise;
use testkit::s3::Gateway;

/// Slow enough that something can happen meanwhile: a mebibyte in a second.
const SLOW: [&str; 8] = [
    "upkeep",
    "create",
    "slow",
    "--set",
    "tasks=[\"reclaim\",\"check\"]",
    "--set",
    "throttle=1M",
    "--yes",
];

struct Rig(Site);

impl Rig {
    /// A node whose domain has space to free, and containers to read.
    fn new() -> Self {
        let site = Site::new();
        site.enroll("web", &[]);
        let rig = Self(site);
        rig.back_up(&noise(1, 6 << 20));
        rig.back_up(&noise(2, 5 << 20));
        rig
    }

    fn back_up(&self, content: &[u8]) {
        self.0.machine.write("noise", content);
        self.0.node("web", &["backup", &self.0.folder("source")]).ends(0);
    }

    /// Forgets all but the newest snapshot, as a host of the repository does.
    fn forget(&self) {
        let key = self.0.govern(&["key", "web", "--quiet"]).ends(0).text();
        let mut command = self.0.machine.command(["forget", "--keep-last", "1"]);
        command.env("ICECORE_REPO", self.folder("")).env("ICECORE_PASSWORD", key.trim());
        crate::machine::ended(&mut command).ends(0);
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.0.machine.path("disk/pool/domains/web").join(name)
    }

    fn begin(&self, upkeep: &str, task: &str) -> u64 {
        let words = ["upkeep", "start", upkeep, "--domain", "web", "--task", task, "--json"];
        self.0.govern(&words).ends(0).lines()[0]["job"].as_u64().unwrap()
    }

    fn job(&self, id: u64) -> Value {
        self.0.govern(&["jobs", &id.to_string(), "--json"]).ends(0).lines()[0].clone()
    }

    fn ended(&self, id: u64) -> Value {
        ended_job(&self.0.machine, id)
    }

    /// Waits until a job has read something there.
    fn moves(&self, id: u64) {
        let has_moved = |job: &Value| job["progress"]["bytes"].as_u64() > Some(0);
        self.0.wait_for("progress", |_| has_moved(&self.job(id)));
    }

    /// A backup that has begun and waits for its input.
    fn open_backup(&self) -> Child {
        let mut command = self.0.node_command("web", &["backup", "--stdin", "stream", "-q"]);
        let mut backup = command.stdin(Stdio::piped()).spawn().unwrap();
        backup.stdin.as_mut().unwrap().write_all(&noise(77, 3 << 20)).unwrap();
        self.0.wait_for("a session", |site| {
            !site.govern(&["sessions", "--json"]).ends(0).last()["count"].eq(&0)
        });
        backup
    }

    fn containers(&self) -> Vec<PathBuf> {
        let shards = std::fs::read_dir(self.folder("containers")).unwrap();
        let files = shards.flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap());
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }

    fn stored_bytes(&self) -> u64 {
        self.containers().iter().map(|file| std::fs::metadata(file).map_or(0, |it| it.len())).sum()
    }

    fn is_whole(&self) {
        let data = self.0.folder("disk");
        self.0.machine.run(["storage", "check", "web", "--data", &data]).ends(0);
        self.0.restores("web", &[]);
    }
}

fn report(job: &Value) -> Value {
    serde_json::from_str(job["report"].as_str().unwrap_or("null")).unwrap()
}

#[test]
fn a_storage_server_reclaims_and_checks_while_a_node_backs_up_to_it() {
    let rig = Rig::new();
    rig.forget();
    let before = rig.stored_bytes();
    let mut backup = rig.open_backup();
    let job = rig.ended(rig.begin("default", "reclaim"));
    assert_eq!(job["state"], "complete", "{job}");
    assert!(report(&job)["bytes_freed"].as_u64().unwrap() > 3 << 20, "{job}");
    assert!(before - rig.stored_bytes() > 2 << 20, "{job}");
    let job = rig.ended(rig.begin("default", "check"));
    assert_eq!((&job["state"], &report(&job)["damaged"]), (&"complete".into(), &0.into()), "{job}");
    drop(backup.stdin.take());
    assert!(backup.wait().unwrap().success());
    let latest = format!("latest:{}", rig.0.folder("source"));
    rig.0.node("web", &["restore", &latest, "--target", &rig.0.folder("back")]).ends(0);
    let status = rig.0.govern(&["upkeep", "status", "--json"]).ends(0).lines();
    let web: Vec<_> = status.iter().filter(|row| row["domain"] == "web").collect();
    assert!(web.iter().all(|row| row["next"].is_string() && row["state"] == "complete"), "{web:?}");
}

#[test]
fn damage_that_a_storage_server_finds_is_an_alarm_of_the_control_server() {
    let rig = Rig::new();
    let file =
        rig.containers().into_iter().max_by_key(|file| std::fs::metadata(file).unwrap().len());
    let file = file.unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, bytes).unwrap();
    rig.0.govern(&["upkeep", "create", "whole", "--set", "tasks=[\"check\"]", "--yes"]).ends(0);
    let job = rig.ended(rig.begin("whole", "check"));
    assert_eq!(job["state"], "failed", "{job}");
    let status = rig.0.govern(&["upkeep", "status"]).ends(0).text();
    assert!(status.contains("icecore storage check web, on the machine of disk"), "{status}");
}

#[test]
fn a_job_on_a_storage_server_shows_its_progress_and_is_cancelled() {
    let rig = Rig::new();
    rig.0.govern(&SLOW).ends(0);
    let id = rig.begin("slow", "check");
    rig.moves(id);
    rig.0.govern(&["cancel", &id.to_string()]).ends(0);
    let job = rig.ended(id);
    assert_eq!((&job["state"], &job["cause"]), (&"cancelled".into(), &"cancelled".into()), "{job}");
    // The domain is free there, too.
    let next = rig.ended(rig.begin("default", "check"));
    assert_eq!(next["state"], "complete", "{next}");
}

/// `kill -9` of the storage server in the middle of a reclaim, several times: the job goes on, and ends well.
#[test]
fn a_job_outlives_its_storage_server() {
    let mut rig = Rig::new();
    rig.forget();
    rig.0.govern(&SLOW).ends(0);
    let before = rig.stored_bytes();
    let id = rig.begin("slow", "reclaim");
    for round in 0..3 {
        rig.moves(id);
        std::thread::sleep(Duration::from_millis(300 * round));
        rig.0.storage.as_mut().unwrap().kill();
        assert_eq!(rig.job(id)["state"], "running");
        rig.0.start_storage();
    }
    let job = rig.ended(id);
    assert_eq!(job["state"], "complete", "{job}");
    assert!(before - rig.stored_bytes() > 2 << 20, "{job}");
    rig.is_whole();
}

#[test]
fn a_sampled_check_reads_everything_over_its_runs_although_its_storage_server_starts_anew() {
    let mut rig = Rig::new();
    let (tasks, sample) = ("tasks=[\"check\"]", "sample=50%");
    rig.0.govern(&["upkeep", "create", "half", "--set", tasks, "--set", sample, "--yes"]).ends(0);
    let all = rig.containers().len() as u64;
    let first = report(&rig.ended(rig.begin("half", "check")));
    assert_ne!(first["position"], 0, "{first}");
    rig.0.restart_storage(|| ());
    let second = report(&rig.ended(rig.begin("half", "check")));
    assert_eq!(second["position"], 0, "{second}");
    let read = [&first, &second].map(|report| report["containers_read"].as_u64().unwrap());
    assert_eq!(read.iter().sum::<u64>(), all, "{first} {second}");
}

/// `kill -9` of the storage server in the middle of a check: what was read without damage is not read again.
#[test]
fn a_check_whose_storage_server_starts_anew_goes_on_behind_what_it_has_read() {
    let mut rig = Rig::new();
    rig.0.govern(&SLOW).ends(0);
    let [first, ..] = &rig.containers()[..] else { panic!("there are containers") };
    let behind_first = std::fs::metadata(first).unwrap().len() + (1 << 20);
    let all = rig.containers().len() as u64;
    let id = rig.begin("slow", "check");
    rig.0.wait_for("progress", |_| rig.job(id)["progress"]["bytes"].as_u64() > Some(behind_first));
    rig.0.storage.as_mut().unwrap().kill();
    rig.0.start_storage();
    let job = rig.ended(id);
    assert_eq!((&job["state"], &report(&job)["damaged"]), (&"complete".into(), &0.into()), "{job}");
    let read = report(&job)["containers_read"].as_u64();
    assert!(read > Some(0) && read < Some(all), "of {all}: {job}");
}

/// The job waits in the catalog, and is found again where it runs.
#[test]
fn a_job_on_a_storage_server_outlives_the_control_server() {
    let mut rig = Rig::new();
    rig.0.govern(&SLOW).ends(0);
    let id = rig.begin("slow", "check");
    rig.moves(id);
    rig.0.server.as_mut().unwrap().kill();
    rig.0.start_server();
    let job = rig.ended(id);
    assert_eq!(job["state"], "complete", "{job}");
    assert!(report(&job)["containers_read"].as_u64() > Some(0), "{job}");
}

#[test]
fn a_job_whose_storage_server_is_away_can_be_cancelled_and_says_why() {
    let mut rig = Rig::new();
    rig.0.govern(&SLOW).ends(0);
    let id = rig.begin("slow", "check");
    rig.moves(id);
    rig.0.storage.as_mut().unwrap().kill();
    rig.0.govern(&["cancel", &id.to_string()]).ends(0);
    let job = rig.ended(id);
    assert_eq!(job["state"], "cancelled", "{job}");
}

/// The storage server has made a copy of the domain in `second`.
fn copied(rig: &Rig) -> PathBuf {
    let second = rig.0.machine.path("second");
    std::fs::create_dir(&second).unwrap();
    std::fs::write(second.join("icecore-copies"), "").unwrap();
    let (tasks, to) = ("tasks=[\"copy\"]", format!("to={}", second.display()));
    rig.0.govern(&["upkeep", "create", "second", "--set", tasks, "--set", &to, "--yes"]).ends(0);
    let job = rig.ended(rig.begin("second", "copy"));
    assert_eq!((job["state"].as_str(), &report(&job)["snapshots"]), (Some("complete"), &2.into()));
    second
}

#[test]
fn what_a_storage_server_has_lost_is_read_from_the_copy_that_it_made() {
    let rig = Rig::new();
    copied(&rig);
    rig.containers().iter().for_each(|container| std::fs::remove_file(container).unwrap());
    rig.0.restores("web", &[]);
}

#[test]
fn a_storage_server_checks_the_copy_that_it_made() {
    let rig = Rig::new();
    let second = copied(&rig);
    let shard = second.join("web/containers/00000000");
    let container = std::fs::read_dir(shard).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(container).unwrap();
    let checked = || report(&rig.ended(rig.begin("second", "check-copy")));
    let healed = checked();
    assert_eq!(healed["damaged"], 0, "{healed}");
    assert_ne!(healed["healed"], 0, "{healed}");
    assert_eq!(checked()["healed"], 0);
}

/// The storage server reaches the bucket, and nobody else needs to.
#[test]
fn a_storage_server_keeps_a_copy_in_a_bucket_and_reads_from_it_what_it_has_lost() {
    let mut rig = Rig::new();
    rig.0.variables = Gateway::shared().variables().into();
    rig.0.restart_storage(|| ());
    let to = format!("to=s3://{}/copies", Gateway::shared().bucket());
    let tasks = "tasks=[\"copy\",\"check\"]";
    rig.0.govern(&["upkeep", "create", "second", "--set", tasks, "--set", &to, "--yes"]).ends(0);
    let job = rig.ended(rig.begin("second", "copy"));
    assert_eq!((job["state"].as_str(), &report(&job)["snapshots"]), (Some("complete"), &2.into()));
    rig.containers().iter().for_each(|container| std::fs::remove_file(container).unwrap());
    rig.0.restores("web", &[]);
    let checked = report(&rig.ended(rig.begin("second", "check")));
    assert_eq!(checked["damaged"], 0, "{checked}");
    assert_ne!(checked["healed"], 0, "{checked}");
}

#[test]
fn a_domain_that_is_lost_comes_back_from_the_copy_that_its_storage_server_made() {
    let mut rig = Rig::new();
    let second = copied(&rig);
    rig.0.storage.as_mut().unwrap().kill();
    std::fs::remove_dir_all(rig.folder("")).unwrap();
    // Nobody needs a key for it.
    let mut back = rig.0.machine.command(["copy", "--to"]);
    back.arg(rig.folder("")).env("ICECORE_REPO", second.join("web")).env_remove("ICECORE_PASSWORD");
    crate::machine::ended(&mut back).ends(0);
    rig.0.start_storage();
    rig.0.restores("web", &[]);
    rig.back_up(&noise(3, 1 << 20));
    let job = rig.ended(rig.begin("second", "copy"));
    assert_eq!((&report(&job)["present"], &report(&job)["snapshots"]), (&2.into(), &1.into()));
}
