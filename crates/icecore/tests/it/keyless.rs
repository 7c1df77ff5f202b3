//! What the host of a server does with a domain whose keys it does not have.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, Ran, ended, length, random};
use crate::storage_servers::Site;

#[test]
fn a_domain_is_checked_and_reclaimed_without_its_keys() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["web", "--keys", "client"]);
    agent(&machine, "agent", &["enroll", &url, &token]).ends(0);
    let recovery = std::fs::read_to_string(machine.path("agent/recovery.key")).unwrap();
    let folder = machine.path("agent");
    let backup = || {
        let mut command = machine.command(["backup", machine.source().to_str().unwrap(), "--json"]);
        command.arg("--agent-dir").arg(&folder).env_remove("ICECORE_REPO");
        let told = ended(&mut command).ends(0).last();
        told["snapshot_id"].as_str().unwrap().to_owned()
    };
    machine.write("gone", &random(3 << 20));
    let first = backup();
    std::fs::remove_file(machine.source().join("gone")).unwrap();
    backup();
    let told = govern(&machine, &["check", "web", "--json"]).ends(0).last();
    assert_eq!((told["snapshots"].as_u64(), told["damaged"].as_u64()), (Some(2), Some(0)));
    let nothing = govern(&machine, &["reclaim", "web", "--max-waste", "0%", "--json"]).ends(0);
    assert_eq!(nothing.last()["dead_objects"], 0, "{}", nothing.last());

    // A snapshot whose file is lost was forgotten by nobody.
    let repository = machine.path("data/pool/domains/web");
    let files = std::fs::read_dir(repository.join("snapshots")).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    let lost = files.iter().find(|file| file.to_str().unwrap().contains(&first[..8]));
    let lost = lost.unwrap_or_else(|| panic!("{first} in {files:?}"));
    let kept = std::fs::read(lost).unwrap();
    std::fs::remove_file(lost).unwrap();
    let said = govern(&machine, &["reclaim", "web", "--max-waste", "0%"]);
    assert_ne!(said.code, 0, "{}", said.text());
    assert!(said.stderr.contains(&first[..8]), "{}", said.stderr);
    std::fs::write(lost, kept).unwrap();

    // Forgotten by who has the key; given back by who has not.
    let mut forget = machine.command(["forget", &first]);
    forget.arg("--repo").arg(&repository).env("ICECORE_PASSWORD", recovery.trim());
    ended(&mut forget).ends(0);
    let told = govern(&machine, &["reclaim", "web", "--max-waste", "0%", "--json"]).ends(0).last();
    // Whole records: what shares one with something that lives stays with it.
    assert!(told["bytes_freed"].as_u64().unwrap() > 1 << 20, "{told}");
    govern(&machine, &["check", "web"]).ends(0);
    let mut check = machine.command(["check", "--read-data"]);
    check.arg("--repo").arg(&repository).env("ICECORE_PASSWORD", recovery.trim());
    ended(&mut check).ends(0);

    // A flipped bit is found without a key.
    let shards = std::fs::read_dir(repository.join("containers")).unwrap();
    let files = shards.flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap());
    let largest = files.map(|file| file.unwrap().path()).max_by_key(|file| length(file));
    let largest = largest.unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&largest).unwrap();
    std::fs::write(&largest, bytes).unwrap();
    let told = govern(&machine, &["check", "web", "--json"]);
    assert_eq!(told.code, 14, "{}", told.text());
    let audit = govern(&machine, &["audit", "--json"]).ends(0).text();
    assert!(audit.contains("domain.reclaim") && audit.contains("domain.check"), "{audit}");
}

/// On the machine of the storage server, which runs.
fn there(site: &Site, words: &[&str]) -> Ran {
    let data = site.folder("disk");
    site.machine.run(["storage", "--data", &data].iter().chain(words).copied())
}

#[test]
fn a_domain_on_a_storage_server_is_checked_and_reclaimed_there() {
    let site = Site::new();
    site.enroll("web", &["--keys", "client"]);
    let source = site.folder("source");
    site.machine.write("gone", &random(3 << 20));
    site.node("web", &["backup", &source]).ends(0);
    std::fs::remove_file(site.machine.source().join("gone")).unwrap();
    site.node("web", &["backup", &source]).ends(0);
    // What the control server is asked says where to type it, and that is what helps.
    for word in ["check", "reclaim"] {
        let said = site.govern(&[word, "web"]).ends(2).stderr;
        let (_, typed) = said.split_once("On that machine: icecore storage ").unwrap();
        there(&site, &typed.split_whitespace().collect::<Vec<_>>()).ends(0);
    }
    let told = there(&site, &["check", "web", "--json"]).ends(0).last();
    assert_eq!((told["snapshots"].as_u64(), told["damaged"].as_u64()), (Some(2), Some(0)));
    site.govern(&["allow-forget", "web"]).ends(0);
    site.node("web", &["forget", "--keep-last", "1"]).ends(0);
    let words = ["reclaim", "web", "--max-waste", "0%", "--dry-run", "--json"];
    let told = there(&site, &words).ends(0).last();
    assert!(told["dry_run"] == true && told["bytes_freed"].as_u64().unwrap() > 1 << 20, "{told}");
    let told = there(&site, &["reclaim", "web", "--max-waste", "0%", "--json"]).ends(0).last();
    assert!(told["bytes_freed"].as_u64().unwrap() > 1 << 20, "{told}");
    there(&site, &["check", "web"]).ends(0);
    site.restores("web", &[]);
    site.node("web", &["check", "--read-data"]).ends(0);
    let said = there(&site, &["check", "nobody"]).ends(10).stderr;
    assert!(said.contains("icecore server domains"), "{said}");
}

/// Who writes has the repository, and whoever reclaims waits for it.
#[test]
fn a_reclaim_on_a_storage_server_waits_for_the_backup_that_runs() {
    let site = Site::new();
    site.enroll("web", &[]);
    let mut backup = site.begin_backup("web");
    let refused = there(&site, &["reclaim", "web"]).ends(11).stderr;
    assert!(refused.contains("--wait 10m"), "{refused}");
    there(&site, &["check", "web"]).ends(0);
    site.lift_limits();
    there(&site, &["reclaim", "web", "--wait", "2m"]).ends(0);
    assert_eq!(backup.ends_within(60), Some(0), "{}", site.said("web"));
    site.restores("web", &[]);
}
