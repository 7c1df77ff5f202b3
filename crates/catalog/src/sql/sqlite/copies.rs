//! Copies of the file, made before its tables change.

use super::{beside, disk, failed};
use crate::Result;
use rusqlite::Connection;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Between the name of the catalog and the version that was copied.
const BEFORE: &str = ".before-";

/// Copies the catalog into a file beside it, which is there whole and durable, or not at all.
pub(super) fn copy(connection: &Connection, path: &Path, version: u32) -> Result<()> {
    let to = beside(path, &format!("{BEFORE}{version}"));
    let part = beside(&to, ".part");
    create_private(&part)?;
    let name = part.to_string_lossy();
    connection.execute("VACUUM INTO ?1", [&*name]).map_err(failed)?;
    let synced = File::open(&part).and_then(|file| file.sync_all());
    synced.map_err(disk(&part))?;
    fs::rename(&part, &to).map_err(disk(&to))?;
    sync(folder(path))
}

/// An empty file that only its owner can read: the copy holds what the catalog holds.
fn create_private(path: &Path) -> Result<()> {
    let mut options = OpenOptions::new();
    let made = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    made.map(drop).map_err(disk(path))
}

/// Removes all copies but the newest `keep`.
pub(super) fn prune(path: &Path, keep: usize) -> Result<()> {
    let mut copies = copies(path)?;
    copies.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    copies.into_iter().skip(keep).try_for_each(|(_, old)| fs::remove_file(&old).map_err(disk(&old)))
}

fn copies(path: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let folder = folder(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(disk(folder))? {
        let entry = entry.map_err(disk(folder))?;
        let of = entry.file_name().to_string_lossy().into_owned();
        let version = of.strip_prefix(&name).and_then(|rest| rest.strip_prefix(BEFORE));
        found.extend(version.and_then(|text| Some((text.parse().ok()?, entry.path()))));
    }
    Ok(found)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(disk(folder))
}
