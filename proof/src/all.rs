//! All rigs, each for its share of the time, and one table of what came of it.

use crate::options::Asked;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// How long all of them take together, if nothing else was asked.
const SECONDS: u64 = 1200;

/// What is run.
enum What {
    /// A rig of this program, and its options.
    Rig(&'static [&'static str]),
    /// Another program below the top folder; it takes seconds as its last word.
    Program(&'static [&'static str]),
    /// Another program that takes as long as it takes.
    Whole(&'static [&'static str]),
}

struct Part {
    name: &'static str,
    /// Of the whole time, in hundredths.
    share: u64,
    what: What,
}

/// Rigs that end when their time is over, and not before.
const WITHOUT_END: &str = "1000000000";

/// Cheap ones first: what is broken is seen soon.
const PARTS: [Part; 17] = [
    Part { name: "sabotage", share: 0, what: What::Whole(&["make", "--quiet", "sabotage"]) },
    Part { name: "damage matrix", share: 0, what: What::Whole(&["make", "--quiet", "damage"]) },
    Part { name: "simulated disk", share: 13, what: What::Rig(&["sim", "--seeds", WITHOUT_END]) },
    Part { name: "system calls", share: 14, what: What::Rig(&["inject"]) },
    Part { name: "kill -9", share: 12, what: What::Rig(&["crash", "--runs", WITHOUT_END]) },
    shut_down("shut down, ext4", &["crash", "--runs", WITHOUT_END, "--shut-down", "ext4"]),
    shut_down("shut down, xfs", &["crash", "--runs", WITHOUT_END, "--shut-down", "xfs"]),
    Part { name: "power cut, ext4", share: 7, what: What::Rig(&["device"]) },
    Part { name: "power cut, xfs", share: 5, what: What::Rig(&["device", "--file-system", "xfs"]) },
    Part {
        name: "power cut, btrfs",
        share: 5,
        what: What::Rig(&["device", "--file-system", "btrfs"]),
    },
    Part { name: "full disks", share: 6, what: What::Rig(&["full"]) },
    Part { name: "frozen processes", share: 5, what: What::Rig(&["freeze"]) },
    Part { name: "network file system", share: 4, what: What::Rig(&["network"]) },
    Part {
        name: "server and nodes cut off",
        share: 5,
        what: What::Rig(&["cuts", "--runs", WITHOUT_END]),
    },
    Part { name: "limits", share: 4, what: What::Rig(&["limits"]) },
    Part { name: "fidelity", share: 5, what: What::Rig(&["fidelity"]) },
    Part { name: "fuzz", share: 7, what: What::Program(&[".ci/fuzz"]) },
];

const fn shut_down(name: &'static str, words: &'static [&'static str]) -> Part {
    Part { name, share: 4, what: What::Rig(words) }
}

/// Fuzz targets; each gets its part of the time for all.
fn targets() -> u64 {
    let folder = crate::options::root().join("fuzz/fuzz_targets");
    std::fs::read_dir(folder).map_or(1, |files| files.count() as u64).max(1)
}

struct Outcome {
    name: &'static str,
    seconds: u64,
    is_well: bool,
    said: String,
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match seconds(arguments) {
        Ok((seconds, binary)) => run(seconds, &binary),
        Err(error) => {
            eprintln!("all: {error}");
            ExitCode::from(2)
        }
    }
}

fn seconds(arguments: &[String]) -> Result<(u64, String), String> {
    let asked = Asked::parse(arguments, &[])?;
    let seconds = asked.number("--seconds")?.unwrap_or(SECONDS);
    Ok((seconds, asked.binary().to_string_lossy().into_owned()))
}

fn run(seconds: u64, binary: &str) -> ExitCode {
    let outcomes: Vec<Outcome> = PARTS
        .iter()
        .map(|part| {
            println!("== {}", part.name);
            let outcome = outcome(part, (seconds * part.share / 100).max(1), binary);
            println!("   {}", outcome.said);
            outcome
        })
        .collect();
    println!("\n{}", table(&outcomes));
    if outcomes.iter().all(|outcome| outcome.is_well) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn outcome(part: &Part, seconds: u64, binary: &str) -> Outcome {
    let begun = Instant::now();
    let result = command(part, seconds, binary).and_then(|mut command| {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let output = child.and_then(std::process::Child::wait_with_output);
        output.map_err(|error| format!("cannot start: {error}"))
    });
    let seconds = begun.elapsed().as_secs();
    match result {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let is_well = output.status.success();
            if !is_well {
                // All of it: it says how to repeat the failure.
                let _ = std::io::stdout().write_all(&output.stdout);
            }
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            Outcome { name: part.name, seconds, is_well, said: last.trim().to_owned() }
        }
        Err(said) => Outcome { name: part.name, seconds, is_well: false, said },
    }
}

fn command(part: &Part, seconds: u64, binary: &str) -> Result<Command, String> {
    match part.what {
        What::Rig(words) => {
            let seconds = seconds.to_string();
            let mut command = Command::new(crate::options::THIS);
            command.args(words).args(["--seconds", &seconds]);
            if words.first() == Some(&"sim") {
                // Other seeds each time; one that fails is printed.
                command.args(["--first", &(crate::options::clock() << 20).to_string()]);
            } else {
                command.args(["--binary", binary]);
            }
            Ok(command)
        }
        What::Program(words) => {
            let mut command = other(words)?;
            command.arg((seconds / targets()).max(1).to_string());
            Ok(command)
        }
        What::Whole(words) => other(words),
    }
}

fn other(words: &[&str]) -> Result<Command, String> {
    let (program, rest) = words.split_first().ok_or("no program")?;
    let mut command = Command::new(program);
    command.args(rest).current_dir(crate::options::root());
    Ok(command)
}

fn table(outcomes: &[Outcome]) -> String {
    let mut text = "| rig | seconds | outcome | what was done |\n|---|---|---|---|\n".to_owned();
    for Outcome { name, seconds, is_well, said } in outcomes {
        let outcome = match (is_well, said.contains("SKIPPED")) {
            (true, true) => "skipped",
            (true, false) => "well",
            (false, _) => "**FAILED**",
        };
        text.push_str(&format!("| {name} | {seconds} | {outcome} | {said} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_make_up_the_whole_time() {
        assert_eq!(PARTS.iter().map(|part| part.share).sum::<u64>(), 100);
    }

    #[test]
    fn what_failed_and_what_was_skipped_is_told_apart() {
        let of =
            |is_well, said: &str| Outcome { name: "x", seconds: 1, is_well, said: said.into() };
        let table =
            table(&[of(true, "fine"), of(true, "xfs: SKIPPED, no mkfs"), of(false, "lost")]);
        let outcomes: Vec<_> =
            table.lines().skip(2).filter_map(|line| line.split(" | ").nth(2)).collect();
        assert_eq!(outcomes, ["well", "skipped", "**FAILED**"]);
    }
}
