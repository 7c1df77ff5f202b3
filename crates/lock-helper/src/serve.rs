//! The helper as a process: it listens on a Unix socket for the owner of its pools, and lets go what is over.

use crate::message::{self, Answer, FILES_MAX, Request};
use crate::{Error, Pool, Result, socket};
use parking_lot::Mutex;
use rustix::fs::{Gid, Uid};
use rustix::net::sockopt::socket_peercred;
use std::io::{BufReader, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
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
    pools: Vec<Slot>,
    owner: (Uid, Gid),
    connections: AtomicUsize,
}

/// A pool that was named, and is tried again and again until it can be opened: it costs only itself.
struct Slot {
    named: PathBuf,
    pool: OnceLock<Pool>,
    opening: Mutex<()>,
}

impl Slot {
    fn new(path: &Path) -> Self {
        Self { named: path.to_owned(), pool: OnceLock::new(), opening: Mutex::new(()) }
    }

    fn path(&self) -> &Path {
        self.pool.get().map_or(&self.named, Pool::path)
    }

    /// The pool, which belongs to `owner`, if that is known.
    fn get(&self, owner: Option<Uid>) -> Result<&Pool> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let _one_at_a_time = self.opening.lock();
        if self.pool.get().is_none() {
            let pool = Pool::open(&self.named)?;
            if owner.is_some_and(|owner| owner != pool.owner.0) {
                let why = "it belongs to another user than the pools before it; run a helper for each user";
                return Err(Error::pool(&pool.path, why));
            }
            let _ = self.pool.set(pool);
        }
        self.pool.get().ok_or_else(|| Error::pool(&self.named, "it is not open"))
    }
}

impl Helper {
    /// Opens these pools, which belong to one user. One that cannot be opened is tried again later.
    ///
    /// # Errors
    /// [`Error::Pool`]; those of the system, if no pool can be opened.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let pools: Vec<_> = paths.iter().map(|path| Slot::new(path)).collect();
        let (mut owner, mut failed) = (None, Vec::new());
        for slot in &pools {
            match slot.get(owner.map(|(user, _)| user)) {
                Ok(pool) => owner = owner.or(Some(pool.owner)),
                Err(error) => {
                    failed.push((with_advice(&error, &slot.named), error));
                }
            }
        }
        let none = || Error::Refused("no pool is named: --pool DIR".into());
        // The first one is told by whoever asked, if there is no other pool.
        let told = usize::from(owner.is_none());
        failed.iter().skip(told).for_each(|(why, _)| tracing::error!("{why}"));
        let first = || failed.into_iter().next().map_or_else(none, |(_, error)| error);
        let owner = owner.ok_or_else(first)?;
        Ok(Self { pools, owner, connections: AtomicUsize::new(0) })
    }

    /// Its pools that could be opened.
    pub fn pools(&self) -> Vec<&Pool> {
        self.pools.iter().filter_map(|slot| slot.pool.get()).collect()
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
        let is_it = |slot: &&Slot| {
            slot.path() == request.pool
                || slot.path().canonicalize().is_ok_and(|it| it == request.pool)
        };
        let Some(slot) = self.pools.iter().find(is_it) else {
            return Answer::Refused(self.why_foreign(&request.pool));
        };
        let pool = match slot.get(Some(self.owner.0)) {
            Ok(pool) => pool,
            Err(error) => return Answer::Refused(with_advice(&error, &slot.named)),
        };
        match pool.secure(&request.files) {
            Ok(secured) => Answer::Done(secured),
            Err(error) => Answer::Refused(error.to_string()),
        }
    }

    /// With a command that has all pools, so that none is left out.
    fn why_foreign(&self, pool: &Path) -> String {
        let paths = self.pools.iter().map(Slot::path).chain([pool]);
        let flags: Vec<_> = paths.map(|path| format!("--pool {}", path.display())).collect();
        let (flags, writable) = (flags.join(" "), writable(pool));
        let pool = pool.display();
        format!(
            "{pool} is none of its pools. Start it with that one, too: icecore lock-helper {flags} (with the package: \
             LOCK_HELPER_FLAGS={flags} in /etc/icecore/lock-helper.env, {writable}, and systemctl restart \
             icecore-lock-helper)"
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
    pub(crate) fn place(self: &Arc<Self>) -> Option<Taken> {
        let place = Taken(self.clone());
        let are_taken = self.connections.fetch_add(1, Ordering::SeqCst);
        (are_taken < CONNECTIONS_MAX).then_some(place)
    }
}

/// How the service of the package may write to `pool`: only its own directory is open to it.
fn writable(pool: &Path) -> String {
    format!(
        "for a pool outside /var/lib/icecore systemctl edit icecore-lock-helper with the lines [Service] and \
         ReadWritePaths={}",
        pool.display()
    )
}

/// Why a pool cannot be opened, and what helps where the service is the reason.
fn with_advice(error: &Error, pool: &Path) -> String {
    match error {
        Error::File { source, .. } if source.kind() == ErrorKind::ReadOnlyFilesystem => {
            format!("{error}. If only the service cannot write there: {}", writable(pool))
        }
        _ => error.to_string(),
    }
}

/// A panic gives it back, too: four of them would else keep everybody out.
pub(crate) struct Taken(Arc<Helper>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Taken {
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
        std::thread::spawn(move || release_forever(&releasing.pools[number], releasing.owner.0));
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

fn release_forever(slot: &Slot, owner: Uid) {
    loop {
        let pool = slot.path().display();
        match catch_unwind(AssertUnwindSafe(|| slot.get(Some(owner))?.release())) {
            Ok(Ok(0)) => {}
            Ok(Ok(files)) => tracing::info!(%pool, files, "let go"),
            Ok(Err(error)) => {
                let error = with_advice(&error, &slot.named);
                tracing::error!(error, "cannot let go what is over");
            }
            Err(_) => tracing::error!(%pool, "to let go what is over panicked"),
        }
        std::thread::sleep(RELEASE_EVERY);
    }
}
