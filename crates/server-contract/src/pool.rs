//! Which pool belongs to a server, so that a pool that is not mounted is an error and never a new and empty one.
//!
//! The pool has a superblock. The folder of the server's own files remembers it in `pool-id`, with the mount points
//! that were there:
//!
//! ```text
//! icecore pool-id 1
//! id 3f2504e04f8941d39a0c0305e82c3301
//! generation 7
//! mount pool
//! ```
//! A pool in a bucket has a line `bucket s3://BUCKET/PREFIX` there (`bucket`).
//! The generation rises here first: a superblock with a higher one was raised by another server.
//! The line `taking` is there until every repository was taken from the server that used the pool before.
//!
//! A server may have further pools (`places`), which are remembered in the same way.

mod answering;
mod bucket;
mod latencies;
mod linked;
mod listed;
mod memory;
pub mod moves;
mod noted;
mod places;
mod question;
mod states;

use crate::{Error, Result};
pub(crate) use answering::Answering;
use api::Name;
pub(crate) use bucket::{
    create as create_in_bucket, open as open_in_bucket, stored_bytes as stored_in_bucket,
};
pub use latencies::{LatencyNotes, Noted, history, latencies};
pub(crate) use linked::{choose_first, is_of, link_first, note_owner};
pub use listed::has_objects;
use memory::Memory;
pub(crate) use noted::missed;
use object_storage::{Location, ObjectStorage};
use places::PoolPaths;
pub(crate) use places::{Further, add, further};
pub use places::{MAIN, NAME_TAKEN};
use repository::local::LocalStorage;
use repository::local::superblock::Superblock;
use repository::storage::{StorageError, StorageResult};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
pub(crate) use states::{remove, set_state, state};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What the folder of the server remembers of its first pool.
const REMEMBERED: &str = "pool-id";
/// Directories at which a file system may be mounted: the pool itself, and that of its domains.
const MOUNT_POINTS: [&str; 2] = ["pool", "pool/domains"];
/// A server that has these has been started before, maybe by a version without superblocks.
const OF_EARLIER_STARTS: [&str; 2] = ["ca/ca.pem", "receipts"];
/// What comes behind the pool at a first start, or was there before it: a storage server is enrolled first.
const OF_SERVERS: [&str; 2] = ["catalog.sqlite", ENROLLED];
/// A storage server that is enrolled has this.
pub(crate) const ENROLLED: &str = "storage.toml";

/// Opens the pool of the server in `data`: creates it at the first start, and at every other one makes sure that it is
/// the same. Nobody else may start the server meanwhile.
///
/// # Errors
/// [`Error::Pool`] when it is not there or is another one; [`Error::File`].
pub(crate) fn open(data: &Path) -> Result<()> {
    let place = PoolPaths::of(data, None);
    match Memory::read(&place)? {
        Some(memory) if is_half_made(&place, &memory)? => memory.keep(&place, false),
        Some(memory) => {
            // The directory of a bucket has what the bucket can be asked for again.
            memory.bucket.as_ref().map_or(Ok(()), |_| place.make_all())?;
            raise(&place, &memory)
        }
        None => first(&place),
    }?;
    noted::both_know(data)
}

/// Whether the first start ended before the superblock was there: killed, or the pool was full. Once a server was
/// started, a pool without a superblock is one that is not mounted.
fn is_half_made(place: &PoolPaths, memory: &Memory) -> Result<bool> {
    if was_started(&place.data) || !memory.fits(place) || !place.domains().is_dir() {
        return Ok(false);
    }
    Ok(superblock(place)?.is_none())
}

fn was_started(data: &Path) -> bool {
    OF_EARLIER_STARTS.iter().chain(&OF_SERVERS).any(|name| data.join(name).exists())
}

/// Begins to use a pool: nobody who used it before may go on.
fn raise(place: &PoolPaths, memory: &Memory) -> Result<()> {
    let found = memory.verify(place).map_err(|why| not_mounted(place, &why))?;
    let last = memory.superblock.generation.max(found.generation);
    let superblock = Superblock { generation: last + 1, ..found };
    let raised = Memory { superblock, mounts: place.mounted(), ..memory.clone() };
    raised.keep(place, true)?;
    raised.take_all(place)
}

