//! Domains that move from pool to pool, as one types it, while nodes use them.

use crate::machine::ended;
use crate::server_pools::{add, backup, restores};
use crate::storage_servers::{Running, Site};
use crate::waiting::ended_job;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server with the pool `fast` beside the first one, and the node `web`, of which something is stored in that.
struct Pools {
    site: Site,
    main: PathBuf,
    fast: PathBuf,
}

impl Pools {
    fn new(more: &[&str]) -> Self {
        let site = Site::new();
        let fast = add(&site, "fast").join("domains");
        let main = site.machine.path("data/pool/domains");
        site.enroll_in("web", &[&["--pool", "main"], more].concat());
        backup(&site, "web").ends(0);
        Self { site, main, fast }
    }

    /// A backup, and a move that waits until it ends.
    fn wait_for_a_backup(&self) -> (Running, u64) {
        let running = self.site.begin_backup("web");
        let job = self.site.start_move("web", &["fast"]);
        self.site.move_waits(job);
        (running, job)
    }

    fn is_in(&self, pool: &str) {
        let [here, there] =
            if pool == "fast" { [&self.fast, &self.main] } else { [&self.main, &self.fast] };
        assert!(here.join("web/config").exists() && !there.join("web").exists());
        let left = |pool: &PathBuf| {
            let names =
                fs::read_dir(pool).into_iter().flatten().map(|name| name.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with('.')).count()
        };
        assert_eq!((left(here), left(there)), (0, 0), "nothing is left beside it");
        let domains = self.site.govern(&["domains", "--json"]).ends(0).lines();
        let web = domains.iter().find(|domain| domain["name"] == "web").unwrap();
        assert_eq!(web["pool"], pool);
    }

    /// The snapshots that the node sees.
    fn snapshots(&self) -> usize {
        let listed = self.site.node("web", &["snapshots", "--json"]).ends(0).lines();
        listed.iter().filter(|line| line["message_type"] == "snapshot").count()
    }
}

#[test]
fn a_domain_moves_with_all_that_is_in_it_and_goes_on() {
    for keys in ["managed", "client"] {
        let mut pools = Pools::new(&["--keys", keys]);
        let _agent = pools.site.start_agent("web");
        pools.site.machine.write("more", b"more");
        backup(&pools.site, "web").ends(0);
        let job = pools.site.moves("web", "fast");
        let report: Value = serde_json::from_str(job["report"].as_str().unwrap()).unwrap();
        assert!(report["files"].as_u64() > Some(10), "{job}");
        pools.is_in("fast");
        assert_eq!(pools.snapshots(), 2);
        restores(&pools.site, "web");
        backup(&pools.site, "web").ends(0);
        pools.site.govern(&["check", "web"]).ends(0);
        pools.site.server = None;
        pools.site.start_server();
        assert_eq!(pools.snapshots(), 3);
        let again = pools.site.govern(&["pool", "move", "web", "fast"]).ends(13);
        assert!(again.stderr.contains("lies in the pool 'fast' already"), "{}", again.stderr);
        pools.site.moves("web", "main");
        pools.is_in("main");
        restores(&pools.site, "web");
        let audit = pools.site.govern(&["audit"]).ends(0).text();
        assert!(audit.contains("from main to fast") && audit.contains("from fast to main"));
    }
}

/// From then on it stores elsewhere, and reads what it had where that lies.
#[test]
fn one_node_of_a_shared_domain_goes_to_another_pool_and_keeps_what_it_had() {
    let site = Site::new();
    let fast = add(&site, "fast").join("domains");
    for node in ["web", "db"] {
        site.enroll_in(node, &["--domain", "team", "--pool", "main"]);
        backup(&site, node).ends(0);
    }
    let [url, token] = site.token(&["web", "--domain", "web", "--pool", "fast"]);
    site.node("web", &["agent", "enroll", "--replace", &url, &token]).ends(0);
    site.machine.write("more", b"more");
    backup(&site, "web").ends(0);
    assert!(fast.join("web/config").exists());
    let own = site.node("web", &["snapshots", "--json"]).ends(0).lines();
    assert_eq!(own.iter().filter(|line| line["message_type"] == "snapshot").count(), 1);

    let old = ["snapshots", "--domain", "team", "--json"];
    site.node("web", &old).ends(13);
    site.govern(&["grant", "web", "team"]).ends(0);
    let all = site.node("web", &old).ends(0).lines();
    let before = all.iter().find(|line| line["node"] == "web").unwrap();
    let (id, target) = (before["snapshot_id"].as_str().unwrap(), site.folder("before"));
    let restored = site.node("web", &["restore", id, "--domain", "team", "--target", &target]);
    restored.ends(0);
    let source = site.machine.path("before").join(&site.folder("source")[1..]);
    assert!(source.join("hello.txt").exists() && !source.join("more").exists());
    backup(&site, "db").ends(0);
    restores(&site, "db");
}

#[test]
fn a_move_waits_for_a_backup_that_runs() {
    let pools = Pools::new(&[]);
    let (mut running, job) = pools.wait_for_a_backup();
    assert!(pools.main.join("web").exists());
    let words = ["pool", "move", "web", "fast"];
    assert!(pools.site.govern(&words).ends(2).stderr.contains("waits or runs already"));
    pools.site.lift_limits();
    assert!(running.0.wait().unwrap().success(), "{}", pools.site.said("web"));
    assert_eq!(ended_job(&pools.site.machine, job)["state"], "complete");
    pools.is_in("fast");
    restores(&pools.site, "web");
}

