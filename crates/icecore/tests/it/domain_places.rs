//! Domains that go to another server: their repositories are copied there, and then the server is told.

mod poor_copies;

use crate::machine::{Ran, random};
use crate::older_catalog;
use crate::storage_servers::{Running, Site, free_port};
use std::path::Path;
use std::time::Duration;

/// A site with two storage servers.
struct Two {
    site: Site,
    later: Option<Running>,
}

impl Two {
    fn new() -> Self {
        let site = Site::new();
        let [url, token] = site.token(&["later", "--storage"]);
        let data = site.folder("later");
        let words = ["storage", "--data", &data, "enroll", &url, &token, "--name", "127.0.0.2"];
        site.here(&words).ends(0);
        let listen = format!("127.0.0.2:{}", free_port());
        let words = ["storage", "--data", &data, "--listen", &listen];
        let later = Some(Running::start(site.machine.command(words), "storing "));
        site.wait_for("the second storage server", |site| {
            let all = site.govern(&["storage-servers", "--json"]).ends(0).lines();
            all.iter().any(|one| one["name"] == "later" && one["connected"] == true)
        });
        Self { site, later }
    }

    fn domain(&self, place: &str, name: &str) -> String {
        self.site.folder(&format!("{place}/pool/domains/{name}"))
    }

    fn copy(&self, name: &str, from: &str, to: &str) {
        let (from, to) = (self.domain(from, name), self.domain(to, name));
        self.site.here(&["copy", "--repo", &from, "--to", &to]).ends(0);
    }

    fn place(&self, name: &str, more: &[&str]) -> Ran {
        self.site.govern(&[&["place-domain", name], more].concat())
    }

    fn refuses(&self, name: &str, more: &[&str], why: &str) {
        let refused = self.place(name, more);
        assert!(refused.code != 0 && refused.stderr.contains(why), "{why}: {refused:?}");
    }

    /// Changes something, and backs it up.
    fn backup(&self, node: &str, text: &str) {
        self.site.machine.write("changes", text.as_bytes());
        self.site.node(node, &["backup", &self.site.folder("source")]).ends(0);
    }

    /// Snapshots that lie in a place.
    fn count(&self, place: &str, name: &str) -> usize {
        std::fs::read_dir(Path::new(&self.domain(place, name)).join("snapshots")).unwrap().count()
    }
}

#[test]
fn a_domain_goes_to_another_storage_server_once_all_of_it_is_there() {
    let two = Two::new();
    two.site.enroll("web", &[]);
    two.backup("web", "one");
    two.refuses("web", &["--on", "later"], "the domain 'web' is not on the storage server 'later'");
    two.refuses("web", &["--on", "disk"], "already");
    two.refuses("web", &["--on", "nobody"], "nobody");
    two.copy("web", "disk", "later");
    two.backup("web", "two");
    two.refuses("web", &["--on", "later"], "lacks 1 snapshot");
    two.refuses("web", &["--on", "later", "--lost"], "is not lost");
    two.copy("web", "disk", "later");
    two.site.enroll("other", &[]);
    two.backup("other", "one");
    let (other, web) = (two.domain("disk", "other"), two.domain("later", "web"));
    std::fs::rename(&web, format!("{web}.away")).unwrap();
    two.site.here(&["copy", "--repo", &other, "--to", &web]).ends(0);
    two.refuses("web", &["--on", "later"], "another repository");
    std::fs::remove_dir_all(&web).unwrap();
    std::fs::rename(format!("{web}.away"), &web).unwrap();

    two.place("web", &["--on", "later"]).ends(0);
    let audit = two.site.govern(&["audit"]).ends(0).text();
    assert!(audit.contains("domain.place") && audit.contains("from disk to later"), "{audit}");
    two.backup("web", "three");
    assert_eq!([two.count("disk", "web"), two.count("later", "web")], [2, 3]);
    two.site.restores("web", &[]);
    two.site.node("web", &["check"]).ends(0);
    // The old one is of no use any more, and in nobody's way.
    std::fs::remove_dir_all(two.domain("disk", "web")).unwrap();
    two.backup("web", "four");
    // And back, with what is new.
    two.copy("web", "later", "disk");
    two.place("web", &["--on", "disk"]).ends(0);
    two.backup("web", "five");
    two.site.restores("web", &[]);
}