/// Whether a server was started in `data`, or a storage server enrolled.
pub(crate) fn is_of_server(data: &Path) -> bool {
    was_started(data) || data.join(REMEMBERED).exists()
}

/// Takes the pool of the server in `data` as it is now, because an administrator says that it is the right one. Nobody
/// may start the server meanwhile.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn accept(data: &Path) -> Result<()> {
    let place = PoolPaths::of(data, None);
    let known = Memory::read(&place).ok().flatten();
    // Nothing is made where a file system should be mounted, or a link should be.
    if known.as_ref().is_some_and(|known| known.bucket.is_none()) && !place.pool.is_dir() {
        return Err(not_mounted(&place, "there is no such directory"));
    }
    place.make_all()?;
    let found = superblock(&place)?;
    let is_there = found.is_some();
    take(&place, found.map_or_else(new_superblock, Ok)?, is_there, known.as_ref())
}

/// Takes a pool over as it is now, with a generation that nobody has used. `is_there`: it has a superblock.
fn take(
    place: &PoolPaths,
    found: Superblock,
    is_there: bool,
    known: Option<&Memory>,
) -> Result<()> {
    let last = known.map_or(0, |known| known.superblock.generation);
    // A generation that did not reach the pool is no other server.
    let is_own =
        known.is_some_and(|known| known.superblock.id == found.id) && found.generation <= last;
    let is_taking = is_there && (!is_own || known.is_some_and(|known| known.is_taking));
    let superblock = Superblock { generation: found.generation.max(last) + 1, ..found };
    let taken = Memory { superblock, mounts: place.mounted(), is_taking, bucket: place.bucket()? };
    taken.keep(place, is_there)?;
    taken.take_all(place)
}

/// Whether the pool in which the repository `folder` of a domain lies is there, and still belongs to this server. A
/// folder that lies elsewhere is in no pool.
///
/// # Errors
/// [`StorageError::is_unreachable`].
pub fn verify(folder: &Path) -> std::result::Result<(), StorageError> {
    PoolPaths::of_domain(folder).map_or(Ok(()), |place| place.verify())
}

/// The bucket in which a pool lies, if it does; the first pool has no name.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn bucket_of(data: &Path, pool: Option<&Name>) -> Result<Option<Location>> {
    PoolPaths::of(data, pool).bucket()
}

/// Where the bucket of a pool has the domain, if it has it; `None` for a pool in a directory. What was noted here of a
/// domain that is gone from the bucket goes, too.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn asked_bucket(
    data: &Path,
    pool: Option<&Name>,
    domain: &Name,
) -> Result<Option<Option<String>>> {
    let place = PoolPaths::of(data, pool);
    let Some(bucket) = place.bucket()? else { return Ok(None) };
    if bucket::domains(&bucket)?.contains(domain) {
        return Ok(Some(Some(bucket.of_domain(domain.as_str()).to_string())));
    }
    let folder = place.domains().join(domain.as_str());
    moves::forget_notes(&folder)?;
    bucket::forget_domain(&folder)?;
    Ok(Some(None))
}

/// Whether the pool of the domain in `folder` lies in a bucket.
///
/// # Errors
/// Those of the system.
pub fn is_in_bucket(folder: &Path) -> std::result::Result<bool, StorageError> {
    Ok(bucket::domain(folder)?.is_some())
}

/// The repository of the domain in `folder`, if its pool is a bucket.
///
/// # Errors
/// Those of the storage.
pub fn bucket_of_domain(folder: &Path) -> std::result::Result<Option<ObjectStorage>, StorageError> {
    bucket::open(folder)
}

/// Since when this machine knows that the domain in `folder` lies in the bucket of its pool: a move there, or the first
/// look at the bucket.
///
/// # Errors
/// Those of the system.
pub fn in_bucket_since(folder: &Path) -> io::Result<SystemTime> {
    folder.join(bucket::MARK).metadata()?.modified()
}

