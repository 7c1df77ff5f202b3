//! The helper as a process: it listens on a Unix socket for the owner of its pools, and lets go what is over.

use crate::message::{self, Answer, FILES_MAX, Request};
use crate::{Error, Pool, Result, socket};
use rustix::fs::{Gid, Uid};
use rustix::net::sockopt::socket_peercred;
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How often it looks for what is over.
const RELEASE_EVERY: Duration = Duration::from_secs(60);
/// Connections at a time: those of a server and a storage server, and some that are ending.
const CONNECTIONS_MAX: usize = 4;
/// After a connection that could not be taken.
const NEXT_AFTER: Duration = Duration::from_secs(1);
/// Who says nothing for so long is disconnected.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pools of one owner.
pub struct Helper {
    pools: Vec<Pool>,
    owner: (Uid, Gid),
    connections: AtomicUsize,
}

impl Helper {
    /// Opens these pools, which belong to one user.
    ///
    /// # Errors
    /// [`Error::Pool`]; those of the system.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let pools = paths.iter().map(|path| Pool::open(path)).collect::<Result<Vec<_>>>()?;
        let Some(first) = pools.first() else {
            return Err(Error::Refused("no pool is named: --pool DIR".into()));
        };
        let owner = first.owner;
        if let Some(other) = pools.iter().find(|pool| pool.owner.0 != owner.0) {
            let why =
                "it belongs to another user than the pools before it; run a helper for each user";
            return Err(Error::pool(&other.path, why));
        }
        Ok(Self { pools, owner, connections: AtomicUsize::new(0) })
    }

    /// Its pools.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Listens at `socket`, where the owner of the pools may connect, and nobody else. What a helper that was killed left
    /// there is removed.
    ///
    /// # Errors
    /// Those of the system; [`Error::Pool`] when somebody listens there, something else is there, or others may put
    /// something there.
    pub fn listen(&self, socket: &Path) -> Result<UnixListener> {
        socket::listen(socket, self.owner.1)
    }

    fn answer(&self, request: &Request) -> Answer {
        if request.files.len() > FILES_MAX {
            return Answer::Refused(format!("more than {FILES_MAX} files at once"));
        }
        let Some(pool) = self.pools.iter().find(|pool| pool.path == request.pool) else {
            return Answer::Refused(self.why_foreign(&request.pool));
        };
        match pool.secure(&request.files) {
            Ok(secured) => Answer::Done(secured),
            Err(error) => Answer::Refused(error.to_string()),
        }
    }

    /// With a command that has all pools, so that none is left out.
    fn why_foreign(&self, pool: &Path) -> String {
        let paths = self.pools.iter().map(Pool::path).chain([pool]);
        let flags: Vec<_> = paths.map(|path| format!("--pool {}", path.display())).collect();
        let (pool, flags) = (pool.display(), flags.join(" "));
        format!(
            "{pool} is none of its pools. Start it with that one, too: icecore lock-helper {flags} (with the package: \
             LOCK_HELPER_FLAGS={flags} in /etc/icecore/lock-helper.env, and systemctl restart icecore-lock-helper)"
        )
    }

    fn talk(&self, stream: &UnixStream) -> Result<()> {
        let failed = |error: std::io::Error| Error::Refused(error.to_string());
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let peer = socket_peercred(stream).map_err(|error| failed(error.into()))?;
        if peer.uid != self.owner.0 && !peer.uid.is_root() {
            return message::write(&mut &*stream, &Answer::Refused("not allowed".into()));
        }
        let mut from = BufReader::new(stream);
        while let Some(request) = message::read::<Request>(&mut from)? {
            message::write(&mut &*stream, &self.answer(&request))?;
        }
        Ok(())
    }

    /// A place for a further connection, until it is dropped.
    pub(crate) fn place(self: &Arc<Self>) -> Option<Place> {
        let place = Place(self.clone());
        let are_taken = self.connections.fetch_add(1, Ordering::SeqCst);
        (are_taken < CONNECTIONS_MAX).then_some(place)
    }
}

/// A panic gives it back, too: four of them would else keep everybody out.
pub(crate) struct Place(Arc<Helper>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Place {
    fn serve(&self, stream: &UnixStream) {
        match self.0.talk(stream) {
            Err(Error::Silent) => tracing::debug!("nobody said anything for {PATIENCE:?}"),
            Err(error) => tracing::warn!(%error, "a connection ended"),
            Ok(()) => {}
        }
    }
}

/// Serves whoever connects, until the process ends.
pub fn serve(helper: &Arc<Helper>, listener: &UnixListener) {
    for number in 0..helper.pools.len() {
        let releasing = helper.clone();
        // One that hangs holds up no other. Without a thread at the start the process ends, and is started again.
        std::thread::spawn(move || release_forever(&releasing.pools[number]));
    }
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => begin(helper, stream),
            Err(error) => {
                tracing::warn!(%error, "nobody can connect");
                std::thread::sleep(NEXT_AFTER); // too many open files do not go away at once
            }
        }
    }
}

fn begin(helper: &Arc<Helper>, stream: UnixStream) {
    let Some(place) = helper.place() else {
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let _ = message::write(&mut &stream, &Answer::Refused("too many connections".into()));
        return;
    };
    let thread = std::thread::Builder::new().spawn(move || place.serve(&stream));
    if let Err(error) = thread {
        tracing::warn!(%error, "no thread for a connection"); // which is closed: the server tries again
    }
}

fn release_forever(pool: &Pool) {
    loop {
        match catch_unwind(AssertUnwindSafe(|| pool.release())) {
            Ok(Ok(0)) => {}
            Ok(Ok(files)) => tracing::info!(pool = %pool.path.display(), files, "let go"),
            Ok(Err(error)) => tracing::error!(%error, "cannot let go what is over"),
            Err(_) => {
                tracing::error!(pool = %pool.path.display(), "to let go what is over panicked")
            }
        }
        std::thread::sleep(RELEASE_EVERY);
    }
}
