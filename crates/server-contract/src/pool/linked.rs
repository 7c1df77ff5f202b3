//! A first pool that lies in a directory elsewhere, as on a shared file system that several machines have mounted.

use super::memory::Memory;
use super::places::{Placement, PoolPaths, link};
use super::{ENROLLED, bucket, new, not_mounted, storage, superblock, was_started};
use crate::folder::{FirstPool, make_directory};
use crate::{Error, Result};
use api::Name;
use object_storage::Location;
use repository::local::superblock::Superblock;
use repository::storage::StorageResult;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes the directory `dir` the pool of the server that is about to be in `data`, by a link. A pool of somebody else is
/// used only with `take_over`; the first start takes it. From now on the pool is known: that start needs it mounted.
/// Returns the name of the storage server to which it belongs.
///
/// # Errors
/// [`Error::Pool`] when it is the pool of somebody else, or none although it should be, or `data` has another one;
/// [`Error::File`].
pub(crate) fn link_first(data: &Path, dir: &Path, take_over: bool) -> Result<Option<String>> {
    make_directory(data)?;
    match bucket::location(dir).map_err(Error::file(Path::new("s3://")))? {
        Some(bucket) => first_in_bucket(data, bucket, take_over),
        None => first_in_directory(data, dir, take_over),
    }
}

/// The same for a control server that is about to start. One that was started has its pool already: only the same place
/// may be named, and whoever took that pool over meanwhile keeps it.
///
/// # Errors
/// [`Error::FirstPool`], [`Error::File`].
pub(crate) fn choose_first(data: &Path, first: &FirstPool) -> Result<()> {
    let (place, dir) = (PoolPaths::of(data, None), &first.place);
    if !was_started(data) && dir != &place.pool {
        let linked = link_first(data, dir, first.take_over).map(drop);
        return linked.map_err(|error| match error {
            Error::Pool { path, why, .. } => Error::FirstPool { path, why },
            other => other,
        });
    }
    let is_same = match bucket::location(dir).map_err(Error::file(Path::new("s3://")))? {
        Some(named) => place.bucket()? == Some(named),
        None => place.bucket()?.is_none() && real(dir) == real(&place.pool),
    };
    if is_same || is_found_again(&place, dir)? {
        return Ok(());
    }
    let own = place.bucket()?.map_or_else(|| real(&place.pool), |it| PathBuf::from(it.to_string()));
    let why = format!("the first pool of this server is {}, and stays there", own.display());
    Err(Error::FirstPool { path: dir.clone(), why })
}

/// Whether `dir` is the pool that is remembered, by its superblock, and the link to it is gone, as where the files of a
/// server came back from a copy. Then the link is made again.
fn is_found_again(place: &PoolPaths, dir: &Path) -> Result<bool> {
    let Some(known) = Memory::read(place)?.filter(|known| known.bucket.is_none()) else {
        return Ok(false);
    };
    let (true, Ok(real)) = (place.pool.symlink_metadata().is_err(), fs::canonicalize(dir)) else {
        return Ok(false);
    };
    let there = PoolPaths {
        pool: real.clone(),
        placement: Placement::Directory,
        ..PoolPaths::of(&place.data, None)
    };
    let is_it = superblock(&there)?.is_some_and(|found| found.id == known.superblock.id);
    if is_it {
        link(&place.pool, &real).map_err(Error::file(&place.pool))?;
    }
    Ok(is_it)
}

/// The directory to which a link leads, also while that is not mounted.
fn real(dir: &Path) -> PathBuf {
    let linked = fs::read_link(dir).unwrap_or_else(|_| dir.to_owned());
    fs::canonicalize(&linked).unwrap_or(linked)
}

