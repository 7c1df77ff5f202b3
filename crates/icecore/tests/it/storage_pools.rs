//! A storage server with several pools: where domains lie, and what happens while a pool is not there.

use crate::machine::Ran;
use crate::server_pools::{backup, restores};
use crate::storage_servers::{Running, Site, free_port};
use std::fs;

fn pool(site: &Site, words: &[&str]) -> Ran {
    site.here(&[&["storage", "--data", &site.folder("disk"), "pool"], words].concat())
}

/// The names of the domains in a pool, and why it cannot be used.
fn listed(site: &Site, name: &str) -> (Vec<String>, Option<String>) {
    let pools = pool(site, &["list", "--json"]).ends(0).lines();
    let found = pools.iter().find(|pool| pool["name"] == name).unwrap();
    let domains = found["domains"].as_array().unwrap().iter();
    let domains = domains.map(|domain| domain.as_str().unwrap().to_owned()).collect();
    (domains, found["fault"].as_str().map(str::to_owned))
}

/// A storage server that runs, with the further pool `second`; the domain `web` lies in it, and `db` in the first one.
fn site() -> Site {
    let mut site = Site::new();
    fs::create_dir(site.machine.path("second")).unwrap();
    for node in ["web", "db"] {
        site.enroll(node, &[]);
        backup(&site, node).ends(0);
    }
    pool(&site, &["add", "second", &site.folder("second")]).ends(0);
    let here = site.machine.path("disk/pool/domains/web");
    let there = site.machine.path("second/domains/web");
    site.restart_storage(|| fs::rename(here, there).unwrap());
    site
}

/// The storage server runs on a machine that has its files in `data`, and the server has heard of it.
fn start_at(site: &mut Site, data: &str) {
    site.storage_port = free_port();
    let listen = format!("127.0.0.1:{}", site.storage_port);
    let command = site.machine.command(["storage", "--data", data, "--listen", &listen]);
    site.storage = Some(Running::start(command, "storing "));
    site.wait_for("the next machine", |site| site.knows_storage_at(site.storage_port));
}

#[test]
fn a_domain_is_found_in_the_pool_in_which_it_lies() {
    let site = site();
    assert_eq!(listed(&site, "main"), (vec!["db".to_owned()], None));
    assert_eq!(listed(&site, "second"), (vec!["web".to_owned()], None));
    for node in ["web", "db"] {
        site.machine.write("more", node.as_bytes());
        backup(&site, node).ends(0);
        restores(&site, node);
        site.node(node, &["check", "--read-data"]).ends(0);
        site.here(&["storage", "--data", &site.folder("disk"), "check", node]).ends(0);
        assert!(site.govern(&["snapshots", node, "--json"]).ends(0).lines().len() > 2);
    }
    assert!(!site.machine.path("disk/pool/domains/web").exists());
    // A new one needs no command but its token.
    site.enroll("new", &[]);
    backup(&site, "new").ends(0);
    let both = [listed(&site, "main").0, listed(&site, "second").0].concat();
    assert_eq!(both.iter().filter(|domain| *domain == "new").count(), 1, "{both:?}");
}

#[test]
fn while_a_pool_is_away_its_domains_wait_and_none_is_made_elsewhere() {
    let site = site();
    let (second, away) = (site.machine.path("second"), site.machine.path("away"));
    fs::rename(&second, &away).unwrap();
    fs::create_dir(&second).unwrap();
    assert!(listed(&site, "second").1.is_some());
    // Whoever looks at the control server learns of it.
    site.wait_for("the alarm", |site| {
        let shown = site.govern(&["storage-servers"]).ends(0);
        let told =
            shown.stderr.contains("icecore storage pool list") && shown.stderr.contains("'second'");
        shown.text().contains("ALARM") && told
    });
    assert!(site.govern(&["status"]).ends(0).text().contains("ALARM        1 machine"));
    for _ in 0..2 {
        site.node("web", &["snapshots"]).ends(16);
        assert!(site.node("web", &["backup", &site.folder("source")]).code != 0);
    }
    let [url, token] = site.token(&["new", "--on", "disk"]);
    let enroll = ["agent", "enroll", &url, &token];
    site.node("new", &enroll).ends(16);
    backup(&site, "db").ends(0);
    restores(&site, "db");
    assert_eq!(fs::read_dir(&second).unwrap().count(), 0, "nothing lands below the mount point");
    for name in ["web", "new"] {
        assert!(!site.machine.path("disk/pool/domains").join(name).exists(), "{name}");
    }
    let refused = site.node("web", &["snapshots"]).ends(16).stderr;
    assert!(refused.contains("icecore storage pool list"), "{refused}");
    fs::remove_dir(&second).unwrap();
    fs::rename(&away, &second).unwrap();
    site.wait_for("the end of the alarm", |site| {
        !site.govern(&["status"]).ends(0).text().contains("ALARM")
    });
    site.node("new", &enroll).ends(0);
    for node in ["web", "new"] {
        backup(&site, node).ends(0);
        restores(&site, node);
    }
}

