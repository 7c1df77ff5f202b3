//! Files of the agent's folder: written to a new file and renamed, so that each is either new or unchanged.

use crate::{Error, Result};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Larger files than this are not ours.
const BYTES_MAX: u64 = 256 << 10;

/// Creates the folder, accessible to its owner only, and its parents as any other program does: a server of another
/// user may have its own folder beside it.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder.parent().unwrap_or(folder)).map_err(file(folder))?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(file(folder))
}

/// The text of a file; `None` if it does not exist.
pub fn read(path: &Path) -> Result<Option<Zeroizing<String>>> {
    read_within(path, BYTES_MAX)
}

/// The same for a file that may have up to `bytes_max`.
pub fn read_within(path: &Path, bytes_max: u64) -> Result<Option<Zeroizing<String>>> {
    let opened = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(file(path))?,
    };
    let mut text = Zeroizing::new(String::new());
    opened.take(bytes_max).read_to_string(&mut text).map_err(file(path))?;
    Ok(Some(text))
}

/// Durably replaces a file, readable by its owner only.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let steps = || {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        remove_if_there(part.as_ref())?;
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        sync_parent(path)
    };
    steps().map_err(file(path))
}

/// Durably removes a file, if it exists.
pub fn remove(path: &Path) -> Result<()> {
    remove_if_there(path).and_then(|()| sync_parent(path)).map_err(file(path))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the names beside `path` durable.
pub(crate) fn sync_parent_of(path: &Path) -> Result<()> {
    sync_parent(path).map_err(file(path))
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// For `map_err`: the file `path`.
pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}
