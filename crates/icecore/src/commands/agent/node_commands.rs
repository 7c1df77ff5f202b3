//! What a command becomes: this program with arguments of ours. What may be read and where restores may go is for
//! the machine to say: see [`crate::node::allow`].

use super::cancelled::Worker;
use super::orphaned;
use crate::codes::Code;
use crate::context::Context;
use crate::lines::Lines;
use crate::node::allow::{self, ALLOW, Allow};
use crate::node::policy::JobOptions;
use crate::node::streams;
use crate::ourselves;
use api::commands::{NewBackup, NewRestore, NodeCommand, Task};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread::Builder;

/// Maximum number of characters of a job's last line that are sent to the server.
const WORDS_MAX: usize = 900;

/// How a command ended.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) is_complete: bool,
    pub(super) text: String,
}

impl Outcome {
    /// The text may name what the command says, which has any length.
    pub(super) fn refused(text: String) -> Self {
        let text = text[..text.floor_char_boundary(WORDS_MAX)].to_owned();
        Self { is_complete: false, text }
    }

    /// As a job that ended so says it: the server tells it by its name from other ends.
    fn not_allowed(text: &str) -> Self {
        let (message, name) = (Value::from(text), Code::NotAllowed.name());
        Self::refused(format!("message {message}, name \"{name}\""))
    }
}

/// Does what `command` says, as far as this machine allows it.
pub(super) fn obey(context: &Context, command: &NodeCommand) -> Outcome {
    let allow = match allow::read(&context.agent_folder()) {
        Ok(allow) => allow,
        Err(text) => return Outcome::refused(text),
    };
    let arguments = match &command.task {
        Task::Backup(backup) => {
            of_backup(context, backup, &allow).map(|words| numbered(command.id, words))
        }
        Task::Restore(restore) => of_restore(restore, &allow),
    };
    let job = match &command.task {
        Task::Backup(backup) => backup.job,
        Task::Restore(_) => None,
    };
    if let Some(outcome) = job.and_then(|job| orphaned::awaited(context, job)) {
        return outcome;
    }
    match arguments {
        Ok(arguments) => start(context, &arguments, job),
        Err(text) => Outcome::not_allowed(&text),
    }
}

/// A stream is of the machine's own list; which programs there are, the server does not say.
fn of_backup(
    context: &Context,
    backup: &NewBackup,
    allow: &Allow,
) -> Result<Vec<OsString>, String> {
    let Some(stream) = &backup.stream else { return of_paths(backup, allow) };
    if !backup.paths.is_empty() || !backup.only.is_empty() {
        return Err("the command names a stream and paths".to_owned());
    }
    let program = streams::find(&context.agent_folder(), stream)?;
    let mut words = words_of(backup)?;
    words.push(format!("--command={stream}").into());
    words.push("--".into());
    words.extend(program.into_iter().map(OsString::from));
    Ok(words)
}

/// How a backup is made, whatever it is of.
fn words_of(backup: &NewBackup) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> =
        ["backup", "--json", "--node-command"].map(OsString::from).into();
    words.extend(backup.job.map(|job| format!("--job-number={job}").into()));
    if backup.has_options {
        let (options, origins) = (backup.options.clone(), backup.origins.clone());
        let json = serde_json::to_string(&JobOptions { options, origins });
        let json = json.map_err(|error| error.to_string())?;
        words.push(format!("--job-options={json}").into());
    }
    words.extend(backup.full.then(|| "--full".into()));
    words.extend(backup.ignore_inode.then(|| "--ignore-inode".into()));
    words.extend(backup.since.map(|since| format!("--read-since={}", utc(since)).into()));
    Ok(words)
}

/// As `--read-since` takes it.
fn utc(secs: i64) -> String {
    jiff::Timestamp::from_second(secs).unwrap_or(jiff::Timestamp::MIN).to_string()
}

/// The words of the machine's own list are allowed as they stand; those of a command below `backup_below`. Whether a
/// link leads out of there the job looks itself, when it opens them.
fn of_paths(backup: &NewBackup, allow: &Allow) -> Result<Vec<OsString>, String> {
    let is_own = backup.paths.is_empty();
    let paths = if is_own { &allow.backup } else { &backup.paths };
    if paths.is_empty() {
        return Err(format!("the command names no paths, and {ALLOW} has no backup = [...]"));
    }
    let folders: Vec<PathBuf> = match is_own {
        true => paths.iter().map(PathBuf::from).collect(),
        false => allow.backup_below.clone(),
    };
    for path in paths {
        if innermost(Path::new(path), &folders).is_none() {
            return Err(format!(
                "this machine does not let the server back up {path}: name its folder in the list backup_below of {ALLOW}: backup_below = [\"FOLDER\"]"
            ));
        }
    }
    let mut words = words_of(backup)?;
    words.extend(folders.iter().map(|folder| option("--within=", folder)));
    words.extend(backup.excludes.iter().map(|pattern| format!("--exclude={pattern}").into()));
    words.extend(backup.only.iter().map(|pattern| format!("--only={pattern}").into()));
    words.extend(backup.series.iter().map(|series| format!("--series={series}").into()));
    words.push("--".into());
    words.extend(paths.iter().map(OsString::from));
    Ok(words)
}

