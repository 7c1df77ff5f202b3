//! The server reads its copies again, before somebody needs them.

use super::{Site, copied, report};
use crate::administration::govern;
use serde_json::Value;
use std::path::PathBuf;
use testkit::noise;

/// The check of all of the copy, which is due by hand only.
fn checks_all(site: &Site) {
    let tasks = "tasks=[\"copy\",\"check-copy\"]";
    govern(&site.machine, &["upkeep", "change", "second", "--set", tasks, "--yes"]).ends(0);
}

fn check(site: &Site) -> Value {
    site.started(&["upkeep", "start", "second", "--task", "check-copy", "--json"])
}

fn copy(site: &Site) -> Value {
    site.started(&["upkeep", "start", "second", "--task", "copy", "--json"])
}

fn alarm(site: &Site, task: &str) -> Value {
    let rows = govern(&site.machine, &["upkeep", "status", "--json"]).ends(0).lines();
    rows.iter().find(|row| row["task"] == task).expect("a row")["alarm"].clone()
}

/// The containers of the copy, the largest first.
fn copied_containers(site: &Site) -> Vec<PathBuf> {
    let shard = site.machine.path("second/web/containers/00000000");
    let mut files: Vec<_> =
        std::fs::read_dir(shard).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "ice"));
    files.sort_by_key(|file| std::cmp::Reverse(std::fs::metadata(file).unwrap().len()));
    files
}

/// In its first quarter, where the first snapshot has its content.
fn damage(container: &PathBuf) {
    let mut bytes = std::fs::read(container).unwrap();
    let quarter = bytes.len() / 4;
    bytes[quarter] ^= 1;
    std::fs::write(container, bytes).unwrap();
}

fn restores_from_copy(site: &Site) {
    let key = govern(&site.machine, &["key", "web", "--quiet"]).ends(0).text();
    let (target, copy) = (site.machine.path("from copy"), site.machine.path("second/web"));
    let snapshot = format!("latest:{}", site.machine.source().display());
    let mut restore = site.machine.command(["restore", &snapshot, "--verify", "--target"]);
    restore.arg(&target).env("ICECORE_REPO", &copy).env("ICECORE_PASSWORD", key.trim());
    crate::machine::ended(&mut restore).ends(0);
    let source = std::fs::read(site.machine.source().join("noise")).unwrap();
    assert_eq!(std::fs::read(target.join("noise")).unwrap(), source);
}

#[test]
fn a_check_of_a_copy_heals_it_from_the_domain() {
    let site = Site::new();
    for (seed, length) in [(1, 6 << 20), (2, 3 << 20)] {
        site.back_up(&noise(seed, length));
    }
    copied(&site);
    checks_all(&site);
    let clean = report(&check(&site));
    assert_eq!((&clean["damaged"], &clean["snapshots"]), (&0.into(), &2.into()), "{clean}");
    assert!(clean["bytes"].as_u64().unwrap() > 9 << 20, "all of it is read: {clean}");
    copied_containers(&site).iter().for_each(damage);
    let job = check(&site);
    let healed = report(&job);
    assert_eq!(job["state"], "complete", "{job}");
    assert_eq!(healed["damaged"], 0, "{healed}");
    assert_ne!(healed["healed"], 0, "{healed}");
    let told = alarm(&site, "check-copy");
    assert!(told.as_str().unwrap().contains("healed from the domain"), "{told}");
    std::fs::rename(site.machine.path("data/pool/domains/web"), site.machine.path("away")).unwrap();
    restores_from_copy(&site);
    std::fs::rename(site.machine.path("away"), site.machine.path("data/pool/domains/web")).unwrap();
    // Two rounds over everything without damage, and the alarm ends.
    for _ in 0..2 {
        assert!(alarm(&site, "check-copy").is_string());
        assert_eq!(report(&check(&site))["healed"], 0);
    }
    assert_eq!(alarm(&site, "check-copy"), Value::Null);
}

/// What expired in the domain is in the copy alone: nothing heals it.
#[test]
fn damage_of_what_only_the_copy_has_is_an_alarm() {
    let site = Site::new();
    (1..=2).for_each(|number| site.back_up(&noise(number, 3 << 20)));
    copied(&site);
    checks_all(&site);
    let list = govern(&site.machine, &["snapshot", "list", "--json"]).ends(0).lines();
    let oldest = list.iter().filter_map(|line| line["id"].as_str()).next_back().unwrap();
    govern(&site.machine, &["snapshot", "delete", oldest, "--now", "--yes"]).ends(0);
    assert_eq!(site.upkeep("reclaim")["state"], "complete");
    copied_containers(&site).iter().for_each(damage);
    let job = check(&site);
    assert_eq!(job["state"], "failed", "{job}");
    let told = alarm(&site, "check-copy");
    let told = told.as_str().unwrap();
    assert!(told.contains("in the copy") && told.contains("the domain has no whole one"), "{told}");
    let closer = format!("icecore check --repo '{}'", site.machine.path("second/web").display());
    assert!(told.contains(&closer), "{told}");
    restores_from_copy(&site);
}

#[test]
fn a_check_without_a_copy_fails_and_makes_none() {
    let site = Site::new();
    site.back_up(b"little");
    copied(&site);
    std::fs::remove_dir_all(site.machine.path("second/web")).unwrap();
    let job = check(&site);
    assert_eq!(job["state"], "failed", "{job}");
    assert!(!site.machine.path("second/web").exists());
    std::fs::remove_file(site.machine.path("second/icecore-copies")).unwrap();
    let unmounted = check(&site);
    assert!(unmounted["error"].as_str().unwrap().contains("is not mounted"), "{unmounted}");
}

/// The password of such a key opens neither of the two places.
#[test]
fn a_key_that_the_copy_lacks_is_an_alarm() {
    let site = Site::new();
    site.back_up(b"little");
    let keys = site.machine.path("data/pool/domains/web/keys");
    let is_key = |name: &std::path::Path| !name.to_string_lossy().starts_with("list");
    let names =
        std::fs::read_dir(&keys).unwrap().map(|file| PathBuf::from(file.unwrap().file_name()));
    let key = keys.join(names.into_iter().find(|name| is_key(name)).expect("a key"));
    let whole = std::fs::read(&key).unwrap();
    damage(&key);
    std::fs::create_dir(site.machine.path("second")).unwrap();
    std::fs::write(site.machine.path("second/icecore-copies"), "").unwrap();
    super::declare_copies(&site);
    let job = copy(&site);
    assert_eq!(job["state"], "failed", "{job}");
    let told = alarm(&site, "copy");
    assert!(told.as_str().unwrap().contains("key files are damaged or missing"), "{told}");
    std::fs::write(&key, whole).unwrap();
    assert_eq!(copy(&site)["state"], "complete");
    assert_eq!(alarm(&site, "copy"), Value::Null);
}
