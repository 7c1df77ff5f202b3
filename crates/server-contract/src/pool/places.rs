//! Where the pools of a server are.
//!
//! ```text
//! pool               the first one, called `main`
//! pool-id            what is remembered of it
//! pools/NAME         a symbolic link to a further one; a directory if that lies in a bucket (`bucket`)
//! pool-ids/NAME      what is remembered of that
//! ```

use super::linked::is_for_a_pool;
use super::memory::Memory;
use super::{
    MOUNT_POINTS, REMEMBERED, bucket, mount_of, new_superblock, noted, raise, superblock, take,
};
use crate::folder::{make_directory, part_of};
use crate::{Error, Result};
use api::Name;
use object_storage::Location;
use parking_lot::Mutex;
use repository::local::superblock::{FURTHER_MAX, Superblock};
use repository::storage::StorageError;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of the first pool.
pub const MAIN: &str = "main";
/// The folder of the first pool: no other one has this name, so that paths tell them apart.
pub const NAME_TAKEN: &str = "pool";
/// Links to further pools.
pub(super) const LINKS: &str = "pools";
/// What is remembered of them.
pub(super) const MEMORIES: &str = "pool-ids";

/// How often a pool is tried that cannot be used: each try writes what is remembered of it.
const TRIED_EVERY: Duration = Duration::from_secs(10);

/// A pool of the server whose files lie in `data`.
pub(super) struct PoolPaths {
    pub(super) data: PathBuf,
    pub(super) pool: PathBuf,
    pub(super) memory: PathBuf,
    pub(super) placement: Placement,
}

/// Where a pool lies.
pub(super) enum Placement {
    /// As the server remembers it.
    AsRemembered,
    /// In its directory, whatever is remembered.
    Directory,
    /// In this bucket, whatever is remembered.
    Bucket(Location),
}

impl PoolPaths {
    /// The pool of this name; the first one has none.
    pub(super) fn of(data: &Path, name: Option<&Name>) -> Self {
        let (pool, memory) = match name {
            None => (data.join(NAME_TAKEN), data.join(REMEMBERED)),
            Some(name) => {
                let [links, memories] = [LINKS, MEMORIES].map(|folder| data.join(folder));
                (links.join(name.as_str()), memories.join(name.as_str()))
            }
        };
        Self { data: data.to_owned(), pool, memory, placement: Placement::AsRemembered }
    }

    /// The bucket in which it lies, if it does. Where what is remembered is damaged, its directory has the address.
    ///
    /// # Errors
    /// [`Error::File`] when that cannot be read.
    pub(super) fn bucket(&self) -> Result<Option<Location>> {
        match &self.placement {
            Placement::Directory => Ok(None),
            Placement::Bucket(bucket) => Ok(Some(bucket.clone())),
            Placement::AsRemembered => match Memory::read(self) {
                Ok(memory) => Ok(memory.and_then(|memory| memory.bucket)),
                Err(_) => bucket::noted_address(&self.pool),
            },
        }
    }

    /// The pool in which the repository `folder` of a domain lies.
    pub(super) fn of_domain(folder: &Path) -> Option<Self> {
        let pool = folder.ancestors().nth(2)?;
        let above = pool.parent()?;
        let name = pool.file_name()?.to_str()?;
        let is_further = name != NAME_TAKEN && above.file_name().is_some_and(|it| it == LINKS);
        match (is_further, above.parent(), name.parse()) {
            (true, Some(data), Ok(name)) => Some(Self::of(data, Some(&name))),
            _ => Some(Self::of(above, None)),
        }
    }

    /// Where it lies, for people.
    pub(super) fn shown(&self) -> PathBuf {
        match &self.placement {
            Placement::Bucket(bucket) => PathBuf::from(bucket.to_string()),
            _ => self.pool.clone(),
        }
    }

    fn is_first(&self) -> bool {
        self.pool == self.data.join(NAME_TAKEN)
    }

