//! Checks of the copies that upkeep keeps: nobody else reads them before they are needed.

use super::{checked, copies, failed, of_engine};
use api::upkeep::CheckReport;
use pipeline::copy;
use pipeline::keyless::Part;
use repository::Repository;
use repository::config;
use repository::watch::Watch;
use server_contract::upkeep::{CheckCopyRequest, UpkeepError};
use server_data::copy_places::{self, CopyPlace};
use std::sync::Arc;

/// Reads a part of the copy at `place`, and heals what is damaged there from `source`.
pub(super) fn check(
    source: &Arc<Repository>,
    place: &str,
    request: &CheckCopyRequest<'_>,
    watch: &dyn Watch,
) -> Result<CheckReport, UpkeepError> {
    let there = there(place)?;
    let part = Part { after: request.check.position, percent: request.check.sample_percent };
    let done = copy::check(source, &there.storage, part, watch);
    let (found, healed) = done.map_err(failed)?;
    let requests = there.bucket.as_ref().map(|bucket| copies::requests(bucket.asked()));
    Ok(CheckReport { requests, ..checked(found, healed) })
}

fn there(place: &str) -> Result<CopyPlace, UpkeepError> {
    let there =
        copy_places::open(place).map_err(|error| failed(store::Error::from(error).into()))?;
    if config::exists(&*there.storage).map_err(of_engine)? {
        return Ok(there);
    }
    Err(UpkeepError::Failed(format!("there is no copy at {place}, which the task copy makes")))
}
