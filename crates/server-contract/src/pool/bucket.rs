//! A pool in a bucket. Which bucket is remembered with the pool; its directory in the folder of the server has a
//! directory for each domain that the bucket has, so that nobody has to ask it where a domain lies.
//!
//! ```text
//! pools/NAME/bucket                    the address of the pool
//! pools/NAME/domains/DOMAIN/bucket     that of the repository; beside it, what a move has noted (`super::moves`)
//! pools/NAME/cache                     what was read, and never changes
//! ```

use super::moves;
use super::places::PoolPaths;
use crate::folder::{make_directory, read, write};
use crate::{Error, Result};
use api::Name;
use object_storage::{Away, BucketPool, Location, ObjectStorage, from_environment, trim_caches};
use parking_lot::Mutex;
use repository::local::counters;
use repository::local::superblock::Superblock;
use repository::storage::{StorageError, StorageResult};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// In the directory of a pool or a domain: its address.
pub(super) const MARK: &str = "bucket";
const CACHE: &str = "cache";
/// So much is kept of all repositories of a pool: 8 GiB; and so often is looked whether it is more.
const CACHE_BYTES_MAX: u64 = 8 << 30;
const TRIMMED_EVERY: Duration = Duration::from_secs(3600);
/// So long a look at the superblocks is believed: each costs a request.
const BELIEVED_FOR: Duration = Duration::from_secs(5);

/// What was read last of the superblock of each pool.
static READ: Mutex<BTreeMap<String, Read>> = Mutex::new(BTreeMap::new());

/// When the caches of each pool were made smaller.
static TRIMMED: Mutex<BTreeMap<PathBuf, Instant>> = Mutex::new(BTreeMap::new());

/// What was read of a row of superblocks, and when.
#[derive(Clone)]
struct Read {
    at: Instant,
    last: Option<Last>,
}

#[derive(Clone)]
struct Last {
    number: u64,
    /// By which the storage tells contents apart.
    tag: Option<String>,
    superblock: Superblock,
}

/// The bucket that `place` names; `None` if it is no address of one.
///
/// # Errors
/// What is wrong with an address.
pub(super) fn location(place: &Path) -> io::Result<Option<Location>> {
    let located = place.to_str().and_then(Location::parse).transpose();
    // Somebody may have written a key into it.
    located.map_err(|why| {
        let why = format!("the address of the bucket cannot be used: {why}");
        io::Error::new(ErrorKind::InvalidInput, why)
    })
}

/// Its superblock. One that was read before is not read again.
pub(super) fn superblock(bucket: &Location) -> StorageResult<Option<Superblock>> {
    let pool = BucketPool::from_environment(bucket)?;
    let known = READ.lock().get(&bucket.to_string()).and_then(|read| read.last.clone());
    let last = pool.last_superblock()?.map(|(number, tag)| {
        let is_same = |last: &Last| last.number == number && tag.is_some() && last.tag == tag;
        if let Some(known) = known.filter(is_same) {
            return Ok(known);
        }
        let superblock = Superblock::decode(&pool.superblock(number)?).ok_or_else(damaged)?;
        StorageResult::Ok(Last { number, tag, superblock })
    });
    let last = last.transpose()?;
    let found = last.as_ref().map(|last| last.superblock.clone());
    READ.lock().insert(bucket.to_string(), Read { at: Instant::now(), last });
    Ok(found)
}

/// The same, as it was some seconds ago.
pub(super) fn superblock_lately(bucket: &Location) -> StorageResult<Option<Superblock>> {
    let known = READ.lock().get(&bucket.to_string()).cloned();
    match known {
        Some(Read { at, last }) if at.elapsed() < BELIEVED_FOR => {
            Ok(last.map(|last| last.superblock))
        }
        _ => superblock(bucket),
    }
}

/// Writes its superblock: who has written one of the same generation keeps the pool.
pub(super) fn put_superblock(bucket: &Location, superblock: &Superblock) -> StorageResult<()> {
    READ.lock().remove(&bucket.to_string());
    let pool = BucketPool::from_environment(bucket)?;
    pool.put_superblock(superblock.generation, superblock.encode().as_bytes())
}

/// Whether two writers cannot create the same object there.
pub(super) fn probe(bucket: &Location) -> StorageResult<()> {
    BucketPool::from_environment(bucket)?.probe()
}

/// Notes on this machine which domains the bucket has. Objects without a config are what a move left, and so are those
/// of which a note says it: a domain that moved away lies elsewhere, and must not lie in two pools.
pub(super) fn note_domains(place: &PoolPaths, bucket: &Location) -> Result<()> {
    let failed = |error: StorageError| Error::file(Path::new(&bucket.to_string()))(error.source);
    for name in domains(bucket)? {
        let folder = place.domains().join(name.as_str());
        if folder.join(MARK).exists() || moves::has_note(&folder) {
            continue;
        }
        let pool = BucketPool::from_environment(bucket).map_err(failed)?;
        if pool.has_repository(name.as_str()).map_err(failed)? {
            note_domain(&folder, &bucket.of_domain(name.as_str()))?;
        }
    }
    Ok(())
}

