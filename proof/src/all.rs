//! Runs all rigs, each for a part of the time, and prints one table of the results. A run that was stopped resumes
//! with the parts that had not ended. `--nightly` adds what takes hours more; `--only` runs some parts alone, so that
//! the hours can be spread.

mod lanes;
mod parts;
mod record;
mod sources;

use crate::options::Asked;
use parts::{NIGHTLY, PARTS, Part, What};
use record::Record;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Total time of the rigs in seconds, by default.
const SECONDS: u64 = 1200;

/// Parts that run at the same time, by default: most rigs wait for disks and timers.
const AT_ONCE: u64 = 2;

/// Fuzz targets; each gets its part of the time for all.
fn targets() -> u64 {
    let folder = crate::options::root().join("fuzz/fuzz_targets");
    std::fs::read_dir(folder).map_or(1, |files| files.count() as u64).max(1)
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    name: &'static str,
    seconds: u64,
    is_well: bool,
    /// What could not be tested here, and why.
    skipped: Vec<String>,
    said: String,
}

impl Outcome {
    /// What was not tested is no success, unless somebody said so.
    fn passes(&self, may_skip: bool) -> bool {
        self.is_well && (may_skip || self.skipped.is_empty())
    }

    fn word(&self) -> &'static str {
        match (self.is_well, self.skipped.is_empty()) {
            (true, true) => "well",
            (true, false) => "**partly skipped**",
            (false, _) => "**FAILED**",
        }
    }
}

/// Where the rigs of one part note what they skip; gone afterwards.
struct Skips(std::path::PathBuf);

impl Skips {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let skips = Self(std::env::temp_dir().join(format!("icecore-skips-{process}-{count}")));
        skips.remove();
        skips
    }

    fn remove(&self) {
        let _ = std::fs::remove_file(&self.0);
    }

    fn told(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let reason = |line: &str| line.trim_start_matches("SKIPPED: ").to_owned();
        text.lines().map(reason).collect()
    }
}

impl Drop for Skips {
    fn drop(&mut self) {
        self.remove();
    }
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match asked(arguments) {
        Ok(asked) => run(&asked),
        Err(error) => {
            eprintln!("all: {error}");
            ExitCode::from(2)
        }
    }
}

struct AllAsked {
    seconds: u64,
    at_once: u64,
    binary: String,
    is_nightly: bool,
    /// How the names of the parts begin that shall run; empty: all.
    only: Vec<String>,
}

impl AllAsked {
    fn names(&self, part: &Part) -> bool {
        self.only.is_empty() || self.only.iter().any(|begin| part.name.starts_with(begin))
    }
}

fn asked(arguments: &[String]) -> Result<AllAsked, String> {
    let is_nightly = arguments.iter().any(|word| word == "--nightly");
    let rest: Vec<String> = arguments.iter().filter(|word| *word != "--nightly").cloned().collect();
    let asked = Asked::parse(&rest, &["--at-once", "--only"])?;
    let only = asked.text("--only").unwrap_or_default();
    let only = only.split(',').map(str::trim).filter(|begin| !begin.is_empty());
    Ok(AllAsked {
        seconds: asked.number("--seconds")?.unwrap_or(SECONDS),
        at_once: asked.number("--at-once")?.unwrap_or(AT_ONCE),
        binary: asked.binary().to_string_lossy().into_owned(),
        is_nightly,
        only: only.map(str::to_owned).collect(),
    })
}

fn run(asked: &AllAsked) -> ExitCode {
    let more = if asked.is_nightly { &NIGHTLY[..] } else { &[] };
    let parts: Vec<&Part> = PARTS.iter().chain(more).filter(|part| asked.names(part)).collect();
    if parts.is_empty() {
        eprintln!("all: no part begins like --only {}", asked.only.join(","));
        return ExitCode::from(2);
    }
    let run = |part: &Part| outcome(part, (asked.seconds * part.share / 100).max(1), &asked.binary);
    let name = if asked.is_nightly { "nightly" } else { "prove" };
    let is_whole = asked.only.is_empty();
    let outcomes = Record::open(name, asked.seconds)
        .and_then(|record| lanes::run_all(&parts, record, asked.at_once, run))
        .and_then(|(outcomes, record)| {
            if is_whole {
                let kept = record.finish(&table(&outcomes))?;
                println!("\n== the table is kept in {}", kept.display());
            }
            Ok(outcomes)
        });
    match outcomes {
        Ok(outcomes) => ended(&outcomes),
        Err(error) => {
            eprintln!("all: {error}");
            ExitCode::FAILURE
        }
    }
}

