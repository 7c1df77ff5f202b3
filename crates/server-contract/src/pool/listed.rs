//! Which domains the buckets of pools have: for alarms, which are looked for again and again.

use super::bucket;
use super::question::{Question, Unanswered};
use crate::Result;
use api::Name;
use object_storage::Location;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A list costs a request: one that has the domain is believed for so long, one that lacks it for less.
const HAS_FOR: Duration = Duration::from_secs(60);
const LACKS_FOR: Duration = Duration::from_secs(2);

/// Whoever looks for alarms waits no longer: what is not known is none.
const WITHIN: Duration = Duration::from_secs(5);

/// What a bucket has; nothing while it cannot be listed.
type List = Option<Arc<BTreeSet<Name>>>;

/// Of each bucket.
static LISTED: Mutex<BTreeMap<String, Arc<Question<List>>>> = Mutex::new(BTreeMap::new());

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
    let question = LISTED.lock().entry(address.clone()).or_default().clone();
    if let Some((age, Some(names))) = question.last() {
        let has = names.contains(name);
        if age < if has { HAS_FOR } else { LACKS_FOR } {
            return Ok(has);
        }
    }
    let bucket = bucket.clone();
    let asking = move || Some(Arc::new(bucket::domains(&bucket).ok()?.into_iter().collect()));
    let failed = |error| crate::Error::file(Path::new(&address))(error);
    match question.ask(WITHIN, asking) {
        Ok(Some(names)) => Ok(names.contains(name)),
        Ok(None) => Err(failed(ErrorKind::NotConnected.into())),
        Err(Unanswered::Silent(_)) => Err(failed(ErrorKind::TimedOut.into())),
        Err(Unanswered::NoThread(error)) => Err(failed(error)),
    }
}
