//! A server whose catalog was restored from an older copy: what it has revoked stays revoked, and nothing expires until
//! somebody has looked.

use crate::storage_servers::{Running, Site};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use testkit::postgres::Server;

const SITE: &str = r#"
[retention.short.class.standard]
keep_last = 1
trash = "0 days"

[policy.pa]
nodes = ["a"]
paths = ["{}"]
retention = "short"
"#;

struct Older {
    site: Site,
    _agent: Running,
}

impl Older {
    /// A server with the stolen machine `d`, which has its own keys, and the node `a`, whose policy has three runs of
    /// which one is kept, and which `b` may read. Its catalog lies in its directory, or where `move_to` says.
    fn new(move_to: Option<&str>) -> Self {
        let mut site = Site::alone(Vec::new());
        site.start_server();
        if let Some(to) = move_to {
            site.server = None;
            site.govern(&["catalog", "move", to]).ends(0);
            site.start_server();
        }
        site.enroll_in("d", &["--keys", "client"]);
        ["a", "b"].iter().for_each(|node| site.enroll_in(node, &[]));
        site.govern(&["grant", "b", "a"]).ends(0);
        site.node("d", &["backup", &site.folder("source")]).ends(0);
        let file = site.folder("site.toml");
        fs::write(&file, SITE.replace("{}", &site.folder("source"))).unwrap();
        site.govern(&["apply", &file]).ends(0);
        let older = Self { _agent: site.start_agent("a"), site };
        (1..=3).for_each(|number| older.back_up(number));
        older.reads(0);
        older
    }

    fn back_up(&self, number: usize) {
        self.site.machine.write("file", format!("content {number}").as_bytes());
        self.site.govern(&["start", "pa"]).ends(0);
        self.site.wait_for("the backup", |site| {
            let jobs = site.govern(&["jobs", "--state", "complete", "--json"]).ends(0).lines();
            jobs.iter().filter(|job| job["plan"]["policy"] == "pa").count() >= number
        });
    }

    /// What the catalog is not to forget.
    fn change(&self) {
        self.hold("case-17");
        self.site.govern(&["revoke", "d"]).ends(0);
        self.is_out();
        self.site.govern(&["ungrant", "b", "a"]).ends(0);
        self.reads(13);
        self.expires(0, 0);
    }

    /// Whoever was granted the domain of `a` asks what is in it.
    fn reads(&self, code: i32) -> String {
        self.site.node("b", &["snapshots", "--domain", "a"]).ends(code).stderr
    }

    fn hold(&self, name: &str) {
        let words = ["hold", "create", name, "--set", "node=a", "--set", "reason=court"];
        self.site.govern(&words).ends(0);
    }

    /// The stolen machine reads nothing, and adds nothing.
    fn is_out(&self) {
        let (source, target) = (self.site.folder("source"), self.site.folder("target"));
        for words in
            [&["snapshots"][..], &["restore", "latest", "--target", &target], &["backup", &source]]
        {
            let refused = self.site.node("d", words).ends(13);
            assert!(refused.stderr.contains("the node 'd' is revoked"), "{}", refused.stderr);
        }
    }

    /// Lets expire twice, what goes into the trash goes with the second one: how that ends, and what is left of three.
    fn expires(&self, code: i32, gone: usize) {
        for _ in 0..2 {
            self.site.govern(&["expire"]).ends(code);
        }
        let list = self.site.govern(&["snapshots", "a", "--json"]).ends(0).lines();
        assert_eq!(list.len(), 3 - gone + 1, "with a sum: {list:?}");
    }

    fn alarms(&self) -> Vec<String> {
        let text = self.site.govern(&["status"]).ends(0).text();
        text.lines().filter(|line| line.contains("ALARM")).map(str::to_owned).collect()
    }

