//! A copy that is read and healed, without a key.

use super::opened;
use crate::Result;
use crate::keyless::{Part, PartReport, heal_part, scrub_part};
use crate::unlocked::holder;
use repository::Repository;
use repository::lease::LeasePurpose;
use repository::storage::Storage;
use repository::watch::Watch;
use std::slice;
use std::sync::Arc;

/// Reads a part of the copy in `target`, and heals what is damaged there and whole in `source`: what is damaged
/// afterwards, and how many containers and snapshots were healed.
///
/// # Errors
/// [`crate::Error::Usage`] when `target` is no copy of `source`; those of both storages.
pub fn check(
    source: &Arc<Repository>,
    target: &Arc<dyn Storage>,
    part: Part,
    watch: &dyn Watch,
) -> Result<(PartReport, u64)> {
    let target = opened(source, target)?;
    target.verify_with(crypto::is_signed);
    let found = scrub_part(&target, part, watch)?;
    if found.report.damaged == 0 || !watch.goes_on() {
        return Ok((found, 0));
    }
    watch.stage("heal");
    let lease = target.lease_for(&holder("copy"), LeasePurpose::Reclaim)?;
    heal_part(&target, &lease, slice::from_ref(source), found, watch)
}
