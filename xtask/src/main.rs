//! Developer commands and checks of the house.
//!
//! `cargo xtask floors` and `cargo xtask tidy` also run as tests of this crate, so that
//! `cargo test --workspace` finds a wrong arrow. `cargo xtask crash` kills the real binary.

mod crash;
mod files;
mod floors;
mod purity;
#[cfg(feature = "sabotage")]
mod sabotage;
mod sim;
mod source;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask floors            a crate depends only on lower floors; pure crates do no I/O
cargo xtask tidy              documents name paths that exist; files and functions stay small
cargo xtask crash [OPTIONS]   kill -9 at random moments, then compare every acknowledged snapshot
    --runs N        commands to start and kill (default 200)
    --seconds S     stop after this time, however many runs that were
    --seed N        repeat a run of the random numbers (printed at the start)
    --verify-every K   check and restore after this many runs (default 10)
    --binary PATH   the icecore to kill (default target/release/icecore)
    --keep          leave the working directory behind
    --shut-down FS  instead of killing, shut down the file system (ext4, xfs) under the
                    repository, as a power cut does; as root
cargo xtask sim [OPTIONS]     the engine on a simulated disk: power cuts, kills, failing disks
    --seeds N       seeds to run (default 1000)
    --first N       the first of them (default 0)
    --seconds S     stop after this time, however many seeds that were
    --log           run only the first seed, and print all that it asked of the disk
cargo xtask sabotage [SEEDS]  takes one protection out after the other: some seed must find each
                              (needs --features sabotage)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    match command {
        "floors" => report("floors", floors::problems()),
        "tidy" => report("tidy", tidy::problems()),
        "crash" => crash::main(rest),
        "sim" => sim::main(rest),
        #[cfg(feature = "sabotage")]
        "sabotage" => sabotage::main(rest),
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
        println!("{name}: all well");
        return ExitCode::SUCCESS;
    }
    problems.iter().for_each(|problem| eprintln!("{name}: {problem}"));
    eprintln!("{name}: {} problems", problems.len());
    ExitCode::FAILURE
}