/// The server then knows to which command the backup belongs.
fn numbered(command: u64, mut words: Vec<OsString>) -> Vec<OsString> {
    words.insert(1, format!("--command-number={command}").into());
    words
}

fn of_restore(restore: &NewRestore, allow: &Allow) -> Result<Vec<OsString>, String> {
    let target = Path::new(&restore.target);
    let Some(folder) = innermost(target, &allow.restore_below) else {
        return Err(format!(
            "this machine does not let the server restore to {}: name its folder in the list restore_below of {ALLOW}: restore_below = [\"FOLDER\"]",
            target.display()
        ));
    };
    let mut words: Vec<OsString> =
        ["restore", "--json", "--node-command"].map(OsString::from).into();
    words.push(option("--target=", target));
    words.push(option("--target-below=", folder));
    words.extend(allow.restore_privileged.then(|| "--privileged".into()));
    if let Some(domain) = &restore.domain {
        words.push(format!("--domain={domain}").into());
    }
    words.extend(restore.paths.iter().map(|path| format!("--only={path}").into()));
    words.extend(["--".into(), OsString::from(&restore.snapshot)]);
    Ok(words)
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

/// The longest of `folders` that `path` is or lies below, by its words alone: no `..`, nothing relative.
fn innermost<'a>(path: &Path, folders: &'a [PathBuf]) -> Option<&'a Path> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let is_clean = path.is_absolute() && path.components().all(is_plain);
    let around = folders.iter().filter(|folder| is_clean && path.starts_with(folder));
    let around = around.filter(|folder| folder.is_absolute());
    around.max_by_key(|folder| folder.components().count()).map(PathBuf::as_path)
}

fn start(context: &Context, arguments: &[OsString], job: Option<u64>) -> Outcome {
    let failed = |error: io::Error| Outcome::refused(format!("cannot start the job: {error}"));
    let mut command = ourselves::command();
    command.args(arguments).env("ICECORE_AGENT_DIR", context.agent_folder());
    command.env_remove("ICECORE_REPO").env_remove("ICECORE_PROFILE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    match command.spawn().and_then(|child| ended(context, child, job)) {
        Ok((status, words)) => {
            let by = |signal| killed(&format!("the process was killed by signal {signal}"));
            let text = status.signal().map_or(words, by);
            // 3: done, but some objects could not be read or written.
            Outcome { is_complete: matches!(status.code(), Some(0 | 3)), text }
        }
        Err(error) => failed(error),
    }
}

/// Waits for the end of `child`, which it asks to end if its job is cancelled.
fn ended(
    context: &Context,
    mut child: Child,
    job: Option<u64>,
) -> io::Result<(ExitStatus, String)> {
    let output = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    let worker = job.and_then(|job| Worker::of(&child, job));
    std::thread::scope(|scope| {
        let (over, is_over) = channel();
        if let Some(worker) = &worker {
            let watch = move || worker.watch(context, &is_over);
            // Where none can start, it ends with its session.
            let _ = Builder::new().spawn_scoped(scope, watch);
        }
        let said = last_words(output);
        let status = child.wait();
        drop(over);
        Ok((status?, said?))
    })
}

/// It could not say anything itself. The server tells it by its name from other ends.
pub(super) fn killed(how: &str) -> String {
    format!("message {}, name \"{}\"", Value::from(how), api::commands::KILLED)
}

/// The summary or error of a job, and how its hooks ended, without what is too long to tell. Nothing else is kept.
fn last_words(output: impl Read) -> io::Result<String> {
    let (mut lines, mut last, mut hooks) = (Lines::of(output), Value::Null, Vec::new());
    while let Some(line) = lines.next()? {
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        match line["message_type"].as_str() {
            Some("hook") if hooks.iter().map(String::len).sum::<usize>() < WORDS_MAX => {
                hooks.push(hook_words(&line));
            }
            Some("hook") => {}
            _ => last = line,
        }
    }
    // The error of a hook that failed says the same.
    let message = last["message"].as_str().unwrap_or_default();
    hooks.retain(|hook| !message.starts_with(hook));
    let words = ["message", "snapshot_id", "name"];
    let said = words.iter().filter_map(|word| Some(format!("{word} {}", last.get(word)?)));
    let said = said.chain(hooks).collect::<Vec<_>>().join(", ");
    Ok(said[..said.floor_char_boundary(WORDS_MAX)].to_owned())
}

