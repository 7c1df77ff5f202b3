//! Where copies of domains lie: directories of this machine, or buckets that the credentials of this process reach.

use object_storage::{Location, ObjectStorage};
use repository::local::LocalStorage;
use repository::storage::{Storage, StorageError, StorageResult};
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// A place for copies.
pub struct CopyPlace {
    /// What is there.
    pub storage: Arc<dyn Storage>,
    /// The same, where it is a bucket.
    pub bucket: Option<Arc<ObjectStorage>>,
}

impl CopyPlace {
    fn directory(storage: LocalStorage) -> Self {
        Self { storage: Arc::new(storage), bucket: None }
    }

    fn bucket(storage: ObjectStorage) -> Self {
        let bucket = Arc::new(storage);
        Self { storage: bucket.clone(), bucket: Some(bucket) }
    }
}

/// Whether `place` is an address of a bucket, and no directory.
pub fn is_bucket(place: &str) -> bool {
    Location::parse(place).is_some()
}

/// The storage at `place`, which should exist.
///
/// # Errors
/// When it does not, or cannot be reached.
pub fn open(place: &str) -> StorageResult<CopyPlace> {
    match bucket(place)? {
        Some(storage) => Ok(CopyPlace::bucket(storage)),
        None => LocalStorage::open(Path::new(place)).map(CopyPlace::directory),
    }
}

/// The storage at `place` for a new copy. A bucket has to exist, and to keep what is relied on.
///
/// # Errors
/// When it cannot be made or used.
pub fn create(place: &str) -> StorageResult<CopyPlace> {
    let Some(storage) = bucket(place)? else {
        return LocalStorage::create(Path::new(place)).map(CopyPlace::directory);
    };
    storage.probe()?;
    Ok(CopyPlace::bucket(storage))
}

fn bucket(place: &str) -> StorageResult<Option<ObjectStorage>> {
    let Some(location) = Location::parse(place) else { return Ok(None) };
    // Somebody may have written a key into it.
    let what = "the address of the copies";
    let wrong = |why| StorageError::new("use", what, Error::new(ErrorKind::InvalidInput, why));
    let away = object_storage::Away::OF_A_COMMAND;
    object_storage::from_environment(&location.map_err(wrong)?, away).map(Some)
}
