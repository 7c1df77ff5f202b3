//! Privacy, parity and deduplication of domains of a server: what was asked for is what is made, or nothing is.

use crate::administration::{agent, govern, start, token};
use crate::machine::{Machine, Ran, ended, random};
use crate::storage_servers::Site;
use std::fs;

/// A command on the node whose folder is `folder`.
pub(crate) fn node(machine: &Machine, folder: &str, words: &[&str]) -> Ran {
    let mut command = machine.command(words);
    ended(command.env_remove("ICECORE_REPO").env("ICECORE_AGENT_DIR", machine.path(folder)))
}

/// Privacy and parity in the file `config` of the repository of a domain.
fn stored(machine: &Machine, domain: &str) -> (u8, u8) {
    let config = fs::read(machine.path("data/pool/domains").join(domain).join("config")).unwrap();
    (config[48], config[25])
}

fn comes_back(machine: &Machine, folder: &str, target: &str) {
    let target = machine.path(target);
    let words = ["restore", "latest", "--verify", "--target", target.to_str().unwrap()];
    node(machine, folder, &words).ends(0);
    let below = target.join(machine.source().strip_prefix("/").unwrap());
    for name in ["hello.txt", "folder/large", "noise"] {
        let source = fs::read(machine.source().join(name)).unwrap();
        assert!(fs::read(below.join(name)).unwrap() == source, "{name}");
    }
}

#[test]
fn a_domain_is_made_as_the_token_says_and_shows_it() {
    let machine = Machine::bare();
    machine.write("noise", &random(2_000_000));
    let _server = start(&machine);
    let source = machine.source();
    for keys in ["managed", "client"] {
        let words = [keys, "--keys", keys, "--privacy", "hardened", "--parity", "3"];
        let [url, token] = token(&machine, &words);
        let enroll = ["enroll", &url, &token, "--privacy", "hardened", "--json"];
        let told = agent(&machine, keys, &enroll).ends(0).last();
        assert_eq!((&told["privacy"], &told["parity_percent"]), (&"hardened".into(), &3.into()));
        node(&machine, keys, &["backup", source.to_str().unwrap()]).ends(0);
        assert_eq!(stored(&machine, keys), (2, 3));
        comes_back(&machine, keys, &format!("{keys}-target"));
        let stats = node(&machine, keys, &["stats", "--json"]).ends(0).last();
        assert_eq!((&stats["privacy"], &stats["parity_percent"]), (&"hardened".into(), &3.into()));
        let stats = node(&machine, keys, &["stats"]).ends(0).text();
        assert!(stats.contains("privacy: hardened; 3 % parity"), "{stats}");
    }
    let domains = govern(&machine, &["domains", "--json"]).ends(0).lines();
    for domain in &domains[..2] {
        assert_eq!(
            (&domain["privacy"], &domain["parity_percent"]),
            (&"hardened".into(), &3.into()),
            "{domain}"
        );
    }
    let text = govern(&machine, &["domains"]).ends(0).text();
    assert_eq!(text.matches("hardened     3 %").count(), 2, "{text}");
}

#[test]
fn a_domain_on_a_storage_server_is_made_as_the_token_says() {
    let site = Site::new();
    site.machine.write("noise", &random(500_000));
    for (node, keys) in [("web", "managed"), ("own", "client")] {
        site.enroll(node, &["--keys", keys, "--privacy", "hardened", "--parity", "3"]);
        site.node(node, &["backup", &site.folder("source")]).ends(0);
        site.restores(node, &["--verify"]);
        let config = site.machine.path("disk/pool/domains").join(node).join("config");
        let config = fs::read(config).unwrap();
        assert_eq!((config[48], config[25]), (2, 3), "{node}");
        // As a node that would make another one than the control server wants.
        if keys == "client" {
            fs::remove_dir_all(site.machine.path("disk/pool/domains/own")).unwrap();
            let file = site.machine.path("own/agent.toml");
            let text = fs::read_to_string(&file).unwrap().replace("\"hardened\"", "\"standard\"");
            let lines = text.lines().filter(|line| !line.starts_with("repository"));
            fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
            let refused = site.node(node, &["backup", &site.folder("source")]).ends(13);
            assert!(
                refused.stderr.contains("privacy, parity and deduplication"),
                "{}",
                refused.stderr
            );
        }
    }
}

/// Bytes that a backup sent.
fn sent(ran: Ran) -> u64 {
    ran.ends(0).last()["report"]["bytes_transferred"].as_u64().unwrap()
}

