//! Real server processes with their nodes: started, killed, and started again at the same port.

use crate::client::Client;
use crate::failed;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Ports that the system gives to nobody by itself: while the server is away, nobody takes its place.
const PORTS: std::ops::Range<u16> = 20_000..29_000;

/// Name of the storage server.
const STORAGE: &str = "disk-1";

/// A process that governs, or stores for one that does.
pub(crate) struct Server {
    binary: PathBuf,
    /// `server` or `storage`.
    word: &'static str,
    data: PathBuf,
    log: PathBuf,
    at: SocketAddr,
    running: Option<(Child, BufReader<ChildStdout>)>,
}

/// A node that is to be.
pub(crate) struct NewNode<'a> {
    pub(crate) name: &'a str,
    pub(crate) domain: &'a str,
    /// Its domain is made on the storage server.
    pub(crate) is_elsewhere: bool,
}

impl Server {
    /// Starts a new one, in a folder below `work`.
    pub(crate) fn start_in(work: &Path, binary: &Path) -> Result<Self, String> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut server = Self::below(work, "server", binary, at);
        server.start().map(|()| server)
    }

    fn below(work: &Path, word: &'static str, binary: &Path, at: SocketAddr) -> Self {
        let (data, log) = (work.join(word), work.join(format!("{word}.log")));
        Self { binary: binary.to_owned(), word, data, log, at, running: None }
    }

    /// Starts a storage server at `host`, which nodes call by the name `called`. It asks this one through `port`.
    pub(crate) fn start_storage(
        &self,
        work: &Path,
        host: IpAddr,
        called: IpAddr,
        port: u16,
    ) -> Result<Self, String> {
        let at = SocketAddr::from((host, free_port()?));
        let mut storage = Self::below(work, "storage", &self.binary, at);
        let token = self.token(&[STORAGE, "--storage"])?;
        let (url, data) = (self.url(), storage.data.to_string_lossy());
        let (at, called) = (at.to_string(), called.to_string());
        let place = ["--data", &data, "--name", &called, "--listen", &at];
        let client = Client::new(&self.binary, Path::new("/nonexistent"));
        client.ends(&[&["storage", "enroll", &url, &token][..], &place].concat(), &[0])?;
        self.lead(&storage.data.join("storage.toml"), port)?;
        storage.start().map(|()| storage)
    }

    /// Starts it, and waits until it serves.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(&self.log);
        let mut command = Command::new(&self.binary);
        command
            .args([self.word, "--log", "warn", "--listen", &self.at.to_string()])
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
            Ok(_) if line.starts_with("serving https://") || line.starts_with("storing at") => {
                Ok(())
            }
            _ => Err(format!(
                "icecore {} does not start serving: {line}{}",
                self.word,
                self.last_of_log()
            )),
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
        self.at.port()
    }

    pub(crate) fn at(&self) -> SocketAddr {
        self.at
    }

    fn url(&self) -> String {
        format!("https://{}", self.at)
    }

    /// Makes a node of `folder`; whatever it asks this server goes through `port`.
    pub(crate) fn enroll(&self, new: &NewNode, folder: &Path, port: u16) -> Result<Client, String> {
        let on: &[_] = if new.is_elsewhere { &["--on", STORAGE] } else { &[] };
        let token = self.token(&[&[new.name, "--domain", new.domain], on].concat())?;
        let mut client = Client::new(&self.binary, Path::new("/nonexistent"));
        client.agent = Some(folder.to_owned());
        client.ends(&["agent", "enroll", &self.url(), &token], &[0])?;
        self.lead(&folder.join("agent.toml"), port).map(|()| client)
    }

    fn token(&self, whose: &[&str]) -> Result<String, String> {
        let data = self.data.to_string_lossy();
        let words = [&["server", "token"], whose, &["--data", &data, "--json"]].concat();
        let client = Client::new(&self.binary, Path::new("/nonexistent"));
        let made = client.ends(&words, &[0])?.lines().pop().ok_or("no token")?;
        made["token"].as_str().map(str::to_owned).ok_or_else(|| "no token".to_owned())
    }

    /// Whoever is told in the file `told` where this server is, is told another port.
    fn lead(&self, told: &Path, port: u16) -> Result<(), String> {
        let text = std::fs::read_to_string(told).map_err(failed("read where a server is"))?;
        let text = text.replace(&self.at.to_string(), &format!("{}:{port}", self.at.ip()));
        std::fs::write(told, text).map_err(failed("write where a server is"))
    }

    /// The repository of `domain` as it lies on the disk here, opened with the key of the node
    /// in `folder`. For when the server does not run.
    pub(crate) fn repository_of(&self, domain: &str, folder: &Path) -> Result<Client, String> {
        let key = std::fs::read_to_string(folder.join("managed.key"));
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
            Some(line) => Err(format!("icecore {} panicked: {line}", self.word)),
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
    // Rigs that start one after the other have neighboring numbers, and servers that are away for a while keep theirs.
    let first = (std::process::id().wrapping_mul(61) % 9_000) as u16;
    let mut ports = (0..PORTS.len() as u16).map(|at| PORTS.start + (first + at) % 9_000);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).ok_or_else(|| "no port is free".to_owned())
}