fn first_in_directory(data: &Path, dir: &Path, take_over: bool) -> Result<Option<String>> {
    let place = PoolPaths::of(data, None);
    let real = fs::canonicalize(dir).map_err(Error::file(dir))?;
    let refused = |why: String| Error::Pool { path: real.clone(), why, data: data.to_owned() };
    let is_enrolled = data.join(ENROLLED).exists();
    is_free(&place.pool, data, &real, is_enrolled).map_err(refused)?;
    let there = PoolPaths {
        pool: real.clone(),
        placement: Placement::Directory,
        ..PoolPaths::of(data, None)
    };
    let (found, known) = (superblock(&there)?, Memory::read(&place)?);
    if found.is_none() {
        is_for_a_pool(&real).map_err(refused)?;
    }
    let is_ours = known.as_ref().is_some_and(|known| is_ours(known, found.as_ref()));
    // Who never enrolled may have named another directory before.
    let had_another = known.is_some() && is_enrolled;
    may_use(found.is_some(), is_ours, had_another, take_over).map_err(refused)?;
    link(&place.pool, &real).map_err(Error::file(&place.pool))?;
    remember(&place, found.as_ref(), is_ours)?;
    Ok(found.and_then(|found| found.storage))
}

/// The same with a bucket: the pool has a directory here, in which its domains are noted.
fn first_in_bucket(data: &Path, bucket: Location, take_over: bool) -> Result<Option<String>> {
    let known = Memory::read(&PoolPaths::of(data, None))?;
    let is_known = known.as_ref().is_some_and(|known| known.bucket.as_ref() == Some(&bucket));
    let place =
        PoolPaths { placement: Placement::Bucket(bucket.clone()), ..PoolPaths::of(data, None) };
    let refused = |why: String| Error::Pool { path: place.shown(), why, data: data.to_owned() };
    let is_enrolled = data.join(ENROLLED).exists();
    let is_new = known.is_none() && place.pool.symlink_metadata().is_err();
    if !is_known && !is_new {
        return Err(refused(format!("{} is another pool already", place.pool.display())));
    }
    let found = superblock(&place)?;
    let is_ours = known.as_ref().is_some_and(|known| is_ours(known, found.as_ref()));
    may_use(found.is_some(), is_ours, is_known && is_enrolled, take_over).map_err(refused)?;
    if found.is_none() {
        bucket::probe(&bucket).map_err(|error| refused(error.source.to_string()))?;
    }
    place.make_all()?;
    remember(&place, found.as_ref(), is_ours)?;
    Ok(found.and_then(|found| found.storage))
}

/// From now on the pool is known, with the superblock that was `found`.
fn remember(place: &PoolPaths, found: Option<&Superblock>, is_ours: bool) -> Result<()> {
    match found {
        Some(_) if is_ours => Ok(()),
        Some(found) => {
            let (superblock, mounts) = (found.clone(), place.mounted());
            let bucket = place.bucket()?;
            Memory { superblock, mounts, is_taking: true, bucket }.note(place)
        }
        None => new(place),
    }
}

/// Whether the storage server `name` may start in `data`: a pool that it has never used is of nobody else.
///
/// # Errors
/// [`Error::Pool`] when it belongs to another storage server; [`Error::File`].
pub(crate) fn is_of(data: &Path, name: &Name) -> Result<()> {
    let place = PoolPaths::of(data, None);
    if !place.pool.exists() || Memory::read(&place)?.is_some() {
        return Ok(());
    }
    match superblock(&place)?.and_then(|found| found.storage) {
        Some(other) if other != name.as_str() => {
            Err(not_mounted(&place, &format!("it is the pool of the storage server '{other}'")))
        }
        _ => Ok(()),
    }
}

/// Notes in the pool to which storage server it belongs. One that is too full for it waits for a later start.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn note_owner(data: &Path, name: &Name) -> Result<()> {
    let place = PoolPaths::of(data, None);
    let owner = Some(name.to_string());
    let noted = match superblock(&place)? {
        Some(found) if found.storage != owner => {
            note_in(&place, Superblock { storage: owner, ..found })?
        }
        _ => Ok(()),
    };
    match noted {
        Err(error) if !error.is_full() => Err(Error::file(&place.pool)(error.source)),
        _ => Ok(()),
    }
}

