//! Which domains the buckets of pools have: for alarms, which are looked for again and again.

use super::bucket;
use crate::Result;
use api::Name;
use object_storage::Location;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// A list costs a request: one that has the domain is believed for so long, one that lacks it for less.
const HAS_FOR: Duration = Duration::from_secs(60);
const LACKS_FOR: Duration = Duration::from_secs(2);

/// The last list of each bucket.
static LISTED: Mutex<BTreeMap<String, (Instant, BTreeSet<Name>)>> = Mutex::new(BTreeMap::new());

/// Whether the bucket of its pool has objects of the domain in `folder`; `None` if the pool is a directory.
///
/// # Errors
/// Those of the storage and of the system.
pub fn has_objects(folder: &Path) -> Result<Option<bool>> {
    let domain =
        bucket::domain(folder).map_err(|error| crate::Error::file(folder)(error.source))?;
    domain.map(|(bucket, name)| has(&bucket, &name)).transpose()
}

fn has(bucket: &Location, name: &Name) -> Result<bool> {
    let address = bucket.to_string();
    if let Some((at, names)) = LISTED.lock().get(&address) {
        let has = names.contains(name);
        if at.elapsed() < if has { HAS_FOR } else { LACKS_FOR } {
            return Ok(has);
        }
    }
    let names: BTreeSet<_> = bucket::domains(bucket)?.into_iter().collect();
    let has = names.contains(name);
    LISTED.lock().insert(address, (Instant::now(), names));
    Ok(has)
}
