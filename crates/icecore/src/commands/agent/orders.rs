//! What an order becomes: this program with arguments of ours. Where restores may go is for the
//! machine to say, in the file `allow.toml` beside its identity.

use crate::context::Context;
use api::orders::{NewBackup, NewRestore, Order, Task};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

/// The file that says what the server may order.
const ALLOW: &str = "allow.toml";
/// Characters of a job's last words that the server is told.
const WORDS_MAX: usize = 900;

/// How an order ended.
pub(super) struct Outcome {
    pub(super) is_complete: bool,
    pub(super) text: String,
}

impl Outcome {
    pub(super) fn refused(text: String) -> Self {
        Self { is_complete: false, text }
    }
}

/// The file `allow.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Allow {
    /// Restores may go below these folders.
    restore_below: Vec<PathBuf>,
    /// What is backed up when an order names nothing.
    backup: Vec<String>,
    /// Backups that are ordered may take what is below these folders; all when there are none.
    backup_below: Vec<PathBuf>,
}

/// Does what `order` says, as far as this machine allows it.
pub(super) fn obey(context: &Context, order: &Order) -> Outcome {
    let allow = match allowed(&context.agent_folder()) {
        Ok(allow) => allow,
        Err(text) => return Outcome::refused(text),
    };
    let arguments = match &order.task {
        Task::Backup(backup) => of_backup(backup, &allow),
        Task::Restore(restore) => of_restore(restore, &allow),
    };
    match arguments {
        Ok(arguments) => start(context, &arguments),
        Err(text) => Outcome::refused(text),
    }
}

fn allowed(folder: &Path) -> Result<Allow, String> {
    let path = folder.join(ALLOW);
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text)
            .map_err(|error| format!("{}: {}", path.display(), error.message())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Allow::default()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn of_backup(backup: &NewBackup, allow: &Allow) -> Result<Vec<OsString>, String> {
    let paths = if backup.paths.is_empty() { &allow.backup } else { &backup.paths };
    if paths.is_empty() {
        return Err(format!("the order names no paths, and {ALLOW} has no backup = [...]"));
    }
    for path in paths {
        let is_within = allow.backup_below.is_empty()
            || allow.backup_below.iter().any(|folder| is_below(Path::new(path), folder));
        if !Path::new(path).is_absolute() || !is_within {
            return Err(format!("{path} is not among what {ALLOW} lets the server back up"));
        }
    }
    let words = ["backup", "--json", "--"].into_iter().map(OsString::from);
    Ok(words.chain(paths.iter().map(OsString::from)).collect())
}

fn of_restore(restore: &NewRestore, allow: &Allow) -> Result<Vec<OsString>, String> {
    let target = Path::new(&restore.target);
    if !allow.restore_below.iter().any(|folder| is_below(target, folder)) {
        return Err(format!(
            "this machine does not let the server restore to {}: add restore_below = [\"FOLDER\"] to {ALLOW}",
            target.display()
        ));
    }
    let mut words: Vec<OsString> = ["restore", "--json"].map(OsString::from).into();
    words.push(format!("--target={}", restore.target).into());
    if let Some(domain) = &restore.domain {
        words.push(format!("--domain={domain}").into());
    }
    words.extend(restore.paths.iter().map(|path| format!("--include={path}").into()));
    words.extend(["--".into(), OsString::from(&restore.snapshot)]);
    Ok(words)
}

/// Whether `path` is `folder` or below it, by its words alone: no `..`, nothing relative.
fn is_below(path: &Path, folder: &Path) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    path.is_absolute() && path.components().all(is_plain) && path.starts_with(folder)
}

fn start(context: &Context, arguments: &[OsString]) -> Outcome {
    let failed = |error: std::io::Error| Outcome::refused(format!("cannot start the job: {error}"));
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(error),
    };
    let output = Command::new(program)
        .args(arguments)
        .env("ICECORE_AGENT_DIR", context.agent_folder())
        .env_remove("ICECORE_REPO")
        .env_remove("ICECORE_PROFILE")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    match output {
        Ok(output) => {
            let code = output.status.code();
            let text = last_words(&output.stdout);
            // 3: done, but some objects could not be read or written.
            Outcome { is_complete: matches!(code, Some(0 | 3)), text }
        }
        Err(error) => failed(error),
    }
}

/// The summary or error of a job, without what is too long to tell.
fn last_words(stdout: &[u8]) -> String {
    let text = String::from_utf8_lossy(stdout);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(last).unwrap_or_default();
    let words = ["message", "snapshot_id", "name"];
    let said: Vec<_> =
        words.iter().filter_map(|word| Some(format!("{word} {}", value.get(word)?))).collect();
    let mut said = said.join(", ");
    said.truncate(said.floor_char_boundary(WORDS_MAX));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restore(target: &str) -> NewRestore {
        NewRestore {
            node: "web".parse().unwrap(),
            domain: None,
            snapshot: "--overwrite=always".into(),
            paths: vec!["--delete".into()],
            target: target.into(),
        }
    }

    #[test]
    fn a_restore_goes_only_where_this_machine_lets_it() {
        let allow = Allow { restore_below: vec!["/srv/restores".into()], ..Allow::default() };
        for target in ["/etc", "/srv", "/srv/restores/../../etc", "srv/restores", "/srv/restores2"]
        {
            assert!(of_restore(&restore(target), &allow).is_err(), "{target}");
        }
        assert!(of_restore(&restore("/srv/restores/today"), &allow).is_ok());
        assert!(of_restore(&restore("/srv/restores/today"), &Allow::default()).is_err());
    }

    #[test]
    fn nothing_in_an_order_becomes_an_option() {
        let allow = Allow { restore_below: vec!["/srv".into()], ..Allow::default() };
        let words = of_restore(&restore("/srv/x"), &allow).unwrap();
        let expected = [
            "restore",
            "--json",
            "--target=/srv/x",
            "--include=--delete",
            "--",
            "--overwrite=always",
        ];
        assert_eq!(words, expected.map(OsString::from));
        let backup = NewBackup { node: "web".parse().unwrap(), paths: vec!["--command".into()] };
        assert!(of_backup(&backup, &Allow::default()).is_err(), "only absolute paths");
    }
}