#[test]
fn in_a_domain_without_deduplication_each_backup_is_stored_as_a_whole() {
    let site = Site::new();
    site.machine.write("noise", &random(500_000));
    let places = [("here", &[][..]), ("there", &["--on", "disk"][..])];
    for (place, on) in places {
        for keys in ["managed", "client"] {
            let name = format!("{place}-{keys}");
            let words = [&["--keys", keys, "--dedup", "off"], on].concat();
            site.enroll_in(&name, &words);
            let backup = || site.node(&name, &["backup", &site.folder("source"), "--json"]);
            let [first, second] = [sent(backup()), sent(backup())];
            assert!(first > 500_000 && second > 500_000, "{name}: {first}, then {second}");
            site.restores(&name, &["--verify"]);
            let again =
                site.node(&name, &["backup", &site.folder("source"), "--skip-if-unchanged"]);
            assert!(again.ends(0).stderr.contains("stored as a whole"), "{name}");
            site.node(&name, &["check", "--read-data"]).ends(0);
        }
    }
    let domains = site.govern(&["domains", "--json"]).ends(0).lines();
    assert!(domains[..4].iter().all(|domain| domain["dedup"] == "off"), "{domains:?}");
    let refused = site.govern(&["token", "x", "--domain", "here-client", "--dedup", "on"]);
    assert!(refused.ends(2).stderr.contains("deduplication off, and that cannot be changed"));
}

#[test]
fn a_domain_that_is_there_keeps_its_privacy() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, first] = token(&machine, &["web"]);
    agent(&machine, "web", &["enroll", &url, &first]).ends(0);
    assert_eq!(stored(&machine, "web"), (1, 0));
    let words = ["token", "db", "--domain", "web", "--privacy", "hardened"];
    let refused = govern(&machine, &words).ends(2);
    assert!(
        refused.stderr.contains("has standard privacy, 0 % parity and deduplication on"),
        "{}",
        refused.stderr
    );
    let refused = govern(&machine, &["token", "db", "--domain", "web", "--parity", "3"]).ends(2);
    assert!(refused.stderr.contains("cannot be changed"), "{}", refused.stderr);
    // Two tokens for one domain, before it is there: the first machine makes it.
    let [_, hard] = token(&machine, &["one", "--domain", "team", "--privacy", "hardened"]);
    let [_, soft] = token(&machine, &["two", "--domain", "team", "--privacy", "standard"]);
    let [_, any] = token(&machine, &["three", "--domain", "team"]);
    agent(&machine, "one", &["enroll", &url, &hard]).ends(0);
    agent(&machine, "two", &["enroll", &url, &soft]).ends(2);
    agent(&machine, "three", &["enroll", &url, &any]).ends(0);
}

#[test]
fn a_machine_that_asks_for_hardened_becomes_no_node_of_less() {
    let machine = Machine::bare();
    let _server = start(&machine);
    for keys in ["managed", "client"] {
        let [url, token] = token(&machine, &[keys, "--keys", keys]);
        let words = ["enroll", &url, &token, "--privacy", "hardened"];
        let refused = agent(&machine, keys, &words).ends(2);
        assert!(refused.stderr.contains("has standard privacy"), "{}", refused.stderr);
        let advice = format!("icecore server token {keys} --privacy hardened\n");
        assert!(refused.stderr.contains(&advice), "{}", refused.stderr);
        agent(&machine, keys, &["status"]).ends(1);
        // The token was not used: who puts up with it comes in.
        agent(&machine, keys, &["enroll", &url, &token]).ends(0);
        let [_, again] = crate::administration::token(&machine, &[keys]);
        let words = ["enroll", "--replace", &url, &again, "--privacy", "hardened"];
        let refused = agent(&machine, keys, &words).ends(2);
        let advice = format!("icecore server token {keys} --privacy hardened --domain NAME");
        assert!(refused.stderr.contains(&advice), "{}", refused.stderr);
        let words = [keys, "--privacy", "hardened", "--domain", &format!("{keys}-2")];
        let [_, hard] = crate::administration::token(&machine, &words);
        let words = ["enroll", "--replace", &url, &hard, "--privacy", "hardened"];
        agent(&machine, keys, &words).ends(0);
    }
}

#[test]
fn a_repository_with_less_privacy_than_was_told_is_not_used() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let source = machine.source();
    for keys in ["managed", "client"] {
        let [url, token] = token(&machine, &[keys, "--keys", keys]);
        agent(&machine, keys, &["enroll", &url, &token]).ends(0);
        // As if the server had told one thing and made another.
        let file = machine.path(keys).join("agent.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("\"standard\"", "\"hardened\"")).unwrap();
        let refused = node(&machine, keys, &["backup", source.to_str().unwrap()]).ends(14);
        assert!(refused.stderr.contains("nothing was stored"), "{}", refused.stderr);
        fs::write(&file, &text).unwrap();
        node(&machine, keys, &["backup", source.to_str().unwrap()]).ends(0);
    }
}

