//! Several pools of one server, as one types them: where domains lie, and what states mean.

use crate::machine::{Ran, ended};
use crate::storage_servers::Site;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::Hanging;

pub(crate) fn backup(site: &Site, name: &str) -> Ran {
    site.node(name, &["backup", &site.folder("source")])
}

pub(crate) fn restores(site: &Site, name: &str) {
    site.restores(name, &[]);
    fs::remove_dir_all(site.machine.path(&format!("restored-{name}"))).unwrap();
}

pub(crate) fn add(site: &Site, pool: &str) -> PathBuf {
    let disk = site.machine.path(&format!("disk-{pool}"));
    fs::create_dir(&disk).unwrap();
    site.govern(&["pool", "add", pool, disk.to_str().unwrap()]).ends(0);
    disk
}

/// How many writes the server has counted in a pool.
pub(crate) fn writes(site: &Site, pool: &str) -> u64 {
    let shown = site.here(&["pool", "show", &site.folder("data"), "--pool", pool, "--json"]);
    let shown = shown.ends(0).last();
    let operations = shown["operations"].as_array().unwrap().iter();
    let mut counts = operations.filter(|one| one["operation"] == "write");
    counts.next().and_then(|one| one["count"].as_u64()).unwrap_or_default()
}

fn restart(site: &mut Site) {
    site.server = None;
    site.start_server();
}

fn pool(site: &Site, name: &str) -> serde_json::Value {
    let all = site.govern(&["pool", "list", "--json"]).ends(0).lines();
    all.into_iter().find(|pool| pool["name"] == name).unwrap()
}

fn copied(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

#[test]
fn the_first_pool_lies_in_the_directory_that_the_first_start_names() {
    let mut site = Site::alone(Vec::new());
    let [disk, other] = ["disk", "other"].map(|name| site.folder(name));
    let named = |place: &str| -> &'static [&'static str] {
        vec!["--pool", String::leak(place.to_owned())].leak()
    };
    site.flags = named(&disk);
    let refused = ended(&mut site.server_command("data"));
    assert!(refused.code != 0 && refused.stderr.contains(&disk), "not there yet: {refused:?}");
    for place in [&disk, &other] {
        fs::create_dir(place).unwrap();
    }
    site.start_server();
    site.enroll_in("web", &[]);
    backup(&site, "web").ends(0);
    assert!(Path::new(&disk).join("domains/web/config").exists());
    assert_eq!(pool(&site, "main")["path"], disk.as_str());
    // Another directory is not taken for it, and neither is the one that is the default.
    for place in [other, site.folder("data/another")] {
        site.server = None;
        site.flags = named(&place);
        let refused = ended(&mut site.server_command("data")).ends(2);
        assert!(refused.stderr.contains(&format!("is {disk}, and stays there")), "{refused:?}");
    }
    for flags in [named(&disk), &[]] {
        site.flags = flags;
        restart(&mut site);
        backup(&site, "web").ends(0);
        restores(&site, "web");
    }
}

/// Seen: the advice was to accept a pool that is not there, and who did was told to accept it.
#[test]
fn who_restored_the_files_of_a_server_is_told_to_name_its_first_pool() {
    let mut site = Site::alone(Vec::new());
    let disk = site.folder("disk");
    fs::create_dir(&disk).unwrap();
    let named: &'static [&'static str] = vec!["--pool", String::leak(disk.clone())].leak();
    site.flags = named;
    site.start_server();
    site.enroll_in("web", &[]);
    backup(&site, "web").ends(0);
    site.server = None;
    // The link was not among the files.
    fs::remove_file(site.folder("data/pool")).unwrap();
    site.flags = &[];
    let refused = ended(&mut site.server_command("data")).ends(16);
    let accepted = site.here(&["pool", "accept", &site.folder("data")]).ends(16);
    for said in [refused.stderr, accepted.stderr] {
        assert!(said.contains("icecore server --pool PLACE"), "{said}");
        assert!(!said.contains("icecore pool accept"), "{said}");
    }
    site.flags = named;
    restart(&mut site);
    backup(&site, "web").ends(0);
}

