//! The storage of the repository that the user names: a directory, or a bucket (`s3://bucket/prefix`).

use crate::failure::{Failure, Result, quoted};
use crate::home;
use crate::out::Out;
use object_storage::{
    Access, Away, Client, Credentials, Location, ObjectStorage, Patience, connect,
};
use repository::config;
use repository::lease::LOCK;
use repository::local::LocalStorage;
use repository::storage::{PUT_SUFFIX, Storage, StorageError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where what was read of buckets is kept; none if it is empty.
const CACHE_VARIABLE: &str = "ICECORE_CACHE_DIR";

/// What reads of a bucket may come from.
#[derive(Clone, Copy)]
pub(crate) enum Reads {
    /// The cache of this machine, too.
    Cached,
    /// The bucket alone: for who checks it.
    Fresh,
}

/// The storage at `place`, which should exist. What is asked of a bucket is told by `out`.
pub(crate) fn open(place: &Path, reads: Reads, out: &Arc<Out>) -> Result<Arc<dyn Storage>> {
    open_patiently(place, reads, out, None)
}

/// The same; in a bucket, readers wait for what is being brought back if there is a `patience`.
pub(crate) fn open_patiently(
    place: &Path,
    reads: Reads,
    out: &Arc<Out>,
    patience: Option<Patience>,
) -> Result<Arc<dyn Storage>> {
    match bucket(place)? {
        Some(location) => {
            let mut storage = open_bucket(&location, out)?;
            if let Some(patience) = patience {
                storage.wait_with(patience);
            }
            if let (Reads::Cached, Some(directory)) = (reads, cache_directory()) {
                storage.keep_in(&directory);
            }
            Ok(Arc::new(storage))
        }
        None => LocalStorage::open(place)
            .map(|storage| -> Arc<dyn Storage> { Arc::new(storage) })
            .map_err(|error| not_opened(error, place)),
    }
}

/// Whether `path`, which need not exist, is the directory `folder` or lies in it, through links or not, also where else
/// that is mounted.
pub(crate) fn lies_in(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = absolute.ancestors().find_map(|above| above.canonicalize().ok());
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let Some(own) = identity(&folder) else { return false };
    let is_it = |above: &Path| above == folder || identity(above) == Some(own);
    real.is_some_and(|real| real.ancestors().any(is_it))
}

/// Only a bucket has storage classes, and what else is asked with one.
pub(crate) fn refuse_directories(place: &Path) -> Result<()> {
    if bucket(place)?.is_some() {
        return Ok(());
    }
    let failure = Failure::usage(format!("{} is in no bucket", place.display()));
    Err(failure.hint("Name a repository in a bucket: --repo s3://BUCKET/PREFIX"))
}

/// The storage of the bucket at `place`.
pub(crate) fn open_object_storage(place: &Path, out: &Arc<Out>) -> Result<ObjectStorage> {
    let Some(location) = bucket(place)? else {
        let failure = Failure::usage(format!("{} is in no bucket", place.display()));
        return Err(failure.hint("Name a repository in a bucket: --repo s3://BUCKET/PREFIX"));
    };
    open_bucket(&location, out)
}

/// The storage at `place` for a new repository. A bucket has to exist, and to keep what is relied on.
pub(crate) fn create(place: &Path, out: &Arc<Out>) -> Result<Arc<dyn Storage>> {
    let Some(location) = bucket(place)? else {
        let storage = LocalStorage::create(place).map_err(|error| {
            Failure::from(store::Error::from(error)).at(&place.display().to_string())
        })?;
        return Ok(Arc::new(storage));
    };
    let storage = open_bucket(&location, out)?;
    refuse_inside_bucket(&location, out)?;
    storage.probe().map_err(|error| failed(error, &location))?;
    Ok(Arc::new(storage))
}

/// As [`refuse_inside`]: to remove the other would remove all below its prefix. Whoever may not look there is not told.
fn refuse_inside_bucket(location: &Location, out: &Arc<Out>) -> Result<()> {
    for outer in location.ancestors() {
        if connected(&outer, out)?.has_all(&config::NAMES) {
            let message = format!("{location} is in the repository {outer}");
            let hint = match outer.prefix.is_empty() {
                true => "It has the whole bucket: use another one".into(),
                false => format!("Use a prefix outside of it: {outer}-2"),
            };
            return Err(Failure::usage(message).hint(hint));
        }
    }
    Ok(())
}

/// What is in the directory of a repository, complete or not.
const OURS: [&str; 16] = [
    "README",
    "config",
    "config.copy",
    "containers",
    "copied",
    "index",
    "io",
    "keys",
    "lease",
    LOCK,
    "lock-clock",
    "readers",
    "receipts",
    "reserve",
    "snapshots",
    "superblock",
];
/// What a file system has that was made a moment ago.
const OF_FILE_SYSTEMS: [&str; 2] = ["lost+found", "System Volume Information"];

/// A repository inside of another one would go with it: whoever clears that up, or gives its disk back, has been told
/// of no other.
fn refuse_inside(place: &Path, flag: &str) -> Result<()> {
    let absolute = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
    let real = absolute.ancestors().find_map(|above| above.canonicalize().ok());
    let Some(outer) = real.as_deref().and_then(|real| real.ancestors().find(is_repository)) else {
        return Ok(());
    };
    let message =
        format!("the directory {} is in the repository {}", place.display(), outer.display());
    let beside = format!("{}-2", outer.display());
    Err(Failure::usage(message)
        .hint(format!("Use a directory outside of it: {flag} {}", quoted(&beside))))
}

/// Whether a repository lies right in the directory `place`. Other programs have files of the same names.
fn is_repository(place: &&Path) -> bool {
    let Ok(storage) = LocalStorage::open(place) else { return false };
    matches!(config::read(&storage), Ok(_) | Err(repository::Error::UnknownFeatures(_)))
}

/// A new repository has a directory of its own: whoever clears one up takes nothing of the other. What an `init` or a
/// copy left that was interrupted is its own; `flag` names the directory.
pub(crate) fn refuse_files_of_others(place: &Path, flag: &str) -> Result<()> {
    if bucket(place)?.is_some() {
        return Ok(());
    }
    let names = std::fs::read_dir(place).into_iter().flatten().flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    let has = |ours: &str| names.iter().any(|name| name == ours);
    if config::NAMES.into_iter().any(has) {
        return Ok(()); // what it is, others say
    }
    refuse_inside(place, flag)?;
    let is_begun = has(LOCK);
    let is_ours = |name: &str| {
        let name = name.strip_suffix(PUT_SUFFIX).unwrap_or(name);
        OF_FILE_SYSTEMS.contains(&name)
            || is_begun && (OURS.contains(&name) || name.starts_with("now-"))
    };
    let Some(other) = names.iter().find(|name| name.to_str().is_none_or(|name| !is_ours(name)))
    else {
        return Ok(());
    };
    let message = format!(
        "the directory {} is not empty: it contains {}, which belongs to no repository",
        place.display(),
        quoted(&other.to_string_lossy())
    );
    let own = place.join("icecore").display().to_string();
    Err(Failure::usage(message)
        .hint(format!("Use a directory of its own: {flag} {}", quoted(&own))))
}

/// The bucket that `place` names, if it is an address of one.
fn bucket(place: &Path) -> Result<Option<Location>> {
    let Some(text) = place.to_str() else { return Ok(None) };
    let located = Location::parse(text).transpose();
    located.map_err(|reason| {
        // Somebody may have written a key into it.
        let failure =
            Failure::usage(format!("the address of the repository is not usable: {reason}"));
        failure.hint(
            "Write it as s3://BUCKET/PREFIX, and set AWS_ENDPOINT_URL for an object store other than AWS",
        )
    })
}

/// `ICECORE_CACHE_DIR`, else `icecore` in the user's cache directory, if there is one.
fn cache_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let given = variable(CACHE_VARIABLE);
    let of_user = || {
        let set = |path: &PathBuf| path.is_absolute();
        let home = || Some(home::folder()?.join(".cache"));
        Some(variable("XDG_CACHE_HOME").filter(set).or_else(home)?.join("icecore"))
    };
    given.or_else(of_user).filter(|directory| !directory.as_os_str().is_empty())
}

