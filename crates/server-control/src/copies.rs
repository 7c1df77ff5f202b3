//! Where the copies of a domain lie, by the upkeep that the site declares.

use crate::Result;
use catalog::{Catalog, objects::Objects};
use site::{Kind, Site, UpkeepTask};
use std::path::PathBuf;

/// The directories of the copies of `domain`, on the machine on which that lies, and the addresses of those in buckets.
pub(crate) fn copies_of(site: &Site, domain: &str) -> Vec<PathBuf> {
    let copying = site.upkeeps.values().filter(|it| it.tasks.contains(&UpkeepTask::Copy));
    let covering = copying.filter(|it| it.covers(domain));
    let place = |to: &str| PathBuf::from(format!("{}/{domain}", to.trim_end_matches('/')));
    covering.filter_map(|it| Some(place(it.to.as_ref()?))).collect()
}

/// The same by what the catalog has.
///
/// # Errors
/// Those of the catalog.
pub(crate) fn known_copies(catalog: &Catalog, domain: &str) -> Result<Vec<PathBuf>> {
    let objects = catalog.objects_of(Kind::Upkeep.name())?;
    let site = crate::scheduler::declared(Objects { objects, ..Objects::default() });
    Ok(copies_of(&site, domain))
}
