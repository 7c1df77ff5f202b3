//! What a move needs of the two pools of a domain: where it reads, where it writes, and what is removed.
//!
//! In a pool in a bucket all names of a domain (`crate::moving`) are notes on this machine that lead to the same
//! objects, which nobody can rename. So there is one note at a time, and what it is called says what the objects are:
//!
//! ```text
//! .NAME.moving/bucket        the address; the objects are copied in part
//! .NAME.moving/repository    of which repository; also where the files themselves are copied
//! .NAME.moved                all of them are there
//! NAME                       the domain
//! .NAME.removed              the objects are being removed
//! ```

use super::bucket::{self, of_folder};
use crate::folder::{make_directory, read, write};
use crate::moving::{domain_of, finished, leftover, unfinished};
use ids::RepositoryId;
use object_storage::{Away, Location, ObjectStorage, from_environment};
use repository::lease;
use repository::local::LocalStorage;
use repository::storage::{LockGuard, Storage, StorageError, StorageResult};
use std::fs::{self, File};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// In a note: of which repository the objects are copied.
pub(super) const REPOSITORY: &str = "repository";

/// Where the copy of a domain is written. In a bucket its lease is held meanwhile.
pub struct MoveTarget {
    storage: Arc<dyn Storage>,
    bucket: Option<Arc<ObjectStorage>>,
    _lock: Option<Box<dyn LockGuard>>,
}

impl MoveTarget {
    /// Begins the copy of the repository `id` at `unfinished`, or goes on with it. In a bucket it is no repository from
    /// then on, until its config is there.
    ///
    /// # Errors
    /// In a bucket: [`ErrorKind::AlreadyExists`] when other objects are there, [`ErrorKind::WouldBlock`] when somebody
    /// writes there; those of the storages.
    pub fn begin(unfinished: &Path, id: RepositoryId) -> StorageResult<Self> {
        let id = format!("{id}\n");
        let Some(at) = address(unfinished)? else { return Self::in_directory(unfinished, &id) };
        if noted(unfinished)?.is_some_and(|noted| noted != id) {
            remove(unfinished)?;
        }
        let mut storage = from_environment(&at, Away::OF_A_SERVER)?;
        storage.read_no_runs();
        if !unfinished.exists() {
            is_free(&storage, &at)?;
            note(unfinished, &at, &id)?;
        }
        let storage = Arc::new(storage);
        let lock = storage.try_lock(lease::LOCK)?.ok_or_else(|| is_written(&at))?;
        storage.remove_config()?;
        Ok(Self { storage: storage.clone(), bucket: Some(storage), _lock: Some(lock) })
    }

    fn in_directory(unfinished: &Path, id: &str) -> StorageResult<Self> {
        if unfinished.exists() && copied_id(unfinished)?.as_deref() != Some(id) {
            remove(unfinished)?;
        }
        let storage = Arc::new(created(unfinished)?);
        // It goes with all that the source does not have, once the copy is whole.
        write(&unfinished.join(REPOSITORY), id, 0o600)
            .map_err(|error| of_folder(unfinished, &error))?;
        Ok(Self { storage, bucket: None, _lock: None })
    }

    /// Where the files go.
    pub fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Nobody else has written there since it was begun.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when somebody may have; those of the storage.
    pub fn verify(&self) -> StorageResult<()> {
        match &self.bucket {
            Some(bucket) if !bucket.still_writes()? => {
                Err(in_use(&bucket.describe(), "another process has taken the lease"))
            }
            _ => Ok(()),
        }
    }
}

/// The files of the domain in `folder`, as they lie in its pool: nothing that this machine keeps of a bucket is read.
///
/// # Errors
/// Those of the storage.
pub fn source(folder: &Path) -> StorageResult<Arc<dyn Storage>> {
    super::verify(folder)?;
    Ok(match address(folder)? {
        Some(at) => Arc::new(from_environment(&at, Away::OF_A_SERVER)?),
        None => Arc::new(LocalStorage::open(folder)?),
    })
}

/// From now on, the domain in `folder` lies here no more: `folder` has the name of what is removed. Of a directory all
/// is removed with that; of a bucket what makes it a repository.
///
/// # Errors
/// Those of the storages; it can be repeated with [`remove`].
pub fn give_up(folder: &Path) -> StorageResult<()> {
    super::verify(folder)?;
    let (at, leftover) = (address(folder)?, leftover(folder));
    if at.is_none() {
        remove(&leftover)?;
    }
    rename(folder, &leftover)?;
    match at {
        Some(at) => {
            let storage = from_environment(&at, Away::OF_A_SERVER)?;
            forget_cache(folder, &storage);
            storage.remove_config()
        }
        None => remove(&leftover),
    }
}

/// Whether a domain, or what a move has beside it, is there. Where no pool is mounted, nobody knows.
///
/// # Errors
/// [`StorageError::is_unreachable`]; those of the system.
pub fn exists(path: &Path) -> StorageResult<bool> {
    super::verify(path)?;
    if path.try_exists().map_err(of("look at", path))? {
        return Ok(true);
    }
    // It may have been unmounted since.
    super::verify(path).map(|()| false)
}

/// Durably removes what one of the names of a move stands for, if it is there.
///
/// # Errors
/// Those of the storages; in a bucket [`ErrorKind::AlreadyExists`] where the domain itself has the same objects.
pub fn remove(path: &Path) -> StorageResult<()> {
    match address(path)? {
        Some(at) if path.exists() => remove_objects(path, &at)?,
        Some(_) => {}
        None => super::verify(path)?,
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.and_then(|()| sync_parent(path)).map_err(of("remove", path)),
    }
}

