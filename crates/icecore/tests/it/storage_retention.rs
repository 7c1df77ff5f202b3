//! Retention of a domain that lies on a storage server, on the backups of a real agent: it goes as at home, and a
//! storage server that is killed or away at any moment lets nothing go early and keeps nothing for ever.

use crate::storage_servers::{Running, Site};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::noise;
use testkit::postgres::Server;

const RULES: &str = r#"
[retention.short.class.standard]
keep_last = 1
trash = "1 second"

[policy.source]
nodes = ["web"]
paths = ["SOURCE"]
retention = "short"
"#;

/// The keys for receipts that a repository names: the storage server's own, and that of the control server.
const RECEIPTS_BYTES: u64 = 8 + 2 * 32 + 16;

/// A node whose domain lies on the storage server, with a policy.
struct Rig {
    site: Site,
    _agent: Running,
}

impl Rig {
    fn new(rules: &str) -> Self {
        Self::on(Site::new(), rules)
    }

    fn on(site: Site, rules: &str) -> Self {
        site.enroll("web", &[]);
        let file = site.machine.path("site.toml");
        std::fs::write(&file, rules.replace("SOURCE", &site.folder("source"))).unwrap();
        site.govern(&["apply", file.to_str().unwrap(), "--yes"]).ends(0);
        let _agent = site.start_agent("web");
        Self { site, _agent }
    }

    /// Backups of the policy, of new content each.
    fn back_up(&self, count: usize) {
        for _ in 0..count {
            let before = self.complete();
            self.site.machine.write("file", &noise(before as u64 + 1, 300_000));
            self.site.govern(&["start", "source"]).ends(0);
            self.site.wait_for("the backup", |_| self.complete() > before);
        }
    }

    fn complete(&self) -> usize {
        let jobs = self.site.govern(&["jobs", "--state", "complete", "--json"]).ends(0).lines();
        jobs.iter().filter(|job| job["plan"]["policy"] == "source").count()
    }

    /// What an expiry did in the domain.
    fn expire(&self) -> Value {
        let told = self.site.govern(&["expire", "--json"]).last();
        told["domains"][0].clone()
    }

    /// The same, when what lies in the trash has lain there for long enough.
    fn expire_later(&self) -> Value {
        std::thread::sleep(Duration::from_millis(2_100));
        self.expire()
    }

    fn in_state(&self, state: &str) -> Vec<String> {
        let words = ["snapshot", "list", "--state", state, "--json"];
        let list = self.site.govern(&words).ends(0).lines();
        list.iter().filter_map(|line| line["id"].as_str().map(str::to_owned)).collect()
    }

    /// Snapshots that lie on the storage server.
    fn stored(&self) -> usize {
        let folder = self.site.machine.path("disk/pool/domains/web/snapshots");
        std::fs::read_dir(folder).unwrap().count()
    }

    /// Nothing is missing that nobody removed, and what is there restores.
    fn is_whole(&self) {
        let data = self.site.folder("disk");
        self.site.machine.run(["storage", "check", "web", "--data", &data]).ends(0);
        let told = self.site.node("web", &["check", "--read-data", "--json"]).ends(0).last();
        assert_eq!(told["gaps"], 0, "what expired is signed: {told}");
        let target = self.site.machine.path("restored-web");
        let _ = std::fs::remove_dir_all(target);
        self.site.restores("web", &[]);
    }
}

fn count(told: &Value, what: &str) -> usize {
    told[what].as_array().unwrap_or_else(|| panic!("{what} in {told}")).len()
}

