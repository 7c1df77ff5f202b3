//! What the pools of a storage server are used for, and how a further one is given up, also of a control server. That
//! has the states of its own pools in its catalog.
//!
//! ```text
//! pool-states/NAME    the state of a pool, a word; without this file it is online
//! ```

use super::places::{LINKS, MAIN, MEMORIES, PoolPaths};
use crate::folder::{make_directory, read, write};
use crate::{Error, Result};
use api::Name;
use api::pools::PoolState;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

const STATES: &str = "pool-states";
/// Domains that an error names.
const NAMES_TOLD: usize = 5;

/// What a pool is used for; the first one has no name.
///
/// # Errors
/// [`Error::File`], also when it is no state: nobody knows then what it was.
pub(crate) fn state(data: &Path, pool: Option<&Name>) -> Result<PoolState> {
    let path = path(data, pool);
    let Some(text) = read(&path)? else { return Ok(PoolState::Online) };
    let states = [PoolState::Online, PoolState::ReadOnly, PoolState::Draining, PoolState::Offline];
    let found = states.into_iter().find(|state| state.to_string() == text.trim());
    let unknown = || io::Error::new(ErrorKind::InvalidData, "it is no state of a pool");
    found.ok_or_else(|| Error::file(&path)(unknown()))
}

/// Changes it durably.
///
/// # Errors
/// [`Error::Pool`] when there is no such pool, [`Error::File`].
pub(crate) fn set_state(data: &Path, pool: Option<&Name>, state: PoolState) -> Result<()> {
    if let Some(name) = pool {
        is_known(data, name)?;
    }
    make_directory(&data.join(STATES))?;
    write(&path(data, pool), &format!("{state}\n"), 0o600)
}

/// Forgets a further pool: one that is there and has no domains, or, if somebody says that it `is_lost`, one that is not
/// there.
///
/// # Errors
/// [`Error::Pool`] when it is not so, or there is no such pool; [`Error::File`].
pub(crate) fn remove(data: &Path, name: &Name, is_lost: bool) -> Result<()> {
    is_known(data, name)?;
    let place = PoolPaths::of(data, Some(name));
    match (place.verify(), is_lost) {
        (Ok(()), false) => has_no_domains(&place)?,
        (Ok(()), true) => return Err(refused(data, name, "it can be reached, so it is not lost")),
        (Err(why), false) => return Err(refused(data, name, &why.source.to_string())),
        (Err(_), true) => may_be_removed(&place)?,
    }
    super::noted::note(data, Some(name))?;
    // What makes it a pool goes first: who is killed behind that leaves a link that nobody follows.
    gone(&data.join(MEMORIES).join(name.as_str()))?;
    let link = data.join(LINKS).join(name.as_str());
    match link.is_symlink() {
        true => gone(&link)?,
        // Of a bucket: only what was noted and read of it.
        false if link.is_dir() => fs::remove_dir_all(&link).map_err(Error::file(&link))?,
        false => {}
    }
    gone(&path(data, Some(name)))
}

/// Only the directory of a bucket is removed: of it no more lies there than what was noted and read. Where the files of
/// the server were copied with links followed, or the disk is mounted there, it is the pool itself.
fn may_be_removed(place: &PoolPaths) -> Result<()> {
    let is_own = place.pool.is_dir() && !place.pool.is_symlink();
    if !is_own || place.bucket()?.is_some() {
        return Ok(());
    }
    let (path, data) = (place.shown(), place.data.clone());
    let why = format!(
        "it is a directory and no link to one, so it may have repositories. If a disk is mounted there, unmount it; \
         else move it away: mv '{0}' '{1}'. Then repeat this command",
        path.display(),
        data.join("lost-pool").display()
    );
    Err(Error::Pool { path, why, data })
}

