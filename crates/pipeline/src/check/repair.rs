//! Repair: damaged containers are rewritten as they were, with the help of parity.

use super::CheckReport;
use crate::progress::Progress;
use crate::{Result, UnlockedRepository};
use repository::parity::{RepairOutcome, remove_unfinished, repair};

/// Repairs what parity can heal. The check that follows reports the rest, and what it affects.
pub(super) fn run(
    repository: &UnlockedRepository,
    progress: &Progress,
    report: &mut CheckReport,
) -> Result<()> {
    let local = &repository.local()?;
    let lease = repository.lease("check --repair")?;
    super::keys::repair(repository, &lease, report)?;
    remove_unfinished(local, &lease)?;
    let files = local.current_containers()?;
    for file in files.iter().filter(|file| file.finished) {
        progress.check()?;
        if let RepairOutcome::Repaired(damage) = repair(local, &lease, file.number)? {
            report.repaired.push(format!("container {}: {damage}", file.number));
        }
    }
    Ok(())
}
