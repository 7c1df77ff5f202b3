//! The storage servers that are there, with their nodes and jobs.

use super::moves::StorageMoves;
use crate::jobs::Jobs;
use api::Name;
use api::status::{KeptLocks, StorageKeptLocks};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use server_contract::access_control::{JobEnd, JobNo, Node};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A storage server without a heartbeat for this long is shown as disconnected.
const AWAY_AFTER: Duration = Duration::from_secs(10);
/// After this long its jobs are lost; when it reports them again they resume.
const SILENT_MAX: Duration = Duration::from_secs(300);

/// After this long a job is lost of which its storage server does not tell any more: what a heartbeat has no room for
/// comes with a later one.
const UNTOLD_MAX: Duration = Duration::from_secs(60);
/// So many heartbeats of a storage server are taken at once: one, and one whose storage server gave it up.
const ENTERED_MAX: u32 = 2;

/// Storage servers that have sent a heartbeat, and their jobs.
pub(crate) struct StorageServerTable {
    states: Mutex<FxHashMap<Name, Arc<Mutex<StorageServerState>>>>,
    jobs: Arc<Jobs>,
    /// How many heartbeats of each are being taken.
    entered: Mutex<FxHashMap<Name, u32>>,
    /// Moves between their pools.
    pub(crate) moves: StorageMoves,
}

/// Clocks of a site may differ by so much. Snapshots that were received ten minutes before an older one are suspect.
const CLOCKS_DIFFER_SECS: u64 = 300;

/// A storage server, as of its last heartbeat.
#[derive(Default)]
pub(super) struct StorageServerState {
    pub(super) at: Option<Instant>,
    /// The run to which the job numbers belong.
    pub(super) run: String,
    pub(super) nodes: FxHashMap<String, Node>,
    pub(super) jobs: FxHashMap<u64, ToldJob>,
    pub(super) port: u16,
    pub(super) written_secs: i64,
    pub(super) kept_locks: KeptLocksNews,
    /// Pools that cannot be used, and why.
    pub(super) pool_faults: Vec<String>,
    /// A pool that takes new domains lies in a bucket.
    pub(super) has_bucket: bool,
    /// By how much its clock was ahead of this machine's when the heartbeat came.
    pub(super) clock_ahead_secs: i64,
}

/// A job of which a storage server tells.
#[derive(Clone, Copy)]
pub(super) struct ToldJob {
    pub(super) id: JobNo,
    /// When it was told last.
    pub(super) at: Instant,
}

/// What was heard of locks that are kept on a storage server.
#[derive(Default)]
pub(super) enum KeptLocksNews {
    /// It has none, or says nothing of it yet.
    #[default]
    None,
    /// What it keeps.
    Kept(KeptLocks),
    /// This was kept, and the run that has begun since has not told of it.
    Before(KeptLocks),
}

impl StorageServerState {
    fn is_there(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() < AWAY_AFTER)
    }

    /// What is kept there of locked snapshots. Where nothing is heard of it any more, that is a problem.
    fn kept_locks(&self) -> Option<KeptLocks> {
        let (mut kept, why) = match &self.kept_locks {
            KeptLocksNews::None => return None,
            KeptLocksNews::Kept(kept) if self.is_there() => return Some(kept.clone()),
            KeptLocksNews::Kept(kept) => (kept.clone(), "the storage server is away"),
            KeptLocksNews::Before(kept) => {
                (kept.clone(), "nothing was heard of locks since the storage server restarted")
            }
        };
        kept.problems.insert(0, format!("{why}: what is kept there now is unknown"));
        Some(kept)
    }
}

impl KeptLocksNews {
    /// What a new run of the storage server has not told yet.
    pub(super) fn of_a_new_run(self) -> Self {
        match self {
            Self::Kept(kept) | Self::Before(kept) => Self::Before(kept),
            Self::None => Self::None,
        }
    }

    /// Takes what a heartbeat says. One that says nothing changes nothing.
    pub(super) fn told(&mut self, kept: Option<&KeptLocks>) {
        let Some(kept) = kept else { return };
        let mut kept = kept.clone();
        kept.problems.truncate(KeptLocks::PROBLEMS_MAX);
        *self = Self::Kept(kept);
    }
}

/// A heartbeat that is being taken.
pub(crate) struct Entered {
    table: Arc<StorageServerTable>,
    storage: Name,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut entered = self.table.entered.lock();
        if let Some(count) = entered.get_mut(&self.storage) {
            *count -= 1;
        }
        entered.retain(|_, count| *count > 0);
    }
}

impl StorageServerTable {
    /// Jobs of storage servers that are away are lost in `jobs`.
    pub(crate) fn new(jobs: Arc<Jobs>) -> Self {
        let (states, entered, moves) = Default::default();
        Self { states, jobs, entered, moves }
    }

    /// The state of a storage server.
    pub(super) fn of(&self, storage: &Name) -> Arc<Mutex<StorageServerState>> {
        self.states.lock().entry(storage.clone()).or_default().clone()
    }

    fn all(&self) -> Vec<Arc<Mutex<StorageServerState>>> {
        self.states.lock().values().cloned().collect()
    }

    /// Whether a storage server has sent a heartbeat lately.
    pub(crate) fn is_connected(&self, storage: &Name) -> bool {
        let state = self.states.lock().get(storage).cloned();
        state.is_some_and(|state| state.lock().is_there())
    }

    /// When a storage server has sent its last heartbeat.
    pub(crate) fn heard(&self, storage: &Name) -> Option<Instant> {
        let state = self.states.lock().get(storage).cloned();
        state.and_then(|state| state.lock().at)
    }

