//! What the command line and the environment say.

use super::table::{Row, TABLE};
use super::{Candidate, Layer};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The commands whose flags are options of a backup. In others, flags of these names mean something else: the node
/// whose snapshots are listed, for example.
const OF_A_BACKUP: [&str; 3] = ["backup", "explain", "options"];

/// The options on the command line.
pub(crate) fn typed(command: &Command, matches: &ArgMatches) -> Vec<Candidate> {
    let leaf = matches.subcommand().filter(|(name, _)| OF_A_BACKUP.contains(name));
    let leaf = leaf.and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches)));
    let innermost = innermost(matches);
    let found = TABLE.iter().filter_map(|row| {
        let own = leaf.and_then(|(command, matches)| given(row, command, matches));
        let values = own.or_else(|| given(row, command, innermost))?;
        let place = if row.flag.is_empty() { "PATH".into() } else { format!("--{}", row.flag) };
        Some(Candidate { option: row.name, layer: Layer::CommandLine, place, values })
    });
    found.collect()
}

/// Where global options stand, wherever they were typed.
fn innermost(mut matches: &ArgMatches) -> &ArgMatches {
    while let Some((_, deeper)) = matches.subcommand() {
        matches = deeper;
    }
    matches
}

/// The values of `row` that were typed.
fn given(row: &Row, command: &Command, matches: &ArgMatches) -> Option<Vec<OsString>> {
    let is_it = |argument: &&clap::Arg| match row.flag {
        "" => argument.is_positional() && argument.get_id() == row.name,
        flag => argument.get_long() == Some(flag),
    };
    let id = command.get_arguments().find(is_it)?.get_id().as_str();
    let is_typed = matches.try_contains_id(id).is_ok()
        && matches.value_source(id) == Some(ValueSource::CommandLine);
    is_typed.then(|| matches.get_raw(id).into_iter().flatten().map(OsStr::to_owned).collect())
}

/// The options in the environment. `variable` is `std::env::var_os`.
pub(crate) fn environment(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Candidate> {
    let found = TABLE.iter().filter_map(|row| {
        let place = row.variable();
        let value = variable(&place)?;
        let values = if row.is_list() { lines(&value) } else { vec![value] };
        Some(Candidate { option: row.name, layer: Layer::Environment, place, values })
    });
    found.collect()
}

/// A variable holds a list as lines: patterns and paths may contain any other separator.
fn lines(value: &OsStr) -> Vec<OsString> {
    let lines = value.as_bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| OsString::from_vec(line.to_vec())).collect()
}
