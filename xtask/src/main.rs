//! Checks of the repository for developers.
//!
//! All of them also run as tests of this crate, so that `cargo test --workspace` finds a wrong dependency or word.

mod files;
mod layers;
mod numbers;
mod promises;
mod purity;
mod source;
mod spelling;
mod tidy;
mod words;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask layers            a crate depends only on lower layers; pure crates do no I/O
cargo xtask tidy              documents name paths that exist; files and functions stay small
cargo xtask promises          what documents promise names its tests
cargo xtask words             words that the glossary no longer uses, and British spelling
cargo xtask numbers           lengths of files and functions, and the share of comments, as a table
";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_else(|| "help".to_owned());
    match command.as_str() {
        "layers" => report("layers", layers::problems()),
        "tidy" => report("tidy", tidy::problems()),
        "promises" => report("promises", promises::problems()),
        "words" => report("words", words::problems()),
        "numbers" => {
            print!("{}", numbers::table());
            ExitCode::SUCCESS
        }
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("unknown command: {other}\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn report(name: &str, problems: Vec<String>) -> ExitCode {
    if problems.is_empty() {
        println!("{name}: no problems");
        return ExitCode::SUCCESS;
    }
    problems.iter().for_each(|problem| eprintln!("{name}: {problem}"));
    eprintln!("{name}: {} problems", problems.len());
    ExitCode::FAILURE
}
