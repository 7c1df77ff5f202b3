//! All of the binary but its `main`: flags, wiring, printing. What a command does is in `pipeline`; this crate reads the
//! command line ([`cli`]), opens the repository ([`context`], [`secret`], [`profile`]), runs one
//! of [`commands`], and shows what it says ([`out`], [`failure`], [`codes`]).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allocator;
mod alone;
mod child;
mod cli;
mod client_options;
mod clock_advice;
mod codes;
mod commands;
mod context;
mod copies;
mod descriptors;
mod escape;
mod failure;
mod filter;
mod full_disk;
mod home;
mod hooks;
mod lines;
mod location;
mod lost_config;
mod node;
mod options;
mod ourselves;
mod out;
mod password_cost;
mod paths;
mod place;
mod proc;
mod profile;
mod progress;
mod rates;
mod read_only;
mod requests;
mod secret;
mod session_report;
mod signals;
mod table;
mod tarball;
mod terminal;
mod text_file;
mod time;
mod typed_repo;
mod units;
mod wait;
mod width;

use clap::FromArgMatches;
use clap::error::ErrorKind;
use cli::Cli;
use client_options::Candidate;
use codes::Code;
use context::Context;
use failure::Failure;
use out::Out;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Does what the command line says.
pub fn main() -> ExitCode {
    signals::survive_limit_of_file_size();
    let code = match Cli::read(std::env::args_os()) {
        Ok((cli, typed)) => run(cli, typed),
        Err(error) => not_parsed(&error),
    };
    code.into()
}

/// Whether `words`, the name of the program first, are a command line that makes sense: for who
/// tries many of them.
pub fn parses(words: impl IntoIterator<Item = OsString>) -> bool {
    // Describing the command line takes longer than reading it, and so does copying what was
    // described: it is asked again and again.
    static COMMAND: LazyLock<Mutex<clap::Command>> = LazyLock::new(|| {
        let mut command = Cli::described();
        command.build();
        Mutex::new(command)
    });
    let mut command = COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
    let matches = command.try_get_matches_from_mut(words);
    matches.is_ok_and(|mut matches| Cli::from_arg_matches_mut(&mut matches).is_ok())
}

fn run(cli: Cli, typed: Vec<Candidate>) -> Code {
    if !cli.command.is_of_servers() {
        allocator::share_arenas();
    }
    let out = Out::new(cli.global.json, cli.global.quiet).naming(typed_repo::typed(&typed));
    let out = Arc::new(out);
    let notes = out.clone();
    repository::local::listen(move |text| notes.note(text));
    let result = Context::new(cli.global, typed, &out).and_then(|mut context| {
        commands::prepare(&cli.command, &mut context)?;
        let code = commands::run(&cli.command, &context, Cli::described);
        context.tell_copies();
        code
    });
    let result = result.and_then(|code| Failure::ignore_broken_pipe(out.flush()).map(|()| code));
    if cli.command.is_job() {
        out.tell_requests();
    }
    result.unwrap_or_else(|mut failure| {
        failure.hint = failure.hint.map(|hint| out.named(&hint).into_owned());
        out.fail(&failure)
    })
}

/// Help and version go to the output with status 0; all else is wrong usage.
fn not_parsed(error: &clap::Error) -> Code {
    if !error.use_stderr() {
        let _ = error.print(); // nobody to tell when this fails
        return Code::Complete;
    }
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if let Some(answer) = commands::words::answer(error) {
        return Out::new(wants_json, false).fail(&answer);
    }
    if !wants_json {
        let _ = match error.kind() {
            // Clap lists all commands in one line, hidden ones too.
            ErrorKind::MissingSubcommand => write!(std::io::stderr(), "{}", typed().render_help()),
            _ => error.print(),
        };
        return Code::Usage;
    }
    let text = error.render().to_string();
    Out::new(true, false).fail(&Failure::usage(first_paragraph(&text)).hint(help()))
}

/// What is wrong, with the names of what is missing; not how the usage would be.
fn first_paragraph(text: &str) -> String {
    let lines = text.trim_start_matches("error: ").lines().map(str::trim);
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The command that was typed, as far as it is one.
fn typed() -> clap::Command {
    let mut command = Cli::described();
    command.build();
    for word in std::env::args_os().skip(1) {
        if let Some(found) = command.find_subcommand(word) {
            command = found.clone();
        }
    }
    command
}

/// The help of the command that was typed.
fn help() -> String {
    let typed = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok());
    let mut known = typed.filter(|word| Cli::described().find_subcommand(word).is_some());
    known.next().map_or_else(|| "icecore help".into(), |name| format!("icecore {name} --help"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_understood_alike_however_often_and_after_whatever() {
        let lines: [(&[&str], bool); 6] = [
            (&["backup", "/etc", "--tag", "a"], true),
            (&["backup", "--no-such-flag"], false),
            (&["restore"], false),
            (&["key", "list", "--json"], true),
            (&["--help"], false),
            (&["backup", "/etc"], true),
        ];
        for _ in 0..3 {
            for (words, is_good) in lines {
                let all = std::iter::once("icecore").chain(words.iter().copied());
                assert_eq!(parses(all.map(OsString::from)), is_good, "{words:?}");
            }
        }
    }

    #[test]
    fn commands_of_other_programs_are_answered_and_none_of_them_is_ours() {
        use commands::words::{COMMANDS, answer};
        for (word, _) in COMMANDS {
            assert!(Cli::described().find_subcommand(word).is_none(), "{word}");
            let error = Cli::read(["icecore", word].map(OsString::from)).unwrap_err();
            assert!(answer(&error).unwrap().hint.unwrap().starts_with("Use "), "{word}");
        }
        for option in ["--dest", "--to"] {
            let words = ["icecore", "restore", "latest", option, "x"].map(OsString::from);
            let hint = answer(&Cli::read(words).unwrap_err()).unwrap().hint;
            assert_eq!(hint.as_deref(), Some("Use --target DIR"), "{option}");
        }
        let error = Cli::read(["icecore", "ls", "--to"].map(OsString::from)).unwrap_err();
        assert!(answer(&error).is_none());
        let error = Cli::read(["icecore", "bakcup"].map(OsString::from)).unwrap_err();
        assert!(answer(&error).is_none());
        assert!(error.to_string().contains("backup"), "{error}");
    }
}
