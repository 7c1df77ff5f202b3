//! The folder of a server's own files.
//!
//! ```text
//! catalog.sqlite      what the server knows
//! catalog             where that lies, if not in catalog.sqlite
//! ca/ca.pem ca.key    its certificate authority
//! server.key          secret key of its own certificate, which is issued anew at every start
//! master.key          opens managed domains, and seals their secrets in the catalog
//! admin-token         who can read it is the administrator
//! catalog-mark        the newest entry of the audit log that the server has seen
//! revoked             certificates that are refused, whatever the catalog says
//! address             where it is reached, for the commands on this machine
//! lock                one server at a time
//! pool-id             which pool belongs to it
//! pool-latencies      how long operations on its pools take; `.history`: of each hour
//! pool                its pool; a link if it lies elsewhere
//! pool/superblock     which pool this is
//! pool/io             how its containers are written
//! pool/domains/NAME   a repository for each domain
//! pools/NAME          a link to a further pool, in which there is the same; a directory if it lies in a bucket
//! pool-ids/NAME       which one belongs to it
//! moves/NAME          to which pool a storage server moves this domain, until that is done
//! ```

use crate::{Error, Result, pool};
use api::Name;
use api::pools::PoolState;
use repository::storage::StorageError;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Larger files than this are not ours.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Where the first pool of a server lies, as somebody says when it starts.
#[derive(Debug, Clone)]
pub struct FirstPool {
    /// A directory, or the address of a part of a bucket.
    pub place: PathBuf,
    /// Another server used it, which is gone.
    pub take_over: bool,
}

/// The folder, locked for this server.
pub struct Folder {
    path: PathBuf,
    further: pool::Further,
    answering: pool::Answering,
    lock: Option<File>,
}