    /// The catalog is an older one now.
    fn is_in_doubt(&self) {
        self.is_out();
        self.expires(3, 0);
        let told = self.site.govern(&["expire"]).ends(3);
        assert!(
            told.stderr.contains("nothing expires while the catalog is older"),
            "{}",
            told.stderr
        );
        let forget = ["forget", "a", "--keep-last", "1"];
        let kept = self.site.govern(&forget).ends(0).text();
        assert!(kept.contains("nothing is deleted while the catalog is older"), "{kept}");
        self.site.govern(&["forget", "a", "latest"]).ends(13);
        let refused = self.reads(13);
        assert!(refused.contains("the catalog is older than what"), "{refused}");
        assert!(refused.contains("icecore server catalog confirm"), "{refused}");
        let [alarm] = &self.alarms()[..] else { panic!("{:?}", self.alarms()) };
        assert!(alarm.contains("it lacks ") && alarm.contains(" until 2"), "{alarm}");
        assert!(alarm.contains("icecore server catalog confirm"), "{alarm}");
        assert_eq!(self.site.govern(&["hold", "list", "--json"]).ends(0).lines().len(), 1, "a sum");
    }

    fn confirm(&self) -> Value {
        let done = self.site.govern(&["catalog", "confirm", "--json"]).ends(0).last();
        assert_eq!(self.alarms(), [""; 0]);
        done
    }
}

/// The files of the catalog in the directory of a server: SQLite has several.
fn files(site: &Site) -> Vec<PathBuf> {
    let names = fs::read_dir(site.machine.path("data")).unwrap();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("catalog.sqlite") && !name.ends_with("lock")
    };
    names.map(|entry| entry.unwrap().path()).filter(is_it).collect()
}

/// Copies the catalog of a server that it stops for that.
pub(crate) fn copy(site: &mut Site) {
    site.server = None;
    let copy = site.machine.path("copy");
    fs::create_dir(&copy).unwrap();
    for file in files(site) {
        fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    site.start_server();
}

/// The copy is the catalog again.
pub(crate) fn put_back(site: &mut Site) {
    site.server = None;
    files(site).iter().for_each(|file| fs::remove_file(file).unwrap());
    for entry in fs::read_dir(site.machine.path("copy")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), site.machine.path("data").join(entry.file_name())).unwrap();
    }
    site.start_server();
}

#[test]
fn an_older_copy_of_the_catalog_lets_nobody_in_and_nothing_go() {
    let mut older = Older::new(None);
    copy(&mut older.site);
    older.change();
    put_back(&mut older.site);
    older.is_in_doubt();
    // The same after another start, when the catalog has more entries.
    older.site.server = None;
    older.site.start_server();
    older.is_in_doubt();
    let nodes = older.site.govern(&["nodes", "--json"]).ends(0).lines();
    assert!(nodes.iter().any(|node| node["name"] == "d" && node["revoked"] == true), "{nodes:?}");

    // The hold is made again, and holds. Without it, expiry goes on.
    older.hold("case-17");
    let done = older.confirm();
    assert_eq!(done["ended"].as_array().unwrap().len(), 1, "{done}");
    older.expires(0, 0);
    older.site.govern(&["hold", "remove", "case-17", "--yes"]).ends(0);
    older.expires(0, 2);
    older.is_out();
    let audit = older.site.govern(&["audit", "--json"]).ends(0).lines();
    assert!(audit.iter().any(|entry| entry["action"] == "catalog.confirm"));
    // The machine comes back by a token alone.
    let [url, token] = older.site.token(&["d", "--keys", "client"]);
    older.site.node("d", &["agent", "enroll", "--replace", &url, &token]).ends(0);
    older.site.node("d", &["snapshots"]).ends(0);
}

