//! Deletes jobs with their logs, and commands, that ended long ago. The audit log stays complete.
//!
//! Numbers rise with time, so the old ones stand at the beginning: a look ends with the first that is young, and no
//! index is needed. Each batch is one transaction: whoever begins a job meanwhile waits for one of them, not for all.

use crate::audit::note;
use crate::sql::{Sql, values};
use crate::{By, Catalog, Result};

/// Rows that are looked at, and deleted, at a time.
const BATCH: i64 = 500;

/// A table with things that end.
struct Table {
    name: &'static str,
    /// When a row was made.
    made: &'static str,
    /// Whether it ended before `$1`.
    is_old: &'static str,
    action: &'static str,
}

const JOBS: Table = Table {
    name: "jobs",
    made: "begun",
    is_old: "ended < $1 AND state NOT IN ('queued', 'running')",
    action: "job.delete",
};

/// When a command ended is not noted: it was not before it was made.
const COMMANDS: Table = Table {
    name: "commands",
    made: "made",
    is_old: "made < $1 AND state IN ('done', 'failed')",
    action: "command.delete",
};

/// The next rows of a table.
struct Batch {
    /// The number of the last one.
    last: i64,
    /// How many are to be deleted.
    old: i64,
    /// None behind them is old.
    is_last: bool,
}

impl Catalog {
    /// Deletes jobs that ended before `before`, and ended commands that are older. Returns the number of rows.
    /// Running jobs and pending commands stay, however old.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn delete_old(&self, by: By<'_>, before: i64) -> Result<u64> {
        Ok(self.delete_old_of(&JOBS, by, before)? + self.delete_old_of(&COMMANDS, by, before)?)
    }

    fn delete_old_of(&self, table: &Table, by: By<'_>, before: i64) -> Result<u64> {
        let (mut after, mut deleted) = (0, 0);
        loop {
            let batch = self.look_long(|look| table.batch(look, before, after))?;
            if batch.old > 0 {
                deleted += self.delete_batch(table, by, before, [after, batch.last])?;
            }
            if batch.is_last {
                return Ok(deleted);
            }
            after = batch.last;
        }
    }

    fn delete_batch(
        &self,
        table: &Table,
        by: By<'_>,
        before: i64,
        [after, last]: [i64; 2],
    ) -> Result<u64> {
        let Table { name, is_old, action, .. } = table;
        self.change(|change| {
            let sql = format!("DELETE FROM {name} WHERE id > $2 AND id <= $3 AND {is_old}");
            let rows = change.execute(&sql, values![before, after, last])?;
            if *name == JOBS.name {
                let logs = "DELETE FROM job_log WHERE job > $1 AND job <= $2
                     AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_log.job)";
                change.execute(logs, values![after, last])?;
            }
            note(change, by, action, name, &format!("{rows} from before {before}"))?;
            Ok(rows)
        })
    }
}

impl Table {
    /// The rows that follow number `after`.
    fn batch(&self, look: &Sql<'_>, before: i64, after: i64) -> Result<Batch> {
        let Self { name, made, is_old, .. } = self;
        let select = format!(
            "SELECT coalesce(max(id), 0), CAST(coalesce(sum(old), 0) AS BIGINT), count(*),
                    coalesce(max(made), 0)
             FROM (SELECT id, CASE WHEN {is_old} THEN 1 ELSE 0 END AS old, {made} AS made
                   FROM {name} WHERE id > $2 ORDER BY id LIMIT {BATCH}) AS batch"
        );
        look.one(&select, values![before, after], |row| {
            let (rows, youngest): (i64, i64) = (row.get(2)?, row.get(3)?);
            let is_last = rows < BATCH || youngest >= before;
            Ok(Batch { last: row.get(0)?, old: row.get(1)?, is_last })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{Ending, NewJob};
    use crate::testing::{BY, On, on_both};
    use api::jobs::{JobFilter, JobState, Progress};

    fn begin(catalog: &Catalog, begun: i64) -> u64 {
        let (node, domain, kind, what) = ("web", "web", "backup", "/etc");
        catalog.begin_job(NewJob { node, domain, kind, what, begun }).unwrap()
    }

    fn end(catalog: &Catalog, job: u64, ended: i64) {
        let (state, progress) = (JobState::Complete, &Progress::default());
        let (snapshot, error, cause, cancelled, report) = (None, None, None, false, "{}");
        let end = Ending { ended, state, progress, snapshot, error, cause, cancelled, report };
        catalog.end_job(job, end).unwrap();
    }

    fn left(catalog: &Catalog) -> Vec<u64> {
        let filter = JobFilter { limit: Some(1000), ..JobFilter::default() };
        let mut left: Vec<_> = catalog.jobs(&filter).unwrap().iter().map(|job| job.id).collect();
        left.reverse();
        left
    }

    fn jobs_go_when_they_ended_long_ago_and_never_while_they_run(on: On) {
        let (_folder, catalog) = on.catalog();
        let [running, long, old, young] = [10, 20, 30, 500].map(|begun| begin(&catalog, begun));
        end(&catalog, long, 600);
        end(&catalog, old, 40);
        end(&catalog, young, 510);
        assert_eq!(catalog.delete_old(BY, 100).unwrap(), 1);
        assert_eq!(left(&catalog), [running, long, young]);
        assert!(catalog.job_log(old).unwrap().is_empty(), "its log goes with it");
        assert_eq!(catalog.job_log(long).unwrap().len(), 2);
        assert_eq!(catalog.delete_old(BY, 100).unwrap(), 0);
        assert_eq!(begin(&catalog, 700), young + 1, "a number is never given again");
        let audit = catalog.audit_entries(None, 10).unwrap();
        assert_eq!(audit.len(), 1, "what deletes nothing notes nothing: {audit:?}");
        assert_eq!(audit[0].detail, "1 from before 100");
        assert_eq!(catalog.audit_verify().unwrap().broken_at, None);
    }

    fn more_than_a_batch_goes_batch_by_batch(on: On) {
        let (_folder, catalog) = on.catalog();
        catalog
            .change(|change| {
                for id in 1..=2 * BATCH + 10 {
                    change.execute(
                        "INSERT INTO jobs (id, node, domain, kind, what, begun, ended, state)
                         VALUES ($1, 'web', 'web', 'backup', '', $1, $1, 'complete')",
                        values![id],
                    )?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(catalog.delete_old(BY, 2 * BATCH + 1).unwrap(), 2 * BATCH as u64);
        assert_eq!(left(&catalog).len(), 10);
        assert_eq!(catalog.audit_entries(None, 10).unwrap().len(), 2);
    }

    on_both![
        jobs_go_when_they_ended_long_ago_and_never_while_they_run,
        more_than_a_batch_goes_batch_by_batch,
    ];
}