fn ended(outcomes: &[Outcome]) -> ExitCode {
    println!("\n{}", table(outcomes));
    let may_skip = std::env::var("ALLOW_SKIP").is_ok_and(|value| value == "1");
    if outcomes.iter().all(|outcome| outcome.passes(may_skip)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn minutes(seconds: u64) -> String {
    format!("{:.1}", seconds as f64 / 60.0)
}

fn outcome(part: &Part, seconds: u64, binary: &str) -> Outcome {
    let (begun, skips) = (Instant::now(), Skips::new());
    let result = command(part, seconds, binary).and_then(|mut command| {
        command.env(testkit::skips::VARIABLE, &skips.0);
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
            let said = last.trim().to_owned();
            Outcome { name: part.name, seconds, is_well, skipped: skips.told(), said }
        }
        Err(said) => {
            Outcome { name: part.name, seconds, is_well: false, skipped: skips.told(), said }
        }
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
        What::Whole(words) | What::Remembers(words) => other(words),
        What::Large(words) => {
            let mut command = Command::new(crate::options::THIS);
            command.args(["fidelity", "--many", "1000000", "--depth", "3000", "--links", "65000"]);
            command.args(words).args(["--binary", binary]);
            Ok(command)
        }
    }
}

fn other(words: &[&str]) -> Result<Command, String> {
    let (program, rest) = words.split_first().ok_or("no program")?;
    let mut command = Command::new(program);
    command.args(rest).current_dir(crate::options::root());
    Ok(command)
}

fn table(outcomes: &[Outcome]) -> String {
    let mut text = "| rig | minutes | outcome | what was done |\n|---|---|---|---|\n".to_owned();
    for outcome in outcomes {
        let Outcome { name, seconds, skipped, said, .. } = outcome;
        let skipped: String = skipped.iter().map(|reason| format!("; SKIPPED: {reason}")).collect();
        let (minutes, word) = (minutes(*seconds), outcome.word());
        text.push_str(&format!("| {name} | {minutes} | {word} | {said}{skipped} |\n"));
    }
    let all = outcomes.iter().map(|outcome| outcome.seconds).sum();
    text.push_str(&format!("| all | {} | | |\n", minutes(all)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_make_up_the_whole_time() {
        assert_eq!(PARTS.iter().map(|part| part.share).sum::<u64>(), 100);
    }

    fn outcome(is_well: bool, skipped: &[&str]) -> Outcome {
        let skipped = skipped.iter().map(|reason| (*reason).to_owned()).collect();
        Outcome { name: "x", seconds: 90, is_well, skipped, said: "fine".into() }
    }

    #[test]
    fn what_failed_and_what_was_skipped_in_part_is_told_apart_and_neither_passes() {
        let all = [outcome(true, &[]), outcome(true, &["no mkfs.xfs"]), outcome(false, &[])];
        let table = table(&all);
        let words: Vec<_> =
            table.lines().skip(2).take(3).filter_map(|line| line.split(" | ").nth(2)).collect();
        assert_eq!(words, ["well", "**partly skipped**", "**FAILED**"]);
        assert!(table.ends_with("| all | 4.5 | | |\n"), "{table}");
        assert!(table.contains("fine; SKIPPED: no mkfs.xfs"));
        assert_eq!(all.each_ref().map(|one| one.passes(false)), [true, false, false]);
        assert_eq!(all.each_ref().map(|one| one.passes(true)), [true, true, false]);
    }

    #[test]
    fn the_parts_of_a_word_run_alone_and_without_one_all_do() {
        let named = |words: &[&str]| -> Vec<&str> {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            let asked = asked(&words).unwrap();
            PARTS.iter().filter(|part| asked.names(part)).map(|part| part.name).collect()
        };
        assert_eq!(named(&[]).len(), PARTS.len());
        assert_eq!(
            named(&["--only", "limits, shut"]),
            ["shut down, ext4", "shut down, xfs", "limits"]
        );
        assert!(named(&["--only", "nothing"]).is_empty());
    }

    #[test]
    fn the_skips_of_a_part_are_read_back_and_gone() {
        let skips = Skips::new();
        let path = skips.0.clone();
        std::fs::write(&path, "SKIPPED: main: freeze: no group\n").unwrap();
        assert_eq!(skips.told(), ["main: freeze: no group"]);
        drop(skips);
        assert!(!path.exists());
    }
}