    /// Pools of a storage server that cannot be used, and why.
    pub(crate) fn pool_faults(&self, storage: &Name) -> Vec<String> {
        let state = self.states.lock().get(storage).cloned();
        state.map(|state| state.lock().pool_faults.clone()).unwrap_or_default()
    }

    /// By how many seconds the clock of a storage server is ahead, or behind if negative; `None` if it is right.
    pub(crate) fn clock_ahead_secs(&self, storage: &Name) -> Option<i64> {
        let state = self.states.lock().get(storage).cloned()?;
        let ahead_secs = state.lock().clock_ahead_secs;
        (ahead_secs.unsigned_abs() >= CLOCKS_DIFFER_SECS).then_some(ahead_secs)
    }

    /// Whether new domains of a storage server can lie in a bucket, as it has said lately.
    pub(crate) fn has_bucket(&self, storage: &Name) -> bool {
        let state = self.states.lock().get(storage).cloned();
        state.is_some_and(|state| state.lock().has_bucket)
    }

    /// Nodes that are connected to storage servers.
    pub(crate) fn connected_nodes(&self) -> FxHashSet<String> {
        let mut found = FxHashSet::default();
        for state in self.all() {
            let state = state.lock();
            if state.is_there() {
                found.extend(state.nodes.values().map(|node| node.name.clone()));
            }
        }
        found
    }

    /// What is kept on storage servers of locked snapshots, by name.
    pub(crate) fn all_kept_locks(&self) -> Vec<StorageKeptLocks> {
        let states: Vec<_> =
            self.states.lock().iter().map(|(name, state)| (name.clone(), state.clone())).collect();
        let helpers = states.into_iter().filter_map(|(storage, state)| {
            let kept = state.lock().kept_locks()?;
            Some(StorageKeptLocks { storage, kept })
        });
        let mut helpers: Vec<_> = helpers.collect();
        helpers.sort_by(|one, other| one.storage.as_str().cmp(other.storage.as_str()));
        helpers
    }

    /// Marks the jobs of a stopped storage server as lost.
    pub(super) fn lose_jobs(&self, state: &mut StorageServerState) {
        for (_, job) in state.jobs.drain() {
            self.jobs.end(job.id, &JobEnd::Lost, "");
        }
    }

    /// Marks those jobs as lost of which the storage server does not tell any more, with `told` as what it tells now.
    pub(super) fn lose_untold(&self, state: &mut StorageServerState, told: &FxHashSet<u64>) {
        state.jobs.retain(|number, job| {
            if told.contains(number) {
                job.at = Instant::now();
            }
            let is_told = job.at.elapsed() < UNTOLD_MAX;
            if !is_told {
                self.jobs.end(job.id, &JobEnd::Lost, "");
            }
            is_told
        });
    }

    /// A heartbeat of this storage server is being taken until what is returned is dropped; `None` if too many are.
    pub(crate) fn enter(self: &Arc<Self>, storage: &Name) -> Option<Entered> {
        let mut entered = self.entered.lock();
        let count = entered.entry(storage.clone()).or_default();
        if *count >= ENTERED_MAX {
            return None;
        }
        *count += 1;
        Some(Entered { table: self.clone(), storage: storage.clone() })
    }

    /// Drops the state of a revoked storage server.
    pub(super) fn remove(&self, storage: &Name) {
        let state = self.states.lock().remove(storage);
        if let Some(state) = state {
            self.lose_jobs(&mut state.lock());
        }
    }

    /// Marks the jobs of storage servers without heartbeats as lost.
    pub(crate) fn lose_silent(&self) {
        for state in self.all() {
            let state = &mut *state.lock();
            if state.at.is_some_and(|at| at.elapsed() > SILENT_MAX) {
                self.lose_jobs(state);
                state.nodes.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Control;
    use api::jobs::JobState;

    /// It was in the list of running jobs until the server was started again, and policies waited for it.
    #[test]
    fn a_job_of_which_its_storage_server_tells_no_more_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::open(folder.path(), &[]).unwrap();
        let (table, jobs) = (StorageServerTable::new(control.jobs.clone()), &control.jobs);
        let [told, late, gone] = [(); 3].map(|()| jobs.begin("web", "web", "backup", "/"));
        let long_ago = Instant::now().checked_sub(UNTOLD_MAX).unwrap();
        let mut state = StorageServerState::default();
        let now = Instant::now();
        for (number, id, at) in [(1, told, long_ago), (2, late, now), (3, gone, long_ago)] {
            state.jobs.insert(number, ToldJob { id, at });
        }
        table.lose_untold(&mut state, &FxHashSet::from_iter([1]));
        let states = [told, late, gone].map(|id| jobs.job(id).unwrap().state);
        assert_eq!(states, [JobState::Running, JobState::Running, JobState::Lost]);
        assert_eq!(state.jobs.len(), 2);
    }

    /// Each has lists of some megabytes, and takes the lock of its storage server: they filled all threads.
    #[test]
    fn few_heartbeats_of_a_storage_server_are_taken_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::open(folder.path(), &[]).unwrap();
        let table = Arc::new(StorageServerTable::new(control.jobs.clone()));
        let [bad, good] = ["bad", "good"].map(|name| name.parse().unwrap());
        let mut entered: Vec<_> = (0..4).filter_map(|_| table.enter(&bad)).collect();
        assert_eq!(entered.len(), 2);
        assert!(table.enter(&good).is_some(), "another one does not wait for it");
        entered.pop();
        assert!(table.enter(&bad).is_some());
        drop(entered);
        assert!(table.entered.lock().is_empty());
    }
}
