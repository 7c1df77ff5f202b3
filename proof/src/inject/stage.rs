//! The repository that commands work on, each time a fresh copy, and what must hold behind them.

use super::tracer::{self, Ended, Fault};
use crate::icecore::{Icecore, acknowledged};
use crate::snapshot::{restores_as_it_was, same};
use crate::{failed, tree};
use nix::errno::Errno;
use simulation::Random;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};

const SEED: u64 = 11;
const NEW_PASSWORD: &str = "new-password";
/// All snapshots are restored after every so many runs, the newest after each.
const ALL_EVERY: u64 = 8;

/// The commands that meet faults.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Task {
    Init,
    Backup,
    Forget,
    Reclaim,
    Rebuild,
    Tag,
    AddKey,
    Check,
    Restore,
}

impl Task {
    pub(super) const ALL: [Self; 9] = [
        Self::Init,
        Self::Backup,
        Self::Forget,
        Self::Reclaim,
        Self::Rebuild,
        Self::Tag,
        Self::AddKey,
        Self::Check,
        Self::Restore,
    ];
}

/// Snapshots of the repository, oldest first: what they are made of.
type Snapshots = Vec<(String, tree::Copy)>;

pub(super) struct Stage {
    work: PathBuf,
    /// Made once; never touched by a fault.
    template: PathBuf,
    icecore: Icecore,
    source: PathBuf,
    /// The source, which is newer than all snapshots.
    now: tree::Copy,
    snapshots: Snapshots,
    runs: u64,
    calls: HashMap<(Task, String), u64>,
}

impl Stage {
    /// Three snapshots, one forgotten, so that there is something to reclaim.
    pub(super) fn make(binary: &Path, work: &Path) -> Result<Self, String> {
        let (source, template) = (work.join("source"), work.join("template"));
        let mut random = Random::new(SEED);
        tree::create(&source, &mut random).map_err(failed("make the tree"))?;
        let icecore = Icecore::on(binary, template.clone());
        icecore.run(&["init"])?;
        let mut snapshots = Snapshots::new();
        for _ in 0..4 {
            let was = tree::copy(&source).map_err(failed("read the tree"))?;
            let output = icecore.command(&["backup", &text(&source), "--json"]).output();
            let output = output.map_err(failed("start icecore"))?;
            let id = acknowledged(&output).ok_or("a backup without any fault failed")?;
            snapshots.push((id, was));
            for _ in 0..4 {
                tree::mutate(&source, &mut random).map_err(failed("change the tree"))?;
            }
        }
        std::fs::write(work.join(NEW_PASSWORD), "another").map_err(failed("write a password"))?;
        let (forgotten, _) = snapshots.remove(0);
        icecore.run(&["forget", &forgotten])?;
        let now = tree::copy(&source).map_err(failed("read the tree"))?;
        let mut stage = Self {
            work: work.to_owned(),
            template,
            icecore,
            source,
            now,
            snapshots,
            runs: 0,
            calls: HashMap::new(),
        };
        stage.icecore.repository = work.join("repository");
        Ok(stage)
    }

    /// Calls of the command that the fault concerns.
    pub(super) fn calls_of(&mut self, task: Task, fault: Fault) -> Result<u64, String> {
        let key = (task, format!("{fault:?}"));
        if let Some(calls) = self.calls.get(&key) {
            return Ok(*calls);
        }
        let ended = self.run(task, fault, u64::MAX)?;
        if ended.code != Some(0) {
            let said = std::fs::read_to_string(self.work.join("stderr")).unwrap_or_default();
            return Err(format!("{task:?} fails without any fault: {said}"));
        }
        self.calls.insert(key, ended.calls);
        Ok(ended.calls)
    }

    /// Runs the command on a fresh copy.
    pub(super) fn run(&mut self, task: Task, fault: Fault, picked: u64) -> Result<Ended, String> {
        self.runs += 1;
        let repository = self.icecore.repository.clone();
        let _ = std::fs::remove_dir_all(&repository);
        if task == Task::Init {
            // The folder of an `init` is there before, as a mount point is.
            std::fs::create_dir_all(&repository).map_err(failed("make the repository"))?;
        } else {
            copy_tree(&self.template, &repository).map_err(failed("copy the repository"))?;
        }
        let mut command = self.icecore.command(&[]);
        self.arguments(task).iter().for_each(|word| {
            command.arg(word);
        });
        let to = |name| File::create(self.work.join(name)).map_err(failed("catch the output"));
        command.stdout(to("stdout")?).stderr(to("stderr")?);
        tracer::run(command, &repository, fault, picked)
    }

