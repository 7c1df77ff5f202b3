//! Domains that move into a bucket, out of it, and to another one, as one types it, while nodes use them.

use crate::machine::{ended, random};
use crate::server_pools::{add, backup, restores};
use crate::storage_servers::{Running, Site};
use crate::waiting::ended_job;
use serde_json::Value;
use std::fs;
use std::time::Duration;
use testkit::s3::Gateway;

/// A lease is taken when nothing was heard of its holder for so many seconds.
const QUIET_SECS: &str = "6";

/// A server with the pool `disk` in a directory and `cloud` in a bucket.
struct Pools {
    site: Site,
    bucket: String,
}

impl Pools {
    fn new() -> Self {
        Self::in_bucket(Gateway::shared().bucket())
    }

    fn in_bucket(bucket: String) -> Self {
        let quiet = ("ICECORE_S3_QUIET_SECS", QUIET_SECS.to_owned());
        let variables = Gateway::shared().variables().into_iter().chain([quiet]).collect();
        let mut site = Site::alone(variables);
        site.start_server();
        add(&site, "disk");
        let pools = Self { site, bucket };
        pools.add_bucket("cloud");
        pools
    }

    /// The pool `name` in a part of the bucket.
    fn add_bucket(&self, name: &str) {
        let address = format!("s3://{}/{name}", self.bucket);
        self.site.govern(&["pool", "add", name, &address]).ends(0);
    }

    fn restart(&mut self) {
        self.site.server = None;
        self.site.start_server();
    }

    /// The objects of a domain in the pool `pool`.
    fn objects(&self, pool: &str, domain: &str) -> Vec<String> {
        Gateway::shared().keys(&self.bucket, &format!("{pool}/domains/{domain}/"))
    }

    /// What a pool has on this machine besides the domain: its note or directory.
    fn beside(&self, pool: &str, domain: &str) -> Vec<String> {
        let folder = self.site.machine.path("data/pools").join(pool).join("domains");
        let names = fs::read_dir(folder).into_iter().flatten();
        let names = names.map(|name| name.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains(domain)).collect()
    }

    fn is_in(&self, domain: &str, pool: &str) {
        for (other, lies_there) in [("disk", pool == "disk"), ("cloud", pool == "cloud")] {
            let beside = self.beside(other, domain);
            assert_eq!(beside.len(), usize::from(lies_there), "{other}: {beside:?}");
        }
        if pool != "cloud" {
            assert_eq!(self.objects("cloud", domain), [""; 0]);
        }
        let domains = self.site.govern(&["domains", "--json"]).ends(0).lines();
        assert_eq!(domains.iter().find(|it| it["name"] == domain).unwrap()["pool"], pool);
    }

    fn snapshots(&self, node: &str) -> usize {
        let listed = self.site.node(node, &["snapshots", "--json"]).ends(0).lines();
        listed.iter().filter(|line| line["message_type"] == "snapshot").count()
    }

    /// All of it is there, and read well.
    fn is_well(&self, node: &str, snapshots: usize) {
        assert_eq!(self.snapshots(node), snapshots);
        restores(&self.site, node);
        self.site.node(node, &["check", "--read-data"]).ends(0);
    }
}

/// The bytes that a backup had to send.
fn sent(pools: &Pools, node: &str) -> u64 {
    let words = ["backup", &pools.site.folder("source"), "--json"];
    let report = pools.site.node(node, &words).ends(0).last();
    report["report"]["bytes_transferred"].as_u64().unwrap()
}

#[test]
fn a_domain_moves_into_a_bucket_and_back_with_all_that_is_in_it() {
    for keys in ["managed", "client"] {
        let mut pools = Pools::new();
        pools.site.enroll_in("web", &["--pool", "disk", "--keys", keys]);
        pools.site.machine.write("large", &random(3 << 20));
        let _agent = pools.site.start_agent("web");
        backup(&pools.site, "web").ends(0);
        pools.site.machine.write("more", b"more");
        backup(&pools.site, "web").ends(0);
        let mut count = 2;
        pools.add_bucket("other");
        for to in ["cloud", "disk", "cloud", "other", "disk"] {
            let job = pools.site.moves("web", to);
            let report: Value = serde_json::from_str(job["report"].as_str().unwrap()).unwrap();
            assert!(report["files"].as_u64() > Some(8), "{job}");
            pools.is_in("web", to);
            pools.is_well("web", count);
            assert!(sent(&pools, "web") < 1 << 20, "what is stored is not sent again");
            count += 1;
            pools.restart();
            pools.is_in("web", to);
            pools.is_well("web", count);
        }
        let cache = pools.site.machine.path("data/pools/cloud/cache");
        assert_eq!(fs::read_dir(cache).map_or(0, Iterator::count), 0, "nothing is kept of it");
    }
}

/// A backup of `web`, which is in `disk`, and a move to `cloud` that waits until it ends.
fn waiting_move(pools: &Pools) -> (Running, u64) {
    let running = pools.site.begin_backup("web");
    let job = pools.site.start_move("web", &["cloud"]);
    pools.site.move_waits(job);
    (running, job)
}

