//! What the copy itself has lost: its list of snapshots alone says that all of them are there.

use repository::check::ContainerDamage;
use repository::presence::{presence, presence_beside_others};
use repository::storage::Storage;
use repository::{Error, Repository, Result};
use std::sync::Arc;
use std::time::Duration;

/// For asking how long the containers are. Whether they are there costs a list.
const LENGTHS_WITHIN: Duration = Duration::from_secs(2);

/// The containers of the copy in `target` that are not there, or were cut short. A bucket is not asked: its whole index
/// would have to be read from afar each time, and a check does that.
pub(super) fn containers(
    target: &Arc<dyn Storage>,
    is_dry_run: bool,
) -> Result<Vec<ContainerDamage>> {
    if !target.has_limited_space() {
        return Ok(Vec::new());
    }
    let copy = Repository::open(target.clone())?;
    match target.has_consistent_listing() {
        true => Ok(presence_beside_others(&copy, LENGTHS_WITHIN)?.damages),
        // To list what is never stale writes a file there, and takes the lease.
        false if is_dry_run => Ok(Vec::new()),
        false => alone(&copy),
    }
}

/// Whoever writes there now is not waited for: the next copy looks.
fn alone(copy: &Repository) -> Result<Vec<ContainerDamage>> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match copy.lease(&format!("copy on {host}, process {}", std::process::id())) {
        Err(Error::InUse { .. }) => Ok(Vec::new()),
        lease => {
            let _lease = lease?;
            Ok(presence(copy, LENGTHS_WITHIN)?.damages)
        }
    }
}
