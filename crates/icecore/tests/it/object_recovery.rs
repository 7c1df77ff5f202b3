//! A repository in a bucket that keeps versions, after it was put back to a time with writes behind it: it is read, and
//! written again. versitygw creates no object over the mark that one was removed.

use crate::machine::{Machine, Ran, random};
use crate::object_locking::{destroy, icecore, moment};
use std::cell::Cell;
use std::process::Stdio;
use std::time::Duration;
use testkit::s3::Gateway;

/// More than goes into one container with parity, and less than would take long.
const LARGE: usize = 20 << 20;
const LOCK: [&str; 6] = ["object-lock", "set", "--mode", "compliance", "--for", "1d"];

struct Versioned {
    machine: Machine,
    address: String,
    /// So that no two backups have the same.
    backups: Cell<u8>,
}

/// A time of the repository, and what its source had then.
struct Past {
    at: String,
    large: Vec<u8>,
    snapshots: Vec<String>,
}

impl Versioned {
    fn of(bucket: &str) -> Self {
        let (machine, backups) = (Machine::bare(), Cell::new(0));
        let made = Self { machine, address: format!("s3://{bucket}/some/prefix"), backups };
        made.run(&["init"]).ends(0);
        made
    }

    fn run(&self, words: &[&str]) -> Ran {
        icecore(&self.machine, &self.address, words)
    }

    /// A backup after a change of the source.
    fn back_up(&self) -> Vec<u8> {
        self.backups.set(self.backups.get() + 1);
        let large: Vec<u8> =
            random(LARGE).iter().map(|byte| byte.wrapping_add(self.backups.get())).collect();
        self.machine.write("large", &large);
        self.run(&["backup", self.machine.source().to_str().unwrap()]).ends(0);
        large
    }

    fn snapshots(&self) -> Vec<String> {
        let shown = self.run(&["snapshots", "--json"]).ends(0).lines();
        let ids = shown.iter().filter_map(|row| row["snapshot_id"].as_str());
        ids.map(str::to_owned).collect()
    }

    fn now(&self, large: &[u8]) -> Past {
        let (at, snapshots) = (moment(), self.snapshots());
        Past { at, large: large.to_vec(), snapshots }
    }

    fn recover(&self, past: &Past) -> String {
        self.run(&["object-lock", "recover", "--before", &past.at]).ends(0).text()
    }

    /// Everything that can be done with a repository can be done.
    fn goes_on(&self, past: &Past) {
        self.run(&["rebuild"]).ends(0);
        assert_eq!(self.snapshots(), past.snapshots);
        self.run(&["check", "--read-data"]).ends(0);
        self.restores("latest", &past.large);
        let newer = self.back_up();
        self.run(&["forget", past.snapshots.last().unwrap()]).ends(0);
        self.run(&["reclaim", "--max-waste", "0%"]).ends(0);
        self.run(&["check", "--read-data"]).ends(0);
        self.restores("latest", &newer);
    }

    fn restores(&self, snapshot: &str, large: &[u8]) {
        let target = tempfile::tempdir_in(self.machine.path("")).unwrap();
        self.run(&["restore", snapshot, "--target", target.path().to_str().unwrap()]).ends(0);
        let source = self.machine.source();
        let restored = target.path().join(source.strip_prefix("/").unwrap()).join("large");
        assert!(std::fs::read(restored).unwrap() == large);
    }
}

/// What came later is locked, too, so no version of it can be removed; and it is put back more than once.
#[test]
fn what_was_recovered_is_read_and_written_however_often() {
    let bucket = Versioned::of(&Gateway::shared().locking_bucket());
    let first = bucket.now(&bucket.back_up());
    bucket.run(&LOCK).ends(0);
    let second = bucket.now(&bucket.back_up());
    bucket.run(&LOCK).ends(0);
    bucket.back_up();
    bucket.run(&LOCK).ends(0);
    for past in [&first, &second, &first] {
        let done = bucket.recover(past);
        assert!(done.contains(" deleted") && !done.contains("not recovered"), "{done}");
        bucket.goes_on(past);
    }
}

/// Everything came later than a year that is mistyped, and would go, without a word.
#[test]
fn no_repository_is_put_back_to_before_it_was_made() {
    let bucket = Versioned::of(&Gateway::shared().versioned_bucket());
    let large = bucket.back_up();
    for more in [&["--dry-run"][..], &[]] {
        let early = ["object-lock", "recover", "--before", "2025-11-20 08:00"];
        let refused = bucket.run(&[&early, more].concat()).ends(2);
        let said = "there was no repository at 2025-11-20T08:00:00Z: the first version of its file";
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
        assert!(refused.stderr.contains("--before TIME --dry-run"), "{}", refused.stderr);
    }
    bucket.restores("latest", &large);
}

/// The runs of the index of that time are gone, and containers were written anew; a killed recovery is done again.
#[test]
fn what_was_reclaimed_comes_back_after_a_recovery_that_was_killed() {
    let bucket = Versioned::of(&Gateway::shared().versioned_bucket());
    bucket.back_up();
    let past = bucket.now(&bucket.back_up());
    bucket.back_up();
    for snapshot in &past.snapshots {
        bucket.run(&["forget", snapshot]).ends(0);
    }
    bucket.run(&["reclaim", "--max-waste", "0%"]).ends(0);
    bucket.back_up();
    for millis in [30, 60, 90, 120, 150, 200, 250] {
        let words = ["object-lock", "recover", "--before", &past.at, "--repo", &bucket.address];
        let mut command = bucket.machine.command(words);
        command.env_remove("ICECORE_REPO").envs(Gateway::shared().variables());
        let mut killed = command.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        let _ = killed.kill(); // it may have ended
        killed.wait().unwrap();
    }
    bucket.recover(&past);
    bucket.goes_on(&past);
}

/// Marks that remember objects of which no version is there any more, over those that are locked and over none.
#[test]
fn names_that_somebody_used_and_destroyed_later_are_used_again() {
    let name = Gateway::shared().locking_bucket();
    let bucket = Versioned::of(&name);
    let past = bucket.now(&bucket.back_up());
    bucket.run(&LOCK).ends(0);
    bucket.back_up();
    bucket.run(&LOCK).ends(0);
    bucket.back_up();
    assert!(destroy(&name, "some/prefix") > 10);
    let done = bucket.recover(&past);
    assert!(!done.contains("not recovered"), "{done}");
    bucket.goes_on(&past);
}

/// Removed whole, and made again at the same place.
#[test]
fn a_repository_is_made_where_one_was_removed_in_a_bucket_with_versions() {
    let gateway = Gateway::shared();
    let name = gateway.versioned_bucket();
    let bucket = Versioned::of(&name);
    bucket.back_up();
    for key in gateway.keys(&name, "some/prefix/") {
        assert_eq!(gateway.ask("DELETE", &format!("{name}/{key}"), &[]).0, 204);
    }
    bucket.run(&["init"]).ends(0);
    let past = bucket.now(&bucket.back_up());
    bucket.goes_on(&past);
}
