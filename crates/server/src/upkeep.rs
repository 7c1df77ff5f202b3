//! Upkeep of the repositories on this server, with the lease of the data plane and beside its sessions. What it needs
//! (signatures of snapshots and of what was forgotten, and the server's own key where it manages the keys) lies above
//! both planes.

mod checked_copies;
mod copies;
mod copy_retention;
mod healing;
mod object_locks;
pub(crate) mod pace;
mod presence;

use api::upkeep::{BEHIND_ALL, CheckReport, CopyReport, ReclaimReport};
use crypto::SlotSecret;
pub(crate) use object_locks::lock_mode;
use pace::Pace;
use pipeline::keyless::{self, Part, PartReport};
use pipeline::reclaim::reclaim_beside;
use repository::reclaim::{ReclaimOptions, ReclaimOutcome};
use repository::watch::Watch;
use server_contract::upkeep::{
    CheckCopyRequest, CheckRequest, CopyRequest, DomainUpkeep, OwnSecret, ReclaimRequest,
    UpkeepError,
};
use server_data::domains::Domains;
use std::path::Path;
use std::sync::Arc;

/// Keeps up the repositories that the data plane has open.
pub(crate) struct Worker(pub(crate) Arc<Domains>);

impl DomainUpkeep for Worker {
    fn reclaim(
        &self,
        folder: &Path,
        request: &ReclaimRequest<'_>,
        watch: &dyn Watch,
    ) -> Result<ReclaimReport, UpkeepError> {
        pace::step_back();
        let domain = self.0.open(folder).map_err(of_engine)?;
        let lease = domain.lease_to_free().map_err(of_engine)?;
        let options = ReclaimOptions {
            max_waste_percent: request.max_waste_percent,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        };
        let pace = Pace::new(watch, request.bytes_per_sec);
        let secret = request.secret.map(|OwnSecret(secret)| SlotSecret::Recovery(*secret));
        let with_key =
            secret.map(|secret| reclaim_beside(&domain.repository, &lease, secret, options, &pace));
        let done = match with_key {
            // The slot was removed: what needs no key is done all the same.
            None | Some(Err(pipeline::Error::WrongKey | pipeline::Error::KeysMissing(_))) => {
                keyless::reclaim_beside(&domain.repository, &lease, options, &pace)
            }
            Some(done) => done.map(|(done, not_repacked)| {
                if let Some(why) = not_repacked {
                    let domain = folder.display();
                    tracing::warn!(%domain, %why, "records were copied as they are");
                }
                done
            }),
        };
        self.0.secure_soon(folder);
        done.map(|done| reclaimed(&done)).map_err(failed)
    }

    fn copy(
        &self,
        folder: &Path,
        request: &CopyRequest<'_>,
        watch: &dyn Watch,
    ) -> Result<CopyReport, UpkeepError> {
        pace::step_back();
        let place = copies::place(folder, request.to, request.domain)?;
        let domain = self.0.open(folder).map_err(of_engine)?;
        let pace = Pace::new(watch, request.bytes_per_sec);
        copies::copy(&domain.repository, &place, request, &pace)
    }

    fn check(
        &self,
        folder: &Path,
        request: &CheckRequest<'_>,
        watch: &dyn Watch,
    ) -> Result<CheckReport, UpkeepError> {
        pace::step_back();
        let domain = self.0.open(folder).map_err(of_engine)?;
        if request.position == BEHIND_ALL {
            return presence::of(&domain.repository);
        }
        let pace = Pace::new(watch, request.bytes_per_sec);
        let part = Part { after: request.position, percent: request.sample_percent };
        let done = keyless::scrub_part(&domain.repository, part, &pace);
        let found = done.map_err(failed)?;
        if found.report.damaged == 0 {
            return Ok(checked(found, 0));
        }
        healing::healed(&domain, request.copies, found, &pace)
    }

    fn check_copy(
        &self,
        folder: &Path,
        request: &CheckCopyRequest<'_>,
        watch: &dyn Watch,
    ) -> Result<CheckReport, UpkeepError> {
        pace::step_back();
        let place = copies::place(folder, request.to, request.domain)?;
        let domain = self.0.open(folder).map_err(of_engine)?;
        let pace = Pace::new(watch, request.check.bytes_per_sec);
        checked_copies::check(&domain.repository, &place, request, &pace)
    }
}

fn reclaimed(done: &ReclaimOutcome) -> ReclaimReport {
    ReclaimReport {
        containers: done.containers,
        bytes: done.bytes,
        dead_objects: done.dead_objects,
        containers_removed: done.containers_removed,
        containers_rewritten: done.containers_rewritten,
        containers_left: done.containers_left,
        bytes_copied: done.bytes_copied,
        bytes_freed: done.bytes_freed,
        bytes_wasted: done.bytes_wasted,
        bytes_interrupted: done.bytes_interrupted,
        bytes_secured: done.bytes_secured,
    }
}

fn checked(done: PartReport, healed: u64) -> CheckReport {
    let PartReport { report, position, is_done, .. } = done;
    CheckReport {
        snapshots: report.snapshots,
        containers_read: report.containers,
        records: report.records,
        bytes: report.bytes,
        damaged: report.damaged,
        damages: report.damages,
        position,
        is_done,
        healed,
        requests: None,
    }
}

pub(crate) fn of_engine(error: repository::Error) -> UpkeepError {
    failed(store::Error::from(error).into())
}

fn failed(error: pipeline::Error) -> UpkeepError {
    let text = error.to_string();
    match &error {
        pipeline::Error::Repository(store::Error::InUse { .. }) => UpkeepError::Busy(text),
        pipeline::Error::Usage(_) | pipeline::Error::KeysOfCopyDamaged(_) => {
            UpkeepError::Doubt(text)
        }
        pipeline::Error::Repository(error) if error.is_damage() || is_doubt(error) => {
            UpkeepError::Doubt(text)
        }
        _ => UpkeepError::Failed(text),
    }
}

fn is_doubt(error: &store::Error) -> bool {
    let specific = error.specific::<repository::Error>();
    matches!(specific, Some(repository::Error::UncertainData(_)))
}
