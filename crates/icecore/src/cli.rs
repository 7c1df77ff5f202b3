//! The command line as a whole. It stands above everything: nothing but `main` looks at it.

use crate::commands::Command;
use crate::options::Global;
use clap::Parser;

/// Back up files to an encrypted, deduplicated repository, and restore them.
#[derive(Parser, Debug)]
#[command(
    name = "icecore",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "To begin:\n  icecore init --repo /mnt/backup\n  icecore backup --repo /mnt/backup /home /etc\n\nExit codes: icecore help exit-codes"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}
