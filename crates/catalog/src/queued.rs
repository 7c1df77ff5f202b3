//! What administrators do with single jobs of policies: let them wait, go on, come first, or be done again.

use crate::audit::note;
use crate::schedules::{close_command, has_open_job};
use crate::sql::{Row, Sql, values};
use crate::{By, Catalog, Error, Result};
use api::jobs::JobState;

impl Catalog {
    /// Suspends a job that waits in its queue. Returns whether it did.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn suspend_queued(&self, by: By<'_>, id: u64) -> Result<bool> {
        let update = "UPDATE jobs SET state = 'suspended'
             WHERE id = $1 AND state = 'queued' AND policy IS NOT NULL";
        self.change(|change| changed(change, by, (id, "job.suspend", ""), update))
    }

    /// Puts a suspended job back into its queue. Its time is over by then or not: an administrator wants it now.
    /// Returns whether it did.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn resume_suspended(&self, by: By<'_>, id: u64) -> Result<bool> {
        let update = "UPDATE jobs SET state = 'queued', until = NULL, cancelled = 0
             WHERE id = $1 AND state = 'suspended'";
        self.change(|change| changed(change, by, (id, "job.resume", ""), update))
    }

    /// Sets the priority of a job that waits or is suspended. Returns whether it did.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn set_priority(&self, by: By<'_>, id: u64, priority: u32) -> Result<bool> {
        self.change(|change| {
            let update = "UPDATE jobs SET priority = $2
                 WHERE id = $1 AND state IN ('queued', 'suspended') AND policy IS NOT NULL";
            let rows = change.execute(update, values![id, priority])?;
            if rows > 0 {
                let detail = format!("priority {priority}");
                note(change, by, "job.priority", &id.to_string(), &detail)?;
            }
            Ok(rows > 0)
        })
    }

    /// Queues what an ended job was to do, once more; `None` if its source has an open job.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such job of a policy, or it has not ended; [`Error::Database`].
    pub fn retry(&self, by: By<'_>, id: u64) -> Result<Option<u64>> {
        self.change(|change| {
            let select = "SELECT node, source FROM jobs WHERE id = $1 AND task IS NOT NULL
                 AND state NOT IN ('queued', 'suspended', 'running')";
            let names = |row: &Row| Ok((row.get::<String>(0)?, row.get::<String>(1)?));
            let missing = || Error::Missing { what: "ended job of a policy", name: id.to_string() };
            let (node, source) = change.row(select, values![id], names)?.ok_or_else(missing)?;
            if has_open_job(change, &node, &source)? {
                return Ok(None);
            }
            let new: u64 = change.one(AGAIN, values![id, by.now_secs], |row| row.get(0))?;
            note(change, by, "job.retry", &id.to_string(), &format!("as job {new}"))?;
            Ok(Some(new))
        })
    }
}

/// Of no schedule: what an administrator starts settles no run.
const AGAIN: &str =
    "INSERT INTO jobs (node, domain, kind, what, begun, state, policy, source, unit,
         priority, due, attempt, late, runs, task, source_name, class)
     SELECT node, domain, kind, what, $2, 'queued', policy, source, unit,
         priority, $2, 1, 0, 1, task, source_name, class FROM jobs WHERE id = $1 RETURNING id";

fn changed(
    change: &Sql<'_>,
    by: By<'_>,
    (id, action, detail): (u64, &str, &str),
    update: &str,
) -> Result<bool> {
    let rows = change.execute(update, values![id])?;
    if rows > 0 {
        note(change, by, action, &id.to_string(), detail)?;
    }
    Ok(rows > 0)
}

/// A job whose session was ended so that it waits: it has not ended, and its node does not do its command again.
pub(crate) fn suspend_running(change: &Sql<'_>, id: u64) -> Result<()> {
    let select = "SELECT command FROM jobs WHERE id = $1";
    let command: Option<u64> = change.one(select, values![id], |row| row.get(0))?;
    close_command(change, command, JobState::Cancelled)?;
    let update = "UPDATE jobs SET state = 'suspended', ended = NULL, command = NULL, cancelled = 0,
         error = NULL, cause = NULL WHERE id = $1";
    change.execute(update, values![id])?;
    Ok(())
}

#[cfg(test)]
mod tests;
