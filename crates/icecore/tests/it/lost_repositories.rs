//! Repositories that were there and are lost, wherever the domain lies and whoever has its keys.

use crate::storage_servers::Site;
use std::fs;

/// Seen: only the protection showed it. The status was clean, the domain had "no snapshots yet", and the next node of
/// the domain made another repository in the place of the lost one.
#[test]
fn a_repository_that_is_lost_is_missed_and_no_other_takes_its_place() {
    let mut site = Site::new();
    let source = site.folder("source");
    site.enroll_in("own", &["--keys", "client"]);
    site.enroll("away", &["--keys", "client"]);
    site.enroll("held", &[]);
    let back_up = |site: &Site, node: &str| site.node(node, &["backup", &source]).ends(0);
    for node in ["own", "away", "held"] {
        back_up(&site, node);
    }
    let looks_again = |site: &mut Site| {
        site.server = None;
        site.start_server();
        site.wait_for("the storage server", |site| site.knows_storage_at(site.storage_port));
    };
    looks_again(&mut site);
    site.wait_for("the repositories", |site| {
        let domains = site.govern(&["domains", "--json"]).ends(0).lines();
        let listed = domains.iter().filter(|line| line["message_type"] == "domain");
        listed.filter(|domain| domain["repository"].is_string()).count() == 3
    });

    let places = [("data", "own"), ("disk", "away"), ("disk", "held")]
        .map(|(data, domain)| site.machine.path(data).join("pool/domains").join(domain));
    let aside = |place: &std::path::Path| {
        site.machine.path("").join(place.file_name().unwrap()).with_extension("aside")
    };
    let asides = places.each_ref().map(|place| aside(place));
    places.iter().zip(&asides).for_each(|(place, aside)| fs::rename(place, aside).unwrap());
    looks_again(&mut site);
    let faults = |site: &Site| {
        let status = site.govern(&["status", "--json"]).ends(0).last();
        status["domain_faults"].as_array().map_or(0, Vec::len)
    };
    site.wait_for("three alarms", |site| faults(site) == 3);
    for domain in ["own", "away", "held"] {
        let told = site.govern(&["snapshots", domain]);
        assert!(told.code != 0, "{domain}: {}", told.text());
        let node = format!("next-{domain}");
        let keys: &[&str] = if domain == "held" { &[] } else { &["--keys", "client"] };
        let words = [&["token", &node, "--domain", domain][..], keys].concat();
        let token = site.govern(&words);
        if token.code == 0 {
            let text = token.text();
            let words: Vec<_> = text.lines().last().unwrap().split(' ').collect();
            let told = site.node(&node, &["agent", "enroll", words[3], words[4]]);
            let told = if told.code == 0 { site.node(&node, &["backup", &source]) } else { told };
            assert!(told.code != 0, "{domain}: {}", told.text());
        }
    }
    assert!(places.iter().all(|place| !place.join("config").exists()));

    for (place, aside) in places.iter().zip(&asides) {
        let _ = fs::remove_dir_all(place);
        fs::rename(aside, place).unwrap();
    }
    looks_again(&mut site);
    site.wait_for("no alarm", |site| faults(site) == 0);
    for node in ["own", "away", "held"] {
        back_up(&site, node);
        assert_eq!(site.node(node, &["check", "--read-data"]).code, 0, "{node}");
    }
}