#[test]
fn a_node_makes_no_other_repository_than_its_domain_must_have() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["own", "--keys", "client", "--privacy", "hardened"]);
    agent(&machine, "own", &["enroll", &url, &token]).ends(0);
    fs::rename(machine.path("data/pool/domains/own"), machine.path("elsewhere")).unwrap();
    // As a node that was told otherwise, or tells itself otherwise.
    let file = machine.path("own/agent.toml");
    let text = fs::read_to_string(&file).unwrap().replace("\"hardened\"", "\"standard\"");
    let lines = text.lines().filter(|line| !line.starts_with("repository"));
    fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let source = machine.source();
    let refused = node(&machine, "own", &["backup", source.to_str().unwrap()]).ends(13);
    assert!(refused.stderr.contains("privacy, parity and deduplication"), "{}", refused.stderr);
    assert!(!machine.path("data/pool/domains/own/config").exists());
}

#[test]
fn a_repository_that_is_gone_is_not_made_again_and_its_recovery_key_stays() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, token] = token(&machine, &["own", "--keys", "client"]);
    agent(&machine, "own", &["enroll", &url, &token]).ends(0);
    let recovery = fs::read(machine.path("own/recovery.key")).unwrap();
    fs::rename(machine.path("data/pool/domains/own"), machine.path("elsewhere")).unwrap();
    let source = machine.source();
    node(&machine, "own", &["backup", source.to_str().unwrap()]).ends(10);
    assert_eq!(fs::read(machine.path("own/recovery.key")).unwrap(), recovery);
    assert!(!machine.path("data/pool/domains/own/config").exists());
    fs::rename(machine.path("elsewhere"), machine.path("data/pool/domains/own")).unwrap();
    node(&machine, "own", &["backup", source.to_str().unwrap()]).ends(0);
}

/// Review finding S17: it stayed on the disk of the node, next to what it opens.
#[test]
fn a_recovery_key_is_put_away_once_a_copy_of_it_is_shown() {
    let machine = Machine::bare();
    let _server = start(&machine);
    let [url, first] = token(&machine, &["own", "--keys", "client", "--write-only"]);
    let told = agent(&machine, "own", &["enroll", &url, &first]).ends(0).text();
    let file = machine.path("own/recovery.key");
    let key = fs::read_to_string(&file).unwrap();
    assert!(told.contains(&key) && told.contains("agent recovery --put-away"), "{told}");
    let status = agent(&machine, "own", &["status"]).ends(0);
    assert!(status.stderr.contains("is still in"), "{}", status.stderr);
    let holds = || {
        agent(&machine, "own", &["status", "--json"]).ends(0).last()["holds_recovery_key"].clone()
    };
    assert_eq!(holds(), true);
    let shown = agent(&machine, "own", &["recovery"]).ends(0);
    assert_eq!(shown.text(), format!("{key}\n"));
    let copy = machine.path("copy");
    let put_away = ["recovery", "--put-away", "--copy", copy.to_str().unwrap()];
    let other = crypto::recovery_to_text(&[7; 32]);
    for wrong in ["", "no key", &other, &key[1..]] {
        fs::write(&copy, wrong).unwrap();
        let refused = agent(&machine, "own", &put_away).ends(12);
        assert!(refused.stderr.contains("nothing was removed"), "{}", refused.stderr);
        assert!(file.exists());
    }
    // As somebody types it from paper.
    fs::write(&copy, key.to_lowercase().replace('-', " ")).unwrap();
    agent(&machine, "own", &put_away).ends(0);
    assert!(!file.exists());
    assert_eq!(holds(), false);
    assert_eq!(agent(&machine, "own", &["status"]).ends(0).stderr, "");
    let gone = agent(&machine, "own", &["recovery"]).ends(1);
    assert!(gone.stderr.contains("It was put away"), "{}", gone.stderr);
    node(&machine, "own", &["backup", machine.source().to_str().unwrap()]).ends(0);
    // The copy opens what it is for.
    let repository = machine.path("data/pool/domains/own");
    let words = ["check", "--read-data", "--repo", repository.to_str().unwrap()];
    ended(machine.command(words).env("ICECORE_PASSWORD", fs::read_to_string(&copy).unwrap()))
        .ends(0);
    let [_, managed] = token(&machine, &["managed"]);
    agent(&machine, "managed", &["enroll", &url, &managed]).ends(0);
    agent(&machine, "managed", &["recovery"]).ends(1);
}
