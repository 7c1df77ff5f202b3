//! What a long run has done so far: a run that was stopped continues after the last part that ended. A failure stays in
//! the record: to stop a run and start it again does not make it disappear.
//!
//! A line of JSON for each part, below one that names the sources and the time of the whole run. Results of other
//! sources or of another length are not mixed: the record starts again. It lies among the sources, so that it can be
//! committed and a run of hours goes on on another machine. What people alone read changes no sources, nor do rows of
//! sabotage.

use super::Outcome;
use crate::options;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where records and tables lie, below the top folder.
const RESULTS: &str = "docs/results/";

/// The rows of the sabotage of the sources, which remembers by itself what it has seen.
const ROWS: &str = "proof/sabotage/";

/// The parts that have ended.
pub(super) struct Record {
    path: PathBuf,
    file: File,
    done: Vec<Value>,
}

impl Record {
    /// The record `name` of a run of `seconds` of the sources that are checked out. What has uncommitted changes has no name
    /// by which its results could be told apart, so it starts from the beginning.
    pub(super) fn open(name: &str, seconds: u64) -> Result<Self, String> {
        let sources = sources();
        if sources.is_none() {
            println!("== the sources have uncommitted changes: this run does not resume another");
        }
        let path = options::root().join(RESULTS).join(name).with_extension("jsonl");
        Self::at(path, sources.as_deref(), seconds)
    }

    fn at(path: PathBuf, sources: Option<&str>, seconds: u64) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let heading = json!({ "sources": sources, "seconds": seconds });
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        // The last line may be half of one: whoever was killed while writing it did not end the part.
        let mut lines = text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok());
        let is_same = sources.is_some() && lines.next().as_ref() == Some(&heading);
        let done: Vec<Value> = if is_same { lines.collect() } else { Vec::new() };
        let kept: Vec<_> = [&heading].into_iter().chain(&done).map(Value::to_string).collect();
        let new = path.with_extension("new");
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        std::fs::write(&new, kept.join("\n") + "\n").map_err(failed)?;
        std::fs::rename(&new, &path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        Ok(Self { file, path, done })
    }

    /// How the part `name` ended in the run that was stopped.
    pub(super) fn outcome(&self, name: &'static str) -> Option<Outcome> {
        let found = self.done.iter().find(|line| line["part"] == name)?;
        let skipped = found["skipped"].as_array()?.iter();
        Some(Outcome {
            name,
            seconds: found["seconds"].as_u64()?,
            is_well: found["is_well"].as_bool()?,
            skipped: skipped.filter_map(|reason| Some(reason.as_str()?.to_owned())).collect(),
            said: found["said"].as_str()?.to_owned(),
        })
    }

    /// Notes how a part ended.
    pub(super) fn note(&mut self, outcome: &Outcome) -> Result<(), String> {
        let Outcome { name, seconds, is_well, skipped, said } = outcome;
        let line = json!({ "part": name, "seconds": seconds, "is_well": is_well, "skipped": skipped, "said": said });
        let written = writeln!(self.file, "{line}").and_then(|()| self.file.sync_data());
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Keeps `table` beside the record, and ends the run: the next one starts from the beginning.
    pub(super) fn finish(self, table: &str) -> Result<PathBuf, String> {
        let kept = self.path.with_extension("md");
        let result = std::fs::write(&kept, table).and_then(|()| std::fs::remove_file(&self.path));
        result.map(|()| kept).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// The checksum of what is checked out, without what only people read; `None` if anything else is not committed.
fn sources() -> Option<String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(options::root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let changed = git(&["status", "--porcelain", "--no-renames", "--untracked-files=all"])?;
    let is_clean = changed.lines().all(changes_nothing);
    let listed = git(&["ls-tree", "-r", "HEAD"]).filter(|_| is_clean)?;
    let sources: Vec<_> = listed.lines().filter(|line| !changes_nothing(line)).collect();
    Some(HEXLOWER.encode(&format::wire::checksum(&[sources.join("\n").as_bytes()])))
}

/// Whether the path at the end of `line` changes no part of a long run: it is for people alone, or has its own memory.
/// Guides are tested.
fn changes_nothing(line: &str) -> bool {
    let path = line.split_whitespace().last().unwrap_or_default();
    let is_for_people = ["CHANGELOG.md", "docs/PROOF.md", "docs/TESTING.md"].contains(&path);
    is_for_people || [RESULTS, "bench/results/", ROWS].iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// For records of tests, as long as it lives.
    pub(in crate::all) struct Folder(PathBuf);

    impl Folder {
        pub(in crate::all) fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("icecore-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        pub(in crate::all) fn open(&self, sources: Option<&str>, seconds: u64) -> Record {
            Record::at(self.0.join("nightly.jsonl"), sources, seconds).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn outcome(name: &'static str, is_well: bool) -> Outcome {
        Outcome { name, seconds: 90, is_well, skipped: vec!["no xfs".into()], said: "\"x\"".into() }
    }

    #[test]
    fn a_run_that_was_stopped_keeps_what_ended_and_its_failures() {
        let folder = Folder::new("record");
        let mut record = folder.open(Some("abc"), 60);
        record.note(&outcome("kill -9", true)).unwrap();
        record.note(&outcome("fuzz", false)).unwrap();
        // Killed in the middle of the next line.
        record.file.write_all(b"{\"part\": \"full").unwrap();
        drop(record);
        let mut again = folder.open(Some("abc"), 60);
        assert_eq!(again.outcome("kill -9"), Some(outcome("kill -9", true)));
        assert_eq!(again.outcome("fuzz"), Some(outcome("fuzz", false)));
        assert_eq!(again.outcome("full disks"), None);
        again.note(&outcome("full disks", true)).unwrap();
        assert_eq!(folder.open(Some("abc"), 60).done.len(), 3);
    }

    #[test]
    fn results_of_other_sources_or_another_length_are_not_used() {
        let folder = Folder::new("record-other");
        for (sources, seconds) in [(Some("abd"), 60), (Some("abc"), 61), (None, 60)] {
            folder.open(Some("abc"), 60).note(&outcome("fuzz", true)).unwrap();
            assert_eq!(
                folder.open(sources, seconds).done,
                [] as [Value; 0],
                "{sources:?} {seconds}"
            );
        }
        folder.open(None, 60).note(&outcome("fuzz", true)).unwrap();
        assert!(folder.open(None, 60).done.is_empty(), "without a name nothing is resumed");
    }

    #[test]
    fn what_people_read_and_rows_of_sabotage_change_no_sources() {
        let rows = "proof/sabotage/run.py";
        for read in ["docs/results/prove.jsonl", "bench/results/x.md", "docs/PROOF.md", rows] {
            assert!(
                changes_nothing(&format!("100644 blob abc\t{read}"))
                    && changes_nothing(&format!(" M {read}"))
            );
        }
        for source in ["proof/src/main.rs", "docs/CRYPTO.md", "docs/openapi.json", "Cargo.lock"] {
            assert!(!changes_nothing(&format!("100644 blob abc\t{source}")), "{source}");
        }
    }

    #[test]
    fn a_run_that_ended_leaves_its_table_and_the_next_one_starts_anew() {
        let folder = Folder::new("record-table");
        let mut record = folder.open(Some("abc"), 60);
        record.note(&outcome("fuzz", true)).unwrap();
        let kept = record.finish("| rig |\n").unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "| rig |\n");
        assert!(folder.open(Some("abc"), 60).done.is_empty());
    }
}
