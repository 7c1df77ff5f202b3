//! All sessions: those that are attached, and those that wait for their node to come back.

pub use super::session::Session as LiveSession;
use super::session::{Session, SessionPermit};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use transport::quota::Quota;

/// Maximum number of sessions of one node. Those that wait for their node count, too: each holds memory,
/// and the lease.
pub(super) const NODE_SESSIONS_MAX: usize = 16;

/// How long a session waits for another one of its source to end.
const ENDED_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Sessions by name.
pub struct Sessions {
    all: Mutex<FxHashMap<[u8; 16], Arc<Session>>>,
    /// Permits for the sessions of each node, by its name.
    permits: Quota<String>,
    /// Promises of all sessions of a node, by its name.
    promised: Mutex<FxHashMap<String, Arc<AtomicUsize>>>,
}

impl Default for Sessions {
    fn default() -> Self {
        let (all, promised) = Default::default();
        Self { all, permits: Quota::new(NODE_SESSIONS_MAX), promised }
    }
}

impl Sessions {
    /// Adds a session; or says from where another one of its node backs up the same source right now. One that ends at
    /// this moment, such as that of a process that was killed, is waited for.
    pub(super) fn enter(&self, session: &Arc<Session>) -> Result<(), IpAddr> {
        let begun = Instant::now();
        loop {
            let mut all = self.all.lock();
            let busy = all.values().find_map(|other| other.is_backing_up(session));
            let Some(from) = busy else {
                all.insert(session.token.0, session.clone());
                return Ok(());
            };
            drop(all);
            if begun.elapsed() > ENDED_WITHIN {
                return Err(from);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// A permit for one more session of `node`, if there is one left.
    pub(super) fn permit(&self, node: &str) -> Option<SessionPermit> {
        let permit = self.permits.acquire(node.to_owned())?;
        Some(SessionPermit { permit, promised: self.promised(node) })
    }

    /// The counter of promises of `node`.
    fn promised(&self, node: &str) -> Arc<AtomicUsize> {
        let mut promised = self.promised.lock();
        promised.retain(|_, count| Arc::strong_count(count) > 1);
        promised.entry(node.to_owned()).or_default().clone()
    }

    /// The session `name`, for the node of this name that knows its secret.
    pub(super) fn find(
        &self,
        name: [u8; 16],
        secret: [u8; 16],
        node: &str,
    ) -> Option<Arc<Session>> {
        let found = self.all.lock().get(&name).cloned()?;
        // The name alone is random enough; the secret makes that a look over a shoulder does not do.
        (found.token.1 == secret && found.node.name == node).then_some(found)
    }

    pub(super) fn remove(&self, session: &Session) {
        self.all.lock().remove(&session.token.0);
    }

    /// Removes and returns those whose node did not come back.
    pub(super) fn expired(&self) -> Vec<Arc<Session>> {
        self.take_if(Session::is_expired)
    }

    /// Removes and returns those of which `is_over` is true.
    pub(super) fn take_if(&self, is_over: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let mut all = self.all.lock();
        let (gone, kept) = all.drain().partition(|(_, session)| is_over(session));
        *all = kept;
        let gone: FxHashMap<[u8; 16], Arc<Session>> = gone;
        gone.into_values().collect()
    }

    /// Number of those in the domain in `folder` that are not committed.
    pub(super) fn open_in(&self, folder: &Path) -> usize {
        let all = self.all.lock();
        all.values().filter(|it| it.access.path == folder && !it.is_committed()).count()
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.lock().is_empty()
    }
}