    /// The command by which an administrator says that it is the right one.
    pub(super) fn accept(&self) -> String {
        match self.pool.file_name().filter(|_| !self.is_first()) {
            Some(name) => {
                format!("{} {} DIR --accept", self.add_command(), name.to_string_lossy())
            }
            None => format!("icecore pool accept {}", self.data.display()),
        }
    }

    /// What is said where its directory is not there.
    pub(super) fn missing(&self) -> String {
        let advice = match self.pool.file_name() {
            // The server before it had this pool: its files were not taken over with the first one.
            Some(name) if !self.is_first() && self.pool.symlink_metadata().is_err() => {
                let (add, name) = (self.add_command(), name.to_string_lossy());
                format!("; to say where it lies: {add} {name} DIR")
            }
            _ if self.is_first() && !self.data.join(super::ENROLLED).exists() => {
                "; if it lies elsewhere, start with --pool PLACE".to_owned()
            }
            _ => String::new(),
        };
        format!("it is not mounted: there is no such directory{advice}")
    }

    /// The command that adds a further pool.
    fn add_command(&self) -> &'static str {
        match self.data.join(super::ENROLLED).exists() {
            true => "icecore storage pool add",
            false => "icecore server pool add",
        }
    }

    pub(super) fn domains(&self) -> PathBuf {
        self.pool.join("domains")
    }

    /// The directory in which it may be mounted. That of a link is not the one where the link is.
    fn above(&self) -> PathBuf {
        if self.is_first() { self.data.clone() } else { self.pool.join("..") }
    }

    pub(super) fn make_all(&self) -> Result<()> {
        [&self.pool, &self.domains()].into_iter().try_for_each(|path| make_directory(path))
    }

    /// Those of [`MOUNT_POINTS`] at which a file system is mounted now.
    pub(super) fn mounted(&self) -> Vec<String> {
        let mounts = [self.above(), self.pool.clone(), self.domains()].map(|path| mount_of(&path));
        let is_mounted = |at: &usize| matches!((mounts[*at], mounts[at + 1]), (Some(above), Some(own)) if own != above);
        let points = (0..MOUNT_POINTS.len()).filter(is_mounted);
        points.map(|at| MOUNT_POINTS[at].to_owned()).collect()
    }

    /// Whether it is there, and still belongs to this server.
    pub(super) fn verify(&self) -> std::result::Result<(), StorageError> {
        let unmounted = |why: &str| {
            let source = io::Error::new(ErrorKind::NotConnected, why.to_owned());
            StorageError::new("use", &self.pool.to_string_lossy(), source)
        };
        match Memory::read(self) {
            Ok(None) if self.is_first() => Ok(()),
            Ok(None) => Err(unmounted("this server does not know it")),
            Ok(Some(memory)) => memory.verify(self).map(drop).map_err(|why| unmounted(&why)),
            Err(error) => Err(unmounted(&error.to_string())),
        }
    }
}

/// A server's way to its further pools: it begins to use each of them before it is used for the first time.
#[derive(Default)]
pub(crate) struct Further(Mutex<BTreeMap<Name, Arc<Mutex<Begun>>>>);

/// Whether a pool is used.
#[derive(Default)]
enum Begun {
    #[default]
    Not,
    /// It could not be used at this time.
    Failed(Instant, String),
    Done,
}

impl Further {
    /// Begins to use the pool `name` of the server in `data`, unless that was done: nobody who used it before may go on.
    /// Whoever waits, waits for this pool alone. One that cannot be used is tried again after some seconds.
    ///
    /// # Errors
    /// [`Error::Pool`] when it is not there, [`Error::File`].
    pub(crate) fn begin(&self, data: &Path, name: &Name) -> Result<()> {
        let one = self.0.lock().entry(name.clone()).or_default().clone();
        let mut begun = one.lock();
        let place = PoolPaths::of(data, Some(name));
        match &*begun {
            Begun::Done => return Ok(()),
            Begun::Failed(at, why) if at.elapsed() < TRIED_EVERY => {
                return Err(super::not_mounted(&place, why));
            }
            _ => {}
        }
        let raised = Memory::read(&place)
            .and_then(|memory| memory.map_or(Ok(()), |memory| raise(&place, &memory)));
        *begun = match &raised {
            Ok(()) => Begun::Done,
            Err(Error::Pool { why, .. }) => Begun::Failed(Instant::now(), why.clone()),
            Err(error) => Begun::Failed(Instant::now(), error.to_string()),
        };
        raised
    }
}