fn has_no_domains(place: &PoolPaths) -> Result<()> {
    let domains = place.domains();
    let entries = fs::read_dir(&domains).map_err(Error::file(&domains))?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<BTreeSet<_>>>()
        .map_err(Error::file(&domains))?;
    if let Some(bucket) = place.bucket()? {
        names.extend(super::bucket::domains(&bucket)?.iter().map(ToString::to_string));
    }
    if names.is_empty() {
        return Ok(());
    }
    let (path, data) = (place.shown(), place.data.clone());
    let (parts, domains): (BTreeSet<_>, _) = names.into_iter().partition(|name| is_part(name));
    let why = match parts.first() {
        Some(part) if domains.is_empty() => {
            let domain = crate::moving::domain_of(Path::new(part));
            format!(
                "a move of the domain '{}' ended in the middle and left something here. Its next move goes on with \
                 that, or removes it",
                domain.display()
            )
        }
        _ => format!("it has domains: {}", some(&domains)),
    };
    Err(Error::Pool { path, why, data })
}

/// What lies beside domains while they are moved.
fn is_part(name: &str) -> bool {
    crate::moving::domain_of(Path::new(name)) != Path::new(name)
}

/// The first names, and how many there are further.
fn some(names: &BTreeSet<String>) -> String {
    let told: Vec<_> = names.iter().take(NAMES_TOLD).map(String::as_str).collect();
    match names.len() - told.len() {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

fn is_known(data: &Path, name: &Name) -> Result<()> {
    let is_known = super::further(data)?.contains(name);
    if is_known { Ok(()) } else { Err(refused(data, name, "there is no such pool")) }
}

fn refused(data: &Path, name: &Name, why: &str) -> Error {
    let path = PoolPaths::of(data, Some(name)).shown();
    Error::Pool { path, why: why.to_owned(), data: data.to_owned() }
}

fn path(data: &Path, pool: Option<&Name>) -> PathBuf {
    data.join(STATES).join(pool.map_or(MAIN, Name::as_str))
}

fn gone(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{add, further, open};
    use super::*;

    #[test]
    fn what_a_move_left_is_told_from_a_domain() {
        let place = tempfile::tempdir().unwrap();
        let (data, disk) = (place.path().join("data"), place.path().join("disk"));
        [&data, &disk].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        open(&data).unwrap();
        let name = "second".parse().unwrap();
        add(&data, &name, &disk, false).unwrap();
        let refused = || remove(&data, &name, false).unwrap_err().to_string();
        fs::create_dir_all(disk.join("domains/.web.moving")).unwrap();
        assert!(
            refused().contains("a move of the domain 'web' ended in the middle"),
            "{}",
            refused()
        );
        fs::create_dir(disk.join("domains/db")).unwrap();
        assert!(refused().contains("it has domains: db"), "{}", refused());
        assert!(!refused().contains("web"), "{}", refused());
    }

    /// The files of the server came back with links followed, and the pool was started elsewhere since.
    #[test]
    fn a_lost_pool_whose_directory_lies_in_the_place_of_its_link_is_not_removed_with_it() {
        let place = tempfile::tempdir().unwrap();
        let (data, disk) = (place.path().join("data"), place.path().join("disk"));
        [&data, &disk].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        open(&data).unwrap();
        let name = "second".parse().unwrap();
        add(&data, &name, &disk, false).unwrap();
        let link = data.join("pools/second");
        fs::remove_file(&link).unwrap();
        fs::rename(&disk, &link).unwrap();
        fs::create_dir_all(link.join("domains/web")).unwrap();
        fs::write(link.join("superblock"), "damaged").unwrap();
        let why = remove(&data, &name, true).unwrap_err().to_string();
        assert!(link.join("domains/web").is_dir(), "{why}");
        assert!(further(&data).unwrap().contains(&name), "nothing was changed");
        // As the error says.
        let advice = why.split_once("away: ").unwrap().1.split_once(". Then").unwrap().0;
        assert!(std::process::Command::new("sh").args(["-c", advice]).status().unwrap().success());
        remove(&data, &name, true).unwrap();
        assert_eq!(further(&data).unwrap(), []);
        assert!(data.join("lost-pool/domains/web").is_dir());
    }
}
