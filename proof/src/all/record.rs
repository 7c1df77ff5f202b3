//! What a long run has done so far: a run that was stopped continues after the last part that ended. A failure stays in
//! the record: to stop a run and start it again does not make it disappear.
//!
//! A line of JSON for each part, with the checksum of what it is built from, below one with the time of the whole run.
//! A part of other sources runs again, and with another length all do. The record lies among the sources, so that it
//! can be committed and a run of hours continued on another machine. Several runs may note in it at the same time, each
//! some of the parts.

use super::Outcome;
use super::parts::Part;
use super::sources::Sources;
use crate::options;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Where records and tables lie, below the top folder.
const RESULTS: &str = "docs/results/";

/// The parts that have ended.
pub(super) struct Record {
    path: PathBuf,
    file: File,
    done: Vec<Value>,
    sources: Sources,
}

impl Record {
    /// The record `name` of a run of `seconds` of the sources that are checked out.
    pub(super) fn open(name: &str, seconds: u64) -> Result<Self, String> {
        let path = options::root().join(RESULTS).join(name).with_extension("jsonl");
        Self::at(
            path,
            Sources::read().ok_or("git and cargo do not say what the sources are")?,
            seconds,
        )
    }

    fn at(path: PathBuf, sources: Sources, seconds: u64) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let mut file = open_shared(&path)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let (kept, done) = whole_lines(&text, &json!({ "seconds": seconds }));
        if kept < text.len() || kept == 0 {
            alone(&file, &path)?;
            file.set_len(kept as u64).map_err(failed)?;
        }
        if kept == 0 {
            append(&mut file, &json!({ "seconds": seconds })).map_err(failed)?;
        }
        file.lock_shared().map_err(failed)?;
        Ok(Self { path, file, done, sources })
    }

    /// How `part` ended when it was last run with the sources that it has now.
    pub(super) fn outcome(&self, part: &Part) -> Option<Outcome> {
        let sources = self.sources.of(part.of)?;
        let is_it =
            |line: &&Value| line["part"] == part.name && line["sources"] == sources.as_str();
        let found = self.done.iter().rfind(is_it)?;
        let skipped = found["skipped"].as_array()?.iter();
        Some(Outcome {
            name: part.name,
            seconds: found["seconds"].as_u64()?,
            is_well: found["is_well"].as_bool()?,
            skipped: skipped.filter_map(|reason| Some(reason.as_str()?.to_owned())).collect(),
            said: found["said"].as_str()?.to_owned(),
        })
    }

    /// Notes how `part` ended. If some of its sources are not committed, the line counts for no other run.
    pub(super) fn note(&mut self, part: &Part, outcome: &Outcome) -> Result<(), String> {
        let Outcome { name, seconds, is_well, skipped, said } = outcome;
        let sources = self.sources.of(part.of);
        let line = json!({
            "part": name, "sources": sources, "seconds": seconds, "is_well": is_well, "skipped": skipped, "said": said
        });
        append(&mut self.file, &line).map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Keeps `table` beside the record, and ends the run: the next one starts from the beginning.
    pub(super) fn finish(self, table: &str) -> Result<PathBuf, String> {
        alone(&self.file, &self.path)?;
        let kept = self.path.with_extension("md");
        let result = std::fs::write(&kept, table).and_then(|()| std::fs::remove_file(&self.path));
        result.map(|()| kept).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// Opens a record for one of several runs: what one appends stays when another begins.
fn open_shared(path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path);
    let shared = file.and_then(|file| file.lock_shared().map(|()| file));
    shared.map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes this the only run that has the record open, before something of it goes.
fn alone(file: &File, path: &Path) -> Result<(), String> {
    let why = |_| {
        format!("{}: another run notes there what has ended; wait until it ends", path.display())
    };
    file.try_lock().map_err(why)
}

/// How many bytes of `text` hold whole lines below `heading`, and these lines. The last line may be half of one: whoever
/// was killed while writing it did not end the part. Below another heading none counts.
fn whole_lines(text: &str, heading: &Value) -> (usize, Vec<Value>) {
    let whole = |line: &str| serde_json::from_str::<Value>(line.strip_suffix('\n')?).ok();
    let lines = text.split_inclusive('\n').map_while(|line| Some((line.len(), whole(line)?)));
    let (lengths, mut lines): (Vec<_>, Vec<_>) = lines.unzip();
    if lines.first() != Some(heading) {
        return (0, Vec::new());
    }
    lines.remove(0);
    (lengths.iter().sum(), lines)
}

/// Adds a line by one call, so that two runs do not mix theirs.
fn append(file: &mut File, line: &Value) -> std::io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_data()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::parts::What;
    use super::super::sources::Package;
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

        pub(in crate::all) fn open(&self, sources: &str, seconds: u64) -> Record {
            self.tried(sources, seconds).unwrap()
        }

        fn tried(&self, sources: &str, seconds: u64) -> Result<Record, String> {
            let listed = vec![format!("100644 blob {sources}\tcrates/a/lib.rs")];
            let folder = "crates/a".to_owned();
            let packages = [("a".to_owned(), Package { folder, ..Package::default() })].into();
            let sources = Sources { listed, packages, ..Sources::default() };
            Record::at(self.0.join("nightly.jsonl"), sources, seconds)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    const fn part(name: &'static str, of: &'static [&'static str]) -> Part {
        Part { name, share: 0, what: What::Whole(&["true"]), is_alone: false, of }
    }

    const KILL: Part = part("kill -9", &[]);
    const FUZZ: Part = part("fuzz", &[]);
    const FULL: Part = part("full disks", &["a"]);

    fn outcome(part: &Part, is_well: bool) -> Outcome {
        let (skipped, said) = (vec!["no xfs".into()], "\"x\"".into());
        Outcome { name: part.name, seconds: 90, is_well, skipped, said }
    }

    #[test]
    fn a_run_that_was_stopped_keeps_what_ended_and_its_failures() {
        let folder = Folder::new("record");
        let mut record = folder.open("abc", 60);
        record.note(&KILL, &outcome(&KILL, true)).unwrap();
        record.note(&FUZZ, &outcome(&FUZZ, false)).unwrap();
        // Killed in the middle of the next line.
        record.file.write_all(b"{\"part\": \"full").unwrap();
        drop(record);
        let mut again = folder.open("abc", 60);
        assert_eq!(again.outcome(&KILL), Some(outcome(&KILL, true)));
        assert_eq!(again.outcome(&FUZZ), Some(outcome(&FUZZ, false)));
        assert_eq!(again.outcome(&FULL), None);
        again.note(&FULL, &outcome(&FULL, true)).unwrap();
        assert_eq!(folder.open("abc", 60).done.len(), 3);
    }

    #[test]
    fn results_of_other_sources_or_another_length_are_not_used() {
        let folder = Folder::new("record-other");
        for (sources, seconds) in [("abd", 60), ("abc", 61)] {
            folder.open("abc", 60).note(&FULL, &outcome(&FULL, true)).unwrap();
            assert!(folder.open("abc", 60).outcome(&FULL).is_some());
            let other = folder.open(sources, seconds).outcome(&FULL);
            assert_eq!(other, None, "{sources} {seconds}");
        }
    }

    #[test]
    fn what_came_later_counts_and_what_was_before_a_change_does_again_when_it_is_undone() {
        let folder = Folder::new("record-later");
        folder.open("abc", 60).note(&FULL, &outcome(&FULL, false)).unwrap();
        folder.open("abd", 60).note(&FULL, &outcome(&FULL, true)).unwrap();
        assert_eq!(folder.open("abd", 60).outcome(&FULL), Some(outcome(&FULL, true)));
        assert_eq!(folder.open("abc", 60).outcome(&FULL), Some(outcome(&FULL, false)));
    }

    #[test]
    fn what_is_not_committed_is_not_resumed() {
        let folder = Folder::new("record-changed");
        let mut record = folder.open("abc", 60);
        record.sources.changed.push("crates/a/lib.rs".to_owned());
        record.note(&FULL, &outcome(&FULL, true)).unwrap();
        drop(record);
        let mut again = folder.open("abc", 60);
        assert_eq!(again.outcome(&FULL), None);
        again.sources.changed.push("crates/a/lib.rs".to_owned());
        assert_eq!(again.outcome(&FULL), None);
    }

    #[test]
    fn two_runs_at_the_same_time_lose_nothing_of_each_other() {
        let folder = Folder::new("record-two");
        let mut first = folder.open("abc", 60);
        let mut second = folder.open("abc", 60);
        first.note(&KILL, &outcome(&KILL, true)).unwrap();
        second.note(&FUZZ, &outcome(&FUZZ, true)).unwrap();
        first.note(&FULL, &outcome(&FULL, false)).unwrap();
        assert_eq!(folder.open("abc", 60).done.len(), 3);
        // What would take lines away from another run waits for it.
        let refused = folder.tried("abc", 61).err().unwrap();
        assert!(refused.contains("another run"), "{refused}");
        let refused = first.finish("| rig |\n").unwrap_err();
        assert!(refused.contains("another run"), "{refused}");
        second.finish("| rig |\n").unwrap();
    }

    #[test]
    fn a_run_that_ended_leaves_its_table_and_the_next_one_starts_anew() {
        let folder = Folder::new("record-table");
        let mut record = folder.open("abc", 60);
        record.note(&FUZZ, &outcome(&FUZZ, true)).unwrap();
        let kept = record.finish("| rig |\n").unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "| rig |\n");
        assert!(folder.open("abc", 60).done.is_empty());
    }
}