/// Where the chunk caches of the repository at `place` are, if that is a bucket and this machine keeps something of it.
pub(crate) fn chunk_caches(place: &Path) -> Option<PathBuf> {
    let is_bucket = matches!(bucket(place), Ok(Some(_)));
    is_bucket.then(cache_directory).flatten().map(|directory| directory.join("chunks"))
}

fn open_bucket(location: &Location, out: &Arc<Out>) -> Result<ObjectStorage> {
    let client = connected(location, out)?;
    let mut storage = ObjectStorage::open(client).map_err(|error| failed(error, location))?;
    let told = out.clone();
    storage.tell_waits(Box::new(move |longest| {
        told.note(&format!(
            "the last writer did not end its lease. Waiting up to {} s to see whether it is still running",
            longest.as_secs()
        ));
    }));
    storage.wait_as_the_environment_says();
    Ok(storage)
}

/// A connection to the bucket of `location`; what is asked is told by `out`.
fn connected(location: &Location, out: &Arc<Out>) -> Result<Client> {
    let variable = |name: &str| std::env::var(name).ok();
    let credentials = Credentials::find(variable).map_err(|reason| {
        let failure = Failure::new(crate::codes::Code::NotAllowed, format!("{location}: {reason}"));
        failure.hint(
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them to ~/.aws/credentials",
        )
    })?;
    let away = Away::OF_A_COMMAND.or_as_the_environment_says();
    let access = Access { away, ..Access::new(credentials) };
    let client = connect(location, &access).map_err(|error| match error.source.kind() {
        ErrorKind::InvalidInput => Failure::usage(error.to_string()),
        _ => failed(error, location),
    })?;
    out.tell_requests_of(client.requests());
    let (told, place) = (out.clone(), location.to_string());
    client.requests().tell_away(Box::new(move |longest| {
        told.note(&format!(
            "{place} does not answer any more. Trying again for up to {} s",
            longest.as_secs()
        ));
    }));
    Ok(client)
}

