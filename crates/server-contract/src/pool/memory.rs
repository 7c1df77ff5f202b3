//! What the folder of a server remembers of a pool.

use super::places::PoolPaths;
use super::{bucket, storage, superblock_lately};
use crate::folder::{read, write};
use crate::{Error, Result};
use object_storage::Location;
use repository::lease;
use repository::local::LocalStorage;
use repository::local::superblock::Superblock;
use repository::storage::Storage;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &str = "icecore pool-id 1";
const TAKING: &str = "taking";
const BUCKET: &str = "bucket ";

/// What the folder of a server remembers of its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) superblock: Superblock,
    /// Names of [`super::MOUNT_POINTS`].
    pub(super) mounts: Vec<String>,
    /// Another server used it before, and may still have locks in it.
    pub(super) is_taking: bool,
    /// Where it lies, if that is a bucket.
    pub(super) bucket: Option<Location>,
}

impl Memory {
    pub(super) fn read(place: &PoolPaths) -> Result<Option<Self>> {
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
        let superblock = Superblock { id, generation, storage: None, further: Vec::new() };
        let (mut mounts, mut is_taking, mut bucket) = (Vec::new(), false, None);
        for line in lines {
            mounts.extend(line.strip_prefix("mount ").map(str::to_owned));
            is_taking |= line == TAKING;
            if let Some(address) = line.strip_prefix(BUCKET) {
                bucket = Some(Location::parse(address)?.ok()?);
            }
        }
        Some(Self { superblock, mounts, is_taking, bucket })
    }

    /// Only here, and durably.
    pub(super) fn note(&self, place: &PoolPaths) -> Result<()> {
        if let Some(bucket) = &self.bucket {
            bucket::note_address(&place.pool, bucket)?;
        }
        write(&place.memory, &self.encode(), 0o600)
    }

    fn encode(&self) -> String {
        let Superblock { id, generation, .. } = &self.superblock;
        let mounts: String = self.mounts.iter().map(|name| format!("mount {name}\n")).collect();
        let taking = if self.is_taking { format!("{TAKING}\n") } else { String::new() };
        let bucket = self.bucket.iter().map(|bucket| format!("{BUCKET}{bucket}\n"));
        let bucket: String = bucket.collect();
        format!("{MAGIC}\nid {id}\ngeneration {generation}\n{bucket}{mounts}{taking}")
    }

    /// Durably here first, then in the pool: what is killed between the two finds a lower generation there. A pool that
    /// is too full for it keeps the lower one, too; one that has no superblock yet (`is_there`) must get it.
    pub(super) fn keep(&self, place: &PoolPaths, is_there: bool) -> Result<()> {
        self.note(place)?;
        let (at, written) = match &self.bucket {
            Some(bucket) => {
                let at = PathBuf::from(bucket.to_string());
                (at, bucket::put_superblock(bucket, &self.superblock))
            }
            None => (place.pool.clone(), self.superblock.write(&storage(place)?)),
        };
        let path = at.join("superblock");
        match written {
            Err(error) if error.is_full() && is_there => Ok(()),
            done => done.map_err(|error| Error::file(&path)(error.source)),
        }
    }

    /// Takes the repositories from the server that used the pool before, if that has not been done: it may be frozen,
    /// and hold locks. One that cannot be taken stops nobody else; who wants to write to it is told who has it. In a
    /// bucket nobody holds a lock: whoever writes there next fences a writer of which nothing is heard.
    pub(super) fn take_all(&self, place: &PoolPaths) -> Result<()> {
        if let Some(bucket) = &self.bucket {
            bucket::note_domains(place, bucket)?;
        }
        if !self.is_taking {
            return Ok(());
        }
        let domains = place.domains();
        for folder in std::fs::read_dir(&domains).map_err(Error::file(&domains))? {
            let folder = folder.map_err(Error::file(&domains))?.path();
            if let Err(error) = take_domain(&folder) {
                tracing::warn!(folder = %folder.display(), %error, "not taken over from the server before");
            }
        }
        Self { is_taking: false, ..self.clone() }.note(place)
    }

    /// Everything that was mounted when it was remembered is mounted.
    pub(super) fn fits(&self, place: &PoolPaths) -> bool {
        let mounted = place.mounted();
        self.mounts.iter().all(|name| mounted.contains(name))
    }

    /// The superblock of the pool, if it is the one that is remembered.
    pub(super) fn verify(&self, place: &PoolPaths) -> std::result::Result<Superblock, String> {
        let mounted = place.mounted();
        if let Some(missing) = self.mounts.iter().find(|name| !mounted.contains(name)) {
            return Err(format!("{missing} is not mounted"));
        }
        if !place.pool.is_dir() {
            return Err(place.missing());
        }
        let failed = |error: Error| error.to_string();
        let missing = match &self.bucket {
            Some(_) => "it has no superblock: is AWS_ENDPOINT_URL that of the right storage?",
            None => "it is not mounted: it has no superblock",
        };
        let found = superblock_lately(place).map_err(failed)?.ok_or(missing)?;
        if found.id != self.superblock.id {
            return Err(format!("it is another pool: {}, not {}", found.id, self.superblock.id));
        }
        if found.generation > self.superblock.generation && !self.is_taking {
            return Err("another server has taken it over".to_owned());
        }
        if !place.domains().is_dir() {
            return Err("pool/domains is missing".to_owned());
        }
        Ok(found)
    }
}

/// Takes a repository from the server that used its pool before.
fn take_domain(folder: &Path) -> repository::Result<()> {
    if !repository::config::NAMES.iter().any(|name| folder.join(name).is_file()) {
        return Ok(()); // in a bucket there is nothing to take
    }
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(folder)?);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    lease::take_over(&storage, &format!("the server on {host} that took over the pool"))
}
