//! Which further pools a server has, as its first pool says it: whoever takes that one over has none of the files of
//! the server before, and must miss what lies in the others. Without it, a domain there would look like a new one.

use super::linked::note_in;
use super::memory::Memory;
use super::places::{LINKS, MEMORIES, PoolPaths, further};
use crate::folder::make_directory;
use crate::{Error, Result};
use api::Name;
use repository::local::superblock::{FurtherPool, Superblock};
use std::path::Path;

/// From now on the server knows the further pools that its first one notes, and the first one notes those that the
/// server knows. One that is too full for it waits for a later start.
///
/// # Errors
/// [`Error::File`].
pub(super) fn both_know(data: &Path) -> Result<()> {
    let place = PoolPaths::of(data, None);
    let found = super::superblock(&place)?;
    let noted = found.map(|found| found.further).unwrap_or_default();
    noted.iter().try_for_each(|pool| remember(data, pool))?;
    note(data, None)
}

/// The first pool notes those that the server knows, but for the one that it is `without`.
///
/// # Errors
/// [`Error::File`], [`Error::Pool`] when the first pool is not there or belongs to another server.
pub(super) fn note(data: &Path, without: Option<&Name>) -> Result<()> {
    let place = PoolPaths::of(data, None);
    let Some(known) = Memory::read(&place)? else { return Ok(()) };
    let found = known.verify(&place).map_err(|why| super::not_mounted(&place, &why))?;
    let further = known_now(data, &found.further, without)?;
    if found.further == further {
        return Ok(());
    }
    match note_in(&place, Superblock { further, ..found })? {
        Err(error) if !error.is_full() => Err(Error::file(&place.pool)(error.source)),
        _ => Ok(()),
    }
}

/// The further pools that the first one notes, and of which this machine does not know where they lie.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn missed(data: &Path) -> Result<Vec<String>> {
    let found = super::superblock(&PoolPaths::of(data, None))?;
    let noted = found.map(|found| found.further).unwrap_or_default().into_iter();
    let links = data.join(LINKS);
    Ok(noted
        .map(|pool| pool.name)
        .filter(|name| links.join(name).symlink_metadata().is_err())
        .collect())
}

fn known_now(
    data: &Path,
    noted: &[FurtherPool],
    without: Option<&Name>,
) -> Result<Vec<FurtherPool>> {
    let mut pools = Vec::new();
    for name in further(data)?.into_iter().filter(|name| Some(name) != without) {
        let id = match Memory::read(&PoolPaths::of(data, Some(&name))) {
            Ok(memory) => memory.map(|memory| memory.superblock.id),
            // What is remembered of it is damaged: what was noted stays.
            Err(_) => noted.iter().find(|pool| pool.name == name.as_str()).map(|it| it.id.clone()),
        };
        pools.extend(id.map(|id| FurtherPool { name: name.to_string(), id }));
    }
    Ok(pools)
}

/// It is not there, until somebody adds it or says that it is lost.
fn remember(data: &Path, pool: &FurtherPool) -> Result<()> {
    let Ok(name) = pool.name.parse::<Name>() else { return Ok(()) };
    let place = PoolPaths::of(data, Some(&name));
    if place.memory.exists() {
        return Ok(());
    }
    [LINKS, MEMORIES].iter().try_for_each(|folder| make_directory(&data.join(folder)))?;
    let superblock =
        Superblock { id: pool.id.clone(), generation: 0, storage: None, further: Vec::new() };
    let (mounts, bucket) = (Vec::new(), None);
    Memory { superblock, mounts, is_taking: true, bucket }.note(&place)
}

#[cfg(test)]
mod tests {
    use super::super::{add, link_first, open, remove, superblock, verify_pool};
    use super::*;
    use repository::local::superblock::FURTHER_MAX;
    use std::fs;
    use std::path::PathBuf;

    /// A shared first pool, a further one, and a directory for each of two servers. The first one has both pools.
    fn machines() -> (tempfile::TempDir, [PathBuf; 4]) {
        let place = tempfile::tempdir().unwrap();
        let folders = ["shared", "second", "one", "two"].map(|name| place.path().join(name));
        let [shared, disk, one, _] = &folders;
        [shared, disk].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        link_first(one, shared, false).unwrap();
        open(one).unwrap();
        add(one, &second(), disk, false).unwrap();
        (place, folders)
    }

    fn second() -> Name {
        "second".parse().unwrap()
    }

    fn noted(data: &Path) -> Vec<String> {
        let found = superblock(&PoolPaths::of(data, None)).unwrap().unwrap();
        found.further.into_iter().map(|pool| pool.name).collect()
    }

    #[test]
    fn whoever_takes_a_first_pool_over_misses_the_further_ones() {
        let (_place, [shared, disk, one, two]) = machines();
        assert_eq!(noted(&one), ["second"]);
        link_first(&two, &shared, true).unwrap();
        open(&two).unwrap();
        assert_eq!(further(&two).unwrap(), [second()]);
        assert_eq!((missed(&two).unwrap(), missed(&one).unwrap()), (vec!["second".into()], vec![]));
        let why = verify_pool(&two, Some(&second())).unwrap_err();
        assert!(why.is_unreachable(), "{why}");
        assert!(why.to_string().contains("pool add second DIR"), "{why}");
        // Started once more, and nobody forgets it.
        open(&two).unwrap();
        let other = disk.with_file_name("other");
        fs::create_dir(&other).unwrap();
        let refused = add(&two, &second(), &other, false).unwrap_err().to_string();
        assert!(refused.contains("it is not the pool 'second'"), "{refused}");
        add(&two, &second(), &disk, false).unwrap();
        verify_pool(&two, Some(&second())).unwrap();
        assert!(verify_pool(&one, Some(&second())).is_err(), "it has lost it");
        assert_eq!(noted(&two), ["second"]);
    }

    #[test]
    fn a_pool_that_is_removed_is_not_missed() {
        let (_place, [shared, _, _, two]) = machines();
        link_first(&two, &shared, true).unwrap();
        open(&two).unwrap();
        remove(&two, &second(), true).unwrap();
        open(&two).unwrap();
        assert_eq!((further(&two).unwrap(), noted(&two)), (Vec::new(), Vec::new()));
    }

    /// Servers of earlier versions noted nothing.
    #[test]
    fn a_start_notes_the_pools_that_were_there_before() {
        let (_place, [_, _, one, _]) = machines();
        let place = PoolPaths::of(&one, None);
        let found = superblock(&place).unwrap().unwrap();
        let unnoted = Superblock { further: Vec::new(), ..found };
        unnoted.write(&super::super::storage(&place).unwrap()).unwrap();
        open(&one).unwrap();
        assert_eq!(noted(&one), ["second"]);
    }

    /// What is named must be read again at the next start.
    #[test]
    fn a_server_has_no_more_pools_than_its_first_one_can_name() {
        let (place, [_, _, one, _]) = machines();
        let known = |n: usize| one.join(MEMORIES).join(format!("pool-{n}"));
        (2..FURTHER_MAX).for_each(|n| fs::write(known(n), "").unwrap());
        let add_one = |name: &str| {
            let disk = place.path().join(name);
            fs::create_dir(&disk).unwrap();
            add(&one, &name.parse().unwrap(), &disk, false)
        };
        add_one("last").unwrap();
        let refused = add_one("more").unwrap_err().to_string();
        assert!(refused.contains("has 500 further pools already"), "{refused}");
        // One that it has is added again, as after a move.
        add(&one, &second(), &place.path().join("second"), false).unwrap();
    }
}
