//! Pools of servers in a bucket, as one types them: what lies there, who may use it, and what is left when a machine or
//! the storage is gone.

use crate::machine::{ended, random};
use crate::server_pools::{backup, restores, writes};
use crate::storage_servers::{Site, free_port};
use crate::taking_over::{Second, signal, thaws_and_is_fenced};
use crate::waiting::ended_job;
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use testkit::s3::Gateway;

/// A lease is taken when nothing was heard of its holder for so many seconds.
const QUIET_SECS: &str = "6";

fn variables() -> Vec<(&'static str, String)> {
    let quiet = ("ICECORE_S3_QUIET_SECS", QUIET_SECS.to_owned());
    Gateway::shared().variables().into_iter().chain([quiet]).collect()
}

/// A server with the pool `cloud` in a new bucket, and the address of that.
fn site() -> (Site, String) {
    let mut site = Site::alone(variables());
    site.start_server();
    let address = format!("s3://{}/pools/one", Gateway::shared().bucket());
    site.govern(&["pool", "add", "cloud", &address]).ends(0);
    (site, address)
}

fn restart(site: &mut Site) {
    site.server = None;
    site.start_server();
}

/// All files below a directory.
fn files(folder: &Path) -> Vec<String> {
    let found = ended(std::process::Command::new("find").arg(folder).args(["-type", "f"]));
    found.text().lines().map(str::to_owned).collect()
}

#[test]
fn a_domain_lies_in_the_bucket_of_its_pool_and_nowhere_else() {
    let (mut site, address) = site();
    site.machine.write("large", &random(3 << 20));
    site.enroll_in("web", &["--pool", "cloud"]);
    site.enroll_in("own", &["--pool", "cloud", "--keys", "client"]);
    site.enroll_in("disk", &[]);
    for name in ["web", "own", "disk"] {
        backup(&site, name).ends(0);
        restores(&site, name);
    }
    restart(&mut site);
    fs::remove_file(site.machine.source().join("large")).unwrap();
    for name in ["web", "own"] {
        backup(&site, name).ends(0);
        restores(&site, name);
        site.node(name, &["check", "--read-data"]).ends(0);
    }
    for name in ["web", "own"] {
        let bucket = format!("{address}/domains/{name}");
        let here = files(&site.machine.path("data/pools/cloud/domains").join(name));
        assert_eq!(here.len(), 1, "a note, and no data: {here:?}");
        assert_eq!(fs::read_to_string(&here[0]).unwrap().trim(), bucket);
        assert!(!site.machine.path("data/pool/domains").join(name).exists());
    }
    // Upkeep, on the machine and while the server runs.
    site.govern(&["check", "web"]).ends(0);
    site.govern(&["forget", "web", "--keep-last", "1", "--prune"]).ends(0);
    assert!(site.govern(&["reclaim", "web"]).ends(0).text().contains("Freed"));
    restores(&site, "web");
    let pools = site.govern(&["pool", "list", "--json"]).ends(0).lines();
    let cloud = pools.iter().find(|pool| pool["name"] == "cloud").unwrap();
    assert_eq!(cloud["path"], address.as_str());
    assert_eq!(cloud["domains"], serde_json::json!(["own", "web"]));
    assert!(cloud["free_bytes"].is_null() && cloud["fault"].is_null(), "{cloud}");
    site.wait_for("what was counted", |site| writes(site, "cloud") > 0);
}

#[test]
fn upkeep_and_copies_work_where_a_domain_lies_in_a_bucket() {
    let (site, _) = site();
    site.machine.write("large", &random(3 << 20));
    site.enroll_in("web", &["--pool", "cloud"]);
    backup(&site, "web").ends(0);
    let second = site.machine.path("second");
    fs::create_dir(&second).unwrap();
    fs::write(second.join("icecore-copies"), "").unwrap();
    let to = format!("to={}", second.display());
    let tasks = "tasks=[\"reclaim\", \"check\", \"copy\"]";
    site.govern(&["upkeep", "create", "all", "--set", tasks, "--set", &to, "--yes"]).ends(0);
    let started = site.govern(&["upkeep", "start", "all", "--json"]).ends(0).lines();
    let jobs: Vec<_> = started.iter().filter_map(|line| line["job"].as_u64()).collect();
    assert_eq!(jobs.len(), 3, "{started:?}");
    for job in jobs {
        let ended = ended_job(&site.machine, job);
        assert_eq!(ended["state"], "complete", "{ended}");
    }
    let copy = second.join("web");
    let key = site.govern(&["key", "web", "--quiet"]).ends(0).text();
    let target = site.folder("target");
    let words = ["restore", "latest", "--repo", copy.to_str().unwrap(), "--target", &target];
    ended(site.machine.command(words).env("ICECORE_PASSWORD", key.trim())).ends(0);
    let restored = format!("{target}{}/large", site.folder("source"));
    assert!(fs::read(restored).unwrap() == fs::read(site.folder("source/large")).unwrap());
}