fn goes_as_at_home(rig: &Rig) {
    rig.back_up(3);
    assert_eq!((rig.in_state("kept").len(), rig.in_state("trash").len()), (1, 2));
    let told = rig.expire();
    assert_eq!((count(&told, "trashed"), count(&told, "expired")), (2, 0), "{told}");
    let [first, _] = &rig.in_state("trash")[..] else { panic!("two lie in the trash") };
    let back = format!("snapshot={first}");
    let hold = ["hold", "create", "case", "--set", &back, "--set", "reason=court"];
    rig.site.govern(&hold).ends(0);
    // On a busy machine some time passes until here: nothing may have gone meanwhile.
    std::thread::sleep(Duration::from_secs(20));
    let told = rig.expire();
    assert_eq!((count(&told, "undeleted"), count(&told, "expired")), (1, 1), "{told}");
    assert_eq!((rig.stored(), rig.in_state("held").len()), (2, 1));
    let names = rig.site.machine.path("disk/pool/domains/web/receipts");
    assert_eq!(std::fs::metadata(names).unwrap().len(), RECEIPTS_BYTES, "both servers are named");
    rig.is_whole();
    let audit = rig.site.govern(&["audit", "--json", "--limit", "100"]).ends(0).lines();
    let expired = audit.iter().filter(|line| line["action"] == "snapshot.expire");
    assert_eq!(expired.count(), 1);
    let shown = rig.site.govern(&["protection", "--json"]).ends(20).lines();
    let web = shown.iter().find(|line| line["node"] == "web").unwrap();
    assert!(web["snapshot"].is_string(), "it is read, not taken from what jobs said: {web}");
}

#[test]
fn retention_on_a_storage_server_goes_as_at_home() {
    goes_as_at_home(&Rig::new(&RULES.replace("1 second", "20 seconds")));
}

#[test]
fn retention_on_a_storage_server_goes_as_at_home_with_its_catalog_in_postgresql() {
    let (mut site, postgres) = (Site::new(), Server::start("retention", &[]));
    site.server = None;
    site.govern(&["catalog", "move", &postgres.database("icecore")]).ends(0);
    site.start_server();
    goes_as_at_home(&Rig::on(site, &RULES.replace("1 second", "20 seconds")));
}

#[test]
fn a_lock_on_a_storage_server_stands_above_rules_and_names() {
    let rig = Rig::new(&RULES.replace("trash =", "immutable = \"30 days\"\ntrash ="));
    rig.back_up(2);
    let locked = rig.in_state("locked");
    assert_eq!(locked.len(), 2);
    let told = rig.expire_later();
    assert_eq!((count(&told, "trashed"), rig.stored()), (0, 2), "{told}");
    let words = ["snapshot", "delete", &locked[0], "--now", "--yes"];
    let refused = rig.site.govern(&words).ends(3);
    assert!(refused.stderr.contains("locked until"), "{}", refused.stderr);
    assert_eq!(rig.stored(), 2);
}

/// While it is away nothing goes and everything else goes on; when it is back, what was due goes.
#[test]
fn a_storage_server_that_is_away_delays_its_own_domains_only() {
    let mut rig = Rig::new(RULES);
    rig.back_up(2);
    rig.expire();
    rig.site.storage.as_mut().unwrap().kill();
    let told = rig.expire_later();
    assert!(told["error"].as_str().unwrap().contains("the storage server 'disk'"), "{told}");
    assert_eq!(rig.stored(), 2);
    let begun = Instant::now();
    for _ in 0..3 {
        let words = ["retention", "change", "short", "--set", "class.standard.keep_last=1"];
        rig.site.govern(&words).ends(0);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    rig.site.start_storage();
    let told = rig.expire();
    assert_eq!((count(&told, "expired"), rig.stored()), (1, 1), "{told}");
    rig.is_whole();
}

/// `kill -9` at any moment of an expiry: what is in the trash goes then or later, what is kept stays.
#[test]
fn a_storage_server_that_is_killed_while_snapshots_expire_loses_nothing_that_is_kept() {
    let mut rig = Rig::new(RULES);
    let mut killed_before = 0;
    for after_millis in [0, 4, 8, 15, 30, 60] {
        rig.back_up(2);
        rig.expire();
        std::thread::sleep(Duration::from_millis(2_100));
        let data = rig.site.folder("data");
        let mut command = rig.site.machine.command(["server", "--data", &data, "expire"]);
        let mut expiry = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(40 + after_millis));
        rig.site.storage.as_mut().unwrap().kill();
        expiry.wait().unwrap();
        killed_before += usize::from(rig.stored() > 1);
        rig.site.start_storage();
        rig.is_whole();
    }
    let told = rig.expire_later();
    assert!(told["error"].is_null(), "{told}");
    assert_eq!((rig.stored(), rig.in_state("kept").len()), (1, 1), "{told}");
    rig.is_whole();
    eprintln!("{killed_before} of 6 were killed before all had gone");
}