impl Folder {
    /// Opens the folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::InUse`] when another server is using it; [`Error::Pool`] when its pool is not mounted;
    /// [`Error::File`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_in(path, None)
    }

    /// The same, when somebody says where its first pool lies. That is decided by the first start: at any other one it
    /// is where it was.
    ///
    /// # Errors
    /// As [`Folder::open`]; also [`Error::Pool`] when the pool belongs to somebody else, or this server has another one.
    pub fn open_in(path: &Path, first: Option<&FirstPool>) -> Result<Self> {
        Self::with(path, &["", "ca"], |data| {
            first.map_or(Ok(()), |first| pool::choose_first(data, first))?;
            pool::open(data)
        })
    }

    /// Opens the folder of the storage server `name`, which has no certificate authority.
    ///
    /// # Errors
    /// As [`Folder::open`]; also [`Error::Pool`] for a pool of another storage server.
    pub fn open_storage(path: &Path, name: &Name) -> Result<Self> {
        Self::with(path, &[""], |data| {
            pool::is_of(data, name)?;
            pool::open(data)?;
            pool::note_owner(data, name)
        })
    }

    /// Takes the pool in `path` for the one of this server, because an administrator says that it is.
    ///
    /// # Errors
    /// [`Error::InUse`] while the server runs; [`Error::File`].
    pub fn accept_pool(path: &Path) -> Result<()> {
        if !pool::is_of_server(path) {
            let none = io::Error::new(io::ErrorKind::NotFound, "there is no server");
            return Err(Error::file(path)(none));
        }
        Self::with(path, &[], pool::accept).map(drop)
    }

    /// Makes the directory `dir` the pool of the storage server that is about to be in `path`. The pool of another one is
    /// used only with `take_over`, and taken when this one starts. Returns the name of that one.
    ///
    /// # Errors
    /// [`Error::Pool`] when it is the pool of another server, or `path` has another pool; [`Error::File`].
    pub fn link_pool(path: &Path, dir: &Path, take_over: bool) -> Result<Option<String>> {
        pool::link_first(path, dir, take_over)
    }

    fn with(path: &Path, parts: &[&str], pool: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        for part in parts {
            make_directory(&path.join(part))?;
        }
        let lock = Some(lock(path)?);
        pool(path)?;
        Ok(Self::at(path, lock))
    }

    /// Opens the folder for reading; its server may be running.
    ///
    /// # Errors
    /// [`Error::File`] if there is no server.
    pub fn look(path: &Path) -> Result<Self> {
        let key = path.join("ca/ca.pem");
        std::fs::metadata(&key).map_err(Error::file(&key))?;
        Ok(Self::at(path, None))
    }

    /// The same of a storage server.
    ///
    /// # Errors
    /// [`Error::File`] if there is no storage server.
    pub fn look_storage(path: &Path) -> Result<Self> {
        let enrolled = path.join(pool::ENROLLED);
        std::fs::metadata(&enrolled).map_err(Error::file(&enrolled))?;
        Ok(Self::at(path, None))
    }

    fn at(path: &Path, lock: Option<File>) -> Self {
        let (further, answering) = Default::default();
        Self { path: path.to_owned(), further, answering, lock }
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The folder of a domain's repository in a pool; `None` is the first one. A name is always one component of a path.
    pub fn domain(&self, pool: Option<&Name>, name: &Name) -> PathBuf {
        self.pool(pool).join("domains").join(name.as_str())
    }

    /// The folder of a pool; `None` is the first one.
    pub fn pool(&self, pool: Option<&Name>) -> PathBuf {
        pool::folder(&self.path, pool)
    }

    /// Makes the directory `dir` a further pool, or finds the one of this name there. Another pool is taken only with
    /// `accept`.
    ///
    /// # Errors
    /// [`Error::Pool`], [`Error::File`].
    pub fn add_pool(&self, name: &Name, dir: &Path, accept: bool) -> Result<()> {
        pool::add(&self.path, name, dir, accept)
    }

    /// The further pools that belong to this server, by name, whatever its catalog says.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn further_pools(&self) -> Result<Vec<Name>> {
        pool::further(&self.path)
    }

    /// The further pools that the server had to which the first one belonged, and of which this machine does not know
    /// where they lie.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn missed_pools(&self) -> Result<Vec<String>> {
        pool::missed(&self.path)
    }

    /// What a pool of a storage server is used for; the first one has no name.
    ///
    /// # Errors
    /// [`Error::File`], also when nobody knows any more what it was.
    pub fn pool_state(&self, pool: Option<&Name>) -> Result<PoolState> {
        pool::state(&self.path, pool)
    }

    /// Changes what a pool of a storage server is used for, durably.
    ///
    /// # Errors
    /// [`Error::Pool`] when there is no such pool, [`Error::File`].
    pub fn set_pool_state(&self, pool: Option<&Name>, state: PoolState) -> Result<()> {
        pool::set_state(&self.path, pool, state)
    }

    /// Forgets a further pool: one that is there and has no domains, or, if somebody says that it `is_lost`, one that is
    /// not there.
    ///
    /// # Errors
    /// [`Error::Pool`] when it is not so, or there is no such pool; [`Error::File`].
    pub fn remove_pool(&self, name: &Name, is_lost: bool) -> Result<()> {
        pool::remove(&self.path, name, is_lost)
    }

    /// Where a pool has a domain still; a bucket is asked.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn still_has(&self, pool: Option<&Name>, domain: &Name) -> Result<Option<String>> {
        let folder = self.domain(pool, domain);
        if let Some(address) = pool::asked_bucket(&self.path, pool, domain)? {
            return Ok(address);
        }
        let is_there = folder.try_exists().map_err(Error::file(&folder))?;
        Ok(is_there.then(|| folder.display().to_string()))
    }

    /// Where a pool lies, for people: the directory to which its link leads, or its bucket; the first one has no name.
    pub fn place_of(&self, pool: Option<&Name>) -> PathBuf {
        let link = self.pool(pool);
        match pool::bucket_of(&self.path, pool) {
            Ok(Some(bucket)) => PathBuf::from(bucket.to_string()),
            _ => fs::read_link(&link).unwrap_or(link),
        }
    }

    /// Whether the file system of a pool answers, within some seconds. Whoever looks at a file of a pool asks this
    /// first: one that hangs holds up nobody but a thread that asks it.
    ///
    /// # Errors
    /// [`Error::Pool`] when it does not.
    pub fn pool_answers(&self, pool: Option<&Name>) -> Result<()> {
        let failed = |why| Error::Pool { path: self.place_of(pool), why, data: self.path.clone() };
        self.answers(pool).map_err(failed)
    }

    fn answers(&self, pool: Option<&Name>) -> std::result::Result<(), String> {
        pool::answers(&self.path, pool, &self.answering)
    }

    /// Whether a pool answers, is there, and still belongs to this server.
    ///
    /// # Errors
    /// [`StorageError::is_unreachable`].
    pub fn verify_pool(&self, pool: Option<&Name>) -> std::result::Result<(), StorageError> {
        let silent = |why| {
            let source = io::Error::new(io::ErrorKind::NotConnected, why);
            StorageError::new("use", &self.pool(pool).to_string_lossy(), source)
        };
        self.answers(pool).map_err(silent)?;
        pool::verify_pool(&self.path, pool)
    }

    /// Begins to use a pool, before anything in it is looked at: who used it before may not go on. The first one is
    /// used since the server started; who only looks takes nothing from anybody.
    ///
    /// # Errors
    /// [`Error::Pool`] when it is not there or does not answer, [`Error::File`].
    pub fn begin_pool(&self, pool: Option<&Name>) -> Result<()> {
        self.pool_answers(pool)?;
        match pool.filter(|_| self.lock.is_some()) {
            Some(name) => self.further.begin(&self.path, name),
            None => Ok(()),
        }
    }

    /// The secret text in the file `name`; created by `make` if there is none.
    ///
    /// # Errors
    /// [`Error::File`], also when others than the owner can read it; those of `make`.
    pub fn secret<E: From<Error>>(
        &self,
        name: &str,
        make: impl FnOnce() -> std::result::Result<Zeroizing<String>, E>,
    ) -> std::result::Result<Zeroizing<String>, E> {
        let path = self.file(name);
        if let Some(text) = read(&path)? {
            is_private(&path)?;
            return Ok(Zeroizing::new(text.trim_end().to_owned()));
        }
        let text = make()?;
        write(&path, &text, 0o600)?;
        Ok(text)
    }

    /// Durably replaces the secret text in the file `name`, which only its owner may read.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn replace_secret(&self, name: &str, text: &str) -> Result<()> {
        write(&self.file(name), text, 0o600)
    }

    /// Durably replaces the file `name`, which anybody may read, and makes the directory in which it lies.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn publish(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        path.parent().map_or(Ok(()), make_directory)?;
        write(&path, text, 0o644)
    }

    /// Free bytes and size of the file system of a pool, as usable without root; `None` when the system does not say.
    pub fn room(&self, pool: Option<&Name>) -> [Option<u64>; 2] {
        let Some(found) = self.figures(pool) else { return [None, None] };
        let bytes = |blocks: u64| Some(blocks.saturating_mul(found.f_frsize));
        [bytes(found.f_bavail), bytes(found.f_blocks)]
    }

    /// Free bytes of the file system of the server's own files; `None` when the system does not say.
    pub fn own_free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.path).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Inodes of a pool that are free; `None` where the file system has no bound, or does not say.
    pub fn free_inodes(&self, pool: Option<&Name>) -> Option<u64> {
        let found = self.figures(pool)?;
        (found.f_files > 0).then_some(found.f_favail)
    }

    /// Whether a pool lies in a bucket; if that cannot be told, it does not.
    pub fn is_in_bucket(&self, pool: Option<&Name>) -> bool {
        pool::bucket_of(&self.path, pool).is_ok_and(|bucket| bucket.is_some())
    }

    /// Nobody says how much more a bucket takes.
    fn figures(&self, pool: Option<&Name>) -> Option<rustix::fs::StatVfs> {
        if self.is_in_bucket(pool) {
            return None;
        }
        self.answers(pool).ok()?;
        rustix::fs::statvfs(self.pool(pool)).ok()
    }

    /// Whether a pool has inodes for more than forget and reclaim.
    pub fn has_inodes(&self, pool: Option<&Name>) -> bool {
        self.free_inodes(pool).is_none_or(|free| free >= repository::INODES_KEPT)
    }

    /// The text of the file `name`, if it exists.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn text(&self, name: &str) -> Result<Option<String>> {
        read(&self.file(name))
    }

    /// The text of the file `name`, if it exists, up to `bytes_max`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn text_up_to(&self, name: &str, bytes_max: u64) -> Result<Option<String>> {
        read_up_to(&self.file(name), bytes_max)
    }
}