/// Seen: somebody had deleted all objects of a domain, and nothing said so but the node's next command.
#[test]
fn a_domain_whose_objects_are_gone_from_the_bucket_is_an_alarm() {
    let (site, address) = site();
    for name in ["web", "own"] {
        site.enroll_in(name, &["--pool", "cloud"]);
        backup(&site, name).ends(0);
    }
    let faults = || {
        let status = site.govern(&["status", "--json"]).ends(0).last();
        status["domain_faults"].as_array().cloned().unwrap_or_default()
    };
    let gateway = Gateway::shared();
    let (bucket, prefix) = address.trim_start_matches("s3://").split_once('/').unwrap();
    for key in gateway.keys(bucket, &format!("{prefix}/domains/web/")) {
        assert!(gateway.ask("DELETE", &format!("{bucket}/{key}"), &[]).0 < 300, "{key}");
    }
    site.wait_for("the alarm", |_| !faults().is_empty());
    let faults = faults();
    assert!(
        faults.len() == 1 && faults[0].as_str().unwrap().contains("'web' is not in"),
        "{faults:?}"
    );
    // A new repository would hide that; and not the directory of notes is what is missing.
    let recover = format!("icecore object-lock recover --before TIME --repo {address}/domains/web");
    for word in ["check", "reclaim"] {
        let said = site.govern(&[word, "web"]).ends(10).stderr;
        assert!(said.contains(&recover) && !said.contains("icecore init"), "{word}: {said}");
    }
}

#[test]
fn a_quota_counts_what_lies_in_a_bucket() {
    let (site, _) = site();
    site.machine.write("large", &random(3 << 20));
    site.enroll_in("web", &["--pool", "cloud"]);
    site.govern(&["quota", "set", "small", "2M", "--node", "web"]).ends(0);
    let full = backup(&site, "web").ends(15);
    assert!(full.stderr.contains("the quota 'small' has no room"), "{}", full.stderr);
    site.govern(&["quota", "set", "small", "20M", "--node", "web"]).ends(0);
    std::thread::sleep(std::time::Duration::from_secs(2));
    backup(&site, "web").ends(0);
    let status = site.govern(&["quota", "status", "--json"]).ends(0).lines();
    let used = status[0]["used_bytes"].as_u64();
    assert!(used > Some(3 << 20) && used < Some(4 << 20), "{status:?}");
}

#[test]
fn a_backup_outlives_a_server_that_is_killed_with_its_pool_in_a_bucket() {
    let (mut site, _) = site();
    site.enroll_in("web", &["--pool", "cloud"]);
    let mut backup = site.begin_backup("web");
    site.server.as_mut().unwrap().kill();
    restart(&mut site);
    site.lift_limits();
    assert_eq!(backup.ends_within(180), Some(0), "{}", site.said("web"));
    site.node("web", &["check", "--read-data"]).ends(0);
    restores(&site, "web");
}

#[test]
fn a_part_of_a_bucket_is_the_pool_of_one_server_and_found_again_by_another() {
    let (site, address) = site();
    site.enroll_in("web", &["--pool", "cloud"]);
    backup(&site, "web").ends(0);
    let add = |site: &Site, name: &str, address: &str, more: &[&str]| {
        site.govern(&[&["pool", "add", name, address], more].concat())
    };
    for other in [&format!("{address}/deeper"), "s3://bad name", "s3://no-such-bucket-here/x"] {
        let refused = add(&site, "other", other, &[]);
        assert!(refused.code != 0 && !refused.stderr.contains("panicked"), "{other}: {refused:?}");
    }
    add(&site, "cloud", &address, &[]).ends(0);

    // Another server with the same master key takes it, while the first one runs and knows nothing of it.
    let mut new = with_master_key_of(&site);
    new.start_server();
    let refused = add(&new, "cloud", &address, &[]);
    assert!(refused.code != 0 && refused.stderr.contains("--accept"), "{}", refused.stderr);
    backup(&site, "web").ends(0);
    add(&new, "cloud", &address, &["--accept"]).ends(0);
    let lost = |site: &Site| {
        let pools = site.govern(&["pool", "list", "--json"]).ends(0).lines();
        let cloud = pools.into_iter().find(|pool| pool["name"] == "cloud").unwrap();
        cloud["fault"].as_str().is_some_and(|why| why.contains("another server has taken it over"))
    };
    site.wait_for("the loss of the pool", lost);
    for words in [&["backup", &site.folder("source")][..], &["snapshots"]] {
        let refused = site.node("web", words).ends(16);
        assert!(refused.stderr.contains("another server"), "{}", refused.stderr);
    }
    let refused = site.govern(&["check", "web"]);
    assert!(refused.code != 0 && refused.stderr.contains("another server"), "{}", refused.stderr);
    assert!(!lost(&new));

    let refused = new.govern(&["token", "web", "--pool", "main"]).ends(13);
    assert!(refused.stderr.contains("'cloud'"), "{}", refused.stderr);
    finds_its_snapshots_with(&site, &new);
}