/// The domains that the bucket has.
pub(super) fn domains(bucket: &Location) -> Result<Vec<Name>> {
    let listed = BucketPool::from_environment(bucket).and_then(|pool| pool.domains());
    let failed = |error: StorageError| Error::file(Path::new(&bucket.to_string()))(error.source);
    Ok(listed.map_err(failed)?.into_iter().filter_map(|name| name.parse().ok()).collect())
}

/// What was noted of the domain in `folder` goes.
pub(super) fn forget_domain(folder: &Path) -> Result<()> {
    let marks = [MARK, moves::REPOSITORY].map(|name| fs::remove_file(folder.join(name)));
    for removed in marks.into_iter().chain([fs::remove_dir(folder)]) {
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::file(folder)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Notes where the repository of the domain in `folder` is.
fn note_domain(folder: &Path, at: &Location) -> Result<()> {
    make_directory(folder)?;
    if folder.join(MARK).exists() { Ok(()) } else { note_address(folder, at) }
}

/// Notes the address of what `folder` stands for.
pub(super) fn note_address(folder: &Path, at: &Location) -> Result<()> {
    write(&folder.join(MARK), &format!("{at}\n"), 0o600)
}

/// The address that was noted in the directory of a pool, if there is one.
pub(super) fn noted_address(pool: &Path) -> Result<Option<Location>> {
    let path = pool.join(MARK);
    let Some(text) = read(&path)? else { return Ok(None) };
    location(Path::new(text.trim())).map_err(Error::file(&path))
}

/// The repository of the domain in `folder`, if its pool is a bucket.
///
/// # Errors
/// Those of the storage.
pub(crate) fn open(folder: &Path) -> StorageResult<Option<ObjectStorage>> {
    let Some((bucket, name)) = domain(folder)? else { return Ok(None) };
    let mut storage = from_environment(&bucket.of_domain(name.as_str()), Away::OF_A_SERVER)?;
    if let Some(pool) = folder.ancestors().nth(2) {
        let cache = cache_of(pool);
        trim(&cache);
        storage.keep_in(&cache);
        storage.time_in(counters(pool));
    }
    Ok(Some(storage))
}

/// Where is kept what was read of all repositories of a pool.
pub(super) fn cache_of(pool: &Path) -> PathBuf {
    pool.join(CACHE)
}

/// Each repository limits its own cache; there may be many of them.
fn trim(cache: &Path) {
    let mut trimmed = TRIMMED.lock();
    if trimmed.get(cache).is_some_and(|at| at.elapsed() < TRIMMED_EVERY) {
        return;
    }
    trimmed.insert(cache.to_owned(), Instant::now());
    drop(trimmed);
    if let Err(error) = trim_caches(cache, CACHE_BYTES_MAX) {
        tracing::debug!(%error, cache = %cache.display(), "not made smaller");
    }
}

/// The same for a new repository.
///
/// # Errors
/// Those of the storage and of the system.
pub(crate) fn create(folder: &Path) -> StorageResult<Option<ObjectStorage>> {
    if let Some((bucket, name)) = domain(folder)? {
        if moves::has_note(folder) {
            let why = format!(
                "a move of this domain is not done: finish it with: icecore server pool move {name} POOL"
            );
            return Err(of_folder(folder, &why));
        }
        let noted = note_domain(folder, &bucket.of_domain(name.as_str()));
        noted.map_err(|error| of_folder(folder, &error))?;
    }
    open(folder)
}

/// What the domain in `folder` stores, if its pool is a bucket.
///
/// # Errors
/// Those of the storage.
pub(crate) fn stored_bytes(folder: &Path) -> StorageResult<Option<u64>> {
    let Some((bucket, name)) = domain(folder)? else { return Ok(None) };
    BucketPool::from_environment(&bucket)?.stored_bytes(name.as_str()).map(Some)
}

/// The bucket of the pool, and the name of the domain in `folder`; `None` if the pool is a directory.
pub(super) fn domain(folder: &Path) -> StorageResult<Option<(Location, Name)>> {
    let Some(place) = PoolPaths::of_domain(folder) else { return Ok(None) };
    let bucket = place.bucket().map_err(|error| of_folder(folder, &error))?;
    let Some(bucket) = bucket else { return Ok(None) };
    let name = folder.file_name().and_then(|name| name.to_str()?.parse().ok());
    let nameless = || of_folder(folder, &"it is no directory of a domain");
    Ok(Some((bucket, name.ok_or_else(nameless)?)))
}

pub(super) fn of_folder(folder: &Path, why: &dyn std::fmt::Display) -> StorageError {
    StorageError::new("use", &folder.to_string_lossy(), io::Error::other(why.to_string()))
}

fn damaged() -> StorageError {
    StorageError::new("read", "superblock", io::Error::new(ErrorKind::InvalidData, "it is damaged"))
}
