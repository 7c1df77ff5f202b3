//! The commands: one file each.

pub(crate) mod backup;
pub(crate) mod exit_codes;
pub(crate) mod init;
pub(crate) mod ls;
pub(crate) mod snapshots;

use crate::cli::Command;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;

/// Runs one command.
pub(crate) fn run(command: &Command, context: &Context) -> Result<Code> {
    match command {
        Command::Init(init) => init.run(context),
        Command::Backup(backup) => backup.run(context),
        Command::Snapshots(snapshots) => snapshots.run(context),
        Command::Ls(ls) => ls.run(context),
        Command::ExitCodes(exit_codes) => exit_codes.run(context),
    }
}
