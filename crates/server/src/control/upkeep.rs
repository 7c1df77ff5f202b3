//! Periodic tasks.

use super::{Control, SERVER};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How often [`Control::upkeep`] is due when nothing wakes it.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);
/// The server's certificate is renewed when a third of its life is left: 30 days.
const RENEW_BEFORE_SECS: i64 = pki::certificate_authority::SERVER_SECS / 3;

/// A command that is pending for longer fails: a week.
const COMMAND_SECS: i64 = 7 * DAY_SECS;
/// How often old jobs are deleted.
const DELETE_EVERY_SECS: i64 = DAY_SECS;
const DAY_SECS: i64 = 86_400;

/// Default time for which ended jobs are kept: 400 days, a year and some time to compare.
pub const JOBS_KEPT_SECS: i64 = 400 * DAY_SECS;

/// When old jobs are deleted.
pub(super) struct Deleting {
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

impl Control {
    /// Returns when [`Control::upkeep`] should be called: after a minute, or at once when something must not wait for
    /// it.
    pub async fn upkeep_is_due(&self) {
        let _ = tokio::time::timeout(UPKEEP_EVERY, self.soon.notified()).await; // a minute is what it is
    }

    /// Renews the server's certificate, removes the keys of expired grants, fails old commands, deletes old jobs once
    /// a day, writes when nodes were last seen, and drops unused state. A failure is logged and retried the next
    /// time. Blocks.
    pub fn upkeep(&self) {
        let now_secs = self.now_secs();
        if *self.certificate_expires.lock() - now_secs < RENEW_BEFORE_SECS
            && let Err(error) = self.renew_certificate()
        {
            tracing::error!(%error, "cannot renew the server's certificate");
        }
        self.remove_stale_keys();
        if let Err(error) = self.catalog.give_up_commands(self.by(SERVER), now_secs - COMMAND_SECS)
        {
            tracing::error!(%error, "cannot expire old commands");
        }
        self.delete_old_jobs(now_secs);
        self.lose_silent_storage_servers();
        self.note_seen();
        self.revocations.tidy();
    }

    /// Sets after how many seconds ended jobs and commands are deleted.
    pub fn keep_jobs(&self, secs: u64) {
        let secs = i64::try_from(secs).unwrap_or(i64::MAX);
        self.deleting.kept_secs.store(secs, Ordering::Relaxed);
    }

    fn delete_old_jobs(&self, now_secs: i64) {
        if !self.deleting.is_due(now_secs) {
            return;
        }
        let before = now_secs.saturating_sub(self.deleting.kept_secs.load(Ordering::Relaxed));
        match self.catalog.delete_old(self.by(SERVER), before) {
            Ok(rows) => {
                self.deleting.done_at.store(now_secs, Ordering::Relaxed);
                tracing::debug!(rows, "deleted old jobs and commands");
            }
            Err(error) => tracing::error!(%error, "cannot delete old jobs"),
        }
    }
}
