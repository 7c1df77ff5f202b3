//! Object Lock, as a user types it: a repository in a bucket, and the copy that a server keeps in one, after somebody
//! who has their credentials removed and overwrote what can be.

use crate::administration::{govern, start_with};
use crate::locking::{ALLOW, back_up, lock_for};
use crate::machine::{Machine, Ran, ended, random};
use crate::node_commands::Ordered;
use crate::server_pools::restores;
use crate::storage_servers::Site;
use crate::waiting::{ended_job, found};
use serde_json::Value;
use std::time::Duration;
use testkit::s3::Gateway;

pub(crate) fn icecore(machine: &Machine, address: &str, words: &[&str]) -> Ran {
    let mut command = machine.command([words, &["--repo", address]].concat());
    ended(command.env_remove("ICECORE_REPO").envs(Gateway::shared().variables()))
}

/// Every object below `prefix` gets another content, and is then removed with each version that can be removed. How
/// many cannot.
pub(crate) fn destroy(bucket: &str, prefix: &str) -> u64 {
    let gateway = Gateway::shared();
    let versions = || {
        let all = gateway.versions(bucket).into_iter();
        all.filter(|(key, _)| key.starts_with(prefix)).collect::<Vec<_>>()
    };
    for (key, _) in versions() {
        gateway.ask("PUT", &format!("{bucket}/{key}"), &["-d", "rubbish"]);
        gateway.ask("DELETE", &format!("{bucket}/{key}"), &[]);
    }
    let bypass = ["-H", "x-amz-bypass-governance-retention: true"];
    let is_refused = |(key, id): &(String, String)| {
        gateway.ask("DELETE", &format!("{bucket}/{key}?versionId={id}"), &bypass).0 == 403
    };
    versions().iter().filter(|version| is_refused(version)).count() as u64
}

