//! Repair: containers that have rotted are written as they were, by their parity.

use super::CheckReport;
use crate::progress::Progress;
use crate::{Result, UnlockedRepository};
use repository::parity::{RepairOutcome, remove_unfinished, repair};

/// Repairs what can be. What cannot is left alone: the check that follows names it, and whom it
/// concerns.
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