#[test]
fn a_domain_lies_in_the_pool_that_its_token_names_and_nowhere_else() {
    let mut site = Site::new();
    let disk = add(&site, "fast");
    site.enroll_in("web", &["--pool", "fast"]);
    site.enroll_in("own", &["--pool", "main", "--keys", "client"]);
    for name in ["web", "own"] {
        backup(&site, name).ends(0);
        restores(&site, name);
    }
    let main = site.machine.path("data/pool/domains");
    assert!(disk.join("domains/web/config").exists() && !main.join("web").exists());
    assert!(main.join("own/config").exists() && !disk.join("domains/own").exists());
    restart(&mut site);
    backup(&site, "web").ends(0);
    restores(&site, "web");
    assert_eq!(pool(&site, "fast")["domains"], serde_json::json!(["web"]));
    let domains = site.govern(&["domains", "--json"]).ends(0).lines();
    let of =
        |name: &str| domains.iter().find(|domain| domain["name"] == name).unwrap()["pool"].clone();
    assert_eq!([of("web"), of("own")], ["fast", "main"]);
    site.wait_for("what was counted", |site| writes(site, "fast") > 0);
    let history = ["pool", "show", &site.folder("data"), "--pool", "fast", "--history"];
    assert!(site.here(&history).ends(0).text().contains("No hour has ended yet"));
    site.here(&["pool", "show", &site.folder("source"), "--history"]).ends(2);
    let refused = site.here(&["pool", "show", &site.folder("data"), "--pool", "none"]).ends(2);
    assert!(refused.stderr.contains("icecore server pool list"), "{}", refused.stderr);
    site.govern(&["check", "web"]).ends(0);
    site.govern(&["reclaim", "web"]).ends(0);
    let refused = site.govern(&["token", "new", "--domain", "web", "--pool", "main"]).ends(2);
    assert!(refused.stderr.contains("lies in the pool 'fast' already"), "{}", refused.stderr);
    site.govern(&["token", "new", "--pool", "none"]).ends(1);
}

#[test]
fn a_pool_that_is_read_only_is_read_and_one_that_is_offline_is_not_touched() {
    let site = Site::new();
    add(&site, "fast");
    site.enroll_in("web", &["--pool", "fast"]);
    site.enroll_in("other", &["--pool", "main"]);
    backup(&site, "web").ends(0);
    let set = |state: &str| drop(site.govern(&["pool", "state", "fast", state]).ends(0));
    set("read-only");
    let refused = backup(&site, "web").ends(13);
    assert!(refused.stderr.contains("the pool 'fast' is read-only"), "{}", refused.stderr);
    assert!(refused.stderr.contains("icecore server pool state fast online"), "{}", refused.stderr);
    restores(&site, "web");
    site.govern(&["check", "web"]).ends(0);
    for words in [&["forget", "web", "--keep-last", "1"][..], &["reclaim", "web"]] {
        let refused = site.govern(words);
        assert!(refused.code != 0 && refused.stderr.contains("is read-only"), "{}", refused.stderr);
    }
    set("offline");
    for words in [&["snapshots"][..], &["restore", "latest", "--target", "nowhere"]] {
        let refused = site.node("web", words);
        let text = "the pool 'fast' of the domain 'web' is offline";
        assert!(refused.code != 0 && refused.stderr.contains(text), "{}", refused.stderr);
    }
    assert!(backup(&site, "web").ends(13).stderr.contains("is offline"));
    backup(&site, "other").ends(0);
    set("draining");
    backup(&site, "web").ends(0);
    let refused = site.govern(&["token", "new", "--pool", "fast"]).ends(13);
    assert!(refused.stderr.contains("is draining: it takes no new domains"), "{}", refused.stderr);
    site.enroll_in("new", &[]);
    assert!(site.machine.path("data/pool/domains/new").exists());
    set("online");
    site.govern(&["reclaim", "web"]).ends(0);
}