/// Renames a directory, durably.
///
/// # Errors
/// Those of the system.
pub fn rename(from: &Path, to: &Path) -> StorageResult<()> {
    fs::rename(from, to).and_then(|()| sync_parent(to)).map_err(of("rename", from))
}

/// Where the files of `path` lie, for people: the path itself, or the address of a bucket.
pub fn shown(path: &Path) -> PathBuf {
    let at = address(path).ok().flatten();
    at.map_or_else(|| path.to_owned(), |at| PathBuf::from(at.to_string()))
}

/// Removes a copy in a directory with which nothing was begun but its note.
pub fn remove_if_empty(unfinished: &Path) {
    let is_note = |name: std::ffi::OsString| name == REPOSITORY;
    let names = fs::read_dir(unfinished)
        .map(|names| names.filter_map(Result::ok).map(|entry| entry.file_name()).all(is_note));
    if names.unwrap_or(false) {
        let _ = remove(unfinished); // else the next move goes on with it
    }
}

/// Whether a move has left a note of the domain in `folder`: the objects are not those of a new domain.
pub(super) fn has_note(folder: &Path) -> bool {
    notes(folder).iter().any(|path| path.exists())
}

/// What moves have noted of the domain in `folder` goes: the bucket has none of its objects.
pub(super) fn forget_notes(folder: &Path) -> crate::Result<()> {
    notes(folder).iter().try_for_each(|note| match fs::remove_dir_all(note) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(crate::Error::file(note)(error)),
        _ => Ok(()),
    })
}

fn notes(folder: &Path) -> [PathBuf; 3] {
    [unfinished(folder), finished(folder), leftover(folder)]
}

/// The directory above is never made: it is missing where the pool is not mounted. What is copied goes to the file
/// system on which this directory was opened.
fn created(unfinished: &Path) -> StorageResult<LocalStorage> {
    match fs::create_dir(unfinished) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(of("create the directory", unfinished)(error));
        }
        _ => {}
    }
    let storage = LocalStorage::open(unfinished)?;
    super::verify(unfinished)?;
    Ok(storage)
}

fn remove_objects(path: &Path, at: &Location) -> StorageResult<()> {
    super::verify(path)?;
    let domain = domain_of(path);
    if domain != path && domain.exists() {
        let why = format!("{} has the same objects: nothing was removed", domain.display());
        return Err(of("remove", path)(Error::new(ErrorKind::AlreadyExists, why)));
    }
    let storage = from_environment(at, Away::OF_A_SERVER)?;
    forget_cache(path, &storage);
    storage.remove_objects().map_err(|error| {
        let name = format!("{at}/{}", error.name);
        StorageError { name, ..error }
    })
}

/// What this machine keeps of a repository is of no use any more. If that fails, it goes when there is no more room.
fn forget_cache(path: &Path, storage: &ObjectStorage) {
    if let Some(pool) = path.ancestors().nth(2) {
        storage.forget_kept_in(&bucket::cache_of(pool));
    }
}

/// Where the objects of the domain lie to which `path` belongs, if its pool is a bucket.
fn address(path: &Path) -> StorageResult<Option<Location>> {
    let domain = bucket::domain(&domain_of(path))?;
    Ok(domain.map(|(bucket, name)| bucket.of_domain(name.as_str())))
}

/// Of which repository the files in a directory were copied: as it was noted, or as the config says, which is copied
/// last. What says nothing is of another one: a domain that was deleted may have had the same name.
fn copied_id(unfinished: &Path) -> StorageResult<Option<String>> {
    let note = read(&unfinished.join(REPOSITORY)).map_err(|error| of_folder(unfinished, &error))?;
    if note.is_some() {
        return Ok(note);
    }
    let config = repository::config::read(&LocalStorage::open(unfinished)?);
    Ok(config.ok().map(|config| format!("{}\n", config.repository)))
}

fn noted(unfinished: &Path) -> StorageResult<Option<String>> {
    if !unfinished.exists() {
        return Ok(None);
    }
    let text = read(&unfinished.join(REPOSITORY)).map_err(|error| of_folder(unfinished, &error))?;
    Ok(Some(text.unwrap_or_default()))
}

/// Nothing that is there is of a repository that nobody here knows of.
fn is_free(storage: &ObjectStorage, at: &Location) -> StorageResult<()> {
    let Some(name) = storage.any_object()? else { return Ok(()) };
    let why = format!(
        "{at}/{name} is there, and is of no move of this server: if nobody needs what lies in {at}, remove it with the tools of the storage, then move again"
    );
    Err(StorageError::new("copy to", &at.to_string(), Error::new(ErrorKind::AlreadyExists, why)))
}

/// Behind this, all objects are those of the copy.
fn note(unfinished: &Path, at: &Location, id: &str) -> StorageResult<()> {
    let noted = make_directory(unfinished)
        .and_then(|()| write(&unfinished.join(REPOSITORY), id, 0o600))
        .and_then(|()| bucket::note_address(unfinished, at));
    noted.map_err(|error| of_folder(unfinished, &error))
}

fn is_written(at: &Location) -> StorageError {
    in_use(&at.to_string(), "somebody writes there")
}

fn in_use(at: &str, why: &str) -> StorageError {
    StorageError::new("copy to", at, Error::new(ErrorKind::WouldBlock, why.to_owned()))
}

fn sync_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

fn of(what: &'static str, path: &Path) -> impl Fn(Error) -> StorageError + use<> {
    let path = path.display().to_string();
    move |error| StorageError::new(what, &path, error)
}