/// In a bucket a superblock is written under the number of its generation, so that rises.
pub(super) fn note_in(place: &PoolPaths, found: Superblock) -> Result<StorageResult<()>> {
    let Some(known) = Memory::read(place)?.filter(|known| known.bucket.is_some()) else {
        return Ok(found.write(&storage(place)?));
    };
    let superblock = Superblock { generation: known.superblock.generation + 1, ..found };
    Memory { superblock, ..known }.keep(place, true).map(Ok)
}

/// Whether a new pool may be made in `real`: nothing of others lies there, and it lies in no other pool. Domains that
/// were brought back before may lie there.
pub(super) fn is_for_a_pool(real: &Path) -> std::result::Result<(), String> {
    const OF_POOLS: [&str; 4] = ["lost+found", "domains", "superblock", "io"];
    let is_of_a_pool = |name: &OsStr| OF_POOLS.iter().any(|known| name == *known);
    let entries = fs::read_dir(real).map_err(|error| error.to_string())?;
    let mut others = entries.flatten().map(|entry| entry.file_name());
    if let Some(other) = others.find(|name| !is_of_a_pool(name)) {
        return Err(format!("it has other files: {}", other.to_string_lossy()));
    }
    let is_pool = |above: &&Path| above.join("superblock").is_file();
    match real.ancestors().skip(1).find(is_pool) {
        Some(pool) => Err(format!("it lies in the pool {}", pool.display())),
        None => Ok(()),
    }
}

/// A directory that is a pool already stays one, and no pool lies within the files of its server.
fn is_free(
    pool: &Path,
    data: &Path,
    real: &Path,
    is_enrolled: bool,
) -> std::result::Result<(), String> {
    if fs::canonicalize(data).is_ok_and(|data| real.starts_with(&data) || data.starts_with(real)) {
        return Err(format!("{} lies in the same directories", data.display()));
    }
    let may_change = match fs::read_link(pool) {
        Ok(linked) => linked == real || !is_enrolled,
        Err(_) => pool.symlink_metadata().is_err(),
    };
    if may_change { Ok(()) } else { Err(format!("{} is another pool already", pool.display())) }
}

/// Whether it is the pool that is remembered, and nobody else has used it since.
fn is_ours(known: &Memory, found: Option<&Superblock>) -> bool {
    let Superblock { id, generation, .. } = &known.superblock;
    found.is_some_and(|it| it.id == *id && (known.is_taking || it.generation <= *generation))
}

