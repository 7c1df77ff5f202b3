//! Domains that move between the pools of a storage server, as one types it, while nodes use them.

use crate::server_pools::{backup, restores};
use crate::storage_servers::{Running, Site};
use crate::waiting::ended_job;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A storage server with the pool `second` beside the first one, and the node `web`, which lies in the first one.
struct Pools {
    site: Site,
    main: PathBuf,
    second: PathBuf,
}

impl Pools {
    fn new() -> Self {
        let site = Site::new();
        fs::create_dir(site.machine.path("second")).unwrap();
        site.enroll("web", &[]);
        backup(&site, "web").ends(0);
        let (data, second) = (site.folder("disk"), site.folder("second"));
        site.here(&["storage", "--data", &data, "pool", "add", "second", &second]).ends(0);
        let main = site.machine.path("disk/pool/domains");
        let second = site.machine.path("second/domains");
        Self { site, main, second }
    }

    fn is_in(&self, pool: &str) {
        let [here, there] = match pool {
            "second" => [&self.second, &self.main],
            _ => [&self.main, &self.second],
        };
        assert!(here.join("web/config").exists() && !there.join("web").exists());
        for pool in [here, there] {
            let names = fs::read_dir(pool).unwrap().map(|name| name.unwrap().file_name());
            let left: Vec<_> = names.filter(|it| it.to_string_lossy().starts_with('.')).collect();
            assert!(left.is_empty(), "{left:?}");
        }
        let notes = fs::read_dir(self.site.machine.path("disk/moves"));
        assert_eq!(notes.map_or(0, Iterator::count), 0);
    }

    fn checks(&self) {
        let data = self.site.folder("disk");
        self.site.here(&["storage", "--data", &data, "check", "web"]).ends(0);
    }

    /// A backup, and a move that waits until it ends.
    fn wait_for_a_backup(&self) -> (Running, u64) {
        // The storage server goes by the old limits of a node that was here just now.
        std::thread::sleep(Duration::from_secs(3));
        // It takes so long that heartbeats tell of the wait.
        let running = self.site.begin_backup("web");
        let job = self.site.start_move("web", &["second"]);
        self.site.move_waits(job);
        (running, job)
    }
}

#[test]
fn a_domain_of_a_storage_server_moves_with_all_that_is_in_it_and_goes_on() {
    let mut pools = Pools::new();
    let _agent = pools.site.start_agent("web");
    let job = pools.site.moves("web", "second");
    let report: Value = serde_json::from_str(job["report"].as_str().unwrap()).unwrap();
    assert!(report["files"].as_u64() > Some(10), "{job}");
    pools.is_in("second");
    restores(&pools.site, "web");
    pools.site.machine.write("more", b"more");
    backup(&pools.site, "web").ends(0);
    pools.site.restart_storage(|| {});
    restores(&pools.site, "web");
    pools.checks();
    let nothing: Value =
        serde_json::from_str(pools.site.moves("web", "second")["report"].as_str().unwrap())
            .unwrap();
    assert_eq!(nothing["files"], 0, "it lies there already");
    let job = ended_job(&pools.site.machine, pools.site.start_move("web", &["third"]));
    let why = job["error"].as_str().unwrap();
    assert!(job["state"] == "failed" && why.contains("icecore storage pool list"), "{job}");
    pools.site.moves("web", "main");
    pools.is_in("main");
    restores(&pools.site, "web");
}

#[test]
fn a_move_on_a_storage_server_waits_for_a_backup_and_can_be_cancelled() {
    let pools = Pools::new();
    let (mut backup, job) = pools.wait_for_a_backup();
    pools.site.govern(&["cancel", &job.to_string()]).ends(0);
    assert_eq!(ended_job(&pools.site.machine, job)["state"], "cancelled");
    pools.is_in("main");
    backup.kill();
    fs::remove_file(pools.site.machine.path("source/much")).unwrap();
    restores(&pools.site, "web");
}

#[test]
fn storage_and_control_servers_that_are_killed_at_any_moment_of_a_move_finish_it() {
    let mut pools = Pools::new();
    pools.site.machine.write("much", &testkit::noise(5, 24 << 20));
    backup(&pools.site, "web").ends(0);
    let mut to = "second";
    for round in 0..8 {
        let job = pools.site.start_move("web", &[to]);
        std::thread::sleep(Duration::from_millis(300 + 190 * round));
        // Dropped is killed.
        if round % 2 == 0 {
            pools.site.restart_storage(|| {});
        } else {
            pools.site.server = None;
            pools.site.start_server();
        }
        let ended = ended_job(&pools.site.machine, job);
        assert_eq!(ended["state"], "complete", "round {round}: {ended}");
        pools.is_in(to);
        restores(&pools.site, "web");
        to = if to == "second" { "main" } else { "second" };
    }
    pools.checks();
}
