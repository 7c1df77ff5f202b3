//! How a local storage writes, and how long that takes.

use super::histogram::Histogram;
use super::mode::{FILE, FILE_BYTES_MAX, IoMode, IoSettings, Method};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Where the repository of a domain lies below the pool, which has the settings: `domains/NAME`.
const OF_POOL: &str = "../../io";
const DOMAINS: &str = "domains";

/// How long operations took, of all storages of one pool.
#[derive(Default)]
pub struct Counters {
    /// Writes.
    pub write: Histogram,
    /// Syncs of files.
    pub sync: Histogram,
    /// Reads.
    pub read: Histogram,
}

/// By the directory of the pool, or of a storage that lies in none.
static COUNTERS: Mutex<BTreeMap<PathBuf, Arc<Counters>>> = Mutex::new(BTreeMap::new());

/// The counters of the pool in the directory `pool`, named as whoever opens its storages names it, since this process
/// began.
pub fn counters(pool: &Path) -> Arc<Counters> {
    COUNTERS.lock().entry(pool.to_owned()).or_default().clone()
}

/// The directory of the pool in which a storage lies; else its own.
fn pool_of(path: &Path) -> &Path {
    let above = path.parent().filter(|above| above.file_name().is_some_and(|it| it == DOMAINS));
    above.and_then(Path::parent).unwrap_or(path)
}

type Listener = Box<dyn Fn(&str) + Send + Sync>;
static LISTENER: OnceLock<Listener> = OnceLock::new();

/// From now on `listener` is told what somebody should know of a storage although nothing failed. Only the first one
/// counts.
pub fn listen(listener: impl Fn(&str) + Send + Sync + 'static) {
    let _ = LISTENER.set(Box::new(listener));
}

/// How a storage writes.
pub(super) struct LocalIo {
    settings: IoSettings,
    /// Its path, for people.
    place: String,
    /// The file system has refused direct writes.
    is_refused: AtomicBool,
    /// Of a measurement: it says nothing, and counts by itself.
    is_measuring: bool,
    pub(super) counters: Arc<Counters>,
}

impl LocalIo {
    /// What the file `io` of the directory `root` at `path` says, or of the pool in which it lies.
    pub(super) fn of(root: &OwnedFd, path: &Path) -> Self {
        let is_domain = pool_of(path) != path;
        let own = read(root, FILE);
        let found = own.or_else(|| is_domain.then(|| read(root, OF_POOL)).flatten());
        Self::new(found.unwrap_or_default(), path, counters(pool_of(path)))
    }

    /// For a measurement of the directory `path`.
    pub(super) fn measuring(settings: IoSettings, path: &Path) -> Self {
        Self { is_measuring: true, ..Self::new(settings, path, Arc::default()) }
    }

    fn new(settings: IoSettings, path: &Path, counters: Arc<Counters>) -> Self {
        let (place, is_refused) = (path.display().to_string(), AtomicBool::new(false));
        Self { settings, place, is_refused, is_measuring: false, counters }
    }

    /// How the next container is written.
    pub(super) fn method(&self) -> Method {
        let method = self.settings.method();
        if self.is_refused.load(Relaxed) { Method::BUFFERED } else { method }
    }

    /// Whether somebody wants direct writes although the file system does not say that it can do them.
    pub(super) fn is_forced(&self) -> bool {
        self.settings.mode == IoMode::Direct
    }

    /// From now on everything goes through the cache. Says so, once.
    pub(super) fn refuse_direct(&self, why: &str) {
        if !self.is_refused.swap(true, Relaxed)
            && !self.is_measuring
            && let Some(tell) = LISTENER.get()
        {
            let place = &self.place;
            tell(&format!(
                "{place} cannot be written with direct I/O ({why}), so it is written through the cache of the system. \
                 Nothing is lost. To measure again: icecore pool tune {place}"
            ));
        }
    }
}

fn read(root: &OwnedFd, name: &str) -> Option<IoSettings> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(fs::openat(root, name, flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    Some(IoSettings::decode(&bytes))
}