#[test]
fn a_further_pool_of_a_machine_that_is_gone_is_used_by_the_next_one() {
    let mut site = site();
    site.storage = None;
    site.enroll_storage("spare", &[]).ends(0);
    let (spare, second) = (site.folder("spare"), site.folder("second"));
    let add = ["storage", "--data", &spare, "pool", "add", "second", &second];
    assert!(site.here(&add).ends(2).stderr.contains("--accept"));
    site.here(&[&add[..], &["--accept"]].concat()).ends(0);
    start_at(&mut site, &spare);
    backup(&site, "web").ends(0);
    restores(&site, "web");
    site.node("web", &["check", "--read-data"]).ends(0);
}

#[test]
fn the_further_pools_of_a_first_one_that_was_taken_over_are_missed_until_they_are_added() {
    let mut site = Site::with_pool("shared");
    site.start_storage();
    fs::create_dir(site.machine.path("second")).unwrap();
    site.enroll("web", &[]);
    backup(&site, "web").ends(0);
    pool(&site, &["add", "second", &site.folder("second")]).ends(0);
    let here = site.machine.path("shared/domains/web");
    let there = site.machine.path("second/domains/web");
    site.restart_storage(|| fs::rename(here, there).unwrap());
    backup(&site, "web").ends(0);
    site.storage = None;
    let shared = site.folder("shared");
    let enrolled = site.enroll_storage("spare", &["--pool", &shared, "--take-over"]).ends(0);
    assert!(enrolled.text().contains("icecore storage pool add second DIR"), "{}", enrolled.text());
    let spare = site.folder("spare");
    start_at(&mut site, &spare);
    // Nothing is lost, and nobody is told to begin anew.
    let refused = backup(&site, "web");
    assert!(!refused.stderr.contains("remove-domain") && refused.code == 16, "{refused:?}");
    site.wait_for("the alarm", |site| {
        site.govern(&["status"]).ends(0).text().contains("ALARM        1 machine")
    });
    site.govern(&["remove", "web"]).ends(0);
    site.govern(&["remove-domain", "web"]).ends(16);
    site.govern(&["remove-domain", "web", "--lost"]).ends(16);
    let second = site.folder("second");
    site.here(&["storage", "--data", &spare, "pool", "add", "second", &second]).ends(0);
    assert!(!site.here(&["storage", "--data", &spare, "status"]).text().contains("ALARM"));
    site.enroll_in("new", &["--domain", "web"]);
    backup(&site, "new").ends(0);
    restores(&site, "new");
    site.node("new", &["check", "--read-data"]).ends(0);
}

/// Its first pool went with the machine, so that nobody knows of the further one.
#[test]
fn the_keys_of_a_domain_that_a_storage_server_does_not_know_stay_until_somebody_says_lost() {
    let mut site = site();
    site.storage = None;
    site.enroll_storage("spare", &[]).ends(0);
    let spare = site.folder("spare");
    start_at(&mut site, &spare);
    site.govern(&["remove", "db"]).ends(0);
    let refused = site.govern(&["remove-domain", "db"]).ends(13).stderr;
    assert!(refused.contains("icecore storage pool list"), "{refused}");
    assert!(refused.contains("icecore server remove-domain db --lost"), "{refused}");
    site.govern(&["key", "web"]).ends(0);
    site.govern(&["remove-domain", "db", "--lost"]).ends(0);
}