fn may_use(
    is_pool: bool,
    is_ours: bool,
    had_another: bool,
    take_over: bool,
) -> std::result::Result<(), String> {
    let refused = match is_pool {
        true if take_over || is_ours => return Ok(()),
        true => "it is the pool of another server; if that one is gone, take it over: --take-over",
        false if take_over => "it has no superblock, so it is no pool",
        false if had_another => "it is not the pool of this server",
        false => return Ok(()),
    };
    Err(refused.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{open, verify};

    /// A shared directory, and one for each of two servers.
    fn machines() -> (tempfile::TempDir, [PathBuf; 3]) {
        let place = tempfile::tempdir().unwrap();
        let folders = ["shared", "one", "two"].map(|name| place.path().join(name));
        fs::create_dir(&folders[0]).unwrap();
        (place, folders)
    }

    fn why<T: std::fmt::Debug>(refused: Result<T>) -> String {
        refused.unwrap_err().to_string()
    }

    #[test]
    fn a_pool_elsewhere_is_taken_over_only_by_who_says_so() {
        let (_place, [shared, one, two]) = machines();
        assert!(why(link_first(&one, &shared, true)).contains("no superblock"));
        assert!(!one.join("pool").exists());
        link_first(&one, &shared, false).unwrap();
        link_first(&one, &shared, false).unwrap();
        open(&one).unwrap();
        link_first(&one, &shared, false).unwrap();
        assert!(why(link_first(&two, &shared, false)).contains("--take-over"));
        assert!(!two.join("pool").exists());
        link_first(&two, &shared, true).unwrap();
        verify(&one.join("pool/domains/web")).unwrap();
        // It starts once more before it is taken.
        open(&one).unwrap();
        open(&two).unwrap();
        assert!(verify(&one.join("pool/domains/web")).is_err(), "it has lost it");
        assert!(open(&one).is_err());
        verify(&two.join("pool/domains/web")).unwrap();
        // And back, in the directory that it had.
        assert!(why(link_first(&one, &shared, false)).contains("--take-over"));
        link_first(&one, &shared, true).unwrap();
        open(&one).unwrap();
        assert!(verify(&two.join("pool/domains/web")).is_err());
    }

    #[test]
    fn a_server_has_one_first_pool_and_none_in_its_own_files() {
        let (_place, [shared, one, two]) = machines();
        make_directory(&one).unwrap();
        open(&one).unwrap();
        assert!(why(link_first(&one, &shared, false)).contains("another pool"));
        fs::create_dir_all(two.join("pool within")).unwrap();
        assert!(
            why(link_first(&two, &two.join("pool within"), false)).contains("same directories")
        );
        let other = shared.with_file_name("other");
        fs::create_dir(&other).unwrap();
        link_first(&two, &other, false).unwrap();
        link_first(&two, &shared, false).unwrap();
        open(&two).unwrap();
        fs::write(two.join(ENROLLED), "").unwrap();
        assert!(why(link_first(&two, &other, true)).contains("another pool"));
        fs::remove_file(shared.join("superblock")).unwrap();
        assert!(why(link_first(&two, &shared, false)).contains("not the pool"));
        assert!(link_first(&two, &shared.join("missing"), false).is_err());
    }

    #[test]
    fn a_pool_says_to_which_storage_server_it_belongs() {
        let (_place, [shared, one, two]) = machines();
        let [own, other] = ["disk-1", "disk-2"].map(|name| name.parse::<Name>().unwrap());
        assert_eq!(link_first(&one, &shared, false).unwrap(), None);
        is_of(&one, &own).unwrap();
        open(&one).unwrap();
        note_owner(&one, &own).unwrap();
        assert_eq!(link_first(&two, &shared, true).unwrap().as_deref(), Some("disk-1"));
        // As if it were mounted by hand.
        fs::remove_file(PoolPaths::of(&two, None).memory).unwrap();
        assert!(why(is_of(&two, &other)).contains("'disk-1'"));
        is_of(&two, &own).unwrap();
        open(&two).unwrap();
        assert_eq!(
            superblock(&PoolPaths::of(&two, None)).unwrap().unwrap().storage,
            Some("disk-1".into())
        );
        // An administrator has said so: it is used.
        is_of(&two, &other).unwrap();
        note_owner(&two, &other).unwrap();
        assert_eq!(link_first(&two, &shared, false).unwrap().as_deref(), Some("disk-2"));
    }

    /// Between enrollment and the first start, the machine started anew.
    #[test]
    fn a_pool_that_is_not_mounted_at_the_first_start_is_missed() {
        for take_over in [false, true] {
            let (_place, [shared, one, two]) = machines();
            if take_over {
                link_first(&one, &shared, false).unwrap();
            }
            link_first(&two, &shared, take_over).unwrap();
            let away = shared.with_file_name("away");
            fs::rename(&shared, &away).unwrap();
            assert!(why(open(&two)).contains("not mounted"), "{take_over}");
            fs::create_dir(&shared).unwrap();
            assert!(why(open(&two)).contains("not mounted"), "{take_over}");
            assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
            fs::remove_dir(&shared).unwrap();
            fs::rename(&away, &shared).unwrap();
            open(&two).unwrap();
        }
    }

    /// A server that is frozen keeps its locks: they are of files that have lost their names.
    #[test]
    fn what_another_server_has_locked_is_taken_also_by_one_that_is_killed_in_the_middle() {
        use repository::lease::Lease;
        let (_place, [shared, one, two]) = machines();
        link_first(&one, &shared, false).unwrap();
        open(&one).unwrap();
        let folder = shared.join("domains/web");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("config"), "").unwrap();
        let storage = || -> std::sync::Arc<dyn repository::storage::Storage> {
            std::sync::Arc::new(repository::local::LocalStorage::open(&folder).unwrap())
        };
        let frozen = Lease::acquire(&storage(), "frozen").unwrap();
        link_first(&two, &shared, true).unwrap();
        // Killed before it took any repository: what is remembered says so.
        let place = PoolPaths::of(&two, None);
        let begun = Memory::read(&place).unwrap().unwrap();
        assert!(begun.is_taking);
        let superblock = Superblock { generation: 5, ..begun.superblock.clone() };
        Memory { superblock, ..begun }.keep(&place, true).unwrap();
        frozen.verify().unwrap();
        open(&two).unwrap();
        assert!(frozen.verify().is_err());
        let own = Lease::acquire(&storage(), "own").unwrap();
        assert!(!Memory::read(&place).unwrap().unwrap().is_taking);
        open(&two).unwrap();
        own.verify().unwrap();
    }

    #[test]
    fn who_lost_the_first_pool_does_not_take_it_back_by_starting() {
        let (_place, [shared, one, two]) = machines();
        let first = FirstPool { place: shared, take_over: true };
        let without = FirstPool { take_over: false, ..first.clone() };
        let start = |data: &Path, first: &FirstPool| {
            choose_first(data, first)?;
            open(data)?;
            fs::create_dir_all(data.join("ca")).unwrap();
            fs::write(data.join("ca/ca.pem"), "").map_err(Error::file(data))
        };
        assert!(why(start(&one, &first)).contains("no superblock"));
        start(&one, &without).unwrap();
        start(&one, &first).unwrap();
        let refused = start(&two, &without).unwrap_err();
        assert!(matches!(refused, Error::FirstPool { .. }), "{refused}");
        start(&two, &first).unwrap();
        assert!(why(start(&one, &first)).contains("another server has taken it over"));
        verify(&two.join("pool/domains/web")).unwrap();
        // The directory that it had, and that of a server without one, are named as such.
        let default = |data: &Path| FirstPool { place: data.join("pool"), take_over: false };
        choose_first(&two, &default(&two)).unwrap();
        let three = two.with_file_name("three");
        start(&three, &default(&three)).unwrap();
        start(&three, &default(&three)).unwrap();
        assert!(why(choose_first(&three, &first)).contains("three/pool, and stays there"));
    }

    /// Seen: the link lay in what a copy of the server's files leaves out, and no command made it again.
    #[test]
    fn a_first_pool_whose_link_is_gone_is_found_by_its_superblock_and_none_is_made_instead() {
        let (_place, [shared, one, two]) = machines();
        let named = |place: &Path| FirstPool { place: place.to_owned(), take_over: false };
        choose_first(&one, &named(&shared)).unwrap();
        open(&one).unwrap();
        fs::create_dir_all(one.join("ca")).unwrap();
        fs::write(one.join("ca/ca.pem"), "").unwrap();
        fs::remove_file(one.join("pool")).unwrap();
        assert!(why(open(&one)).contains("--pool PLACE"));
        assert!(why(crate::pool::accept(&one)).contains("no such directory"));
        assert!(!one.join("pool").exists(), "nothing was made");
        fs::create_dir(&two).unwrap();
        assert!(why(choose_first(&one, &named(&two))).contains("stays there"));
        choose_first(&one, &named(&shared)).unwrap();
        open(&one).unwrap();
        verify(&one.join("pool/domains/web")).unwrap();
    }
}
