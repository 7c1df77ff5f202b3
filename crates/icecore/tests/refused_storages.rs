//! Object storages whose conditional writes do not hold, as a user meets them: Garage, which ignores them, and Ceph
//! 16.2 in a bucket that keeps versions. `make storages` runs this with `ICECORE_TEST_S3`; `make test` has neither.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;
use testkit::s3::{Gateway, Server};

const HINT: &str = "docs/GUIDE-ONE-MACHINE.md";

/// A new bucket in which conditions do not hold.
fn bucket() -> String {
    match Server::chosen() {
        Server::Garage => Gateway::shared().bucket(),
        Server::Ceph => Gateway::shared().locking_bucket(),
        other => panic!("conditions hold in {other:?}: make storages"),
    }
}

/// Runs icecore with the repository `repository`, in or beside `gateway`.
fn icecore(home: &Path, gateway: &Gateway, repository: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_icecore"));
    command.args(words).env("HOME", home).env("ICECORE_REPO", repository);
    command.env("ICECORE_PASSWORD", "only a test").envs(gateway.variables());
    command.output().unwrap()
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// It says why, and what to do.
fn is_refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(why) && said.contains("(If-None-Match)") && said.contains(HINT),
        "{said}"
    );
    assert!(!said.contains("Waiting"), "{said}");
}

#[test]
fn no_repository_is_made_where_conditions_do_not_hold_and_nothing_stays_there() {
    let (home, gateway, bucket) = (TempDir::new().unwrap(), Gateway::shared(), bucket());
    let (source, there) = (home.path().join("source"), format!("s3://{bucket}/some/prefix"));
    std::fs::create_dir(&source).unwrap();
    let why = "writers create the same object";
    is_refused(&icecore(home.path(), gateway, &there, &["init"]), why);
    // Nor is one made there by a copy of another repository.
    let here = home.path().join("here").to_str().unwrap().to_owned();
    succeeds(&icecore(home.path(), gateway, &here, &["init"]));
    succeeds(&icecore(home.path(), gateway, &here, &["backup", source.to_str().unwrap()]));
    is_refused(&icecore(home.path(), gateway, &here, &["copy", "--to", &there]), why);
    assert_eq!(gateway.keys(&bucket, ""), [""; 0]);
}

/// The bucket was copied, or its storage or its settings were changed.
#[test]
fn a_repository_that_came_there_is_read_and_copied_away_but_not_written() {
    let (home, good, gateway) = (TempDir::new().unwrap(), Gateway::of_files(), Gateway::shared());
    let (source, first) = (home.path().join("source"), good.bucket());
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), "what was backed up").unwrap();
    let (source, there) = (source.to_str().unwrap(), format!("s3://{first}/x"));
    succeeds(&icecore(home.path(), good, &there, &["init"]));
    succeeds(&icecore(home.path(), good, &there, &["backup", source]));
    let second = bucket();
    copy_objects((good, &first), (gateway, &second), &home.path().join("object"));

    let there = format!("s3://{second}/x");
    let run = |words: &[&str]| icecore(home.path(), gateway, &there, words);
    let before = gateway.keys(&second, "");
    let why = "it overwrote an object";
    for words in [&["backup", source][..], &["reclaim"], &["backup", source]] {
        is_refused(&run(words), why);
        assert_eq!(gateway.keys(&second, ""), before, "{words:?}");
    }
    let copy = home.path().join("copy").to_str().unwrap().to_owned();
    let target = home.path().join("target");
    succeeds(&run(&["check", "--read-data"]));
    succeeds(&run(&["copy", "--to", &copy]));
    succeeds(&run(&["restore", "latest", "--target", target.to_str().unwrap()]));
    let restored = target.join(source.trim_start_matches('/')).join("file");
    assert_eq!(std::fs::read_to_string(restored).unwrap(), "what was backed up");
    succeeds(&icecore(home.path(), gateway, &copy, &["check", "--read-data"]));
}

/// Copies each object from one bucket to the other, through the file `through`.
fn copy_objects(from: (&Gateway, &str), to: (&Gateway, &str), through: &Path) {
    let through = through.to_str().unwrap();
    for key in from.0.keys(from.1, "") {
        let read = from.0.ask("GET", &format!("{}/{key}", from.1), &["-o", through]);
        let body = format!("@{through}");
        let written = to.0.ask("PUT", &format!("{}/{key}", to.1), &["--data-binary", &body]);
        assert_eq!((read.0, written.0), (200, 200), "{key}: {}", written.1);
    }
}