    fn arguments(&self, task: Task) -> Vec<String> {
        let oldest = self.snapshots.first().map_or("", |(id, _)| id);
        let (source, target) = (text(&self.source), text(&self.work.join("target")));
        let password = text(&self.work.join(NEW_PASSWORD));
        let words: &[&str] = match task {
            Task::Init => &["init"],
            Task::Backup => &["backup", &source, "--json"],
            Task::Forget => &["forget", oldest],
            Task::Reclaim => &["reclaim"],
            Task::Rebuild => &["rebuild"],
            Task::Tag => &["tag", "add", oldest, "kept"],
            Task::AddKey => &["key", "add", "--new-password-file", &password],
            Task::Check => &["check", "--read-data"],
            Task::Restore => &["restore", "latest", "--target", &target],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// What must hold after `task` met `fault` and ended with `code`.
    pub(super) fn verify(
        &mut self,
        task: Task,
        fault: Fault,
        code: Option<i32>,
    ) -> Result<(), String> {
        self.ended_well(fault, code)?;
        let target = self.work.join("target");
        if task == Task::Restore && code == Some(0) {
            self.is_newest(&target)?;
        }
        let _ = std::fs::remove_dir_all(&target);
        if task == Task::Init {
            return self.begins_again(code);
        }
        let acknowledged = (task == Task::Backup).then(|| self.reported(code)).flatten();
        self.icecore.run(&["check"])?;
        let listed = self.icecore.snapshots()?;
        self.all_listed(task, &listed)?;
        if let Some(id) = &acknowledged {
            restores_as_it_was(&self.icecore, id, &self.now, &target)?;
        }
        if self.runs.is_multiple_of(ALL_EVERY) {
            self.icecore.run(&["check", "--read-data"])?;
            for (id, was) in self.snapshots.iter().filter(|(id, _)| is_listed(id, &listed)) {
                restores_as_it_was(&self.icecore, id, was, &target)?;
            }
        } else if let Some((id, was)) = self.snapshots.last() {
            restores_as_it_was(&self.icecore, id, was, &target)?;
        }
        self.goes_on()
    }

    /// No panic, no signal but ours; and what a careful program does not even notice, it does not.
    fn ended_well(&self, fault: Fault, code: Option<i32>) -> Result<(), String> {
        let said = std::fs::read_to_string(self.work.join("stderr")).unwrap_or_default();
        if said.contains("panicked") || (code.is_none() && fault != Fault::Kill) {
            return Err(format!("it ended with {code:?}:\n{said}"));
        }
        let unnoticed = fault == Fault::Short;
        if unnoticed && code != Some(0) {
            return Err(format!("it failed with {code:?}:\n{said}"));
        }
        if fault == Fault::Fails(Errno::ENOSPC) && !matches!(code, Some(0 | 1 | 3 | 15)) {
            return Err(format!("a full disk ends with {code:?}:\n{said}"));
        }
        Ok(())
    }

    fn reported(&self, code: Option<i32>) -> Option<String> {
        let stdout = std::fs::read(self.work.join("stdout")).ok()?;
        let status = std::os::unix::process::ExitStatusExt::from_raw(code? << 8);
        let status: ExitStatus = status;
        acknowledged(&Output { status, stdout, stderr: Vec::new() })
    }

    fn is_newest(&self, target: &Path) -> Result<(), String> {
        let (id, was) = self.snapshots.last().ok_or("no snapshot")?;
        let root = tree::find_root(target).ok_or("it reported success and restored nothing")?;
        let found = tree::copy(&root).map_err(failed("read what was restored"))?;
        let differences = tree::differences(was, &found);
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!("snapshot {id} was not restored as it was: {}", differences.join("\n")))
    }

    /// An `init` that failed can be made again; one that did not has made a repository. Between these, one of the two
    /// settings files is there: a repository, which `check --repair` completes.
    fn begins_again(&self, code: Option<i32>) -> Result<(), String> {
        let has = |name| self.icecore.repository.join(name).exists();
        let next: &[&str] = match (code, has("config"), has("config.copy")) {
            (Some(0), ..) | (_, true, true) => return self.goes_on(),
            (_, false, false) => &["init"],
            _ => &["check", "--repair"],
        };
        self.icecore.run(next)?;
        self.goes_on()
    }

    /// Only what was to be forgotten, or got a new id with its tag, may be gone.
    fn all_listed(&self, task: Task, listed: &[String]) -> Result<(), String> {
        for (at, (id, _)) in self.snapshots.iter().enumerate() {
            let may_go = at == 0 && (task == Task::Forget || task == Task::Tag);
            if !may_go && !is_listed(id, listed) {
                return Err(format!("snapshot {id} was acknowledged and is not there"));
            }
        }
        if task == Task::Tag && listed.len() < self.snapshots.len() {
            return Err("a snapshot was lost with its tag".to_owned());
        }
        Ok(())
    }

    /// The next backup works.
    fn goes_on(&self) -> Result<(), String> {
        let source = text(&self.source);
        let output = self.icecore.command(&["backup", &source, "--json"]).output();
        let output = output.map_err(failed("start icecore"))?;
        let id = acknowledged(&output)
            .ok_or_else(|| crate::icecore::told(&["backup", "(the next one)"], &output))?;
        if self.runs.is_multiple_of(ALL_EVERY) {
            restores_as_it_was(&self.icecore, &id, &self.now, &self.work.join("target"))?;
            self.icecore.run(&["check", "--read-data"])?;
        }
        Ok(())
    }
}

fn is_listed(id: &str, listed: &[String]) -> bool {
    listed.iter().any(|other| same(id, other))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