/// The names of the further pools that are remembered.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn further(data: &Path) -> Result<Vec<Name>> {
    let folder = data.join(MEMORIES);
    let failed = || Error::file(&folder);
    let files = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(failed())?,
    };
    let mut names: Vec<Name> = Vec::new();
    for file in files {
        let name = file.map_err(failed())?.file_name();
        names.extend(name.to_str().and_then(|name| name.parse().ok()));
    }
    names.sort();
    Ok(names)
}

/// Makes the directory or the part of a bucket `dir` a pool of the server. Whoever was killed in the middle repeats it. A
/// pool of this name that was moved elsewhere is found there by its identity; any other pool is taken only if an
/// administrator says `accept`.
///
/// # Errors
/// [`Error::Pool`] when it is another pool, or lies within one; [`Error::File`].
pub(crate) fn add(data: &Path, name: &Name, dir: &Path, accept: bool) -> Result<()> {
    let place = PoolPaths::of(data, Some(name));
    let new = match bucket::location(dir).map_err(Error::file(Path::new("s3://")))? {
        Some(bucket) => new_in_bucket(&place, name, bucket)?,
        None => new_in_directory(&place, name, dir)?,
    };
    let refused = |why: String| Error::Pool { path: new.shown(), why, data: data.to_owned() };
    let known = match Memory::read(&place) {
        Err(_) if accept => None,
        known => known?,
    };
    let others = further(data)?.into_iter().filter(|other| other != name);
    if others.count() >= FURTHER_MAX {
        return Err(refused(format!("the server has {FURTHER_MAX} further pools already")));
    }
    let found = superblock(&new)?;
    let is_half_made = known.as_ref().is_some_and(|known| is_half_added(&place, &new, known));
    let may =
        may_take((name, place.add_command()), found.as_ref(), known.as_ref(), is_half_made, accept);
    may.map_err(refused)?;
    if found.is_none() && !matches!(new.placement, Placement::Bucket(_)) {
        is_for_a_pool(&new.pool).map_err(refused)?;
    }
    if let (Placement::Bucket(bucket), None) = (&new.placement, &found) {
        bucket::probe(bucket).map_err(|error| refused(error.source.to_string()))?;
    }
    [LINKS, MEMORIES].iter().try_for_each(|folder| make_directory(&data.join(folder)))?;
    new.make_all()?;
    let began = known.as_ref().map(|known| known.superblock.clone());
    let (is_there, identity) = (found.is_some(), found.or(began));
    let superblock = identity.map_or_else(new_superblock, Ok)?;
    take(&new, superblock, is_there, known.as_ref())?;
    match &new.placement {
        Placement::Bucket(_) => {}
        _ => link(&place.pool, &new.pool).map_err(Error::file(&place.pool))?,
    }
    noted::note(data, None)
}

/// The directory `dir` as a pool, with its real path.
fn new_in_directory(place: &PoolPaths, name: &Name, dir: &Path) -> Result<PoolPaths> {
    let real = fs::canonicalize(dir).map_err(Error::file(dir))?;
    let refused = |why: String| Error::Pool { path: real.clone(), why, data: place.data.clone() };
    lies_apart(&place.data, place, &real).map_err(refused)?;
    if place.bucket().is_ok_and(|bucket| bucket.is_some()) {
        return Err(refused(format!("the pool '{name}' lies in a bucket: take another name")));
    }
    Ok(PoolPaths {
        pool: real,
        placement: Placement::Directory,
        ..PoolPaths::of(&place.data, Some(name))
    })
}