#[test]
fn a_domain_that_lies_in_two_pools_or_in_none_is_used_by_nobody() {
    let mut site = Site::new();
    let disk = add(&site, "fast");
    site.enroll_in("web", &["--pool", "fast"]);
    site.enroll_in("other", &["--pool", "main"]);
    backup(&site, "web").ends(0);
    let (here, there) = (disk.join("domains/web"), site.machine.path("data/pool/domains/web"));
    copied(&here, &there);
    for _ in 0..2 {
        let refused = backup(&site, "web").ends(13);
        for said in ["lies in two pools", "'fast'", "'main'"] {
            assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
        }
        backup(&site, "other").ends(0);
        restart(&mut site);
    }
    fs::remove_dir_all(&there).unwrap();
    backup(&site, "web").ends(0);
    fs::rename(&here, site.machine.path("away")).unwrap();
    let refused = backup(&site, "web").ends(13);
    assert!(refused.stderr.contains("lies in none"), "{}", refused.stderr);
    assert!(!here.exists(), "nothing was made in its place");
    fs::rename(site.machine.path("away"), &there).unwrap();
    let refused = backup(&site, "web").ends(13);
    assert!(refused.stderr.contains("should lie in the pool 'fast'"), "{}", refused.stderr);
}

#[test]
fn a_further_pool_that_is_not_mounted_stops_its_own_domains_and_no_others() {
    let mut site = Site::new();
    let disk = add(&site, "fast");
    site.enroll_in("web", &["--pool", "fast"]);
    site.enroll_in("other", &["--pool", "main"]);
    backup(&site, "web").ends(0);
    let away = site.machine.path("away");
    fs::rename(&disk, &away).unwrap();
    fs::create_dir(&disk).unwrap();
    for _ in 0..2 {
        let refused = site.node("web", &["snapshots"]).ends(16);
        assert!(refused.stderr.contains("not mounted"), "{}", refused.stderr);
        assert!(refused.stderr.contains("icecore server pool list"), "{}", refused.stderr);
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "nothing is written below");
        backup(&site, "other").ends(0);
        assert!(pool(&site, "fast")["fault"].as_str().unwrap().contains("not mounted"));
        restart(&mut site);
    }
    fs::remove_dir(&disk).unwrap();
    fs::rename(&away, &disk).unwrap();
    backup(&site, "web").ends(0);
    restores(&site, "web");
}

#[test]
fn a_pool_that_hangs_stops_its_own_domains_and_no_others() {
    let mut site = Site::new();
    let disk = add(&site, "slow");
    site.enroll_in("web", &["--pool", "slow"]);
    site.enroll_in("other", &["--pool", "main"]);
    ["web", "other"].iter().for_each(|name| drop(backup(&site, name).ends(0)));
    std::thread::sleep(std::time::Duration::from_millis(1100)); // an answer is good for a second
    let Some(hanging) = Hanging::at(&disk.join("superblock")) else { return };
    for is_restarted in [false, true] {
        if is_restarted {
            restart(&mut site);
        }
        backup(&site, "other").ends(0);
        restores(&site, "other");
        let refused = site.node("web", &["snapshots"]).ends(16); // a backup waits for two minutes first
        assert!(refused.stderr.contains("has not answered for"), "{}", refused.stderr);
        assert!(refused.stderr.contains("server pool state slow offline"), "{}", refused.stderr);
        let fault = pool(&site, "slow")["fault"].as_str().unwrap().to_owned();
        assert!(fault.contains("has not answered for"), "{fault}");
        assert_eq!(pool(&site, "main")["fault"], serde_json::Value::Null);
    }
    drop(hanging);
    // What could not be used is tried again after ten seconds.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while backup(&site, "web").code != 0 {
        assert!(std::time::Instant::now() < until, "it answers, and is not used");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    restores(&site, "web");
}

