//! Puts values of options where the flags of a command would have put them. The flags' own parsers read them, so
//! that a value means the same wherever it was said.

use super::resolve::{Effective, Resolved};
use super::table::{EXCLUDE, Kind, Row, row};
use super::{Candidate, Layer};
use crate::failure::{Failure, Result};
use std::ffi::OsString;

impl Resolved {
    /// Sets each option that `target` has a flag for, unless its flag was typed.
    ///
    /// # Errors
    /// A value that the flag would not take, with the place where it was said.
    pub(crate) fn apply_to<T: clap::Args>(&self, target: &mut T) -> Result<()> {
        let command = clap::Command::new("icecore").no_binary_name(true);
        let mut command = T::augment_args_for_update(command);
        self.iter().try_for_each(|effective| set(target, &mut command, effective))
    }
}

fn set<T: clap::Args>(
    target: &mut T,
    command: &mut clap::Command,
    effective: &Effective,
) -> Result<()> {
    let (row, strongest) = (effective.row, effective.chosen.last());
    let is_of_target = |argument: &&clap::Arg| argument.get_long() == Some(row.flag);
    let Some(own) = command.get_arguments().find(is_of_target) else { return Ok(()) };
    // Excludes are not one list: each place has its own rules.
    if row.name == EXCLUDE {
        return Ok(());
    }
    let own = own.get_id().clone();
    let Some(strongest) = strongest else { return Ok(()) };
    if effective.chosen.iter().all(|candidate| candidate.layer == Layer::CommandLine) {
        return Ok(());
    }
    let values = effective.chosen.iter().flat_map(|candidate| &candidate.values);
    let done = words(row, values.cloned().collect())
        .and_then(|words| update(target, command, &words, &own).map_err(|error| said(&error)));
    match done {
        // Checked when it came; a program of another version may have kept it.
        Err(_) if strongest.is_of_server() => Ok(()),
        done => done.map_err(|why| refused(strongest, &why)),
    }
}

/// Whether the flags of `T` take what `candidate` says.
///
/// # Errors
/// What is wrong, for people.
pub(crate) fn check<T: clap::Args>(candidate: &Candidate) -> std::result::Result<(), String> {
    let row = row(candidate.option).ok_or("there is no such option")?;
    let command = clap::Command::new("icecore").no_binary_name(true);
    let mut command = T::augment_args_for_update(command);
    let words = words(row, candidate.values.clone())?;
    command.try_get_matches_from_mut(words).map(drop).map_err(|error| said(&error))
}

/// The command line that says `values`. A switch that is off is said by silence.
fn words(row: &Row, values: Vec<OsString>) -> std::result::Result<Vec<OsString>, String> {
    if row.kind != Kind::Switch {
        return Ok(values.iter().map(|value| word(row.flag, value)).collect());
    }
    match values.last().and_then(|value| value.to_str()) {
        Some("true") => Ok(vec![OsString::from(format!("--{}", row.flag))]),
        Some("false") => Ok(Vec::new()),
        _ => Err("write true or false".to_owned()),
    }
}

fn word(flag: &str, value: &OsString) -> OsString {
    let mut word = OsString::from(format!("--{flag}="));
    word.push(value);
    word
}

/// Lets `words` set the one argument `own`: whatever else clap would set is a default.
fn update<T: clap::Args>(
    target: &mut T,
    command: &mut clap::Command,
    words: &[OsString],
    own: &clap::Id,
) -> std::result::Result<(), clap::Error> {
    let mut matches = command.try_get_matches_from_mut(words)?;
    for other in command.get_arguments().map(clap::Arg::get_id).filter(|id| *id != own) {
        let _ = matches.try_clear_id(other.as_str()); // of this very command: it is known
    }
    target.update_from_arg_matches_mut(&mut matches)
}

fn refused(candidate: &Candidate, why: &str) -> Failure {
    let (option, place) = (candidate.option, &candidate.place);
    Failure::usage(format!("the option {option} in {place}: {why}"))
        .hint("See what every option is set to, and where: icecore options")
}

