//! A repository on the logged disk: after each cut `check` finds nothing, every snapshot that was
//! acknowledged before restores as it was, and the next backup works.

use super::script::{self, Snapshot};
use super::{Cuts, Judge, Options};
use crate::failed;
use crate::icecore::{Icecore, acknowledged, told};
use crate::snapshot::{restores_as_it_was, same};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Every so many cuts all that was acknowledged is restored, and a backup made.
const WHOLE_EVERY: u64 = 5;

struct Repository {
    icecore: Icecore,
    work: PathBuf,
    source: PathBuf,
    snapshots: Vec<Snapshot>,
    restored: u64,
}

/// Makes all cuts; what was done.
pub(super) fn prove(
    options: &Options,
    work: &Path,
    until: Option<Instant>,
) -> Result<String, String> {
    let mut recorded = script::record(options, work, script::commands)?;
    let snapshots = std::mem::take(&mut recorded.done);
    let icecore = Icecore::on(&options.binary, work.join("mount").join(script::REPOSITORY));
    let source = work.join(script::SOURCE);
    let judge = Repository { icecore, work: work.to_owned(), source, snapshots, restored: 0 };
    let (commands, flushes) = (options.commands, recorded.flushes.len());
    let mut cuts = Cuts::new(options, work, recorded, judge);
    cuts.all(until)?;
    let (made, restored, kind) = (cuts.made, cuts.judge.restored, &options.file_system);
    Ok(format!(
        "{made} power cuts at {flushes} flushes of {commands} commands on {kind}: all checks clean, {restored} snapshots restored as they were"
    ))
}

impl Judge for Repository {
    fn verify(&mut self, moment: usize, number: u64) -> Result<(), String> {
        let whole = number.is_multiple_of(WHOLE_EVERY);
        self.icecore.run(if whole { &["check", "--read-data"][..] } else { &["check"] })?;
        let listed = self.icecore.snapshots()?;
        let due: Vec<&Snapshot> =
            self.snapshots.iter().filter(|snapshot| snapshot.is_due(moment)).collect();
        for snapshot in &due {
            if !listed.iter().any(|id| same(id, &snapshot.id)) {
                return Err(format!("{} was acknowledged and is not there", snapshot.id));
            }
        }
        let restored = if whole { &due[..] } else { due.split_at(due.len().saturating_sub(1)).1 };
        for snapshot in restored {
            let target = self.work.join("restored");
            restores_as_it_was(&self.icecore, &snapshot.id, &snapshot.was, &target)?;
            self.restored += 1;
        }
        if whole { self.goes_on() } else { Ok(()) }
    }
}

impl Repository {
    fn goes_on(&self) -> Result<(), String> {
        let arguments = ["backup", &self.source.to_string_lossy(), "--json"];
        let output = self.icecore.command(&arguments).output();
        let output = output.map_err(failed("start icecore"))?;
        acknowledged(&output).ok_or_else(|| told(&arguments, &output))?;
        self.icecore.run(&["reclaim"])?;
        self.icecore.run(&["check"]).map(|_| ())
    }
}
