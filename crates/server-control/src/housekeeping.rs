//! Periodic tasks.

use crate::admission::Admission;
use crate::issued_keys::IssuedKeys;
use crate::machine_clock::MachineClock;
use crate::node_activity::NodeActivity;
use crate::open::Parts;
use crate::server_identity::ServerIdentity;
use crate::storage_servers::StorageServerTable;
use crate::{SERVER, by, now_secs};
use catalog::Catalog;
use clock::Reading;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How often [`Housekeeping::run`] is due when nothing wakes it.
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(60);

/// How often it is looked whether keys that were removed are in use again.
const KEYS_LOOKED_EVERY: Duration = Duration::from_secs(300);

/// A command that is pending for longer fails: a week.
const COMMAND_SECS: i64 = 7 * DAY_SECS;
/// How often old jobs are deleted.
const DELETE_EVERY_SECS: i64 = DAY_SECS;
const DAY_SECS: i64 = 86_400;

/// Default time for which ended jobs are kept: 400 days, a year and some time to compare.
const JOBS_KEPT_SECS: i64 = 400 * DAY_SECS;

/// When old jobs are deleted.
pub(crate) struct Deleting {
    kept_secs: AtomicI64,
    done_at: AtomicI64,
}

impl Default for Deleting {
    fn default() -> Self {
        Self { kept_secs: AtomicI64::new(JOBS_KEPT_SECS), done_at: AtomicI64::new(0) }
    }
}

impl Deleting {
    /// Whether a day has passed since the last time, or the server has just started.
    fn is_due(&self, now_secs: i64) -> bool {
        now_secs - self.done_at.load(Ordering::Relaxed) >= DELETE_EVERY_SECS
    }
}

/// Does what is due.
pub(crate) struct Housekeeping {
    catalog: Arc<Catalog>,
    identity: Arc<ServerIdentity>,
    activity: Arc<NodeActivity>,
    admission: Arc<Admission>,
    issued: Arc<IssuedKeys>,
    clock: Arc<MachineClock>,
    storage_servers: Arc<StorageServerTable>,
    deleting: Deleting,
    /// When it was looked for keys that came back.
    looked: Mutex<Option<Instant>>,
    /// Wakes it early.
    wake: Arc<Notify>,
}

impl Housekeeping {
    /// Of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            identity: parts.identity.clone(),
            activity: parts.activity.clone(),
            admission: parts.admission.clone(),
            issued: parts.issued.clone(),
            clock: parts.clock.clone(),
            storage_servers: parts.table.clone(),
            wake: parts.wake.clone(),
            deleting: Deleting::default(),
            looked: Mutex::default(),
        }
    }

    /// Returns when [`Housekeeping::run`] should be called: after a minute, or at once when something must not wait for
    /// it.
    pub(crate) async fn is_due(&self) {
        let _ = tokio::time::timeout(HOUSEKEEPING_EVERY, self.wake.notified()).await; // a minute is what it is
    }

    /// Renews the server's certificate, removes the keys of expired grants, fails old commands, deletes old jobs once
    /// a day, writes when nodes were last seen, and drops unused state. A failure is logged and retried the next
    /// time. Blocks.
    pub(crate) fn run(&self) {
        let now_secs = now_secs();
        if let Err(error) = self.identity.renew_if_due(now_secs) {
            tracing::error!(%error, "cannot renew the server's certificate");
        }
        self.issued.remove_stale();
        self.remove_keys_again();
        match self.clock.read() {
            Ok(Reading { secs, doubt: None }) => self.delete_by_time(secs),
            Ok(_) => tracing::debug!("the clock is in doubt: nothing is old"),
            Err(error) => tracing::error!(%error, "cannot read the clock"),
        }
        self.storage_servers.lose_silent();
        self.activity.write_to(&self.catalog);
        self.admission.tidy();
        self.admission.list_revoked();
    }

    /// At the start, and from time to time: a domain may be brought back from a copy at any time.
    pub(crate) fn remove_keys_again(&self) {
        let mut looked = self.looked.lock();
        if looked.is_none_or(|looked| looked.elapsed() >= KEYS_LOOKED_EVERY) {
            *looked = Some(Instant::now());
            self.issued.remove_again();
        }
    }

    /// Sets after how many seconds ended jobs and commands are deleted.
    pub(crate) fn keep_jobs(&self, secs: u64) {
        let secs = i64::try_from(secs).unwrap_or(i64::MAX);
        self.deleting.kept_secs.store(secs, Ordering::Relaxed);
    }

    fn delete_by_time(&self, now_secs: i64) {
        if let Err(error) = self.catalog.give_up_commands(by(SERVER), now_secs - COMMAND_SECS) {
            tracing::error!(%error, "cannot expire old commands");
        }
        self.delete_old_jobs(now_secs);
    }

    fn delete_old_jobs(&self, now_secs: i64) {
        if !self.deleting.is_due(now_secs) {
            return;
        }
        let before = now_secs.saturating_sub(self.deleting.kept_secs.load(Ordering::Relaxed));
        match self.catalog.delete_old(by(SERVER), before) {
            Ok(rows) => {
                self.deleting.done_at.store(now_secs, Ordering::Relaxed);
                tracing::debug!(rows, "deleted old jobs and commands");
            }
            Err(error) => tracing::error!(%error, "cannot delete old jobs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Control;
    use api::jobs::{JobState, Progress};
    use catalog::jobs::{Ending, NewJob};

    /// A job that is old by any of the two clocks.
    fn with_old_job(control: &Control) -> u64 {
        let begun = now_secs() - 900 * DAY_SECS;
        let new = NewJob { node: "web", domain: "web", kind: "backup", what: "/", begun };
        let id = control.catalog.begin_job(new).unwrap();
        let (state, progress) = (JobState::Complete, &Progress::default());
        let (snapshot, error, cause, cancelled, report) = (None, None, None, false, "");
        let ended = begun + 60;
        let ending = Ending { ended, state, progress, snapshot, error, cause, cancelled, report };
        control.catalog.end_job(id, ending).unwrap();
        id
    }

    #[test]
    fn nothing_is_old_by_a_clock_in_doubt() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::open(folder.path(), &[]).unwrap();
        let job = with_old_job(&control);
        let year_ago = clock::Tick { wall_secs: now_secs() - 365 * DAY_SECS, boot: 1, up_secs: 5 };
        let stored = serde_json::to_string(&clock::Clock::start(year_ago)).unwrap();
        control.catalog.set_clock(&stored).unwrap();
        drop(control);
        let control = Control::open(folder.path(), &[]).unwrap();
        control.housekeeping();
        assert!(control.catalog.job(job).is_ok(), "nobody knows how late it is");
        control.housekeeping.clock.confirm(crate::by("admin")).unwrap();
        control.housekeeping();
        assert!(control.catalog.job(job).is_err(), "it is right: the job is old");
    }
}
