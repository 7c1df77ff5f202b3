//! What no command may forget, whoever types it and wherever: what `snapshot delete` would refuse.

use super::facts::UNREAD;
use super::named::stays;
use super::repositories::SnapshotStore;
use super::table::with_deletion;
use crate::sites::{Stored, zone};
use crate::{Error, Result};
use ::retention::Facts;
use api::Name;
use catalog::Catalog;
use clock::Reading;
use ids::SnapshotId;
use std::collections::{BTreeMap, BTreeSet};

/// The snapshots of `domain`, which lie in `store`, that a hold or a lock keeps, and why. While the time is in doubt, or
/// the catalog is, that is all of them.
///
/// # Errors
/// When the repository or the site cannot be read: then nobody knows what may go.
pub(crate) fn kept(
    catalog: &Catalog,
    store: &dyn SnapshotStore,
    domain: &Name,
    now: Reading,
) -> Result<BTreeMap<SnapshotId, String>> {
    let site = Stored::of(catalog.objects()?)?.site;
    let rules = site.rules(&zone).map_err(|error| Error::Usage(error.to_string()))?;
    let all = facts(catalog, store, domain)?;
    let bound: Vec<_> = all.into_iter().map(|one| site.bound(one)).collect();
    let verdicts = rules.evaluate(&bound, now);
    let any_hold = site.holds.keys().next();
    let why = |(one, verdict): (&Facts, _)| {
        // Of whom it is says only its file.
        let maybe = any_hold.filter(|_| one.suspect.as_deref() == Some(UNREAD));
        let maybe = maybe.map(|hold| format!("{UNREAD}, and the hold '{hold}' may select it"));
        Some((one.id, stays(&verdict, now).or(maybe)?))
    };
    Ok(bound.iter().zip(verdicts).filter_map(why).collect())
}

/// What is known of each snapshot that is there. What the catalog has not yet noted is read.
fn facts(catalog: &Catalog, store: &dyn SnapshotStore, domain: &Name) -> Result<Vec<Facts>> {
    let names = store.names(domain)?;
    let there: BTreeSet<_> = names.iter().map(|name| name.id).collect();
    let is_read = |one: &Facts| there.contains(&one.id) && one.suspect.as_deref() != Some(UNREAD);
    let mut all = catalog.snapshots_of(domain.as_str())?;
    all.retain(is_read);
    let known: BTreeSet<_> = all.iter().map(|one| one.id).collect();
    let new: Vec<_> = names.into_iter().filter(|name| !known.contains(&name.id)).collect();
    all.extend(store.facts(domain, &new)?);
    let deleted = catalog.deleted_sources()?;
    Ok(all.into_iter().map(|one| with_deletion(one, &deleted)).collect())
}