/// A time, and some more until everything is later than it: storages tell seconds.
pub(crate) fn moment() -> String {
    std::thread::sleep(Duration::from_millis(1100));
    let now = jiff::Timestamp::now();
    std::thread::sleep(Duration::from_millis(1100));
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[test]
fn a_locked_repository_in_a_bucket_outlasts_who_has_its_credentials() {
    let machine = Machine::bare();
    let bucket = Gateway::shared().locking_bucket();
    let address = format!("s3://{bucket}/some/prefix");
    let run = |words: &[&str]| icecore(&machine, &address, words);
    machine.write("large", &random(3 << 20));
    let source = machine.source();
    run(&["init"]).ends(0);
    run(&["backup", source.to_str().unwrap()]).ends(0);
    let set = ["object-lock", "set", "--mode", "compliance", "--for", "30d", "--json"];
    let locked = run(&set).ends(0).last();
    assert!(locked["objects"].as_u64() > Some(5) && locked["objects"] == locked["prolonged"]);
    let again = run(&set).ends(0).last();
    assert_eq!((&again["objects"], &again["prolonged"]), (&locked["objects"], &0.into()));

    let before = moment();
    assert_eq!(Some(destroy(&bucket, "some/prefix")), locked["objects"].as_u64());
    run(&["snapshots"]).ends(10);
    let recover = ["object-lock", "recover", "--before", &before];
    let would = run(&[&recover[..], &["--dry-run"]].concat()).ends(0).text();
    assert!(would.contains("restore config\n") && would.contains(" would be restored"), "{would}");
    run(&["snapshots"]).ends(10);
    let done = run(&recover).ends(0).text();
    assert!(done.contains(&format!("Next: icecore rebuild --repo {address}")), "{done}");
    run(&["rebuild"]).ends(0);
    run(&["check", "--read-data"]).ends(0);
    let target = machine.path("target");
    run(&["restore", "latest", "--target", target.to_str().unwrap()]).ends(0);
    let restored = target.join(source.strip_prefix("/").unwrap()).join("large");
    assert!(std::fs::read(restored).unwrap() == std::fs::read(source.join("large")).unwrap());
}

#[test]
fn what_cannot_be_locked_is_told_with_what_to_do() {
    let machine = Machine::bare();
    let plain = format!("s3://{}/x", Gateway::shared().bucket());
    icecore(&machine, &plain, &["init"]).ends(0);
    let set = ["object-lock", "set", "--mode", "governance", "--for", "1d"];
    for words in [&set[..], &["object-lock", "recover", "--before", "1h"]] {
        let refused = icecore(&machine, &plain, words).ends(1);
        assert!(refused.stderr.contains("--object-lock-enabled-for-bucket"), "{}", refused.stderr);
        let folder = machine.path("folder");
        let refused = icecore(&machine, folder.to_str().unwrap(), words).ends(2);
        assert!(refused.stderr.contains("s3://BUCKET/PREFIX"), "{}", refused.stderr);
    }
}

/// A server with a policy that locks, whose copies go to the bucket with Object Lock.
fn site(bucket: &str) -> Ordered {
    let machine = Machine::bare();
    let server = start_with(&machine, &Gateway::shared().variables());
    let ordered = Ordered::of(machine, server, ALLOW);
    lock_for(&ordered.machine, "30 days");
    let (to, lock) = (format!("to=s3://{bucket}/copies"), "object_lock=compliance");
    let words = ["upkeep", "create", "away", "--set", "tasks=[\"copy\"]", "--yes"];
    govern(&ordered.machine, &[&words[..], &["--set", &to, "--set", lock]].concat()).ends(0);
    ordered
}

/// The job of a copy, once it has ended.
fn copied(machine: &Machine) -> Value {
    let started = govern(machine, &["upkeep", "start", "away", "--json"]).ends(0).lines();
    ended_job(machine, started[0]["job"].as_u64().unwrap())
}

fn report(job: &Value) -> Value {
    serde_json::from_str(job["report"].as_str().unwrap()).unwrap()
}

#[test]
fn locks_of_a_policy_reach_the_bucket_of_the_copy() {
    let bucket = Gateway::shared().locking_bucket();
    let ordered = site(&bucket);
    let machine = &ordered.machine;
    back_up(machine, 0);
    machine.write("second", &random(2 << 20));
    let newest = back_up(machine, 1);
    let job = copied(machine);
    let locked = report(&job)["objects_locked"].as_u64().unwrap();
    assert!(job["state"] == "complete" && locked > 5, "{job}");
    let requests = &report(&job)["requests"];
    let writes = requests["writes"].as_u64().unwrap();
    assert!(writes >= 2 * locked && requests["sent_bytes"].as_u64() > Some(2 << 20), "{requests}");
    let key = govern(machine, &["key", "web", "--quiet"]).ends(0).text();

    // Somebody took the server over, with what it knows of the bucket.
    let before = moment();
    assert!(destroy(&bucket, "copies/web/") >= locked);
    std::fs::remove_dir_all(machine.path("data/pool/domains/web")).unwrap();
    let address = format!("s3://{bucket}/copies/web");
    icecore(machine, &address, &["object-lock", "recover", "--before", &before]).ends(0);
    let with_key = |words: &[&str]| {
        let mut command = machine.command([words, &["--repo", &address]].concat());
        let command = command.env_remove("ICECORE_REPO").envs(Gateway::shared().variables());
        ended(command.env("ICECORE_PASSWORD", key.trim()))
    };
    with_key(&["rebuild"]).ends(0);
    let target = machine.path("target");
    with_key(&["restore", &newest, "--target", target.to_str().unwrap()]).ends(0);
    let restored = target.join(machine.source().strip_prefix("/").unwrap()).join("second");
    assert!(
        std::fs::read(restored).unwrap() == std::fs::read(machine.source().join("second")).unwrap()
    );
}

#[test]
fn a_bucket_without_object_lock_gets_the_copy_and_makes_an_alarm() {
    let ordered = site(&Gateway::shared().bucket());
    back_up(&ordered.machine, 0);
    let job = copied(&ordered.machine);
    assert_eq!(job["state"], "failed", "{job}");
    assert_eq!(report(&job)["snapshots"], 1, "what is copied is better than what is not");
    let rows = govern(&ordered.machine, &["upkeep", "status", "--json"]).ends(0).lines();
    let alarm = &rows.iter().find(|row| row["task"] == "copy").unwrap()["alarm"];
    assert!(alarm.as_str().unwrap().contains("the bucket has no Object Lock"), "{alarm}");
    let words = ["upkeep", "change", "away", "--set", "to=/mnt/second", "--yes"];
    let refused = govern(&ordered.machine, &words).ends(2);
    assert!(refused.stderr.contains("only buckets have Object Lock"), "{}", refused.stderr);
}

/// A server whose buckets are to lock.
fn locking_site() -> Site {
    let mut site = Site::alone(Gateway::shared().variables().into_iter().collect());
    site.flags = &["--object-lock", "compliance"];
    site.start_server();
    site
}

/// Waits until more than `before` objects are kept, and nothing failed. `at`: where the status says so.
fn kept(site: &Site, at: &str, before: u64) -> u64 {
    found("word of Object Lock", || {
        let status = site.govern(&["status", "--json"]).ends(0).last();
        let told = &status.pointer(at).unwrap_or(&Value::Null);
        let is_whole = told["problems"].as_array().is_some_and(Vec::is_empty);
        match told["objects"].as_u64().filter(|objects| is_whole && *objects > before) {
            Some(objects) => Ok(objects),
            None => Err(status),
        }
    })
}

/// Two locked snapshots of the node `web`, of whose objects in the bucket none can be removed.
fn locked_twice(site: &Site, at: &str) -> u64 {
    let _agent = site.start_agent("web");
    lock_for(&site.machine, "30 days");
    back_up(&site.machine, 0);
    let first = kept(site, at, 0);
    site.machine.write("second", &random(2 << 20));
    back_up(&site.machine, 1);
    kept(site, at, first)
}

#[test]
fn locks_of_a_policy_reach_the_bucket_of_a_pool() {
    let bucket = Gateway::shared().locking_bucket();
    let mut site = locking_site();
    site.govern(&["pool", "add", "cloud", &format!("s3://{bucket}/pool")]).ends(0);
    site.enroll_in("web", &["--pool", "cloud"]);
    let locked = locked_twice(&site, "/kept_locks");
    let shown = site.govern(&["status"]).ends(0).text();
    assert!(shown.contains(&format!("{locked} objects kept by Object Lock")), "{shown}");

    // Somebody took the server over, with what it knows of the bucket.
    site.server = None;
    let before = moment();
    assert!(destroy(&bucket, "pool/domains/web/") >= locked);
    let address = format!("s3://{bucket}/pool/domains/web");
    icecore(&site.machine, &address, &["object-lock", "recover", "--before", &before]).ends(0);
    let key = site.govern(&["key", "web", "--quiet"]).ends(0).text();
    let mut rebuild = site.machine.command(["rebuild", "--repo", &address]);
    rebuild.env_remove("ICECORE_REPO").envs(Gateway::shared().variables());
    ended(rebuild.env("ICECORE_PASSWORD", key.trim())).ends(0);
    site.start_server();
    restores(&site, "web");
    site.node("web", &["check", "--read-data"]).ends(0);
}

#[test]
fn locks_reach_the_bucket_of_a_storage_server() {
    let bucket = Gateway::shared().locking_bucket();
    let mut site = locking_site();
    site.enroll_storage("disk", &["--pool", &format!("s3://{bucket}/disk")]).ends(0);
    site.start_storage();
    site.enroll("web", &[]);
    let locked = locked_twice(&site, "/storage_kept_locks/0");
    site.storage = None;
    assert!(destroy(&bucket, "disk/domains/web/") >= locked);
}

#[test]
fn a_pool_whose_bucket_has_no_object_lock_is_an_alarm() {
    let site = locking_site();
    let address = format!("s3://{}/pool", Gateway::shared().bucket());
    site.govern(&["pool", "add", "cloud", &address]).ends(0);
    site.enroll_in("web", &["--pool", "cloud"]);
    let _agent = site.start_agent("web");
    lock_for(&site.machine, "30 days");
    back_up(&site.machine, 0);
    found("the alarm", || {
        let shown = site.govern(&["status"]).ends(0).text();
        let is_told = shown.contains("ALARM") && shown.contains("the bucket has no Object Lock");
        if is_told { Ok(()) } else { Err(shown.into()) }
    });
}