#[test]
fn the_pools_of_a_storage_server_are_used_for_what_their_states_say() {
    let site = site();
    let set = |name: &str, state: &str| pool(&site, &["state", name, state]).ends(0).text();
    assert!(set("second", "read-only").contains("read-only"));
    restores(&site, "web");
    let refused = backup(&site, "web");
    assert!(
        refused.code != 0 && refused.stderr.contains("pool state second online"),
        "{refused:?}"
    );
    backup(&site, "db").ends(0);
    let here = |word: &str| site.here(&["storage", "--data", &site.folder("disk"), word, "web"]);
    assert!(here("reclaim").ends(13).stderr.contains("icecore storage pool state second online"));
    here("check").ends(0);
    set("second", "offline");
    let refused = site.node("web", &["snapshots"]);
    assert!(refused.code != 0 && refused.stderr.contains("offline"), "{refused:?}");
    restores(&site, "db");
    set("main", "draining");
    set("second", "draining");
    let [url, token] = site.token(&["new", "--on", "disk"]);
    let enroll = ["agent", "enroll", &url, &token];
    let refused = site.node("new", &enroll);
    assert!(refused.code != 0 && refused.stderr.contains("takes new domains"), "{refused:?}");
    backup(&site, "web").ends(0);
    set("second", "online");
    site.node("new", &enroll).ends(0);
    backup(&site, "new").ends(0);
    assert_eq!(listed(&site, "second").0, ["new", "web"]);
    let refused = pool(&site, &["state", "third", "online"]).ends(2);
    assert!(refused.stderr.contains("icecore storage pool list"), "{}", refused.stderr);
}

#[test]
fn a_pool_that_is_lost_is_removed_and_its_nodes_begin_anew() {
    let site = site();
    let refused = pool(&site, &["remove", "second"]).ends(2);
    assert!(refused.stderr.contains("it has domains"), "{}", refused.stderr);
    pool(&site, &["remove", "main"]).ends(2);
    fs::remove_dir_all(site.machine.path("second")).unwrap();
    site.node("web", &["snapshots"]).ends(16);
    let refused = pool(&site, &["remove", "second"]).ends(2);
    assert!(refused.stderr.contains("--lost"), "{}", refused.stderr);
    pool(&site, &["remove", "second", "--lost"]).ends(0);
    site.enroll("new", &[]);
    backup(&site, "new").ends(0);
    // As the error says.
    let refused = backup(&site, "web").ends(10).stderr;
    for words in [&["remove", "web"][..], &["remove-domain", "web", "--lost"]] {
        assert!(refused.contains(&words.join(" ")), "{refused}");
        site.govern(words).ends(0);
    }
    let [url, token] = site.token(&["web", "--on", "disk"]);
    site.node("web", &["agent", "enroll", "--replace", &url, &token]).ends(0);
    backup(&site, "web").ends(0);
    restores(&site, "web");
}

#[test]
fn what_is_no_pool_of_this_machine_is_refused() {
    let site = site();
    let add = |words: &[&str]| pool(&site, &[&["add"], words].concat());
    let refused = add(&["cloud", "s3://bucket/pool"]).ends(2);
    assert!(refused.stderr.contains("icecore storage enroll --pool"), "{}", refused.stderr);
    assert!(add(&["main", &site.folder("second")]).ends(2).stderr.contains("another name"));
    add(&["third", &site.folder("missing")]).ends(2);
    // The pool of another server, and one that lies within another one.
    let other = site.folder("data/pool");
    assert!(add(&["third", &other]).ends(2).stderr.contains("--accept"));
    add(&["third", &site.folder("second/domains")]).ends(2);
    let nobody = site.here(&["storage", "--data", &site.folder("none"), "pool", "list"]).ends(2);
    assert!(nobody.stderr.contains("icecore storage enroll"), "{}", nobody.stderr);
    // A domain in two pools is used by nobody.
    let copy = std::process::Command::new("cp")
        .arg("-a")
        .arg(site.machine.path("second/domains/web"))
        .arg(site.machine.path("disk/pool/domains/web"))
        .status();
    assert!(copy.unwrap().success());
    let refused = site.node("web", &["snapshots"]);
    assert!(refused.code != 0 && refused.stderr.contains("two pools"), "{}", refused.stderr);
}