#[test]
fn a_move_into_a_bucket_waits_for_a_backup_and_takes_along_what_it_stores() {
    let pools = Pools::new();
    pools.site.enroll_in("web", &["--pool", "disk"]);
    backup(&pools.site, "web").ends(0);
    let (mut running, job) = waiting_move(&pools);
    assert!(!pools.objects("cloud", "web").is_empty(), "what was there is copied beside it");
    pools.site.lift_limits();
    assert!(running.0.wait().unwrap().success(), "{}", pools.site.said("web"));
    assert_eq!(ended_job(&pools.site.machine, job)["state"], "complete");
    pools.is_in("web", "cloud");
    pools.is_well("web", 2);
}

#[test]
fn a_move_into_a_bucket_that_is_cancelled_leaves_no_object() {
    let pools = Pools::new();
    pools.site.enroll_in("web", &["--pool", "disk"]);
    backup(&pools.site, "web").ends(0);
    let (mut running, job) = waiting_move(&pools);
    pools.site.govern(&["cancel", &job.to_string()]).ends(0);
    assert_eq!(ended_job(&pools.site.machine, job)["state"], "cancelled");
    pools.site.lift_limits();
    assert!(running.0.wait().unwrap().success(), "{}", pools.site.said("web"));
    pools.is_in("web", "disk");
    pools.is_well("web", 2);
}

#[test]
fn a_backup_that_a_move_into_a_bucket_interrupts_goes_on_there() {
    let pools = Pools::new();
    pools.site.enroll_in("web", &["--pool", "disk"]);
    let mut running = pools.site.begin_backup("web");
    let job = pools.site.start_move("web", &["cloud", "--interrupt"]);
    assert_eq!(ended_job(&pools.site.machine, job)["state"], "complete");
    assert!(running.0.try_wait().unwrap().is_none(), "it goes on: {}", pools.site.said("web"));
    pools.site.lift_limits();
    assert!(running.0.wait().unwrap().success(), "{}", pools.site.said("web"));
    pools.is_in("web", "cloud");
    pools.is_well("web", 1);
}

#[test]
fn a_server_that_is_killed_at_any_moment_of_a_move_of_a_bucket_finishes_it() {
    let mut pools = Pools::new();
    pools.site.enroll_in("web", &["--pool", "disk"]);
    pools.site.machine.write("much", &testkit::noise(5, 24 << 20));
    backup(&pools.site, "web").ends(0);
    let mut to = "cloud";
    for round in 0..8 {
        let job = pools.site.start_move("web", &[to]);
        std::thread::sleep(Duration::from_millis(60 + 90 * round));
        pools.restart();
        let ended = ended_job(&pools.site.machine, job);
        assert_eq!(ended["state"], "complete", "round {round}: {ended}");
        pools.is_in("web", to);
        restores(&pools.site, "web");
        to = if to == "cloud" { "disk" } else { "cloud" };
    }
    pools.site.node("web", &["check", "--read-data"]).ends(0);
}

/// What is removed there is an earlier version, which stays until its lock ends; and a copy is not locked.
#[test]
fn a_domain_whose_objects_are_locked_moves_away_and_is_locked_anew_elsewhere() {
    let gateway = Gateway::shared();
    let pools = Pools::in_bucket(gateway.locking_bucket());
    let prefix = "cloud/domains/web/";
    let listed = || gateway.keys(&pools.bucket, prefix).len();
    let lock = |pool: &str| {
        let address = format!("s3://{}/{pool}/domains/web", pools.bucket);
        let key = pools.site.govern(&["key", "web", "--quiet"]).ends(0).text();
        let set = ["object-lock", "set", "--mode", "compliance", "--for", "30d", "--json"];
        let mut command = pools.site.machine.command([&set[..], &["--repo", &address]].concat());
        command.env_remove("ICECORE_REPO").envs(gateway.variables());
        let locked = ended(command.env("ICECORE_PASSWORD", key.trim())).ends(0).last();
        assert!(locked["objects"].as_u64() > Some(5), "{locked}");
        (locked["objects"].as_u64().unwrap(), locked["prolonged"].as_u64().unwrap())
    };
    pools.site.enroll_in("web", &["--pool", "cloud"]);
    backup(&pools.site, "web").ends(0);
    let (locked, prolonged) = lock("cloud");
    assert_eq!((lock("cloud"), locked), ((locked, 0), prolonged));
    pools.site.moves("web", "disk");
    pools.is_well("web", 1);
    assert_eq!((pools.beside("cloud", "web").len(), listed()), (0, 0));
    let stays = gateway.versions(&pools.bucket).into_iter();
    let stays = stays.filter(|(key, _)| key.starts_with(prefix)).count() as u64;
    assert!(stays >= locked, "{stays} versions of {locked} locked objects");
    pools.site.moves("web", "cloud");
    pools.is_well("web", 1);
    pools.add_bucket("other");
    pools.site.moves("web", "other");
    pools.is_well("web", 1);
    assert_eq!((pools.beside("cloud", "web").len(), listed()), (0, 0));
    let (objects, anew) = lock("other");
    assert_eq!(anew, objects, "what was copied was not locked");
}
