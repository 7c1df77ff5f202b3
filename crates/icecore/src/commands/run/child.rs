//! A backup as a process of its own: what ends it does not end the others.

use super::due::PolicySource;
use crate::client_options::table;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::home;
use crate::lines;
use crate::ourselves;
use schedule::Level;
use site::{ChangeDetection, Compression, OptionValue};
use std::ffi::OsString;
use std::process::Stdio;

/// How a backup ended.
pub(super) struct Ended {
    pub(super) code: Code,
    pub(super) snapshot: Option<String>,
    pub(super) message: Option<String>,
}

/// Backs up a source, and waits for it.
pub(super) fn back_up(context: &Context, source: &PolicySource, level: Level) -> Result<Ended> {
    let failed = |error: std::io::Error| {
        Failure::new(Code::Failed, format!("cannot start the backup of {}: {error}", source.policy))
    };
    let mut command = ourselves::command();
    command.args(ours(context)?).arg("backup").args(words(source, level));
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let (status, last) = lines::run(command, lines::last).map_err(failed)?;
    let said: serde_json::Value = serde_json::from_slice(&last).unwrap_or_default();
    let text = |key: &str| said.get(key).and_then(|value| value.as_str()).map(str::to_owned);
    // Killed by a signal: no code.
    let number = status.code().and_then(|code| u8::try_from(code).ok());
    let code = Code::ALL.into_iter().find(|code| Some(code.number()) == number);
    let code = code.unwrap_or(Code::Failed);
    Ok(Ended { code, snapshot: text("snapshot_id"), message: text("message") })
}

/// What we were told about the repository.
fn ours(context: &Context) -> Result<Vec<OsString>> {
    let global = &context.global;
    let mut words: Vec<OsString> = vec!["--json".into(), "--repo".into(), context.repo()?.into()];
    let file = global.password_file.iter().map(|file| ("--password-file", file.into()));
    let command = global.password_command.iter().map(|it| ("--password-command", it.into()));
    let profile = global.profile.iter().map(|name| ("--profile", name.into()));
    let given: Vec<(&str, OsString)> = file.chain(command).chain(profile).collect();
    given.into_iter().for_each(|(name, value)| words.extend([name.into(), value]));
    Ok(words)
}

/// The command line of a backup behind the name of the command, as the policy has it.
pub(super) fn words(source: &PolicySource, level: Level) -> Vec<OsString> {
    let policy = &source.wanted;
    let excludes = source.source.excludes.iter();
    let mut words: Vec<_> = excludes.map(|pattern| format!("--exclude={pattern}")).collect();
    if let Compression::Level(level) = policy.compression {
        words.push(format!("--compression={level}"));
    }
    let is_full = level == Level::Complete || policy.change_detection == ChangeDetection::Full;
    words.extend(is_full.then(|| "--full".to_owned()));
    let ignores = policy.change_detection == ChangeDetection::IgnoreInode;
    words.extend(ignores.then(|| "--ignore-inode".to_owned()));
    let hooks = &policy.hooks;
    for (flag, hook) in
        [("pre", &hooks.pre), ("post", &hooks.post), ("on-failure", &hooks.on_failure)]
    {
        words.extend(hook.iter().map(|name| format!("--hook-{flag}={name}")));
    }
    for (name, option) in &policy.options {
        // What the table does not know, the backup refuses by its name.
        let name = table::row(name).map_or(name.as_str(), |row| row.flag);
        match &option.value {
            OptionValue::Flag(true) => words.push(format!("--{name}")),
            OptionValue::Flag(false) => {}
            OptionValue::List(list) => {
                words.extend(list.iter().map(|value| format!("--{name}={value}")));
            }
            value => words.push(format!("--{name}={value}")),
        }
    }
    words.push("--".to_owned());
    words.extend(source.source.paths.iter().map(|path| expanded(path)));
    words.into_iter().map(OsString::from).collect()
}

/// `~/work` of the user who runs this.
fn expanded(path: &str) -> String {
    let home = home::folder().and_then(|home| home.into_os_string().into_string().ok());
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => format!("{}/{rest}", home.trim_end_matches('/')),
        _ => path.to_owned(),
    }
}
