//! Repair: containers that have rotted are written as they were, by their parity.

use super::{Report, cancelled};
use crate::backup::Progress;
use crate::{Archive, Result};
use repository::parity::{RepairOutcome, remove_unfinished, repair};

/// Repairs what can be. What cannot is left alone: the check that follows names it, and whom it
/// concerns.
pub(super) fn run(archive: &Archive, progress: &Progress, report: &mut Report) -> Result<()> {
    let repository = &archive.local()?;
    let lease = archive.lease("check --repair")?;
    super::keys::repair(archive, &lease, report)?;
    remove_unfinished(repository, &lease)?;
    let files = repository.current_containers()?;
    for file in files.iter().filter(|file| file.finished) {
        cancelled(progress)?;
        if let RepairOutcome::Repaired(damage) = repair(repository, &lease, file.number)? {
            report.repaired.push(format!("container {}: {damage}", file.number));
        }
    }
    Ok(())
}