#[test]
fn a_move_that_interrupts_ends_a_backup_which_begins_again_by_itself() {
    let pools = Pools::new(&[]);
    let mut running = pools.site.begin_backup("web");
    let job = pools.site.start_move("web", &["fast", "--interrupt"]);
    assert_eq!(ended_job(&pools.site.machine, job)["state"], "complete");
    assert!(running.0.try_wait().unwrap().is_none(), "it goes on: {}", pools.site.said("web"));
    pools.is_in("fast");
    pools.site.lift_limits();
    assert!(running.0.wait().unwrap().success(), "{}", pools.site.said("web"));
    assert!(pools.site.said("web").contains("data that is already stored is not sent again"));
    assert_eq!(pools.snapshots(), 2);
    restores(&pools.site, "web");
}

#[test]
fn a_restore_goes_on_behind_a_move_that_interrupts_it() {
    let pools = Pools::new(&[]);
    pools.site.machine.write("much", &testkit::noise(5, 16 << 20));
    backup(&pools.site, "web").ends(0);
    // Slow enough that it is not over before a busy machine has moved the domain; then the limit goes.
    pools.site.govern(&["limit", "add", "--node", "web", "--down", "512K"]).ends(0);
    let target = pools.site.folder("slowly");
    let mut command =
        pools.site.node_command("web", &["restore", "latest", "--target", &target, "--json"]);
    let mut restore = Running(command.stdout(Stdio::null()).spawn().unwrap());
    pools.site.wait_for("the restore", |site| {
        let jobs = site.govern(&["sessions", "--json"]).ends(0).lines();
        jobs.iter().any(|job| job["kind"] == "restore")
    });
    std::thread::sleep(Duration::from_secs(1));
    let job = pools.site.start_move("web", &["fast", "--interrupt"]);
    assert_eq!(ended_job(&pools.site.machine, job)["state"], "complete");
    assert!(restore.0.try_wait().unwrap().is_none(), "it goes on");
    pools.is_in("fast");
    pools.site.lift_limits();
    assert!(restore.0.wait().unwrap().success());
    let source = pools.site.folder("source");
    let same = ended(Command::new("diff").args(["-r", &format!("{target}{source}"), &source]));
    assert_eq!(same.code, 0, "{}", same.text());
}

#[test]
fn a_move_that_waits_can_be_cancelled() {
    let pools = Pools::new(&[]);
    let (mut running, job) = pools.wait_for_a_backup();
    pools.site.govern(&["cancel", &job.to_string()]).ends(0);
    assert_eq!(ended_job(&pools.site.machine, job)["state"], "cancelled");
    pools.site.lift_limits();
    assert!(running.0.wait().unwrap().success(), "{}", pools.site.said("web"));
    pools.is_in("main");
    restores(&pools.site, "web");
}

#[test]
fn what_cannot_be_moved_is_refused_and_the_hint_helps() {
    let pools = Pools::new(&[]);
    let refused = |words: &[&str], code: i32| pools.site.govern(words).ends(code).stderr;
    for words in [["web", "none"], ["none", "fast"]] {
        let text = refused(&[&["pool", "move"][..], &words].concat(), 1);
        assert!(text.contains("none"), "{text}");
    }
    pools.site.enroll("away", &[]);
    // It lies on a storage server, which knows its own pools only.
    let job = ended_job(&pools.site.machine, pools.site.start_move("away", &["fast"]));
    let why = job["error"].as_str().unwrap();
    assert!(job["state"] == "failed" && why.contains("icecore storage pool list"), "{job}");
    pools.site.govern(&["pool", "state", "fast", "draining"]).ends(0);
    let text = refused(&["pool", "move", "web", "fast"], 13);
    assert!(text.contains("takes no domains"), "{text}");
    assert!(text.contains("icecore server pool state fast online"), "{text}");
    pools.site.govern(&["pool", "state", "fast", "online"]).ends(0);
    pools.site.govern(&["pool", "state", "main", "read-only"]).ends(0);
    let text = refused(&["pool", "move", "web", "fast"], 13);
    assert!(text.contains("icecore server pool state main draining"), "{text}");
    pools.site.govern(&["pool", "state", "main", "draining"]).ends(0);
    pools.site.moves("web", "fast");
    pools.is_in("fast");
}

#[test]
fn a_server_that_is_killed_at_any_moment_of_a_move_finishes_it() {
    let mut pools = Pools::new(&[]);
    pools.site.machine.write("much", &testkit::noise(5, 24 << 20));
    backup(&pools.site, "web").ends(0);
    let mut to = "fast";
    for round in 0..8 {
        let job = pools.site.start_move("web", &[to]);
        std::thread::sleep(Duration::from_millis(40 + 35 * round));
        // Dropped is killed.
        pools.site.server = None;
        pools.site.start_server();
        let ended = ended_job(&pools.site.machine, job);
        assert_eq!(ended["state"], "complete", "round {round}: {ended}");
        pools.is_in(to);
        restores(&pools.site, "web");
        to = if to == "fast" { "main" } else { "fast" };
    }
    pools.site.govern(&["check", "web"]).ends(0);
}
