//! The socket at which the helper listens: in a directory where nobody but root can put anything in its place. It gets
//! its group by its name, and a link there would give away what it leads to.

use crate::{Error, Result};
use rustix::fs::{self, AtFlags, CWD, FileType, Gid, Mode};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Where a socket is safe, and what to type.
const ADVICE: &str = "a lock helper listens only where root alone may put something: \
                      --socket /run/icecore/lock-helper, and --lock-helper /run/icecore/lock-helper for the server";
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Listens at `socket`, where members of `group` may connect. What a helper that was killed left there is removed.
pub(crate) fn listen(socket: &Path, group: Gid) -> Result<UnixListener> {
    let socket = &place(socket)?;
    match fs::lstat(socket) {
        Ok(there) if FileType::from_raw_mode(there.st_mode) == FileType::Socket => {
            if UnixStream::connect(socket).is_ok() {
                let why = "a lock helper listens there already: stop it, or name another socket: --socket SOCKET";
                return Err(Error::pool(socket, why));
            }
            fs::unlink(socket).map_err(Error::file("remove", socket))?;
        }
        Ok(_) => return Err(Error::pool(socket, "there is a file that is no socket")),
        Err(_) => {}
    }
    let listener = UnixListener::bind(socket).map_err(Error::file("listen at", socket))?;
    fs::chownat(CWD, socket, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(Error::file("change", socket))?;
    fs::chmod(socket, Mode::from_raw_mode(0o660)).map_err(Error::file("change", socket))?;
    Ok(listener)
}

/// The socket by the true path of its directory, each part of which is root's: no link leads elsewhere later.
fn place(socket: &Path) -> Result<PathBuf> {
    let name = socket.file_name().ok_or_else(|| Error::pool(socket, "it has no name"))?;
    let directory = match socket.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !directory.exists() {
        make(directory)?;
    }
    Ok(verified(directory)?.join(name))
}

/// The true path of a directory in which only root can make names.
fn verified(directory: &Path) -> Result<PathBuf> {
    let directory = directory.canonicalize().map_err(Error::file("open", directory))?;
    for at in directory.ancestors() {
        verify(at, at == directory)?;
    }
    Ok(directory)
}

/// As a service has it made: everybody may enter.
fn make(directory: &Path) -> Result<()> {
    let (Some(above), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Err(Error::pool(directory, "it has no name"));
    };
    let at = verified(above)?.join(name);
    let made = std::fs::create_dir(&at);
    made.map_err(Error::file("make the directory of the socket,", &at))?;
    fs::chmod(&at, Mode::from_raw_mode(0o755)).map_err(Error::file("change", &at))
}

/// Whether only root can make or replace names in a directory. Above that of the socket, names of root's stay also
/// where everybody may make others, as in `/tmp`.
fn verify(at: &Path, is_own: bool) -> Result<()> {
    let status = fs::lstat(at).map_err(Error::file("look at", at))?;
    if status.st_uid != 0 {
        return Err(Error::pool(at, format!("it does not belong to root; {ADVICE}")));
    }
    let is_sticky = status.st_mode & STICKY != 0 && !is_own;
    if status.st_mode & OTHERS_WRITE != 0 && !is_sticky {
        return Err(Error::pool(at, format!("others may write there; {ADVICE}")));
    }
    Ok(())
}