/// What to do where conditional writes do not hold.
pub(crate) const NEEDS_CONDITIONS: &str = "Use a storage that has conditional writes, and with Ceph a bucket that keeps no versions: docs/GUIDE-ONE-MACHINE.md, \"A repository in a bucket\"";

fn failed(error: StorageError, location: &Location) -> Failure {
    let (kind, bucket) = (error.source.kind(), &location.bucket);
    let failure = Failure::from(store::Error::from(error));
    match kind {
        ErrorKind::NotFound => failure.hint(format!(
            "Create the bucket with the tools of your storage, for example: aws s3 mb s3://{bucket}"
        )),
        ErrorKind::Unsupported => failure.hint(NEEDS_CONDITIONS),
        _ => failure.at(&location.to_string()),
    }
}

fn not_opened(error: StorageError, place: &Path) -> Failure {
    let location = place.display().to_string();
    // A file is not a repository either.
    let is_absent = error.is_not_found() || error.source.kind() == ErrorKind::NotADirectory;
    let missing = is_absent.then(|| store::Error::NoRepository { location: location.clone() });
    Failure::from(missing.unwrap_or(error.into())).at(&location)
}

/// What to type when the bucket at `location` cannot be reached or used.
pub(crate) fn hint(location: &str, is_refused: bool) -> String {
    let variables = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION";
    let what =
        if is_refused { "that these credentials may use it" } else { "that it is reachable" };
    format!("Check {what} ({variables}): aws s3 ls {}", quoted(&format!("{location}/")))
}
