//! `icecore completions` and `icecore man`: made from the same definitions as the flags.

use crate::codes::{self, Code};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::out::Nothing;
use std::io::Write;
use std::path::PathBuf;

/// Print shell completions.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore completions bash > /etc/bash_completion.d/icecore\n  icecore completions zsh > ~/.zfunc/_icecore"
)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) fn run(&self, context: &Context, describe: fn() -> clap::Command) -> Result<Code> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut listed(describe()), "icecore", &mut text);
        context.out.stdout().write_all(&text)?;
        context.out.summary_beside(Code::Complete, &Nothing {})
    }
}

/// The same without the commands that no help lists: they only answer words of other programs.
fn listed(described: clap::Command) -> clap::Command {
    let all = clap::Command::new("icecore").version(env!("CARGO_PKG_VERSION"));
    let all = all.args(described.get_arguments().cloned());
    all.subcommands(described.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned())
}

/// Print the manual pages, or write them to files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore man | man -l -\n  icecore man --dir /usr/local/share/man/man1"
)]
pub(crate) struct Man {
    /// Write one file per command into this directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self, context: &Context, describe: fn() -> clap::Command) -> Result<Code> {
        let pages = pages(describe())?;
        match &self.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(|error| Failure::file(dir, &error))?;
                for (name, text) in &pages {
                    let file = dir.join(format!("{name}.1"));
                    std::fs::write(&file, text).map_err(|error| Failure::file(&file, &error))?;
                }
            }
            None => pages.iter().try_for_each(|(_, text)| context.out.stdout().write_all(text))?,
        }
        context.out.summary_beside(Code::Complete, &Nothing {})
    }
}

/// The page of every command, by its name with dashes.
fn pages(mut root: clap::Command) -> Result<Vec<(String, Vec<u8>)>> {
    root.build();
    let mut waiting = vec![root];
    let mut pages = Vec::new();
    while let Some(command) = waiting.pop() {
        waiting.extend(
            command
                .get_subcommands()
                .filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
                .cloned(),
        );
        let name = command.get_display_name().unwrap_or(command.get_name()).replace(' ', "-");
        pages.push((name, page(command)?));
    }
    pages.sort();
    Ok(pages)
}

fn page(command: clap::Command) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    text.extend_from_slice(b".SH \"EXIT STATUS\"\n.nf\n");
    text.extend_from_slice(codes::table().as_bytes());
    text.extend_from_slice(b"\n.fi\n");
    Ok(text)
}