pub(crate) fn make_directory(path: &Path) -> Result<()> {
    let failed = Error::file(path);
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    path.parent().map_or(Ok(()), |parent| sync(parent).map_err(Error::file(parent)))
}

/// The lock goes with the process.
fn lock(path: &Path) -> Result<File> {
    let name = path.join("lock");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&name, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| Error::file(&name)(error.into()))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Error::InUse { path: path.to_owned() })?;
    let file = File::from(file);
    give(&file, &name).map_err(Error::file(&name))?;
    Ok(file)
}

pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    read_up_to(path, FILE_BYTES_MAX)
}

pub(crate) fn read_up_to(path: &Path, bytes_max: u64) -> Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file(path)(error)),
    };
    let mut text = String::new();
    file.take(bytes_max).read_to_string(&mut text).map_err(Error::file(path))?;
    Ok(Some(text))
}

/// A name beside `path` for what is not complete. It begins with a dot, so it is never that of a pool.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.part"))
}

/// Writes beside, syncs, renames, syncs the folder: the file is whole or not there.
pub(crate) fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let part = part_of(path);
    let steps = || {
        if let Err(error) = fs::remove_file(&part)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(&part)?;
        file.write_all(text.as_bytes())?;
        give(&file, path)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        path.parent().map_or(Ok(()), sync)
    };
    steps().map_err(Error::file(path))
}

