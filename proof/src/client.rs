//! The real binary as a rig runs it: as some user, under some limit, and never for ever.

use crate::{failed, tree};
use serde_json::Value;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A command that takes longer hangs: no rig gives any as much to do.
const LONGEST: Duration = Duration::from_secs(600);

/// The binary, a repository, and how to run the one on the other.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) binary: PathBuf,
    pub(crate) repository: PathBuf,
    /// The folder of a node: then its repository is the one on its server.
    pub(crate) agent: Option<PathBuf>,
    pub(crate) password: String,
    /// Runs as this user and group.
    pub(crate) user: Option<u32>,
    pub(crate) locale: &'static str,
    /// A program with its arguments that runs the binary, to put it under some limit.
    pub(crate) under: Vec<String>,
}

/// How a command ended, and what it said.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// The exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    words: String,
}

impl Client {
    pub(crate) fn new(binary: &Path, repository: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            repository: repository.to_owned(),
            agent: None,
            password: "proof".to_owned(),
            user: None,
            locale: "C.UTF-8",
            under: Vec::new(),
        }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let words = self.under.iter().map(String::as_ref).chain([self.binary.as_os_str()]);
        let words: Vec<_> = words.chain(arguments.iter().map(|word| word.as_ref())).collect();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env("ICECORE_REPO", &self.repository)
            .env("ICECORE_PASSWORD", &self.password)
            .env("ICECORE_AGENT_DIR", "/nonexistent")
            .env("LC_ALL", self.locale)
            // No settings of whoever runs the rig.
            .env("HOME", "/nonexistent")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("ICECORE_PASSWORD_FILE")
            .env_remove("ICECORE_PASSWORD_COMMAND")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(agent) = &self.agent {
            command.env("ICECORE_AGENT_DIR", agent);
            command.env_remove("ICECORE_REPO").env_remove("ICECORE_PASSWORD");
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Starts it; to be ended by [`Started::end`].
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<Started, String> {
        let child = self.command(arguments).spawn();
        let child = child.map_err(|error| format!("cannot start icecore: {error}"))?;
        let (id, words, begun) = (child.id(), arguments.join(" "), Instant::now());
        // Its output is read all the while: a full pipe would stop it.
        let waits = std::thread::spawn(move || Child::wait_with_output(child));
        Ok(Started { id, words, begun, waits: Some(waits) })
    }

    /// Runs to the end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Ran, String> {
        self.start(arguments)?.end()
    }

    /// Runs, and must end with one of these codes.
    pub(crate) fn ends(&self, arguments: &[&str], codes: &[i32]) -> Result<Ran, String> {
        let ran = self.run(arguments)?;
        match ran.code {
            Some(code) if codes.contains(&code) => Ok(ran),
            _ => Err(format!("expected exit {codes:?}: {}", ran.told())),
        }
    }

    /// Ids of all snapshots.
    pub(crate) fn snapshots(&self) -> Result<Vec<String>, String> {
        let ran = self.ends(&["snapshots", "--json"], &[0])?;
        let lines = ran.lines();
        let ids = lines.iter().filter(|line| line["message_type"] != "summary");
        Ok(ids.filter_map(|line| line["snapshot_id"].as_str().map(str::to_owned)).collect())
    }

    /// Restores the snapshot `id` below `target` and looks whether it is as it was; then `target` is
    /// gone again.
    pub(crate) fn restores(&self, id: &str, was: &tree::Copy, target: &Path) -> Result<(), String> {
        std::fs::create_dir_all(target).map_err(failed("make a target"))?;
        self.ends(&["restore", id, "--target", &target.to_string_lossy()], &[0])?;
        let root = tree::find_root(target).ok_or("restored without its top folder")?;
        let found = tree::copy(&root).map_err(failed("read what was restored"))?;
        let differences = tree::differences(was, &found);
        std::fs::remove_dir_all(target).map_err(failed("remove what was restored"))?;
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!("snapshot {id} is not restored as it was:\n{}", differences.join("\n")))
    }

    /// Backs `source` up, completely; the id of the snapshot.
    pub(crate) fn back_up(&self, source: &Path) -> Result<String, String> {
        let source = source.to_string_lossy();
        let ran = self.ends(&["backup", &source, "--json"], &[0])?;
        ran.acknowledged().ok_or_else(|| format!("no id: {}", ran.told()))
    }
}

/// A command that runs.
pub(crate) struct Started {
    pub(crate) id: u32,
    words: String,
    begun: Instant,
    waits: Option<std::thread::JoinHandle<std::io::Result<Output>>>,
}

impl Started {
    /// Sends a signal, if it still runs.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        if !self.has_ended()
            && let Some(id) = rustix::process::Pid::from_raw(self.id as i32)
        {
            let _ = rustix::process::kill_process(id, signal); // it may end at this moment
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.waits.as_ref().is_none_or(|waits| waits.is_finished())
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Result<Ran, String> {
        while !self.has_ended() {
            if self.begun.elapsed() > LONGEST {
                self.signal(rustix::process::Signal::KILL);
                return Err(format!("icecore {} hangs", self.words));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let waits = self.waits.take().ok_or("ended twice")?;
        let output = waits.join().map_err(|_| "a thread panicked")?;
        let output = output.map_err(|error| format!("cannot wait for icecore: {error}"))?;
        Ok(Ran {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            words: std::mem::take(&mut self.words),
        })
    }
}

impl Drop for Started {
    /// Whoever gives up leaves no process behind, frozen or not.
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

impl Ran {
    /// The lines of its JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The snapshot of a backup that says that it is done, wholly or in parts.
    pub(crate) fn acknowledged(&self) -> Option<String> {
        let last = self.lines().pop()?;
        let is_done = matches!(self.code, Some(0 | 3)) && last["message_type"] == "summary";
        is_done.then(|| last["snapshot_id"].as_str().map(str::to_owned))?
    }

    /// The message of a command that failed, with `--json` or without.
    pub(crate) fn message(&self) -> String {
        let json = self.lines().pop().filter(|line| line["message_type"] == "error");
        let json = json.and_then(|line| line["message"].as_str().map(str::to_owned));
        let text = || self.stderr.lines().rfind(|line| line.starts_with("error:"));
        json.or_else(|| text().map(str::to_owned)).unwrap_or_default()
    }

    /// How often it said this, wherever.
    pub(crate) fn times_said(&self, text: &str) -> u64 {
        (self.stdout.matches(text).count() + self.stderr.matches(text).count()) as u64
    }

    /// What it said at its end, for who looks for the cause.
    pub(crate) fn told(&self) -> String {
        let end = |text: &str| {
            let lines: Vec<_> = text.lines().rev().take(12).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        let Self { code, signal, words, .. } = self;
        let how = code.map_or(format!("signal {signal:?}"), |code| format!("exit {code}"));
        format!("icecore {words}: {how}\n{}\n{}", end(&self.stdout), end(&self.stderr))
    }
}
