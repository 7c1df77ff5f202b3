//! Repair: damaged containers are rewritten as they were, with the help of parity, or of a copy.

use super::CheckReport;
use crate::copy::Watched;
use crate::progress::Progress;
use crate::{Result, UnlockedRepository};
use repository::copy::{self, CopyTo, heal};
use repository::lease::Lease;
use repository::parity::{RepairOutcome, remove_unfinished, repair};
use repository::{Repository, directories};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Repairs what parity can heal. The check that follows reports the rest, and what it affects.
pub(super) fn run(
    repository: &UnlockedRepository,
    copies: &[Arc<Repository>],
    progress: &Progress,
    report: &mut CheckReport,
) -> Result<()> {
    let local = &repository.local()?;
    if !copies.is_empty() {
        // What was in them comes from a copy.
        directories::make_missing(&**local.storage())?;
    }
    let lease = repository.lease("check --repair")?;
    super::keys::repair(repository, &lease, report)?;
    remove_unfinished(local, &lease)?;
    let files = local.current_containers()?;
    let has_parity = local.config().parity_percent() > 0;
    for file in files.iter().filter(|file| file.finished && has_parity) {
        progress.check()?;
        let repaired = match repair(local, &lease, file.number) {
            // The check that follows counts it.
            Err(error) if error.is_archived() => continue,
            repaired => repaired?,
        };
        if let RepairOutcome::Repaired(damage) = repaired {
            report.repaired.push(format!("container {}: {damage}", file.number));
        }
    }
    if copies.is_empty() {
        return Ok(());
    }
    copies.iter().for_each(|copy| copy.verify_with(crypto::is_signed));
    let healed = heal(local, &lease, copies, &Watched(progress))?;
    progress.check()?;
    for (number, objects) in healed.containers {
        report.repaired.push(format!("container {number}: {objects} chunks and pages from a copy"));
    }
    for name in healed.snapshots {
        report.repaired.push(format!("snapshot {}: its file, from a copy", name.id));
    }
    for copy in copies {
        bring_back(local, &lease, copy, progress, report)?;
    }
    Ok(())
}

/// Takes from a copy what listed snapshots need and the index does not know: a rebuild knows only what is left.
fn bring_back(
    local: &Arc<Repository>,
    lease: &Arc<Lease>,
    copy: &Arc<Repository>,
    progress: &Progress,
    report: &mut CheckReport,
) -> Result<()> {
    if local.are_complete(&Watched(progress))? {
        return Ok(());
    }
    // Whether all of them or one lacks something: each page is walked once.
    let listed: BTreeSet<_> = local.current_snapshots()?.into_iter().collect();
    let mut names = copy.current_snapshots()?;
    names.retain(|name| listed.contains(name));
    let to = CopyTo::Repository(local, lease);
    let brought = copy::run(copy, to, &names, false, &Watched(progress))?;
    progress.check()?;
    if brought.objects > brought.lost_objects {
        let objects = brought.objects - brought.lost_objects;
        let what = format!("the index: {objects} chunks and pages that it lacked, from a copy");
        report.repaired.push(what);
    }
    Ok(())
}
