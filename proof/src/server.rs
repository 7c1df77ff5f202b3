//! A real server process with its nodes: started, killed, and started again at the same port.

use crate::client::Client;
use crate::failed;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Ports that the system gives to nobody by itself: while the server is away, nobody takes its place.
const PORTS: std::ops::Range<u16> = 20_000..29_000;

/// A server process.
pub(crate) struct Server {
    binary: PathBuf,
    data: PathBuf,
    log: PathBuf,
    port: u16,
    running: Option<(Child, BufReader<ChildStdout>)>,
}

impl Server {
    /// Starts a new one, in a folder below `work`.
    pub(crate) fn start_in(work: &Path, binary: &Path) -> Result<Self, String> {
        let (data, log) = (work.join("server"), work.join("server.log"));
        let (binary, port) = (binary.to_owned(), free_port()?);
        let mut server = Self { binary, data, log, port, running: None };
        server.start().map(|()| server)
    }

    /// Starts it, and waits until it serves.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(&self.log);
        let mut command = Command::new(&self.binary);
        command
            .args(["server", "--log", "warn", "--listen", &format!("127.0.0.1:{}", self.port)])
            .arg("--data")
            .arg(&self.data)
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.map_err(failed("make a log"))?);
        let mut child = command.spawn().map_err(failed("start the server"))?;
        let mut said = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let mut line = String::new();
        let read = said.read_line(&mut line);
        self.running = Some((child, said));
        match read {
            Ok(_) if line.starts_with("serving https://") => Ok(()),
            _ => Err(format!("the server does not serve: {line}{}", self.last_of_log())),
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            let _ = child.kill(); // it may have ended
            let _ = child.wait();
        }
    }

    /// Its process.
    pub(crate) fn id(&self) -> Option<u32> {
        self.running.as_ref().map(|(child, _)| child.id())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Makes a node of `folder` that backs up to `domain`; whatever it does goes through `port`.
    pub(crate) fn enrol(
        &self,
        node: &str,
        domain: &str,
        folder: &Path,
        port: u16,
    ) -> Result<Client, String> {
        let mut client = Client::new(&self.binary, Path::new("/nonexistent"));
        client.agent = Some(folder.to_owned());
        let data = self.data.to_string_lossy();
        let words = ["server", "token", node, "--domain", domain, "--data", &data, "--json"];
        let made = client.ends(&words, &[0])?;
        let token = made.lines().pop().ok_or("no token")?;
        let token = token["token"].as_str().ok_or("no token")?;
        let url = format!("https://127.0.0.1:{}", self.port);
        client.ends(&["agent", "enroll", &url, token], &[0])?;
        let told = folder.join("agent.toml");
        let text = std::fs::read_to_string(&told).map_err(failed("read agent.toml"))?;
        let text = text.replace(&format!(":{}", self.port), &format!(":{port}"));
        std::fs::write(&told, text).map_err(failed("write agent.toml"))?;
        Ok(client)
    }

    /// The repository of `domain` as it lies on the server's disk, opened with the key of the node
    /// in `folder`. For when the server does not run.
    pub(crate) fn repository_of(&self, domain: &str, folder: &Path) -> Result<Client, String> {
        let key = std::fs::read_to_string(folder.join("slot.key"));
        let key = key.map_err(failed("read the key of a node"))?;
        let key = data_encoding::HEXLOWER.decode(key.trim().as_bytes());
        let key: [u8; 32] = key.ok().and_then(|it| it.try_into().ok()).ok_or("no key")?;
        let mut client = Client::new(&self.binary, &self.data.join("pool/domains").join(domain));
        client.password = crypto::recovery_to_text(&key);
        Ok(client)
    }

    /// A bug ends in the log.
    pub(crate) fn has_not_panicked(&self) -> Result<(), String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        match log.lines().find(|line| line.contains("panicked")) {
            Some(line) => Err(format!("the server panicked: {line}")),
            None => Ok(()),
        }
    }

    fn last_of_log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> Result<u16, String> {
    let first = std::process::id() as u16 % 9_000;
    let mut ports = (0..PORTS.len() as u16).map(|at| PORTS.start + (first + at) % 9_000);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).ok_or_else(|| "no port is free".to_owned())
}
