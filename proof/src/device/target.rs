//! The target of restores on the logged disk, and the repository elsewhere: the machine that restores loses power.
//!
//! After each cut a restore that was reported done is there, every byte of it. One that was not is known as
//! unfinished as soon as anything of it differs from the snapshot: the marker is there. And a second restore into
//! the same target makes it whole, by content: no file of zeros passes for one that was restored.

use super::fuse::Shared;
use super::{Cuts, Judge, Options, script};
use crate::icecore::{Icecore, acknowledged, told};
use crate::volume::free_bytes;
use crate::{failed, tree};
use simulation::Random;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How the name of the marker of an unfinished restore begins.
const MARKER: &str = ".icecore-restore-";
/// Restores that end by themselves take about so long; others are killed before.
const KILL_MILLIS: u64 = 60;
/// A restore begins only with so many times the size of its tree free on the disk: none of them meets its end.
const ROOM: u64 = 2;

/// One restore into a target of its own.
pub(super) struct Restore {
    snapshot: String,
    was: tree::Copy,
    target: PathBuf,
    /// Where the tree is in it.
    root: PathBuf,
    /// Requests to the disk before it began, and before it was reported done.
    begun: usize,
    acknowledged: usize,
}

struct Targets {
    icecore: Icecore,
    restores: Vec<Restore>,
    /// What was there at once, and after a second restore.
    whole: u64,
    finished: u64,
    /// Of the latter, those in which files were wrong that the marker told of.
    doubted: u64,
}

/// Makes all cuts; what was done.
pub(super) fn prove(
    options: &Options,
    work: &Path,
    until: Option<Instant>,
) -> Result<String, String> {
    let mut recorded = script::record(options, work, restores)?;
    let restores = std::mem::take(&mut recorded.done);
    let icecore = icecore(options, work);
    let judge = Targets { icecore, restores, whole: 0, finished: 0, doubted: 0 };
    let (commands, flushes) = (judge.restores.len(), recorded.flushes.len());
    let mut cuts = Cuts::new(options, work, recorded, judge);
    cuts.all(until)?;
    let (made, kind, judge) = (cuts.made, &options.file_system, cuts.judge);
    let Targets { whole, finished, doubted, .. } = judge;
    Ok(format!(
        "{made} power cuts at {flushes} flushes of {commands} restores to {kind}: {whole} that were reported done are whole, {finished} others were finished by a second one, {doubted} of them with files that the marker told of"
    ))
}

fn icecore(options: &Options, work: &Path) -> Icecore {
    Icecore::on(&options.binary, work.join(script::REPOSITORY))
}

/// Restores of one snapshot after the other, each into a target of its own, as many as were asked for or as the disk
/// holds. Some are killed first and begun again.
fn restores(
    options: &Options,
    log: &Shared,
    work: &Path,
    mount: &Path,
) -> Result<(Vec<Restore>, usize), String> {
    let (icecore, source) = (icecore(options, work), work.join(script::SOURCE));
    let mut random = Random::new(options.seed);
    tree::create(&source, &mut random).map_err(failed("make the tree"))?;
    icecore.run(&["init"])?;
    let first = log.lock().len();
    let mut done = Vec::new();
    for number in 0..options.commands {
        tree::mutate(&source, &mut random).map_err(failed("change the tree"))?;
        let was = tree::copy(&source).map_err(failed("read the tree"))?;
        // What a killed restore left may lie beside what the next one writes, before the cut and after it.
        if !done.is_empty() && free_bytes(mount)? < ROOM * tree::bytes(&was) {
            break;
        }
        let arguments = ["backup", &source.to_string_lossy(), "--json"];
        let output = icecore.command(&arguments).output().map_err(failed("start icecore"))?;
        let snapshot = acknowledged(&output).ok_or_else(|| told(&arguments, &output))?;
        let target = mount.join(format!("target {number}"));
        std::fs::create_dir(&target).map_err(failed("make the target"))?;
        let begun = log.lock().len();
        if random.one_in(2) {
            let words = ["restore", &snapshot, "--target", &target.to_string_lossy()];
            icecore.run_and_kill(&words, Duration::from_millis(random.below(KILL_MILLIS)))?;
        }
        icecore.restore(&snapshot, &target)?;
        let acknowledged = log.lock().len();
        let root = tree::find_root(&target).ok_or("a restore without its top folder")?;
        done.push(Restore { snapshot, was, target, root, begun, acknowledged });
    }
    Ok((done, first))
}

impl Judge for Targets {
    /// The one that was under way, and the last that was done before it.
    fn verify(&mut self, moment: usize, _: u64) -> Result<(), String> {
        let begun = self.restores.iter().rposition(|restore| restore.begun <= moment);
        for at in begun.into_iter().flat_map(|last| last.saturating_sub(1)..=last) {
            let restore = &self.restores[at];
            if restore.acknowledged <= moment {
                restore.is_whole().map_err(|what| format!("reported done, and {what}"))?;
                self.whole += 1;
            } else {
                self.doubted += u64::from(restore.is_known_as_unfinished()?);
                std::fs::create_dir_all(&restore.target).map_err(failed("make the target"))?;
                self.icecore.restore(&restore.snapshot, &restore.target)?;
                restore.is_whole().map_err(|what| format!("after a second restore {what}"))?;
                self.finished += 1;
            }
        }
        Ok(())
    }
}

impl Restore {
    fn found(&self) -> Result<tree::Copy, String> {
        if !self.root.exists() {
            return Ok(tree::Copy::new());
        }
        tree::copy(&self.root).map_err(failed("read what was restored"))
    }

    fn is_whole(&self) -> Result<(), String> {
        let differences = tree::differences(&self.was, &self.found()?);
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!("snapshot {} is not as it was:\n{}", self.snapshot, differences.join("\n")))
    }

    /// Fails when something is there, is not as it was, and no marker says so. Whether files were wrong.
    fn is_known_as_unfinished(&self) -> Result<bool, String> {
        let found = self.found()?;
        let is_right = found.is_empty() || tree::differences(&self.was, &found).is_empty();
        if !is_right && !self.has_marker() {
            let differences = tree::differences(&self.was, &found).join("\n");
            return Err(format!(
                "the restore was interrupted and reports success, and:\n{differences}"
            ));
        }
        Ok(tree::all_whole(&self.was, &found).is_err())
    }

    fn has_marker(&self) -> bool {
        let names = std::fs::read_dir(&self.target).into_iter().flatten().flatten();
        names.map(|entry| entry.file_name()).any(|it| it.to_string_lossy().starts_with(MARKER))
    }
}
