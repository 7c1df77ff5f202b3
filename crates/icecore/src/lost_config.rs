//! A repository that lost both files that say how to read it, while its snapshots or containers are there. To create
//! one in its place is refused, so nobody is sent there; a copy has the same file.

use crate::codes::Code;
use crate::failure::{Failure, quoted};
use ids::ContainerNo;
use object_storage::{Away, Location, from_environment};
use repository::local::LocalStorage;
use repository::storage::Storage;
use repository::{config, container};
use std::path::Path;

/// Whether that is what `storage` holds. What an interrupted `init` leaves has neither snapshots nor containers.
pub(crate) fn is_in(storage: &dyn Storage) -> bool {
    let has_snapshots = || storage.list("snapshots").is_ok_and(|names| !names.is_empty());
    let listed = || container::list(storage, ContainerNo(0));
    let has_containers = || listed().is_ok_and(|files| !files.is_empty());
    config::exists(storage).is_ok_and(|exists| !exists) && (has_snapshots() || has_containers())
}

/// The same of a directory or a bucket; of one that does not answer nobody knows.
pub(crate) fn is_at(location: &str) -> bool {
    match Location::parse(location) {
        None => LocalStorage::open(Path::new(location)).is_ok_and(|storage| is_in(&storage)),
        Some(Ok(bucket)) => {
            from_environment(&bucket, Away::NONE).is_ok_and(|storage| is_in(&storage))
        }
        Some(Err(_)) => false,
    }
}

/// What to do about it: with the file of `copy`, if one is known.
pub(crate) fn failure(location: &str, copy: Option<&str>) -> Failure {
    let message = format!(
        "{location} contains snapshots or containers, but both config and config.copy are missing"
    );
    let place = copy.unwrap_or("COPY");
    let are_local = [location, place].iter().all(|place| !place.starts_with("s3://"));
    let program = if are_local { "cp" } else { "aws s3 cp" };
    let file = |place: &str| quoted(&format!("{place}/config"));
    let hint = format!(
        "A copy has the same file as what it was made from: {program} {} {}. Then: icecore check --repair --copies {} --repo {}",
        file(place),
        file(location),
        quoted(place),
        quoted(location)
    );
    Failure::new(Code::Damage, message).hint(hint)
}
