//! Cold storage classes, as a user meets them: a bucket that gives content back only after somebody has asked for it.
//!
//! No storage here has such classes: a proxy in front of one keeps them (`testkit/src/cold.rs`).

use crate::machine::{Machine, Ran, ended, random};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::cold::ColdStorage;
use testkit::s3::Gateway;

/// Nobody waits for that.
const HOURS: Duration = Duration::from_secs(5 * 3600);
const ARCHIVED: i32 = 21;

/// Content that differs from that of other numbers.
fn other(number: u8) -> Vec<u8> {
    random(2 << 20).into_iter().map(|byte| byte ^ number).collect()
}

/// A machine whose repository is in a bucket with cold classes.
struct Bucket {
    machine: Machine,
    cold: ColdStorage,
    name: String,
}

impl Bucket {
    fn bare(takes: Duration) -> Self {
        let cold = ColdStorage::start(Gateway::shared(), takes);
        Self { machine: Machine::bare(), cold, name: Gateway::shared().bucket() }
    }

    /// With a repository whose content goes into `class`.
    fn of(class: &str, takes: Duration) -> Self {
        let bucket = Self::bare(takes);
        bucket.run(&["init", "--storage-class", class]).ends(0);
        bucket
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(arguments);
        let address = format!("s3://{}/some/prefix", self.name);
        command.env("ICECORE_REPO", address).envs(self.cold.variables());
        command.env("ICECORE_S3_POLL_MILLIS", "50").env("ICECORE_S3_QUIET_SECS", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        ended(&mut self.command(arguments))
    }

    fn backup(&self) -> String {
        let source = self.machine.source();
        let ran = self.run(&["backup", "--json", source.to_str().unwrap()]).ends(0);
        ran.last()["snapshot_id"].as_str().unwrap().to_owned()
    }

    /// The classes of what is not in the standard class, by name in the repository.
    fn classes(&self) -> BTreeMap<String, String> {
        let prefix = format!("{}/some/prefix/", self.name);
        let named = self.cold.classes(&prefix).into_iter();
        named.map(|(key, class)| (key[prefix.len()..].to_owned(), class)).collect()
    }

    /// The names of all containers.
    fn containers(&self) -> Vec<String> {
        let folder = Gateway::shared().objects(&self.name).join("some/prefix/containers");
        let shards = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        let files = shards.filter(|it| it.is_dir()).flat_map(|it| std::fs::read_dir(it).unwrap());
        let name = |path: std::path::PathBuf| {
            let parts: Vec<_> = path.components().rev().take(3).collect();
            let parts = parts.iter().rev().map(|part| part.as_os_str().to_str().unwrap());
            parts.collect::<Vec<_>>().join("/")
        };
        let mut names: Vec<_> = files.map(|file| name(file.unwrap().path())).collect();
        names.sort();
        names
    }

    /// As a rule of the bucket does it.
    fn moves(&self, name: &str, class: &str) {
        self.cold.moves(&format!("{}/some/prefix/{name}", self.name), class);
    }

    /// Whether the last restore has brought what the source has.
    fn is_restored(&self) {
        let source = self.machine.source();
        let restored = self.machine.path("target").join(source.strip_prefix("/").unwrap());
        let same = Command::new("diff").arg("-r").arg(&source).arg(restored).status().unwrap();
        assert!(same.success());
    }

    fn restore(&self, more: &[&str]) -> Ran {
        let target = self.machine.path("target");
        let words = [&["restore", "latest", "--target", target.to_str().unwrap()], more].concat();
        self.run(&words)
    }
}

#[test]
fn content_goes_into_the_cold_class_and_comes_back_when_it_is_asked_for() {
    let bucket = Bucket::of("DEEP_ARCHIVE", HOURS);
    bucket.machine.write("large", &random(3 << 20));
    bucket.backup();
    let classes = bucket.classes();
    assert!(!classes.is_empty(), "content is cold");
    assert!(classes.keys().all(|name| name.starts_with("containers/")), "{classes:?}");
    assert!(bucket.containers().len() > classes.len(), "trees lie in containers of their own");
    // What no restore reads works as before.
    bucket.backup();
    bucket.run(&["ls", "latest"]).ends(0);
    bucket.run(&["find", "large"]).ends(0);
    bucket.run(&["snapshots"]).ends(0);

    let refused = bucket.restore(&[]).ends(ARCHIVED);
    assert!(refused.stderr.contains("archived (DEEP_ARCHIVE)"), "{}", refused.stderr);
    assert!(refused.stderr.contains("icecore restore SNAPSHOT --plan"), "{}", refused.stderr);

    let plan = ["restore", "latest", "--plan", "--json", "--price-gb", "bulk=1024"];
    let planned = bucket.run(&[&plan[..], &["--price-request", "1000"]].concat()).ends(0).last();
    assert_eq!(planned["to_bring_back"]["containers"], planned["containers"], "{planned}");
    assert_eq!(planned["containers"], classes.len(), "{planned}");
    let tiers = planned["tiers"].as_array().unwrap();
    assert_eq!((&tiers[0]["tier"], &tiers[1]["tier"]), (&"standard".into(), &"bulk".into()));
    assert_eq!(
        (&tiers[1]["takes"], &tiers[1]["takes_from"]),
        (&"within 48 hours".into(), &"AWS".into())
    );
    let gib = planned["container_bytes"].as_f64().unwrap() / 1024.0 / 1024.0 / 1024.0;
    let price = gib * 1024.0 + classes.len() as f64;
    assert!((tiers[1]["price"].as_f64().unwrap() - price).abs() < 1e-6, "{planned}");
    assert_eq!(bucket.cold.asked(), [], "a plan asks for nothing");

    let deep = bucket.run(&["restore", "latest", "--bring-back", "--tier", "expedited"]).ends(2);
    assert!(deep.stderr.contains("DEEP_ARCHIVE gives nothing back"), "{}", deep.stderr);
    let asked = ["restore", "latest", "--bring-back", "--tier", "bulk", "--days", "3", "--json"];
    let first = bucket.run(&asked).ends(0).last();
    assert_eq!((&first["asked"], &first["under_way"]), (&classes.len().into(), &0.into()));
    let said = bucket.cold.asked();
    assert!(
        said.iter()
            .all(|(_, body)| body.contains("<Tier>Bulk</Tier>") && body.contains("<Days>3</Days>"))
    );
    let again = bucket.run(&asked).ends(0).last();
    assert_eq!((&again["asked"], &again["under_way"]), (&0.into(), &classes.len().into()));
    assert_eq!(bucket.cold.asked().len(), said.len(), "what is under way is not asked for again");
    bucket.restore(&[]).ends(ARCHIVED);

    bucket.cold.expire(); // as if nobody had asked
    bucket.cold.takes(Duration::ZERO);
    bucket.run(&asked).ends(0);
    let planned = bucket.run(&plan[..3]).ends(0).text();
    assert!(planned.contains("brought back, until Fri, 21 Dec 2040"), "{planned}");
    bucket.restore(&["--verify"]).ends(0);
    bucket.is_restored();
    bucket.cold.expire();
    let _ = std::fs::remove_dir_all(bucket.machine.path("target"));
    bucket.restore(&[]).ends(ARCHIVED);
}

#[test]
fn who_waits_gets_it_as_soon_as_it_is_there() {
    let bucket = Bucket::of("GLACIER", Duration::from_millis(1500));
    bucket.machine.write("large", &random(3 << 20));
    bucket.backup();
    let nowhere = bucket.run(&["restore", "latest", "--bring-back", "--wait"]).ends(2);
    assert!(nowhere.stderr.contains("--target DIR"), "{}", nowhere.stderr);
    let begun = Instant::now();
    let ran = bucket.restore(&["--bring-back", "--wait", "--tier", "expedited"]).ends(0);
    assert!(begun.elapsed() >= Duration::from_millis(1000), "{}", ran.text());
    assert!(ran.stderr.contains("waiting for containers/"), "{}", ran.stderr);
    assert!(ran.text().contains("1 to 5 minutes, as AWS publishes"), "{}", ran.text());
    bucket.is_restored();
}

#[test]
fn nothing_is_asked_for_that_was_not_chosen() {
    let bucket = Bucket::of("GLACIER", Duration::ZERO);
    bucket.machine.write("large", &random(3 << 20));
    bucket.backup();
    bucket.restore(&["--bring-back", "--wait", "--include", "no-such-file"]).ends(1);
    bucket.run(&["restore", "latest", "--bring-back", "--include", "hello.txt"]).ends(0);
    assert!(bucket.cold.asked().len() <= 1, "one small file");
    let large = bucket.run(&["restore", "latest", "--plan", "--exclude", "large"]).ends(0).text();
    assert!(large.contains("--exclude large"), "{large}");
}

#[test]
fn a_check_calls_nothing_lost_that_is_archived() {
    let bucket = Bucket::of("DEEP_ARCHIVE", HOURS);
    bucket.machine.write("large", &random(3 << 20));
    bucket.backup();
    let plain = bucket.run(&["check", "--json"]).ends(0).last();
    let cold = bucket.classes().len();
    assert_eq!(
        (&plain["containers_cold"], &plain["containers_archived"]),
        (&cold.into(), &0.into())
    );
    assert_eq!(plain["damages"], serde_json::json!([]));
    let read = bucket.run(&["check", "--read-data"]).ends(3);
    assert!(read.text().contains(&format!("archived {cold} container")), "{}", read.text());
    assert!(read.text().contains("No damage found"), "{}", read.text());
    bucket.run(&["check", "--repair"]).ends(3);
    // It is missed if it is gone.
    let gone = bucket.classes().into_keys().next().unwrap();
    let key = format!("{}/some/prefix/{gone}", bucket.name);
    assert_eq!(Gateway::shared().ask("DELETE", &key, &[]).0, 204);
    bucket.cold.loses(&key);
    bucket.run(&["check"]).ends(14);
}

#[test]
fn what_a_rule_of_the_bucket_moved_is_archived_and_not_lost() {
    let bucket = Bucket::bare(Duration::ZERO);
    bucket.run(&["init"]).ends(0);
    bucket.machine.write("large", &random(3 << 20));
    let snapshot = bucket.backup();
    bucket.containers().iter().for_each(|name| bucket.moves(name, "GLACIER"));
    let target = bucket.machine.path("target");
    for words in [
        &["restore", "latest", "--target", target.to_str().unwrap()][..],
        &["check"],
        &["check", "--repair"],
        &["rebuild"],
        &["restore", "latest", "--plan"],
        &["dump", "latest"],
    ] {
        let refused = bucket.run(words).ends(ARCHIVED);
        assert!(refused.stderr.contains("archived (GLACIER)"), "{words:?}: {}", refused.stderr);
    }
    bucket.run(&["forget", &snapshot]).ends(0);
    let before = bucket.containers();
    for words in [&["reclaim"][..], &["reclaim", "--accept-damage"]] {
        bucket.run(words).ends(ARCHIVED);
    }
    let left = bucket.containers();
    assert!(before.iter().all(|name| left.contains(name)), "nobody knows what they hold");
}

/// A tombstone that nobody can read is no sign that a snapshot was lost.
#[test]
fn a_check_misses_no_snapshot_where_tombstones_are_archived() {
    let bucket = Bucket::bare(HOURS);
    bucket.run(&["init"]).ends(0);
    let first = bucket.backup();
    bucket.machine.write("more", b"more");
    bucket.backup();
    let before = bucket.containers();
    bucket.run(&["forget", &first]).ends(0);
    bucket.run(&["check"]).ends(0);
    let mut tombstone = bucket.containers();
    tombstone.retain(|name| !before.contains(name));
    tombstone.iter().for_each(|name| bucket.moves(name, "GLACIER"));
    let checked = bucket.run(&["check"]).ends(0).text();
    assert!(checked.contains("whether one is missing was not checked"), "{checked}");
    bucket.run(&["reclaim"]).ends(ARCHIVED);
}

#[test]
fn reclaim_reads_nothing_cold_and_removes_what_is_dead() {
    let bucket = Bucket::of("DEEP_ARCHIVE", HOURS);
    bucket.machine.write("one", &other(0));
    let first = bucket.backup();
    let of_first = bucket.classes();
    std::fs::remove_file(bucket.machine.source().join("one")).unwrap();
    bucket.machine.write("two", &other(1));
    bucket.backup();
    // The files that both have lie in the containers of the first one: these are only partly dead.
    bucket.run(&["forget", &first]).ends(0);
    let dry = bucket.run(&["reclaim", "--dry-run", "--max-waste", "0", "--json"]).ends(0).last();
    assert!(dry["bytes_cold"].as_u64() > Some(1 << 20), "{dry}");
    let told = bucket.run(&["reclaim", "--max-waste", "0"]).ends(0).text();
    assert!(told.contains("of a cold storage class"), "{told}");
    let stays = |names: &BTreeMap<String, String>| {
        let there = bucket.containers();
        names.keys().filter(|name| there.contains(name)).count()
    };
    assert_eq!(stays(&of_first), of_first.len(), "they hold what the second one needs");

    // Nothing of these is needed any more.
    std::fs::remove_dir_all(bucket.machine.source()).unwrap();
    bucket.machine.write("three", &other(2));
    let third = bucket.backup();
    let kept = bucket.run(&["forget", "--keep-last", "1"]).ends(0);
    let freed = bucket.run(&["reclaim", "--max-waste", "0", "--json"]).ends(0).last();
    assert!(freed["containers_removed"].as_u64() > Some(0), "{freed} {}", kept.text());
    assert_eq!(stays(&of_first), 0);
    assert_eq!(bucket.cold.reads(), Vec::<String>::new(), "no cold container was read");
    bucket.run(&["check"]).ends(0);
    bucket.cold.takes(Duration::ZERO);
    bucket.run(&["restore", &third, "--bring-back"]).ends(0);
    bucket.restore(&[]).ends(0);
    bucket.is_restored();
}

#[test]
fn a_class_can_be_changed_later_and_a_wrong_one_is_refused() {
    let bucket = Bucket::bare(Duration::ZERO);
    let wrong = bucket.run(&["init", "--storage-class", "DEEP_FREEZE"]).ends(2);
    assert!(wrong.stderr.contains("DEEP_ARCHIVE"), "{}", wrong.stderr);
    let none = bucket.run(&["storage-class", "GLACIER"]).ends(10);
    assert!(none.stderr.contains("icecore init"), "{}", none.stderr);
    bucket.run(&["init"]).ends(0);
    let unset = bucket.run(&["storage-class", "--json"]).ends(0).last();
    assert_eq!(unset["storage_class"], serde_json::Value::Null);
    bucket.backup();
    assert!(bucket.classes().is_empty());
    bucket.run(&["storage-class", "GLACIER_IR"]).ends(0);
    bucket.machine.write("more", &random(1 << 20));
    bucket.backup();
    assert!(
        bucket.classes().values().all(|class| class == "GLACIER_IR")
            && !bucket.classes().is_empty()
    );
    // It costs more, and can be read at any time.
    bucket.restore(&["--verify"]).ends(0);
    bucket.is_restored();
    let before = bucket.classes().len();
    bucket.run(&["storage-class", "STANDARD"]).ends(0);
    bucket.machine.write("last", &random(1 << 20));
    bucket.backup();
    assert_eq!(bucket.classes().len(), before);
    let machine = Machine::new();
    let disk = ended(&mut machine.command(["storage-class"])).ends(2);
    assert!(disk.stderr.contains("s3://BUCKET/PREFIX"), "{}", disk.stderr);
    ended(&mut machine.command(["init", "--storage-class", "GLACIER"])).ends(2);
}

/// Of storages that take the name of any class and keep none, such as the one behind the proxy.
#[test]
fn a_storage_that_keeps_no_class_is_found_out() {
    let machine = Machine::bare();
    let address = format!("s3://{}/some/prefix", Gateway::shared().bucket());
    let mut command = machine.command(["init", "--storage-class", "DEEP_ARCHIVE"]);
    let refused = ended(command.env("ICECORE_REPO", address).envs(Gateway::shared().variables()));
    assert!(refused.ends(2).stderr.contains("keeps it as"));
}