fn hook_words(line: &Value) -> String {
    let word = |key: &str| line[key].as_str().unwrap_or_default().trim().to_owned();
    let said = format!("hook {} ({}): {}", word("name"), word("stage"), word("status"));
    let output = word("output");
    if output.is_empty() { said } else { format!("{said}; {}", output.replace('\n', "; ")) }
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
    fn of_what_a_job_prints_its_hooks_and_its_end_are_told() {
        let problem = r#"{"message_type":"problem","path":"/dead","reason":"no answer"}"#;
        let hook = r#"{"message_type":"hook","name":"dump","stage":"pre","status":"done","output":"a\nb"}"#;
        let end = r#"{"message_type":"summary","name":"partial","snapshot_id":"ab"}"#;
        let printed = [problem, "no JSON", hook, problem, end, ""].join("\n");
        let told = r#"snapshot_id "ab", name "partial", hook dump (pre): done; a; b"#;
        assert_eq!(last_words(printed.as_bytes()).unwrap(), told);
        assert_eq!(last_words(hook.as_bytes()).unwrap(), "hook dump (pre): done; a; b");
        assert_eq!(last_words(&b""[..]).unwrap(), "");
        let bad = r#"{"message_type":"hook","name":"bad","stage":"pre","status":"failed: exit status: 7","output":"x\n"}"#;
        let error = r#"{"message_type":"error","message":"hook bad (pre): failed: exit status: 7; x","name":"hook-failed"}"#;
        let told = last_words([bad, hook, error].join("\n").as_bytes()).unwrap();
        assert_eq!(told.matches("bad (pre)").count(), 1, "{told}");
        assert!(told.ends_with(", hook dump (pre): done; a; b"), "{told}");
        let printed = format!("{}{end}", format!("{hook}\n").repeat(1000));
        assert_eq!(last_words(printed.as_bytes()).unwrap().len(), WORDS_MAX);
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
    fn nothing_in_a_command_becomes_an_option() {
        let allow = Allow { restore_below: vec!["/srv".into()], ..Allow::default() };
        let words = of_restore(&restore("/srv/x"), &allow).unwrap();
        let expected = [
            "restore",
            "--json",
            "--node-command",
            "--target=/srv/x",
            "--target-below=/srv",
            "--only=--delete",
            "--",
            "--overwrite=always",
        ];
        assert_eq!(words, expected.map(OsString::from));
        let privileged = Allow { restore_privileged: true, ..allow };
        let words = of_restore(&restore("/srv/x"), &privileged).unwrap();
        assert!(words.contains(&"--privileged".into()), "only the machine itself says so");
        let backup = NewBackup::of("web".parse().unwrap(), vec!["--command".into()]);
        let all = Allow { backup_below: vec!["/".into()], ..Allow::default() };
        assert!(of_paths(&backup, &all).is_err(), "only absolute paths");
    }

    #[test]
    fn what_a_backup_leaves_out_and_reads_again_stands_before_its_paths() {
        let all = Allow { backup_below: vec!["/srv".into()], ..Allow::default() };
        let excludes = vec!["--full".to_owned(), "*.o".to_owned()];
        let backup = NewBackup { excludes, full: true, ..backup(&["/srv/a"]) };
        let words = numbered(17, of_paths(&backup, &all).unwrap());
        let expected = [
            "backup",
            "--command-number=17",
            "--json",
            "--node-command",
            "--full",
            "--within=/srv",
            "--exclude=--full",
            "--exclude=*.o",
            "--",
            "/srv/a",
        ];
        assert_eq!(words, expected.map(OsString::from));
    }

    fn backup(paths: &[&str]) -> NewBackup {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        NewBackup::of("web".parse().unwrap(), paths)
    }

    #[test]
    fn without_a_list_nothing_may_be_read() {
        for allow in [Allow::default(), Allow { backup_below: vec!["".into()], ..Allow::default() }]
        {
            for path in ["/", "/etc", "/etc/passwd", "etc"] {
                assert!(of_paths(&backup(&[path]), &allow).is_err(), "{path}");
            }
        }
        let one = Allow { backup_below: vec!["/srv".into()], ..Allow::default() };
        assert!(of_paths(&backup(&["/srv/a", "/etc"]), &one).is_err(), "one of two is not allowed");
        assert!(of_paths(&backup(&["/srv/../etc"]), &one).is_err());
        assert!(of_paths(&backup(&["/srv/a"]), &one).is_ok());
    }

    #[test]
    fn the_own_list_of_a_machine_is_allowed_without_another_word() {
        let own = Allow { backup: vec!["/etc".into()], ..Allow::default() };
        let words = of_paths(&backup(&[]), &own).unwrap();
        let expected = ["backup", "--json", "--node-command", "--within=/etc", "--", "/etc"];
        assert_eq!(words, expected.map(OsString::from));
        assert!(of_paths(&backup(&["/etc/ssl"]), &own).is_err(), "a command's own words are not");
    }
}