/// The reason in what clap says: its first line.
fn said(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_options::table::TABLE;
    use crate::commands::backup::Backup;
    use crate::options::Global;
    use clap::{Arg, ArgAction, Args, Command, Parser};

    /// Flags of one run, which nothing else can say: what is backed up now, and how it is shown.
    const OF_ONE_RUN: [&str; 20] = [
        "files-from",
        "files-from-raw",
        "stdin",
        "command",
        "as",
        "time",
        "wait",
        "dry-run",
        "iexclude",
        "within",
        "json",
        "quiet",
        "node-command",
        "command-number",
        "job-options",
        "job-number",
        "only",
        "series",
        "read-since",
        "",
    ];

    #[derive(Parser, Debug)]
    #[command(no_binary_name = true)]
    struct Words {
        #[command(flatten)]
        global: Global,
        #[command(flatten)]
        backup: Backup,
    }

    fn said(option: &'static str, layer: Layer, values: &[&str]) -> Candidate {
        let values = values.iter().map(OsString::from).collect();
        Candidate { option, layer, place: "there:3".into(), values }
    }

    fn after(words: &[&str], all: Vec<Candidate>) -> Result<Backup> {
        let mut backup = Words::parse_from(words).backup;
        Resolved::new(all).apply_to(&mut backup)?;
        Ok(backup)
    }

    #[test]
    fn every_flag_of_a_backup_is_an_option_or_of_one_run() {
        let command = Backup::augment_args(Global::augment_args(Command::new("x")));
        let flags = command.get_arguments().map(|argument| argument.get_long().unwrap_or_default());
        for flag in flags {
            let is_option = TABLE.iter().any(|row| row.flag == flag && !flag.is_empty());
            assert!(
                is_option != OF_ONE_RUN.contains(&flag),
                "--{flag}: an option needs a row in table.rs"
            );
        }
    }

    #[test]
    fn the_table_agrees_with_the_flags() {
        let command = Backup::augment_args(Global::augment_args(Command::new("x")));
        for row in TABLE.iter().filter(|row| !row.flag.is_empty()) {
            let is_it = |argument: &&Arg| argument.get_long() == Some(row.flag);
            let argument = command.get_arguments().find(is_it).unwrap();
            let default =
                argument.get_default_values().first().map(|value| value.to_str().unwrap());
            assert!(default.is_none_or(|value| value == row.default), "{}", row.name);
            let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
            let is_list = matches!(argument.get_action(), ArgAction::Append);
            assert_eq!(
                (is_switch, is_list),
                (row.kind == Kind::Switch, row.is_list()),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn a_value_from_elsewhere_sets_its_own_option_and_no_other() {
        let all = vec![
            said("nice", Layer::CommandLine, &["4"]),
            said("limit-read", Layer::File, &["3M"]),
            said("full", Layer::Environment, &["true"]),
            said("tags", Layer::File, &["a", "b"]),
            said("compression", Layer::File, &["-3"]),
        ];
        let backup = after(&["--nice", "4", "--idle-io", "/etc"], all).unwrap();
        assert_eq!((backup.nice, backup.limit_read, backup.full), (4, Some(3 << 20), true));
        assert_eq!((backup.tags.len(), backup.idle_io, backup.choice.gitignore), (2, true, false));
        assert_eq!(
            (backup.compression, backup.chunk_cache_size),
            (seal::Level::Fixed(-3), 1 << 30)
        );
        assert_eq!(backup.paths, ["/etc"]);
    }

    #[test]
    fn what_the_flag_would_refuse_is_refused_with_its_place() {
        for (option, value) in [
            ("compression", "20"),
            ("nice", "20"),
            ("limit-cpu", "0"),
            ("threads", "257"),
            ("tags", "a,b"),
            ("full", "yes"),
            ("report", "long"),
            ("chunk-cache-size", "x"),
            ("node", "a/b"),
        ] {
            let failure = after(&[], vec![said(option, Layer::File, &[value])]).unwrap_err();
            assert!(failure.message.contains("there:3"), "{option}: {}", failure.message);
            assert!(row(option).is_some());
        }
        for (option, value) in
            [("compression", "19"), ("nice", "19"), ("limit-cpu", "1"), ("threads", "256")]
        {
            assert!(after(&[], vec![said(option, Layer::File, &[value])]).is_ok(), "{option}");
        }
    }
}