/// The same for a part of a bucket. Its directory is where a link would be.
fn new_in_bucket(place: &PoolPaths, name: &Name, bucket: Location) -> Result<PoolPaths> {
    let apart = buckets_lie_apart(&place.data, name, &bucket);
    let placement = Placement::Bucket(bucket);
    let new = PoolPaths { placement, ..PoolPaths::of(&place.data, Some(name)) };
    let refused = |why: String| Error::Pool { path: new.shown(), why, data: place.data.clone() };
    apart.map_err(refused)?;
    if place.pool.is_symlink() {
        return Err(refused(format!("the pool '{name}' is a directory: take another name")));
    }
    Ok(new)
}

/// Whether somebody was killed, or the disk was full, before the superblock was there.
fn is_half_added(place: &PoolPaths, new: &PoolPaths, known: &Memory) -> bool {
    match &new.placement {
        Placement::Bucket(bucket) => known.bucket.as_ref() == Some(bucket),
        // One that only the first pool named (`noted`) was made long ago, elsewhere.
        _ => known.superblock.generation > 0 && !place.pool.is_symlink() && known.fits(new),
    }
}

/// Whether no other pool of the server lies within the same part of the bucket.
fn buckets_lie_apart(
    data: &Path,
    name: &Name,
    bucket: &Location,
) -> std::result::Result<(), String> {
    let others = further(data).map_err(|error| error.to_string())?.into_iter();
    let others = others.filter(|other| other != name).map(Some);
    for other in [None].into_iter().chain(others) {
        let address = PoolPaths::of(data, other.as_ref()).bucket().ok().flatten();
        if let Some(address) = address.filter(|address| address.overlaps(bucket)) {
            let other = other.as_ref().map_or(MAIN, Name::as_str);
            return Err(format!(
                "the pool '{other}' lies in the same part of the bucket: {address}"
            ));
        }
    }
    Ok(())
}

/// Why a directory with the superblock `found` does not become the pool `name`, of which `known` is remembered.
fn may_take(
    (name, command): (&Name, &str),
    found: Option<&Superblock>,
    known: Option<&Memory>,
    is_half_made: bool,
    accept: bool,
) -> std::result::Result<(), String> {
    match (found, known) {
        (Some(found), Some(known)) if found.id == known.superblock.id => Ok(()),
        (Some(_), _) if accept => Ok(()),
        (Some(_), _) => Err(format!(
            "it is another pool already; if it is the right one: {command} {name} DIR --accept"
        )),
        (None, _) if accept => Err("it has no superblock, so it is no pool".to_owned()),
        (None, None) => Ok(()),
        // Killed, or the disk was full, before the superblock was there.
        (None, Some(_)) if is_half_made => Ok(()),
        (None, Some(_)) => {
            let remove = command.replace(" add", " remove");
            Err(format!(
                "it is not the pool '{name}'; if that one is lost for ever, forget it first: {remove} {name} --lost"
            ))
        }
    }
}

/// Two pools in one another would each count and free what is of the other.
fn lies_apart(data: &Path, place: &PoolPaths, real: &Path) -> std::result::Result<(), String> {
    // A link says where its pool is, and was made of a real path: the file system of that pool may hang.
    let of = |path: PathBuf| match fs::read_link(&path) {
        Ok(to) if path.parent() == Some(&data.join(LINKS)) => Some(to),
        _ => fs::canonicalize(path).ok(),
    };
    let links = fs::read_dir(data.join(LINKS)).into_iter().flatten().flatten();
    // Whoever was killed left a link with another kind of name.
    let is_name = |link: &fs::DirEntry| {
        link.file_name().to_str().is_some_and(|name| name.parse::<Name>().is_ok())
    };
    let others = links.filter(is_name).map(|link| link.path()).filter(|link| *link != place.pool);
    let all = others.chain([data.join(NAME_TAKEN), data.to_owned()]).filter_map(of);
    let mut within = all.filter(|other| real.starts_with(other) || other.starts_with(real));
    match within.next() {
        Some(other) => Err(format!("{} lies in the same directories", other.display())),
        None => Ok(()),
    }
}

/// A link that is there or not, never half.
pub(super) fn link(at: &Path, to: &Path) -> io::Result<()> {
    let part = part_of(at);
    match fs::remove_file(&part) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(to, &part)?;
    fs::rename(&part, at)?;
    at.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
}
