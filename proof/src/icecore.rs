//! Running the real binary: to its end, or until it is killed.

use crate::volume::Volume;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How a command ended.
pub(crate) enum Ended {
    /// By itself, with this output, after this time.
    Done(Output, Duration),
    /// Killed by us.
    Killed,
}

/// The binary and the repository that it works on.
pub(crate) struct Icecore {
    pub(crate) binary: PathBuf,
    pub(crate) repository: PathBuf,
    /// The file system of the repository, when it is shut down instead of the process killed.
    pub(crate) volume: Option<Volume>,
    /// With which it reaches a bucket.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Icecore {
    /// On the repository in a directory.
    pub(crate) fn on(binary: &Path, repository: PathBuf) -> Self {
        Self { binary: binary.to_owned(), repository, volume: None, variables: Vec::new() }
    }

    /// The command, not started; its output would be caught.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env("ICECORE_REPO", &self.repository)
            .env("ICECORE_PASSWORD", "crash test")
            .env_remove("ICECORE_PASSWORD_FILE")
            .env_remove("ICECORE_PASSWORD_COMMAND")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs to the end; what is not a success is an error with its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<(String, Duration), String> {
        let start = Instant::now();
        let output = self
            .command(arguments)
            .output()
            .map_err(|error| format!("cannot start icecore: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok((text, start.elapsed()))
        } else {
            Err(told(arguments, &output))
        }
    }

    /// Starts and kills after `delay`, unless it ends before.
    pub(crate) fn run_and_kill(
        &self,
        arguments: &[&str],
        delay: Duration,
    ) -> Result<Ended, String> {
        let start = Instant::now();
        // Its children too: what stands in for the binary may run it as one.
        let mut child = self
            .command(arguments)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start icecore: {error}"))?;
        while start.elapsed() < delay {
            if let Some(_status) = child.try_wait().map_err(|error| error.to_string())? {
                let elapsed = start.elapsed();
                let output = child.wait_with_output().map_err(|error| error.to_string())?;
                return Ok(Ended::Done(output, elapsed));
            }
            let left = delay.saturating_sub(start.elapsed());
            std::thread::sleep(left.min(Duration::from_micros(200)));
        }
        match &self.volume {
            Some(volume) => shut_down(volume, child, start),
            None => {
                let group = Pid::from_child(&child);
                kill_process_group(group, Signal::KILL).map_err(|error| error.to_string())?;
                child.wait().map_err(|error| error.to_string())?;
                Ok(Ended::Killed)
            }
        }
    }

    /// Ids of all snapshots, oldest first.
    pub(crate) fn snapshots(&self) -> Result<Vec<String>, String> {
        let (text, _) = self.run(&["snapshots", "--json"])?;
        let mut ids = Vec::new();
        // One array, or a line for each: take whatever objects have an id.
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        values.filter_map(Result::ok).for_each(|value| gather_ids(&value, &mut ids));
        Ok(ids)
    }

    pub(crate) fn restore(&self, snapshot: &str, target: &Path) -> Result<(), String> {
        let target = target.to_string_lossy();
        self.run(&["restore", snapshot, "--target", &target]).map(|_| ())
    }
}

/// Shuts the file system down under the command. What it reports done nevertheless, it had done
/// before.
fn shut_down(volume: &Volume, child: Child, start: Instant) -> Result<Ended, String> {
    volume.shut_down()?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let elapsed = start.elapsed();
    volume.come_back()?;
    if output.status.success() { Ok(Ended::Done(output, elapsed)) } else { Ok(Ended::Killed) }
}

/// The id in the summary that a backup ends with, if it says that it is done.
pub(crate) fn acknowledged(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let last: Value =
        serde_json::from_str(text.lines().rfind(|line| !line.trim().is_empty())?).ok()?;
    (output.status.success() && is_summary(&last)).then(|| id_of(&last)).flatten()
}

fn is_summary(value: &Value) -> bool {
    value["message_type"] == "summary"
}

fn id_of(value: &Value) -> Option<String> {
    let keys = ["snapshot_id", "snapshot", "id"];
    let direct = keys.iter().find_map(|key| value[*key].as_str());
    let nested = || keys.iter().find_map(|key| value["snapshot"][*key].as_str());
    direct.or_else(nested).map(str::to_owned)
}

fn gather_ids(value: &Value, ids: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| gather_ids(value, ids)),
        Value::Object(_) if value["snapshots"].is_array() => gather_ids(&value["snapshots"], ids),
        Value::Object(_) if is_summary(value) => {}
        Value::Object(_) => ids.extend(id_of(value)),
        _ => {}
    }
}

/// What a failed command said.
pub(crate) fn told(arguments: &[&str], output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    let tail: Vec<_> =
        String::from_utf8_lossy(&text).lines().rev().take(15).map(str::to_owned).collect();
    let tail: Vec<_> = tail.into_iter().rev().collect();
    format!("icecore {} ended with {}:\n{}", arguments.join(" "), output.status, tail.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_arrays_and_lines() {
        for text in [
            r#"[{"id":"a"},{"id":"b"}]"#,
            "{\"snapshot_id\":\"a\"}\n{\"id\":\"b\"}\n{\"message_type\":\"summary\",\"snapshot_id\":\"c\"}",
        ] {
            let mut ids = Vec::new();
            let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            values.filter_map(Result::ok).for_each(|value| gather_ids(&value, &mut ids));
            assert_eq!(ids, ["a", "b"]);
        }
    }
}