/// A database is restored under a running server, too.
#[test]
fn a_database_that_is_restored_lets_nobody_in_and_nothing_go() {
    let postgres = Server::start("older", &[]);
    let to = postgres.database("icecore");
    let mut older = Older::new(Some(&to));
    let restore = |from: &str, to: &str| {
        let drop = format!("DROP DATABASE IF EXISTS {to} WITH (FORCE)");
        postgres.client().batch_execute(&drop).unwrap();
        postgres.client().batch_execute(&format!("CREATE DATABASE {to} TEMPLATE {from}")).unwrap();
    };
    older.site.server = None;
    restore("icecore", "dump");
    older.site.start_server();
    older.change();
    restore("dump", "icecore");
    older.site.wait_for("the alarm", |site| {
        let status = site.govern(&["status"]);
        status.code == 0 && status.text().contains("ALARM")
    });
    older.is_in_doubt();
    older.site.server = None;
    restore("dump", "icecore");
    older.site.start_server();
    older.is_in_doubt();
    older.confirm();
    older.expires(0, 2);
    older.is_out();
}

/// A list of the revoked that is damaged lets nobody in, and says what ends that.
#[test]
fn without_the_list_of_the_revoked_nobody_comes_in() {
    let mut site = Site::alone(Vec::new());
    site.start_server();
    for node in ["d", "good"] {
        site.enroll_in(node, &["--keys", "client"]);
        site.node(node, &["backup", &site.folder("source")]).ends(0);
    }
    site.govern(&["revoke", "d"]).ends(0);
    site.server = None;
    let list = site.machine.path("data/revoked");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, &text[..text.len() - 9]).unwrap();
    site.start_server();
    let refused = site.node("good", &["snapshots"]).ends(13);
    assert!(refused.stderr.contains("the server admits nobody"), "{}", refused.stderr);
    assert!(refused.stderr.contains("icecore server status"), "{}", refused.stderr);
    let status = site.govern(&["status"]).ends(0).text();
    assert!(status.contains("revoked is damaged") && status.contains("ALARM"), "{status}");
    site.govern(&["catalog", "confirm"]).ends(0);
    site.node("good", &["snapshots"]).ends(0);
    site.node("d", &["snapshots"]).ends(13);
}

/// Gives the node `a` a restore to `target`: its number.
fn order(site: &Site, target: &str) -> Value {
    let words = ["restore", "a", "--snapshot", "latest", "--target", target, "--json"];
    site.govern(&words).ends(0).last()["id"].clone()
}

fn command(site: &Site, id: &Value) -> Value {
    let commands = site.govern(&["commands", "--json"]).ends(0).lines();
    commands.into_iter().find(|command| command["id"] == *id).unwrap()
}

fn is_done(site: &Site, id: &Value) {
    site.wait_for("the restore", |site| command(site, id)["state"] == "done");
}

fn file_below(folder: &Path) -> Option<PathBuf> {
    let mut paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.find_map(|path| match path.is_dir() {
        true => file_below(&path),
        false => (path.file_name()? == "file").then_some(path),
    })
}

/// An agent that started since has forgotten what it did, and would restore over what was edited.
#[test]
fn a_restore_that_was_done_is_not_done_again_by_an_older_catalog() {
    let mut site = Site::alone(Vec::new());
    site.start_server();
    site.enroll_in("a", &[]);
    let allowed = site.folder("allowed");
    fs::create_dir(&allowed).unwrap();
    fs::set_permissions(&allowed, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = |site: &Site| {
        let running = site.start_agent("a");
        let file = site.machine.path("a/allow.toml");
        fs::write(&file, format!("restore_below = [{allowed:?}]\n")).unwrap();
        running
    };
    site.machine.write("file", b"as it was");
    site.node("a", &["backup", &site.folder("source")]).ends(0);
    let first = order(&site, &format!("{allowed}/first"));
    copy(&mut site);
    let running = agent(&site);
    is_done(&site, &first);
    let restored = file_below(allowed.as_ref()).unwrap();
    fs::write(&restored, "edited since").unwrap();
    drop(running);
    put_back(&mut site);
    let _running = agent(&site);
    // Commands are done in their order.
    let other = order(&site, &format!("{allowed}/other"));
    is_done(&site, &other);
    assert_eq!(fs::read_to_string(&restored).unwrap(), "edited since");
    let ended = command(&site, &first);
    assert_eq!(ended["state"], "failed", "{ended}");
    assert!(ended["message"].as_str().unwrap().contains("order it again"), "{ended}");
}
