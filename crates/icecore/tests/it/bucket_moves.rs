//! Domains that move into a bucket, out of it, and to another one, as one types it, while nodes use them.

use crate::machine::random;
use crate::server_pools::{add, backup, restores};
use crate::storage_servers::Site;
use crate::waiting::ended_job;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
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
        let quiet = ("ICECORE_S3_QUIET_SECS", QUIET_SECS.to_owned());
        let variables = Gateway::shared().variables().into_iter().chain([quiet]).collect();
        let mut site = Site::alone(variables);
        site.start_server();
        add(&site, "disk");
        let pools = Self { site, bucket: Gateway::shared().bucket() };
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

    /// Starts a move, and returns its job.
    fn start(&self, domain: &str, words: &[&str]) -> u64 {
        let words = [&["pool", "move", domain], words, &["--json"]].concat();
        self.site.govern(&words).ends(0).last()["job"].as_u64().unwrap()
    }

    fn moves(&self, domain: &str, pool: &str) -> Value {
        let job = ended_job(&self.site.machine, self.start(domain, &[pool]));
        assert_eq!(job["state"], "complete", "{job}");
        job
    }

    /// The objects of a domain in the pool `pool`.
    fn objects(&self, pool: &str, domain: &str) -> Vec<PathBuf> {
        let place = Gateway::shared().objects(&self.bucket).join(pool).join("domains").join(domain);
        let found = std::process::Command::new("find").arg(place).args(["-type", "f"]).output();
        let found = String::from_utf8(found.unwrap().stdout).unwrap();
        found.lines().map(PathBuf::from).collect()
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
            assert_eq!(self.objects("cloud", domain), [""; 0].map(PathBuf::from));
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
            let job = pools.moves("web", to);
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
