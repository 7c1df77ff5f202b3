//! Healing what a check found, from the copies that upkeep keeps of a domain.

use super::{checked, failed};
use api::upkeep::CheckReport;
use pipeline::keyless::{self, PartReport};
use repository::Repository;
use repository::fallback::Copy;
use repository::watch::Watch;
use server_contract::upkeep::UpkeepError;
use server_data::copy_places;
use server_data::domains::Domain;
use std::sync::Arc;

/// What is still damaged after copies were asked. One that cannot be used, or a heal that fails, heals nothing: then
/// the report says what the check found.
pub(super) fn healed(
    domain: &Domain,
    copies: &[String],
    mut found: PartReport,
    watch: &dyn Watch,
) -> Result<CheckReport, UpkeepError> {
    let copies: Vec<_> = copies.iter().filter_map(|place| opened(domain, place)).collect();
    if copies.is_empty() || !watch.goes_on() {
        return Ok(checked(found, 0));
    }
    watch.stage("heal");
    let lease = domain.lease_to_free().map_err(super::of_engine)?;
    match keyless::heal_part(&domain.repository, &lease, &copies, found.clone(), watch) {
        Ok((left, healed)) => Ok(checked(left, healed)),
        Err(error) => {
            let why = failed(error).to_string();
            found.report.damages.push(format!("nothing was healed from a copy: {why}"));
            Ok(checked(found, 0))
        }
    }
}

/// The copy at `place`, if it is one of this domain.
fn opened(domain: &Domain, place: &str) -> Option<Arc<Repository>> {
    let at = place.to_owned();
    let open = move || {
        copy_places::open(&at).map(|place| place.storage).map_err(|error| error.to_string())
    };
    let copy = Copy::new(place.to_owned(), Box::new(open));
    let looked = copy.look(domain.repository.config());
    looked.inspect_err(|why| tracing::warn!(place, why, "a copy cannot be used")).ok()
}