/// Seen: a pool whose disk was lost could not be replaced, and its domains never came back, nor could they be removed.
#[test]
fn a_pool_whose_disk_is_lost_is_replaced_and_its_domains_come_back_from_their_copies() {
    let site = Site::new();
    let disk = add(&site, "fast");
    for node in ["web", "gone"] {
        site.enroll_in(node, &["--pool", "fast"]);
        backup(&site, node).ends(0);
    }
    let second = site.folder("second");
    site.here(&["copy", "--repo", disk.join("domains/web").to_str().unwrap(), "--to", &second])
        .ends(0);
    let refused = |words: &[&str], advice: &str| {
        let ran = site.govern(&[&["pool"], words].concat());
        assert!(ran.code != 0 && ran.stderr.contains(advice), "{words:?}: {ran:?}");
    };
    refused(&["remove", "fast", "--lost"], "it can be reached, so it is not lost");
    refused(&["remove", "fast"], "icecore server pool move gone POOL");
    refused(&["remove", "main", "--lost"], "icecore pool accept");
    refused(&["remove", "nope"], "nope");

    fs::remove_dir_all(&disk).unwrap();
    fs::create_dir(&disk).unwrap();
    let place = disk.to_str().unwrap();
    site.wait_for("the alarm", |site| {
        let status = site.govern(&["status"]).ends(0).text();
        status.contains("ALARM        the pool fast: ")
    });
    refused(&["add", "fast", place], "icecore server pool remove fast --lost");
    refused(&["remove", "fast"], "icecore server pool remove fast --lost");
    let left = site.govern(&["pool", "remove", "fast", "--lost"]).ends(0);
    assert!(!left.text().contains("fast"), "{}", left.text());
    let status = site.govern(&["status", "--json"]).ends(0).last();
    assert!(status["pool_faults"].is_null(), "{status}");
    let told = backup(&site, "web");
    assert!(told.code != 0 && told.stderr.contains("the pool 'fast'"), "{told:?}");
    let missing = || site.govern(&["status", "--json"]).ends(0).last()["domain_faults"].clone();
    assert_eq!(missing().as_array().unwrap().len(), 2, "{}", missing());

    let stray = disk.join("of somebody else");
    fs::write(&stray, "").unwrap();
    refused(&["add", "fast", place], "it has other files: of somebody else");
    fs::remove_file(&stray).unwrap();
    site.govern(&["pool", "add", "fast", place]).ends(0);
    assert!(site.govern(&["status"]).ends(0).text().contains("'web' is not in its pool 'fast'"));
    let within = disk.join("domains/within");
    fs::create_dir(&within).unwrap();
    refused(&["add", "within", within.to_str().unwrap()], "lies in");
    fs::remove_dir(&within).unwrap();
    let told = site.govern(&["check", "web"]);
    assert!(told.code != 0 && told.stderr.contains("lies in none"), "{told:?}");
    let back = disk.join("domains/web");
    site.here(&["copy", "--repo", &second, "--to", back.to_str().unwrap()]).ends(0);
    restores(&site, "web");
    backup(&site, "web").ends(0);
    site.node("web", &["check", "--read-data"]).ends(0);
    let listed = site.node("web", &["snapshots", "--json"]).ends(0).lines();
    assert_eq!(listed.iter().filter(|line| line["message_type"] == "snapshot").count(), 2);
    // The other one had no copy.
    site.govern(&["revoke", "gone"]).ends(0);
    site.govern(&["remove", "gone"]).ends(0);
    site.govern(&["remove-domain", "gone"]).ends(0);
    assert!(missing().is_null(), "{}", missing());
    // One that has no domains goes, and its directory stays.
    let empty = add(&site, "empty");
    site.govern(&["pool", "remove", "empty"]).ends(0);
    assert!(empty.join("superblock").exists() && !site.machine.path("data/pools/empty").exists());
}
