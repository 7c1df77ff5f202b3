//! The command line as a whole. It stands above everything: nothing but `main` looks at it.

use crate::client_options::Candidate;
use crate::client_options::typed::typed;
use crate::commands::Command;
use crate::options::Global;
use clap::{CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;

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

/// The commands by what they are for, as the help lists them: one list of them all helps nobody.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Back up and restore", &["init", "backup", "restore", "run", "copy"]),
    ("Look into snapshots", &["snapshots", "ls", "find", "diff", "cat", "dump", "map"]),
    (
        "Maintain a repository",
        &[
            "check",
            "forget",
            "reclaim",
            "rebuild",
            "stats",
            "key",
            "tag",
            "pool",
            "object-lock",
            "storage-class",
        ],
    ),
    ("Servers and nodes", &["server", "agent", "storage", "net", "lock-helper"]),
    (
        "Other commands",
        &["options", "explain", "bench", "version", "completions", "man", "exit-codes", "help"],
    ),
];
/// Columns of the names.
const NAME_WIDTH: usize = 15;

impl Cli {
    /// Reads a command line; also the client options in it.
    pub(crate) fn read(
        words: impl IntoIterator<Item = OsString>,
    ) -> Result<(Self, Vec<Candidate>), clap::Error> {
        let mut command = Self::described();
        let mut matches = command.try_get_matches_from_mut(words)?;
        let typed = typed(&command, &matches);
        let cli = Self::from_arg_matches_mut(&mut matches);
        Ok((cli.map_err(|error| error.format(&mut command))?, typed))
    }

    /// The whole command line, with its help in groups.
    pub(crate) fn described() -> clap::Command {
        let command = Self::command();
        let heading = *command.get_styles().get_header();
        let text =
            |name: &str| match command.find_subcommand(name).and_then(clap::Command::get_about) {
                Some(about) => about.to_string(),
                None => "Show this help, or that of a command".to_owned(), // clap adds `help` later
            };
        let groups = GROUPS.map(|(title, names)| {
            let rows = names.iter().map(|name| format!("  {name:<NAME_WIDTH$}{}\n", text(name)));
            format!("{heading}{title}:{heading:#}\n{}\n", rows.collect::<String>())
        });
        let template = format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{heading}Options:{heading:#}\n{{options}}{{after-help}}",
            groups.concat()
        );
        command.help_template(template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_command_once() {
        let mut command = Cli::command();
        command.build();
        let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut shown: Vec<_> = shown.map(|it| it.get_name().to_owned()).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.to_vec()).collect();
        shown.sort();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
        assert!(grouped.iter().all(|name| name.len() + 2 <= NAME_WIDTH));
    }
}
