//! A storage server whose machine is gone or frozen: another machine takes its pool over.

use crate::machine::{Ran, ended};
use crate::storage_servers::{Running, Site, free_port};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;

pub(crate) fn signal(running: &Running, signal: Signal) {
    let pid = Pid::from_raw(running.0.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// A second machine, with its files in the folder `second`, which reaches the same pool.
pub(crate) struct Second {
    pub(crate) port: u16,
}

impl Second {
    fn enroll(site: &Site, more: &[&str]) -> Ran {
        Self::enroll_at(site, &site.folder("shared"), more)
    }

    pub(crate) fn enroll_at(site: &Site, pool: &str, more: &[&str]) -> Ran {
        site.enroll_storage("second", &[&["--pool", pool], more].concat())
    }

    pub(crate) fn command(&self, site: &Site) -> Command {
        let listen = format!("127.0.0.1:{}", self.port);
        let words = ["storage", "--data", &site.folder("second"), "--listen", &listen];
        let mut command = site.machine.command(words);
        command.envs(site.variables.iter().cloned());
        command
    }

    /// Runs when the server has heard of it.
    pub(crate) fn start(&self, site: &Site) -> Running {
        let running = Running::start(self.command(site), "storing ");
        site.wait_for("the storage server", |site| site.knows_storage_at(self.port));
        running
    }
}

fn shared_site() -> Site {
    let mut site = Site::with_pool("shared");
    site.start_storage();
    site
}

/// A process that stands still keeps its locks and its connections, and goes on later.
#[test]
fn the_pool_of_a_frozen_storage_server_is_taken_over_and_that_one_is_fenced() {
    let mut site = shared_site();
    site.enroll("web", &[]);
    site.enroll("own", &["--keys", "client"]);
    site.node("own", &["backup", &site.folder("source")]).ends(0);
    let backup = site.begin_backup("web");
    let frozen = site.storage.take().unwrap();
    signal(&frozen, Signal::STOP);

    let refused = Second::enroll(&site, &[]).ends(2);
    assert!(refused.stderr.contains("--take-over"), "{}", refused.stderr);
    let [url, token] = site.token(&["other", "--storage"]);
    let (data, pool) = (site.folder("second"), site.folder("shared"));
    let words = ["storage", "--data", &data, "enroll", &url, &token, "--name", "127.0.0.2"];
    let refused = site.machine.run([&words[..], &["--pool", &pool, "--take-over"]].concat());
    let advice = "icecore server token disk --storage";
    assert!(refused.ends(2).stderr.contains(advice), "the token is for another one");
    Second::enroll(&site, &["--take-over"]).ends(0);
    let second = Second { port: free_port() };
    let _taken = second.start(&site);
    // It has a key of its own for receipts, and those of before still count.
    let listed = site.node("own", &["snapshots"]).ends(0);
    assert!(listed.text().contains("1 snapshot"), "{}", listed.text());
    assert!(listed.stderr.contains("with a new key"), "{}", listed.stderr);

    // What the frozen one has locked is not locked any more.
    site.node("web", &["backup", &site.folder("source/folder")]).ends(0);
    thaws_and_is_fenced(&site, frozen, backup);
}

/// Whoever was frozen goes on, and can do no harm; a backup that ran there ends, and both nodes go on.
pub(crate) fn thaws_and_is_fenced(site: &Site, mut frozen: Running, mut backup: Running) {
    site.lift_limits();
    signal(&frozen, Signal::CONT);
    assert_eq!(frozen.ends_within(60), Some(13), "its certificate is another machine's now");
    assert_eq!(backup.ends_within(180), Some(0), "{}", site.said("web"));
    for node in ["web", "own"] {
        site.node(node, &["backup", &site.folder("source")]).ends(0);
        site.node(node, &["check", "--read-data"]).ends(0);
        site.restores(node, &[]);
    }
    // Who has its files still cannot use its pool any more.
    let refused = ended(&mut site.storage_command());
    assert!(refused.code != 0 && refused.stderr.contains("another server"), "{refused:?}");
}
