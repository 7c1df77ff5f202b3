//! A machine of its own for each test: a home, a source, a repository.

use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The password of every repository here.
pub(crate) const PASSWORD: &str = "only a test";

/// A folder with `source`, `repository` and `home`.
pub(crate) struct Machine {
    folder: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    /// What it printed.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The lines of JSON that it printed.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = self.text();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The last line of JSON.
    pub(crate) fn last(&self) -> Value {
        self.lines().pop().unwrap()
    }

    /// Itself, when it ended so.
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.text(), self.stderr);
        self
    }
}

impl Machine {
    /// With a source of a few files, without a repository.
    pub(crate) fn bare() -> Self {
        let machine = Self { folder: TempDir::new().unwrap() };
        machine.write("hello.txt", b"hello");
        machine.write("folder/large", &[7; 300_000]);
        std::fs::create_dir(machine.path("home")).unwrap();
        machine
    }

    /// With a repository.
    pub(crate) fn new() -> Self {
        let machine = Self::bare();
        machine.run(["init"]).ends(0);
        machine
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.path("source")
    }

    /// A path in a snapshot: `SNAP:/…/source/NAME`.
    pub(crate) fn stored(&self, snapshot: &str, name: &str) -> String {
        format!("{snapshot}:{}", self.source().join(name).display())
    }

    /// Writes a file of the source.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let file = self.folder.path().join("source").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    /// The binary, with the repository and the password of this machine and nothing else.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_icecore"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("TZ", "UTC")
            .env("ICECORE_REPO", self.path("repository"))
            .env("ICECORE_AGENT_DIR", self.path("agent"))
            .env("ICECORE_PASSWORD", PASSWORD)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        ended(&mut self.command(arguments))
    }

    /// With a limit of the shell: `-n 24`.
    pub(crate) fn run_limited(&self, limit: &str, arguments: &[&str]) -> Ran {
        let command = self.command(arguments);
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "bash"]);
        shell.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        ended(&mut shell)
    }

    /// Backs the source up; the id of the snapshot.
    pub(crate) fn backup(&self) -> String {
        self.backup_with(&[])
    }

    pub(crate) fn backup_with(&self, flags: &[&str]) -> String {
        let source = self.source();
        let arguments = ["backup", "--json", source.to_str().unwrap()];
        let ran = self.run(arguments.iter().chain(flags)).ends(0);
        ran.last()["snapshot_id"].as_str().unwrap().to_owned()
    }

    /// Ids of all snapshots, oldest first.
    pub(crate) fn snapshots(&self) -> Vec<String> {
        let lines = self.run(["snapshots", "--json"]).ends(0).lines();
        lines.iter().filter_map(|line| line["snapshot_id"].as_str().map(str::to_owned)).collect()
    }

    /// The one container of the repository that is larger than `bytes`.
    pub(crate) fn container_over(&self, bytes: u64) -> PathBuf {
        let mut large = self.containers().into_iter().filter(|file| length(file) > bytes);
        large.next().unwrap()
    }

    /// All containers of the repository, the oldest first.
    pub(crate) fn containers(&self) -> Vec<PathBuf> {
        let shards = std::fs::read_dir(self.path("repository/containers")).unwrap();
        let files = shards.flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap());
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }
}

/// `shell` with the variables of `command`, which it starts, and no others.
pub(crate) fn around(mut shell: Command, command: &Command) -> Command {
    shell.env_clear().stdin(Stdio::null());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// Runs to the end.
pub(crate) fn ended(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub(crate) fn length(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

/// Bytes that do not compress.
pub(crate) fn random(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
