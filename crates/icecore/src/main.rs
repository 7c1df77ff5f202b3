//! The binary: flags, wiring, printing. What a command does is in `client`; this crate reads the
//! command line ([`cli`]), opens the repository ([`context`], [`secret`], [`profile`]), runs one
//! of [`commands`], and shows what it says ([`out`], [`failure`], [`codes`]).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cli;
mod codes;
mod commands;
mod context;
mod escape;
mod failure;
mod out;
mod profile;
mod progress;
mod rates;
mod secret;
mod session_report;
mod signals;
mod tarball;
mod time;
mod units;

use clap::Parser;
use cli::Cli;
use codes::Code;
use context::Context;
use failure::Failure;
use out::Out;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let code = match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(error) => not_parsed(&error),
    };
    code.into()
}

fn run(cli: Cli) -> Code {
    let out = Arc::new(Out::new(cli.global.json, cli.global.quiet));
    let result =
        Context::new(cli.global, &out).and_then(|context| commands::run(&cli.command, &context));
    let result = result.and_then(|code| out.flush().map(|()| code).map_err(Failure::from));
    result.unwrap_or_else(|failure| out.fail(&failure))
}

/// Help and version go to the output with status 0; all else is wrong usage.
fn not_parsed(error: &clap::Error) -> Code {
    if !error.use_stderr() {
        let _ = error.print(); // nobody to tell when this fails
        return Code::Complete;
    }
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if !wants_json {
        let _ = error.print();
        return Code::Usage;
    }
    let text = error.render().to_string();
    let message = text.lines().next().unwrap_or("wrong usage").trim_start_matches("error: ");
    Out::new(true, false).fail(&Failure::usage(message).hint("icecore help"))
}