/// The node `web`, which has two snapshots, goes on with another server.
fn finds_its_snapshots_with(site: &Site, new: &Site) {
    let [url, token] = new.token(&["web"]);
    site.node("web", &["agent", "enroll", "--replace", &url, &token]).ends(0);
    restores(site, "web");
    backup(site, "web").ends(0);
    let listed = site.node("web", &["snapshots", "--json"]).ends(0).lines();
    assert_eq!(listed.iter().filter(|line| line["message_type"] == "snapshot").count(), 3);
}

/// Another machine with the same master key, whose server does not run yet.
fn with_master_key_of(site: &Site) -> Site {
    let new = Site::alone(variables());
    fs::create_dir(new.machine.path("data")).unwrap();
    let key = new.machine.path("data/master.key");
    fs::copy(site.machine.path("data/master.key"), &key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    new
}

/// How a server is started whose first pool lies there.
fn with_first_pool(address: &str, more: &[&'static str]) -> &'static [&'static str] {
    let address: &'static str = address.to_owned().leak();
    [&["--pool", address], more].concat().leak()
}

fn faults(site: &Site) -> String {
    site.govern(&["pool", "list", "--json"]).ends(0).lines()[0]["fault"].to_string()
}

#[test]
fn the_first_pool_of_a_server_lies_in_a_bucket_and_is_taken_over_by_another_machine() {
    let mut site = Site::alone(variables());
    let address = format!("s3://{}/first", Gateway::shared().bucket());
    site.flags = with_first_pool(&address, &[]);
    site.start_server();
    site.machine.write("large", &random(3 << 20));
    site.enroll_in("web", &[]);
    site.enroll_in("own", &["--keys", "client"]);
    for name in ["web", "own"] {
        backup(&site, name).ends(0);
        restores(&site, name);
        let here = files(&site.machine.path("data/pool/domains").join(name));
        assert_eq!(here.len(), 1, "a note, and no data: {here:?}");
    }
    // It is remembered, whatever a later start says; and no other place is taken for it.
    site.flags = &[];
    restart(&mut site);
    backup(&site, "web").ends(0);
    site.govern(&["check", "web"]).ends(0);
    site.govern(&["reclaim", "web"]).ends(0);
    let first = site.govern(&["pool", "list", "--json"]).ends(0).lines().remove(0);
    assert_eq!((&first["name"], &first["path"]), (&"main".into(), &address.as_str().into()));
    let within = format!("{address}/deeper");
    let refused = site.govern(&["pool", "add", "other", &within]);
    assert!(refused.code != 0 && refused.stderr.contains("'main'"), "{refused:?}");
    let other = format!("s3://{}/second", Gateway::shared().bucket());
    site.govern(&["pool", "add", "other", &other]).ends(0);
    site.enroll_in("new", &[]);
    let domains = site.govern(&["pool", "list", "--json"]).ends(0).lines();
    assert_eq!(domains[0]["domains"], serde_json::json!(["new", "own", "web"]), "the first one");
    site.server = None;
    // What is not in a copy of the server's files is made again.
    fs::remove_dir_all(site.machine.path("data/pool")).unwrap();
    site.start_server();
    backup(&site, "own").ends(0);
    restores(&site, "web");
    site.server = None;
    site.flags = with_first_pool(&other, &[]);
    let refused = ended(&mut site.server_command("data")).ends(2);
    assert!(refused.stderr.contains(&format!("is {address}, and stays")), "{}", refused.stderr);
    site.flags = with_first_pool(&address, &["--take-over"]);
    restart(&mut site);

    // Another machine with the same master key.
    let mut new = with_master_key_of(&site);
    new.flags = with_first_pool(&address, &[]);
    let refused = ended(&mut new.server_command("data")).ends(2);
    assert!(refused.stderr.contains("--take-over"), "{}", refused.stderr);
    new.flags = with_first_pool(&address, &["--take-over"]);
    new.start_server();
    site.wait_for("the loss of the pool", |site| faults(site).contains("another server"));
    backup(&site, "web").ends(16);
    // Whoever lost it does not get it back by starting as before.
    site.server = None;
    let refused = ended(&mut site.server_command("data")).ends(16);
    assert!(refused.stderr.contains("another server has taken it over"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("Mount"), "a bucket is not mounted: {}", refused.stderr);
    restart(&mut new);
    assert_eq!(faults(&new), "null");
    finds_its_snapshots_with(&site, &new);
}

#[test]
fn a_bucket_that_cannot_be_reached_stops_its_own_domains_and_no_others() {
    let (mut site, _) = site();
    site.enroll_in("web", &["--pool", "cloud"]);
    site.enroll_in("other", &[]);
    backup(&site, "web").ends(0);
    let known = std::mem::take(&mut site.variables);
    let nobody = ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", free_port()));
    let missing: Vec<_> = known.iter().filter(|(name, _)| *name != nobody.0).cloned().collect();
    for variables in [[&missing[..], &[nobody]].concat(), Vec::new()] {
        site.variables = variables;
        restart(&mut site);
        backup(&site, "other").ends(0);
        restores(&site, "other");
        let refused = site.node("web", &["snapshots"]).ends(16);
        assert!(refused.stderr.contains("icecore server pool list"), "{}", refused.stderr);
        let pools = site.govern(&["pool", "list", "--json"]).ends(0).lines();
        let cloud = pools.iter().find(|pool| pool["name"] == "cloud").unwrap();
        assert!(cloud["fault"].is_string(), "{cloud}");
    }
    site.variables = known;
    restart(&mut site);
    backup(&site, "web").ends(0);
    restores(&site, "web");
}

#[test]
fn a_domain_that_was_deleted_in_its_bucket_is_removed_and_no_other() {
    let (site, address) = site();
    site.enroll_in("web", &["--pool", "cloud"]);
    backup(&site, "web").ends(0);
    site.govern(&["revoke", "web"]).ends(0);
    site.govern(&["remove", "web"]).ends(0);
    let refused = site.govern(&["remove-domain", "web"]).ends(13);
    let at = format!("{address}/domains/web");
    assert!(refused.stderr.contains(&at), "{}", refused.stderr);
    let (bucket, prefix) = at.strip_prefix("s3://").unwrap().split_once('/').unwrap();
    for key in Gateway::shared().keys(bucket, &format!("{prefix}/")) {
        assert_eq!(Gateway::shared().ask("DELETE", &format!("{bucket}/{key}"), &[]).0, 204);
    }
    site.govern(&["remove-domain", "web"]).ends(0);
    assert!(!site.machine.path("data/pools/cloud/domains/web").exists());
    site.enroll_in("again", &["--pool", "cloud", "--domain", "web"]);
    backup(&site, "again").ends(0);
}

/// The storage server of a site in a bucket, and that it can be taken over.
#[test]
fn the_bucket_of_a_frozen_storage_server_is_taken_over_and_that_one_is_fenced() {
    let mut site = Site::alone(variables());
    site.start_server();
    let address = format!("s3://{}/disk", Gateway::shared().bucket());
    site.enroll_storage("disk", &["--pool", &address]).ends(0);
    site.start_storage();
    for (node, more) in [("web", &[][..]), ("own", &["--keys", "client"])] {
        site.enroll(node, more);
        site.node(node, &["backup", &site.folder("source")]).ends(0);
    }
    let listed = site.govern(&["storage-servers", "--json"]).ends(0).lines();
    assert!(listed[0]["free_bytes"].is_null() && listed[0]["connected"] == true, "{listed:?}");
    let any = site.govern(&["token", "new", "--on", "any", "--json"]).ends(0).last();
    assert_eq!(any["storage"], "disk", "a bucket has room");
    let shown = site.here(&["pool", "show", &site.folder("disk"), "--json"]).ends(0).last();
    assert_eq!(shown["location"], address.as_str());
    let refused = site.here(&["pool", "set", "direct", &site.folder("disk")]).ends(2);
    assert!(refused.stderr.contains("lies in a bucket"), "{}", refused.stderr);
    let backup = site.begin_backup("web");
    let frozen = site.storage.take().unwrap();
    signal(&frozen, Signal::STOP);

    let refused = Second::enroll_at(&site, &address, &[]).ends(2);
    assert!(refused.stderr.contains("--take-over"), "{}", refused.stderr);
    Second::enroll_at(&site, &address, &["--take-over"]).ends(0);
    let second = Second { port: free_port() };
    let mut taken = second.start(&site);
    for node in ["own", "web"] {
        site.node(node, &["backup", &site.folder("source/folder")]).ends(0);
    }
    thaws_and_is_fenced(&site, frozen, backup);

    // What the new one remembers is damaged: as it says, its pool is accepted.
    taken.kill();
    fs::write(site.machine.path("second/pool-id"), "rubbish").unwrap();
    let refused = ended(&mut second.command(&site));
    assert!(refused.code != 0 && refused.stderr.contains("icecore pool accept"), "{refused:?}");
    site.here(&["pool", "accept", &site.folder("second")]).ends(0);
    let _again = second.start(&site);
    site.wait_for("the storage server", |site| site.node("web", &["snapshots"]).code == 0);
    site.restores("web", &[]);
}
