//! Runs all rigs, each for a part of the time, and prints one table of the results. A run that was stopped resumes
//! after the last part that ended. `--nightly` adds what takes hours more.

mod record;

use crate::options::Asked;
use record::Record;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Total time of the rigs in seconds, by default.
const SECONDS: u64 = 1200;

/// What is run.
enum What {
    /// A rig of this program, and its options.
    Rig(&'static [&'static str]),
    /// Another program below the top folder; it takes seconds as its last word.
    Program(&'static [&'static str]),
    /// Another program that takes as long as it takes.
    Whole(&'static [&'static str]),
    /// The rig of fidelity with as much as file systems hold, and these options.
    Large(&'static [&'static str]),
}

struct Part {
    name: &'static str,
    /// Of the whole time, in hundredths; 0: it takes as long as it takes.
    share: u64,
    what: What,
}

const fn whole(name: &'static str, words: &'static [&'static str]) -> Part {
    Part { name, share: 0, what: What::Whole(words) }
}

/// Rigs that end when their time is over, and not before.
const WITHOUT_END: &str = "1000000000";

/// Cheap ones first: what is broken is seen soon.
const PARTS: [Part; 27] = [
    whole("sabotage", &["make", "--quiet", "sabotage"]),
    whole("damage matrix", &["make", "--quiet", "damage"]),
    whole("client on the simulated disk", &["make", "--quiet", "client-on-disk"]),
    whole("models of retention and schedules", &["make", "--quiet", "models"]),
    whole("sabotage of the sources", &["make", "--quiet", "sabotage-sources"]),
    whole("a thousand nodes", &["make", "--quiet", "fleet"]),
    Part { name: "simulated disk", share: 11, what: What::Rig(&["sim", "--seeds", WITHOUT_END]) },
    Part { name: "system calls", share: 9, what: What::Rig(&["inject"]) },
    Part {
        name: "kill -9",
        share: 6,
        what: What::Rig(&["crash", "--io", "changing", "--runs", WITHOUT_END]),
    },
    Part {
        name: "kill -9, without deduplication",
        share: 3,
        what: What::Rig(&[
            "crash",
            "--kind",
            "without-dedup",
            "--io",
            "changing",
            "--runs",
            WITHOUT_END,
        ]),
    },
    Part {
        name: "kill -9, a bucket",
        share: 4,
        what: What::Rig(&["crash", "--kind", "bucket", "--runs", WITHOUT_END]),
    },
    shut_down("shut down, ext4", &["crash", "--runs", WITHOUT_END, "--shut-down", "ext4"]),
    shut_down("shut down, xfs", &["crash", "--runs", WITHOUT_END, "--shut-down", "xfs"]),
    Part { name: "power cut, ext4", share: 4, what: What::Rig(&["device", "--io", "direct"]) },
    Part {
        name: "power cut, without deduplication",
        share: 2,
        what: What::Rig(&["device", "--kind", "without-dedup", "--io", "buffered"]),
    },
    Part { name: "power cut of a restore", share: 2, what: What::Rig(&["device", "--target"]) },
    Part { name: "power cut, xfs", share: 4, what: What::Rig(&["device", "--file-system", "xfs"]) },
    Part {
        name: "power cut, btrfs",
        share: 5,
        what: What::Rig(&["device", "--file-system", "btrfs"]),
    },
    Part { name: "a site", share: 5, what: What::Rig(&["site", "--nodes", "40"]) },
    Part { name: "full disks", share: 5, what: What::Rig(&["full"]) },
    Part { name: "frozen processes", share: 5, what: What::Rig(&["freeze"]) },
    Part { name: "network file system", share: 4, what: What::Rig(&["network"]) },
    Part {
        name: "disconnected nodes",
        share: 5,
        what: What::Rig(&["disconnects", "--runs", WITHOUT_END]),
    },
    Part { name: "upkeep beside backups", share: 4, what: What::Rig(&["upkeep"]) },
    Part { name: "limits", share: 4, what: What::Rig(&["limits"]) },
    Part { name: "fidelity", share: 4, what: What::Rig(&["fidelity"]) },
    Part { name: "fuzz", share: 6, what: What::Program(&[".ci/fuzz"]) },
];

/// What runs only with `--nightly`.
const NIGHTLY: [Part; 11] = [
    whole("second reader", &["make", "--quiet", "second-reader"]),
    whole("advisories", &["make", "--quiet", "advisories"]),
    whole("a million executions of each target", &["make", "--quiet", "fuzz-million"]),
    whole("packages", &["make", "--quiet", "package-test"]),
    whole("every system call of backup and restore", &["make", "--quiet", "inject-whole"]),
    whole("a million jobs in the catalog", &["make", "--quiet", "catalog-speed"]),
    whole("seeds of a bucket", &["make", "--quiet", "bucket-seeds"]),
    whole("pools that are taken over", &["make", "--quiet", "takeover"]),
    whole("shared file systems", &["make", "--quiet", "shared"]),
    whole("buckets on MinIO", &["make", "--quiet", "storages"]),
    large("many names and links, ext4", &["--only", "ext4 > ext4 as root"]),
];

/// A million names in a directory, 3,000 levels, 65,000 links of one file.
const fn large(name: &'static str, words: &'static [&'static str]) -> Part {
    Part { name, share: 0, what: What::Large(words) }
}

const fn shut_down(name: &'static str, words: &'static [&'static str]) -> Part {
    Part { name, share: 4, what: What::Rig(words) }
}

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
        let skips =
            Self(std::env::temp_dir().join(format!("icecore-skips-{}", std::process::id())));
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
        Ok((seconds, binary, is_nightly)) => run(seconds, &binary, is_nightly),
        Err(error) => {
            eprintln!("all: {error}");
            ExitCode::from(2)
        }
    }
}

/// Seconds, binary, and whether the night's parts run too.
fn asked(arguments: &[String]) -> Result<(u64, String, bool), String> {
    let is_nightly = arguments.iter().any(|word| word == "--nightly");
    let rest: Vec<String> = arguments.iter().filter(|word| *word != "--nightly").cloned().collect();
    let asked = Asked::parse(&rest, &[])?;
    let seconds = asked.number("--seconds")?.unwrap_or(SECONDS);
    Ok((seconds, asked.binary().to_string_lossy().into_owned(), is_nightly))
}

fn run(seconds: u64, binary: &str, is_nightly: bool) -> ExitCode {
    let more = if is_nightly { &NIGHTLY[..] } else { &[] };
    let parts = PARTS.iter().chain(more);
    let run = |part: &Part| outcome(part, (seconds * part.share / 100).max(1), binary);
    let record = if is_nightly { "nightly" } else { "prove" };
    match resumed(parts, record, seconds, run) {
        Ok(outcomes) => ended(&outcomes),
        Err(error) => {
            eprintln!("all: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the run that was stopped has done, and the rest; keeps the table in the target folder.
fn resumed<'a>(
    parts: impl Iterator<Item = &'a Part>,
    record: &str,
    seconds: u64,
    run: impl Fn(&Part) -> Outcome,
) -> Result<Vec<Outcome>, String> {
    let mut record = Record::open(record, seconds)?;
    let mut outcomes = Vec::new();
    for part in parts {
        let outcome = match record.outcome(part.name) {
            Some(before) => {
                println!("== {}: {}, in the run that was stopped", part.name, before.word());
                before
            }
            None => {
                let outcome = run_and_print(part, &run);
                record.note(&outcome)?;
                outcome
            }
        };
        outcomes.push(outcome);
    }
    let kept = record.finish(&table(&outcomes))?;
    println!("\n== the table is kept in {}", kept.display());
    Ok(outcomes)
}

fn run_and_print(part: &Part, run: impl Fn(&Part) -> Outcome) -> Outcome {
    println!("== {}", part.name);
    let outcome = run(part);
    println!("   {} ({} min)", outcome.said, minutes(outcome.seconds));
    outcome
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
        What::Whole(words) => other(words),
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
    fn the_skips_of_a_part_are_read_back_and_gone() {
        let skips = Skips::new();
        let path = skips.0.clone();
        std::fs::write(&path, "SKIPPED: main: freeze: no group\n").unwrap();
        assert_eq!(skips.told(), ["main: freeze: no group"]);
        drop(skips);
        assert!(!path.exists());
    }
}
