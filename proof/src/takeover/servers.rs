//! The control server with its catalog in PostgreSQL, and storage servers, each on a machine of its own.

use super::network::Host;
use crate::client::{Client, Started};
use crate::options::clock;
use crate::until::until;
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};

const PORT: u16 = 8477;

/// The control server.
pub(super) struct Control {
    client: Client,
    data: String,
    host: Host,
    _running: Started,
    _postgres: testkit::postgres::Server,
}

/// A storage server: the program on one machine, under a name.
pub(super) struct Storage {
    pub(super) name: String,
    pub(super) host: Host,
    pub(super) client: Client,
    pub(super) data: PathBuf,
    running: Started,
}

fn client_on(host: &Host, binary: &Path) -> Client {
    let mut client = Client::new(binary, Path::new("/nonexistent"));
    client.under = host.under();
    client
}

impl Control {
    /// Starts it as a new user would, and moves its catalog.
    pub(super) fn start(work: &Path, binary: &Path, host: Host) -> Result<Self, String> {
        let (client, data) = (client_on(&host, binary), path(&work.join("control")));
        // Process ids begin anew in these namespaces, and names of folders are seen in all of them.
        let folder = format!("takeover-{}", clock());
        let postgres = testkit::postgres::Server::start(&folder, &[]);
        let listen = format!("{}:{PORT}", host.address());
        let words = ["server", "--data", &data, "--listen", &listen, "--log", "warn"];
        let first = client.start(&words)?;
        answers(|| client.run(&["server", "--data", &data, "status"]))?;
        first.signal(Signal::TERM);
        first.end()?;
        let moved = ["server", "--data", &data, "catalog", "move", &postgres.database("icecore")];
        client.ends(&moved, &[0])?;
        let running = client.start(&words)?;
        answers(|| client.run(&["server", "--data", &data, "status"]))?;
        Ok(Self { client, data, host, _running: running, _postgres: postgres })
    }

    pub(super) fn govern(&self, words: &[&str]) -> Result<Vec<Value>, String> {
        let words = [&["server", "--data", &self.data][..], words, &["--json"]].concat();
        Ok(self.client.ends(&words, &[0])?.lines())
    }

    pub(super) fn token(&self, words: &[&str]) -> Result<String, String> {
        let made = self.govern(&[&["token"][..], words].concat())?.pop().ok_or("no token")?;
        made["token"].as_str().map(str::to_owned).ok_or_else(|| "no token".to_owned())
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}:{PORT}", self.host.address())
    }

    /// Whether the storage server `name` is connected from this address.
    fn knows(&self, name: &str, address: &str) -> bool {
        let known = self.govern(&["storage-servers"]).unwrap_or_default();
        known
            .iter()
            .any(|it| it["name"] == name && it["connected"] == true && it["names"][0] == address)
    }
}

impl Storage {
    /// Enrolls the machine under `name` for the pool there, and starts it; ready when the control server knows it.
    pub(super) fn start(
        control: &Control,
        (name, host): (&str, &Host),
        (data, pool): (PathBuf, &Path),
        more: &[&str],
    ) -> Result<Self, String> {
        let mut client = control.client.clone();
        client.under = host.under();
        let token = control.token(&[name, "--storage"])?;
        let (url, folder, pool) = (control.url(), path(&data), path(pool));
        let address = host.address().to_string();
        let listen = format!("{address}:{PORT}");
        let words = ["storage", "--data", &folder, "enroll", &url, &token, "--name", &address];
        let place = ["--listen", &listen, "--pool", &pool];
        client.ends(&[&words[..], &place, more].concat(), &[0])?;
        let running = client.start(&["storage", "--data", &folder, "--log", "warn"])?;
        until("the control server knows the storage server", || control.knows(name, &address))?;
        Ok(Self { name: name.to_owned(), host: host.clone(), client, data, running })
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// How it ended, which has to be soon.
    pub(super) fn end(self) -> Result<Option<i32>, String> {
        let Self { name, running, .. } = self;
        until(&format!("the old machine of {name} ends"), || running.has_ended())?;
        running.end().map(|ran| ran.code)
    }

    /// What lies there is whole, without any key.
    pub(super) fn checks(&self, domain: &str) -> Result<(), String> {
        let data = path(&self.data);
        self.client.ends(&["storage", "--data", &data, "check", domain], &[0]).map(|_| ())
    }
}

pub(super) fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn answers(ask: impl Fn() -> Result<crate::client::Ran, String>) -> Result<(), String> {
    until("the control server answers", || ask().is_ok_and(|ran| ran.code == Some(0)))
}
