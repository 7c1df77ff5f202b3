//! The side of the server.

use crate::message::{self, Answer, FILES_MAX, File, Request, Secured};
use crate::{Error, Result};
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The helper syncs directories for each request, on a disk that may be busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// Asks the helper that listens at a socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// The helper at `socket`.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Whether it is there: nothing is asked.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn reach(&self) -> Result<()> {
        self.connect().map(drop)
    }

    fn connect(&self) -> Result<UnixStream> {
        let away = |source| Error::Away { socket: self.socket.clone(), source };
        UnixStream::connect(&self.socket).map_err(away)
    }

    /// Asks that `files` of the pool in the directory `pool` be kept.
    ///
    /// # Errors
    /// When the helper does not answer, or refuses all of it.
    pub fn secure(&self, pool: &Path, files: &[File]) -> Result<Secured> {
        let stream = self.connect()?;
        let failed = |error: std::io::Error| Error::Refused(error.to_string());
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut from = BufReader::new(&stream);
        let mut all = Secured::default();
        for files in files.chunks(FILES_MAX) {
            let request = Request { pool: pool.to_owned(), files: files.to_vec() };
            message::write(&mut &stream, &request)?;
            match message::read(&mut from)? {
                Some(Answer::Done(done)) => {
                    all.files += done.files;
                    all.failed.extend(done.failed);
                }
                Some(Answer::Refused(why)) => return Err(Error::Refused(why)),
                None => return Err(Error::Refused("it ended the connection".into())),
            }
        }
        Ok(all)
    }
}
