//! Which domains the buckets of pools have: for alarms, which are looked for again and again.

use super::bucket;
use crate::Result;
use api::Name;
use object_storage::Location;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// A list costs a request: one that has the domain is believed for so long, one that lacks it for less.
const HAS_FOR: Duration = Duration::from_secs(60);
const LACKS_FOR: Duration = Duration::from_secs(2);

/// Whoever looks for alarms waits no longer: what is not known is none.
const WITHIN: Duration = Duration::from_secs(5);

/// The buckets that are being asked.
static ASKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
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
    let names = asked(bucket, &address)?;
    let has = names.contains(name);
    LISTED.lock().insert(address, (Instant::now(), names));
    Ok(has)
}

/// What the bucket has. One thread waits for one that does not answer, and everybody else is told.
fn asked(bucket: &Location, address: &str) -> Result<BTreeSet<Name>> {
    let no_answer = || crate::Error::file(Path::new(address))(ErrorKind::TimedOut.into());
    if !ASKED.lock().insert(address.to_owned()) {
        return Err(no_answer());
    }
    let (answers, answer) = channel();
    let (of_thread, named) = (bucket.clone(), address.to_owned());
    let asks = move || {
        let found = bucket::domains(&of_thread);
        ASKED.lock().remove(&named);
        let _ = answers.send(found); // nobody waits any more
    };
    if let Err(error) = Builder::new().name("bucket".to_owned()).spawn(asks) {
        ASKED.lock().remove(address);
        return Err(crate::Error::file(Path::new(address))(error));
    }
    let names = answer.recv_timeout(WITHIN).map_err(|_| no_answer())??;
    Ok(names.into_iter().collect())
}
