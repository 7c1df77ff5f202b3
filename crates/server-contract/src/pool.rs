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
//! The generation rises here first: a superblock with a higher one was raised by another server.
//!
//! A server may have further pools (`places`), which are remembered in the same way.

mod answering;
mod places;

use crate::folder::{read, write};
use crate::{Error, Result};
pub(crate) use answering::Answering;
use api::Name;
use places::PoolPaths;
pub(crate) use places::{Further, add, further};
pub use places::{MAIN, NAME_TAKEN};
use repository::local::superblock::Superblock;
use repository::local::{Latencies, LocalStorage};
use repository::storage::StorageError;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the folder of the server remembers of its first pool.
const REMEMBERED: &str = "pool-id";
/// How long operations on the pool take.
const LATENCIES: &str = "pool-latencies";
const MAGIC: &str = "icecore pool-id 1";
/// Directories at which a file system may be mounted: the pool itself, and that of its domains.
const MOUNT_POINTS: [&str; 2] = ["pool", "pool/domains"];
/// A server that has these has been started before, maybe by a version without superblocks.
const OF_EARLIER_STARTS: [&str; 2] = ["ca/ca.pem", "receipts"];
/// What comes behind the pool at a first start, or was there before it: a storage server is enrolled first.
const OF_SERVERS: [&str; 2] = ["catalog.sqlite", "storage.toml"];

/// What the folder of a server remembers of its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    superblock: Superblock,
    /// Names of [`MOUNT_POINTS`].
    mounts: Vec<String>,
}

/// Opens the pool of the server in `data`: creates it at the first start, and at every other one makes sure that it is
/// the same. Nobody else may start the server meanwhile.
///
/// # Errors
/// [`Error::Pool`] when it is not there or is another one; [`Error::File`].
pub(crate) fn open(data: &Path) -> Result<()> {
    let place = PoolPaths::of(data, None);
    match Memory::read(&place)? {
        Some(memory) if is_half_made(&place, &memory)? => memory.keep(&place, false),
        Some(memory) => raise(&place, &memory),
        None => first(&place),
    }
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
    let superblock = Superblock { generation: memory.superblock.generation + 1, ..found };
    Memory { superblock, mounts: place.mounted() }.keep(place, true)
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
    let known = known.map_or(0, |known| known.superblock.generation);
    let superblock = Superblock { generation: found.generation.max(known) + 1, ..found };
    Memory { superblock, mounts: place.mounted() }.keep(place, is_there)
}

/// Whether the pool in which the repository `folder` of a domain lies is there, and still belongs to this server. A
/// folder that lies elsewhere is in no pool.
///
/// # Errors
/// [`StorageError::is_unreachable`].
pub fn verify(folder: &Path) -> std::result::Result<(), StorageError> {
    PoolPaths::of_domain(folder).map_or(Ok(()), |place| place.verify())
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
    let silent = |since: Duration| {
        format!("its file system has not answered for {} seconds", since.as_secs())
    };
    answering.wait(PoolPaths::of(data, pool)).map_err(silent)
}

/// Notes in `data` how long the operations on the pool took since the server started, for whoever looks. It is not
/// durable, and nobody misses it.
///
/// # Errors
/// Those of the system.
pub fn note_latencies(data: &Path) -> io::Result<()> {
    let counters = repository::local::counters();
    let all = [("write", &counters.write), ("sync", &counters.sync), ("read", &counters.read)];
    let text: String =
        all.iter().map(|(name, found)| format!("{name} {}\n", found.latencies())).collect();
    let part = data.join(format!("{LATENCIES}.new"));
    std::fs::write(&part, text)?;
    std::fs::rename(part, data.join(LATENCIES))
}

/// What the server in `data` noted last: `write`, `sync` and `read`; nothing if it never did.
pub fn latencies(data: &Path) -> Vec<(String, Latencies)> {
    let text = read(&data.join(LATENCIES)).ok().flatten().unwrap_or_default();
    let line = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        Some((name.to_owned(), rest.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
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
        None => {
            Memory { superblock: new_superblock()?, mounts: place.mounted() }.keep(place, false)
        }
    }
}

fn not_mounted(place: &PoolPaths, why: &str) -> Error {
    Error::Pool { path: place.pool.clone(), why: why.to_owned(), data: place.data.clone() }
}

fn storage(place: &PoolPaths) -> Result<LocalStorage> {
    let path = &place.pool;
    LocalStorage::open(path).map_err(|error| Error::file(path)(error.source))
}

fn superblock(place: &PoolPaths) -> Result<Option<Superblock>> {
    let path = place.pool.join("superblock");
    Superblock::read(&storage(place)?).map_err(|error| Error::file(&path)(error.source))
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

impl Memory {
    fn read(place: &PoolPaths) -> Result<Option<Self>> {
        let path = &place.memory;
        let Some(text) = read(path)? else { return Ok(None) };
        let damaged = || {
            let why = format!("it is damaged; if the right pool is mounted: {}", place.accept());
            Error::file(path)(io::Error::new(io::ErrorKind::InvalidData, why))
        };
        Self::decode(&text).map(Some).ok_or_else(damaged)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        (lines.next()? == MAGIC).then_some(())?;
        let id = lines.next()?.strip_prefix("id ")?.to_owned();
        let generation = lines.next()?.strip_prefix("generation ")?.parse().ok()?;
        let mounts = lines.filter_map(|line| Some(line.strip_prefix("mount ")?.to_owned()));
        let superblock = Superblock { id, generation };
        Some(Self { superblock, mounts: mounts.collect() })
    }

    /// Durably here first, then in the pool: what is killed between the two finds a lower generation there. A pool that
    /// is too full for it keeps the lower one, too; one that has no superblock yet (`is_there`) must get it.
    fn keep(&self, place: &PoolPaths, is_there: bool) -> Result<()> {
        let Superblock { id, generation } = &self.superblock;
        let mounts: String = self.mounts.iter().map(|name| format!("mount {name}\n")).collect();
        let text = format!("{MAGIC}\nid {id}\ngeneration {generation}\n{mounts}");
        write(&place.memory, &text, 0o600)?;
        let path = place.pool.join("superblock");
        match self.superblock.write(&storage(place)?) {
            Err(error) if error.is_full() && is_there => Ok(()),
            done => done.map_err(|error| Error::file(&path)(error.source)),
        }
    }

    /// Everything that was mounted when it was remembered is mounted.
    fn fits(&self, place: &PoolPaths) -> bool {
        let mounted = place.mounted();
        self.mounts.iter().all(|name| mounted.contains(name))
    }

    /// The superblock of the pool, if it is the one that is remembered.
    fn verify(&self, place: &PoolPaths) -> std::result::Result<Superblock, String> {
        let mounted = place.mounted();
        if let Some(missing) = self.mounts.iter().find(|name| !mounted.contains(name)) {
            return Err(format!("{missing} is not mounted"));
        }
        let failed = |error: Error| error.to_string();
        let found =
            superblock(place).map_err(failed)?.ok_or("it is not mounted: it has no superblock")?;
        if found.id != self.superblock.id {
            return Err(format!("it is another pool: {}, not {}", found.id, self.superblock.id));
        }
        if found.generation > self.superblock.generation {
            return Err("another server has taken it over".to_owned());
        }
        if !place.domains().is_dir() {
            return Err("pool/domains is missing".to_owned());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
