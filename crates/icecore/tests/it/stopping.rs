//! Servers that are asked to stop, as systemd and Ctrl-C ask: they end soon and well, everybody is told, and what ran
//! goes on by itself.

use crate::storage_servers::{Running, Site};
use remote::{Endpoint, Purpose, Remote};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Longer than a server takes to stop, by what the guide says.
const STOPPED_WITHIN_SECS: u64 = 6;

pub(crate) fn ask_to_stop(running: &mut Running, signal: Signal) {
    let pid = Pid::from_raw(running.0.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    assert_eq!(running.ends_within(STOPPED_WITHIN_SECS), Some(0), "after {signal:?}");
}

fn a_backup_outlives_a_server_that_gets(signal: Signal) {
    let mut site = Site::new();
    let [url, token] = site.token(&["web"]);
    // Not as an argument, which everybody on the machine could see.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let file = file.path().to_str().unwrap();
    site.node("web", &["agent", "enroll", &url, "--token-file", file]).ends(0);
    let mut backup = site.begin_backup("web");
    ask_to_stop(site.server.as_mut().unwrap(), signal);
    assert_eq!(backup.ends_within(0), None, "it waits: {}", site.said("web"));
    site.start_server();
    site.lift_limits();
    assert_eq!(backup.ends_within(180), Some(0), "{}", site.said("web"));
    site.restores("web", &[]);
}

#[test]
fn a_backup_outlives_a_server_that_is_terminated() {
    a_backup_outlives_a_server_that_gets(Signal::TERM);
}

#[test]
fn a_backup_outlives_a_server_that_is_interrupted() {
    a_backup_outlives_a_server_that_gets(Signal::INT);
}

/// The storage server itself, as a node knows it; who is told anything there has ended.
fn storage_of(site: &Site) -> Endpoint {
    let identity = access::Identity::load(site.folder("web").as_ref()).unwrap();
    Endpoint {
        host: "127.0.0.1".to_owned(),
        port: site.storage_port,
        tls: identity.tls(protocol::ALPN).unwrap(),
        domain: String::new(),
        what: String::new(),
        buffer_bytes: 0,
        streams: 0,
        limits: [0, 0],
        first_patience: Duration::ZERO,
        patience: Duration::ZERO,
        wait_control: Default::default(),
    }
}

#[test]
fn a_storage_server_that_is_terminated_tells_everybody_and_a_backup_outlives_it() {
    let mut site = Site::new();
    site.enroll("web", &[]);
    let mut backup = site.begin_backup("web");
    let waiting = Remote::connect_control(&storage_of(&site), Purpose::Read).unwrap();
    ask_to_stop(site.storage.as_mut().unwrap(), Signal::TERM);
    let end = Instant::now() + Duration::from_secs(60);
    let said = loop {
        match waiting.next_command(Duration::from_millis(100)) {
            Err(error) => break error.to_string(),
            Ok(_) => assert!(Instant::now() < end, "it hears nothing"),
        }
    };
    assert!(said.contains("the server is shutting down"), "{said}");
    assert_eq!(backup.ends_within(0), None, "it waits: {}", site.said("web"));
    site.start_storage();
    site.lift_limits();
    assert_eq!(backup.ends_within(180), Some(0), "{}", site.said("web"));
    site.restores("web", &[]);
}