#[test]
fn a_domain_goes_nowhere_while_it_is_used_or_with_other_keys() {
    let two = Two::new();
    two.site.enroll("own", &["--keys", "client"]);
    two.backup("own", "one");
    two.copy("own", "disk", "later");
    two.site.wait_for("the first job", |site| {
        site.govern(&["jobs", "--state", "complete", "--json"]).ends(0).last()["count"] == 1
    });
    two.site.machine.write("much", &random(16 << 20));
    let words = ["backup", &two.site.folder("source"), "--limit-read", "1M"];
    let mut backup = Running(two.site.node_command("own", &words).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(500));
    two.refuses("own", &["--on", "later"], "a job uses the domain 'own'");
    assert_eq!(backup.ends_within(60), Some(0));
    two.copy("own", "disk", "later");
    // Its keys change with each node.
    two.site.enroll("web", &[]);
    two.backup("web", "one");
    two.copy("web", "disk", "later");
    two.site.enroll_in("more", &["--domain", "web"]);
    two.refuses("web", &["--on", "later"], "other keys");
    two.copy("web", "disk", "later");
    two.place("web", &["--on", "later"]).ends(0);
    two.backup("more", "two");
    two.place("own", &["--on", "later"]).ends(0);
    two.backup("own", "two");
    two.site.restores("own", &[]);
}

/// The catalog sends nodes to the old place again: what they stored there would be in neither of the two histories.
#[test]
fn a_domain_in_two_places_takes_nothing_while_the_catalog_is_older() {
    let mut two = Two::new();
    two.site.enroll("web", &[]);
    two.site.enroll_in("own", &[]);
    let places = [("web", "disk"), ("own", "data")];
    for (name, from) in places {
        two.backup(name, "one");
        two.copy(name, from, "later");
    }
    older_catalog::copy(&mut two.site);
    for (name, _) in places {
        two.place(name, &["--on", "later"]).ends(0);
        two.backup(name, "two");
    }
    older_catalog::put_back(&mut two.site);
    let source = two.site.folder("source");
    for (name, from) in places {
        let refused = two.site.node(name, &["backup", &source]).ends(13).stderr;
        let here = if from == "disk" { "the storage server 'disk'" } else { "this server" };
        for told in [here, "the storage server 'later'", "place-domain", "catalog confirm"] {
            assert!(refused.contains(told), "{told}: {refused}");
        }
        assert_eq!(two.count(from, name), 1);
    }
    two.site.node("own", &["snapshots"]).ends(0);
    for (name, _) in places {
        two.place(name, &["--on", "later"]).ends(0);
    }
    two.site.govern(&["catalog", "confirm"]).ends(0);
    for (name, _) in places {
        two.backup(name, "three");
        assert_eq!(two.count("later", name), 3);
    }
    two.later = None;
}

#[test]
fn a_domain_whose_storage_server_is_lost_goes_on_from_its_copy_on_the_server() {
    let mut two = Two::new();
    two.site.enroll("web", &[]);
    two.backup("web", "one");
    let (from, copy) = (two.domain("disk", "web"), two.site.folder("copy"));
    two.site.here(&["copy", "--repo", &from, "--to", &copy]).ends(0);
    two.backup("web", "two");
    // Nobody has asked for snapshots: the server knows them from its jobs.
    two.site.wait_for("the ends of both jobs", |site| {
        let ended = ["jobs", "--kind", "backup", "--state", "complete", "--json"];
        site.govern(&ended).ends(0).last()["count"] == 2
    });
    two.site.storage = None;
    std::fs::remove_dir_all(two.site.folder("disk")).unwrap();
    two.refuses("web", &["--here"], "the domain 'web' is not on this server");
    two.site.here(&["copy", "--repo", &copy, "--to", &two.domain("data", "web")]).ends(0);
    let placed = two.place("web", &["--here", "--lost", "--json"]).ends(0).last();
    assert_eq!(placed["missing"], 1, "{placed}");
    two.backup("web", "three");
    two.site.restores("web", &[]);
    two.later = None;
}
