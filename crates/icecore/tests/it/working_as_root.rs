//! Root at work in the data of a server that runs as a user of its own.

use crate::administration::{agent, govern, started, token};
use crate::hardened::node;
use crate::lock_helping::OwnUser;
use crate::machine::{Machine, ended};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// Seen: after a reclaim by root the server could not open the lease, and every backup failed.
#[test]
fn root_leaves_nothing_that_stops_a_server_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("root in the data of another user: needs root");
    }
    let machine = Machine::bare();
    let user = OwnUser::own(&machine);
    user.owns_its_data();
    let words = ["server", "--data", &user.data(), "--listen", "127.0.0.1:0"];
    let server = started(&mut user.command(&words));
    let [url, token] = token(&machine, &["web"]);
    agent(&machine, "web", &["enroll", &url, &token]).ends(0);
    let back_up = || node(&machine, "web", &["backup", machine.source().to_str().unwrap()]).ends(0);
    back_up();
    let repository = machine.path("data/pool/domains/web");
    std::fs::remove_file(repository.join("lease")).unwrap();
    govern(&machine, &["check", "web"]).ends(0);
    govern(&machine, &["reclaim", "web"]).ends(0);
    govern(&machine, &["forget", "web", "--keep-last", "1", "--prune"]).ends(0);
    back_up();
    drop(server);
    let key = govern(&machine, &["key", "web", "--quiet"]).ends(0).text();
    let words = ["rebuild", "--repo", repository.to_str().unwrap()];
    ended(machine.command(words).env("ICECORE_PASSWORD", key.trim())).ends(0);
    let refused = govern(&machine, &["catalog", "move", "other.sqlite"]).ends(13);
    assert!(refused.stderr.contains("sudo -u '#54321' icecore server"), "{}", refused.stderr);
    std::fs::remove_file(machine.path("data/pool/superblock")).unwrap();
    ended(&mut machine.command(["pool", "accept", &user.data()])).ends(0);
    let owner = |path: &str| std::fs::metadata(path).unwrap().uid();
    let found = Command::new("find").args([&user.data(), "-uid", "0"]).output().unwrap();
    let roots = String::from_utf8(found.stdout).unwrap();
    assert_eq!((roots.as_str(), owner(&user.data())), ("", 54_321));
    let words =
        ["server", "--data", &user.data(), "--listen", url.strip_prefix("https://").unwrap()];
    let _server = started(&mut user.command(&words));
    back_up();
}