/// Root at work in the folder of another user, to whom its files must belong, or the server cannot start: gives that
/// user the new file that is at `path` soon.
fn give(file: &File, path: &Path) -> io::Result<()> {
    let owner = fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
    let is_roots = owner.uid() == 0 || !rustix::process::geteuid().is_root();
    // Of another name nobody knows in whose folder it is.
    if is_roots || file.metadata()?.nlink() > 1 {
        return Ok(());
    }
    // A file system without owners refuses, and shows the right one.
    let _ = std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()));
    Ok(())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?.sync_all()
}

fn is_private(path: &Path) -> Result<()> {
    let mode = fs::metadata(path).map_err(Error::file(path))?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let why = format!("others can read this secret (mode {:o}): chmod 600", mode & 0o7777);
    Err(Error::file(path)(io::Error::new(io::ErrorKind::PermissionDenied, why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_do_not_work_in_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = Folder::open(folder.path()).unwrap();
        assert!(matches!(Folder::open(folder.path()), Err(Error::InUse { .. })));
        drop(first);
        assert!(Folder::open(folder.path()).is_ok());
    }

    #[test]
    fn a_secret_is_made_once_and_stays_private() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let make =
            |text: &str| folder.secret("x", || Ok::<_, Error>(Zeroizing::new(text.to_owned())));
        assert_eq!(*make("one").unwrap(), "one");
        assert_eq!(*make("two").unwrap(), "one");
        fs::set_permissions(folder.file("x"), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(make("three").unwrap_err().to_string().contains("chmod 600"));
    }
}
