//! Words of other programs, answered.

use crate::codes::Code;
use crate::failure::{Failure, Result};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Commands of restic, borg and kopia, and what does the same here.
pub(crate) const COMMANDS: [(&str, &str); 15] = [
    ("create", "icecore backup PATH"),
    ("save", "icecore backup PATH"),
    ("list", "icecore snapshots"),
    ("archives", "icecore snapshots"),
    ("extract", "icecore restore SNAP --target DIR"),
    ("delete", "icecore forget SNAP"),
    ("compact", "icecore reclaim"),
    ("cleanup", "icecore reclaim"),
    ("maintenance", "icecore reclaim"),
    ("verify", "icecore check --read-data"),
    ("repair", "icecore check --repair, and icecore rebuild for the index"),
    ("show", "icecore cat SNAP:FILE"),
    ("export-tar", "icecore dump SNAP"),
    ("apply", "icecore server apply FILE"),
    ("self-update", "the package manager of your system: icecore does not update itself"),
];

/// Options of other programs' restores. The parser would propose what looks alike: `--delete` for `--dest`.
const TARGETS: [&str; 5] = ["--dest", "--destination", "--to", "--output", "--target-dir"];

/// What to say to a command or an option that another program has.
pub(crate) fn answer(error: &clap::Error) -> Option<Failure> {
    if error.kind() == ErrorKind::UnknownArgument {
        return of_target(error);
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (_, same) = COMMANDS.iter().find(|(word, _)| word == typed)?;
    Some(Failure::usage(format!("there is no command '{typed}'")).hint(format!("Use {same}")))
}

fn of_target(error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let is_meant =
        TARGETS.contains(&typed.as_str()) && usage.to_string().contains("icecore restore");
    is_meant.then(|| Failure::usage(format!("there is no option {typed}")).hint("Use --target DIR"))
}

/// Mounting is not there yet.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore ls latest:/etc\n  icecore restore latest:/etc --target /tmp/etc"
)]
pub(crate) struct Mount {
    #[arg(hide = true, num_args = 0.., allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

impl Mount {
    pub(crate) fn run(&self) -> Result<Code> {
        Err(Failure::usage("a repository cannot be mounted yet")
            .hint("To look into a snapshot: icecore ls, find or cat. To get a part of it: icecore restore latest:/PATH --target DIR"))
    }
}

/// There is nothing to unlock.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  icecore reclaim --wait 10m")]
pub(crate) struct Unlock {
    #[arg(hide = true, num_args = 0.., allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

impl Unlock {
    pub(crate) fn run(&self) -> Result<Code> {
        Err(Failure::usage(
            "there is nothing to unlock: a lock ends when its process ends",
        )
        .hint(
            "A command that finds the repository in use names the process. To wait for it: --wait 10m",
        ))
    }
}
