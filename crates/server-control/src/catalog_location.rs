//! Where the catalog of a server lies: in a file of its folder, unless its file `catalog` names another database. Users
//! who can read the server's own files move it.

use crate::error::refused;
use crate::offline::READER;
use crate::{Result, by};
use catalog::{Catalog, Location, Move};
use server_contract::folder::Folder;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Names the place of the catalog; may hold a password.
const FILE: &str = "catalog";

/// Where the catalog of the server lies whose files are in `folder`. The server may run or not.
///
/// # Errors
/// [`crate::Error::System`] if there is no server; [`crate::Error::Catalog`] when the file `catalog` cannot be
/// understood.
pub fn of(folder: &Path) -> Result<Location> {
    stored(&Folder::look(folder)?)
}

/// Moves the catalog of the server whose files are in `folder` to `to`: a URL or list of words of PostgreSQL, or the
/// path of a file that does not exist. From then on the server uses it there. The server must not run.
///
/// # Errors
/// [`crate::Error::System`] while it runs, and if there is no server; [`crate::Error::Catalog`].
pub fn move_to(folder: &Path, to: &str) -> Result<Move> {
    Folder::look(folder)?; // or there is no server, and a folder would be made
    belongs_to_us(folder)?;
    let folder = Folder::open(folder)?;
    let here = std::env::current_dir().map_err(server_contract::Error::file(Path::new(".")))?;
    let (from, to) = (stored(&folder)?, Location::parse(to, &here)?);
    let moved = Catalog::move_to(&from, &to, by(READER))?;
    folder.replace_secret(FILE, &format!("{}\n", to.written()))?;
    Ok(moved)
}

/// A server cannot use the file of a catalog that belongs to somebody else, and PostgreSQL knows users of the system by
/// name.
fn belongs_to_us(folder: &Path) -> Result<()> {
    let status = std::fs::metadata(folder).map_err(server_contract::Error::file(folder))?;
    let (owner, own) = (status.uid(), rustix::process::geteuid().as_raw());
    if owner == own {
        return Ok(());
    }
    let message = format!("{} belongs to the user {owner}, not to {own}", folder.display());
    Err(refused(message, &format!("As that user: sudo -u '#{owner}' icecore server catalog move")))
}

/// Where the catalog lies whose server uses `folder`.
pub(crate) fn stored(folder: &Folder) -> Result<Location> {
    if folder.text(FILE)?.is_none() {
        return Ok(Location::file(folder.file("catalog.sqlite")));
    }
    let gone = || server_contract::Error::file(&folder.file(FILE))(io::ErrorKind::NotFound.into());
    let text = folder.secret(FILE, || Err(gone()))?;
    Ok(Location::parse(&text, &folder.file(""))?)
}