/// Where the pool of the domain in `folder` lies, for people.
///
/// # Errors
/// Those of the system.
pub fn place_of(folder: &Path) -> std::result::Result<String, StorageError> {
    let own = || folder.ancestors().nth(2).unwrap_or(folder).display().to_string();
    Ok(bucket::domain(folder)?.map_or_else(own, |(bucket, _)| bucket.to_string()))
}

/// Whether a repository was made in the folder of a domain, as far as this machine knows without asking a bucket.
pub fn has_repository(folder: &Path) -> bool {
    let mut names = repository::config::NAMES.iter().chain([&bucket::MARK]);
    names.any(|name| folder.join(name).exists())
}

/// The folder of a pool by its name; the first one has none.
pub(crate) fn folder(data: &Path, pool: Option<&Name>) -> PathBuf {
    PoolPaths::of(data, pool).pool
}

/// The same for a pool by its name; the first one has none.
///
/// # Errors
/// [`StorageError::is_unreachable`].
pub fn verify_pool(data: &Path, pool: Option<&Name>) -> std::result::Result<(), StorageError> {
    PoolPaths::of(data, pool).verify()
}

/// Whether the file system of a pool answers; the first one has no name. Else why it cannot be used.
pub(crate) fn answers(
    data: &Path,
    pool: Option<&Name>,
    answering: &Answering,
) -> std::result::Result<(), String> {
    let place = PoolPaths::of(data, pool);
    let what =
        if place.bucket().is_ok_and(|bucket| bucket.is_some()) { "bucket" } else { "file system" };
    let silent =
        |since: Duration| format!("its {what} has not answered for {} seconds", since.as_secs());
    answering.wait(place).map_err(silent)
}

/// The first start, or the first one of this version.
fn first(place: &PoolPaths) -> Result<()> {
    let was_started = OF_EARLIER_STARTS.iter().any(|name| place.data.join(name).exists());
    if was_started && !place.domains().is_dir() {
        return Err(not_mounted(place, "pool/domains is missing"));
    }
    place.make_all()?;
    match superblock(place)? {
        // Whoever used it before may not go on.
        Some(found) => take(place, found, true, None),
        None => new(place),
    }
}

/// Makes the directory a pool.
fn new(place: &PoolPaths) -> Result<()> {
    place.make_all()?;
    let (superblock, mounts) = (new_superblock()?, place.mounted());
    Memory { superblock, mounts, is_taking: false, bucket: place.bucket()? }.keep(place, false)
}

fn not_mounted(place: &PoolPaths, why: &str) -> Error {
    Error::Pool { path: place.pool.clone(), why: why.to_owned(), data: place.data.clone() }
}

fn storage(place: &PoolPaths) -> Result<LocalStorage> {
    let path = &place.pool;
    LocalStorage::open(path).map_err(|error| Error::file(path)(error.source))
}

fn superblock(place: &PoolPaths) -> Result<Option<Superblock>> {
    read_superblock(place, bucket::superblock)
}

/// The same; of a bucket, as it was some seconds ago.
fn superblock_lately(place: &PoolPaths) -> Result<Option<Superblock>> {
    read_superblock(place, bucket::superblock_lately)
}

fn read_superblock(
    place: &PoolPaths,
    of_bucket: impl FnOnce(&Location) -> StorageResult<Option<Superblock>>,
) -> Result<Option<Superblock>> {
    let (at, found) = match place.bucket()? {
        Some(bucket) => (PathBuf::from(bucket.to_string()), of_bucket(&bucket)),
        None => (place.pool.clone(), Superblock::read(&storage(place)?)),
    };
    found.map_err(|error| Error::file(&at.join("superblock"))(error.source))
}

fn new_superblock() -> Result<Superblock> {
    let mut id = [0; 16];
    let random = std::fs::File::open("/dev/urandom");
    let done = random.and_then(|mut file| io::Read::read_exact(&mut file, &mut id));
    done.map_err(|_| Error::NoRandom)?;
    Ok(Superblock::new(id))
}

/// The mount and the device of a directory.
fn mount_of(path: &Path) -> Option<(u64, u32, u32)> {
    let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
    Some((found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor))
}

#[cfg(test)]
mod tests;
