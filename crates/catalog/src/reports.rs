//! Reports over many jobs. Each reads at most a page, or sums in the database.

use crate::jobs::{BEHIND, COLUMNS as JOB_COLUMNS, job};
use crate::sql::{Row, Sql, ToValue, Value, Word, values};
use crate::{Catalog, Result};
use api::jobs::{Job, JobState};
use api::reports::{BackupRow, CauseRow, CostRow, Figures, ReportFilter, advice};

/// Most rows of a page.
pub const ROWS_MAX: u32 = 1_000;
/// Jobs that are looked at for a page, at most: others than backups that made a snapshot are passed over.
const SEEN_MAX: u32 = 2 * ROWS_MAX;
const FIGURES: &str = "seen_objects, failed_objects, incomplete_objects, seen_bytes, read_bytes,
    before_dedup_bytes, new_bytes, stored_bytes, cpu_ms, elapsed_ms, task";

/// The highest sum that is shown.
const SUM_MAX: &str = "9.0e18";

/// The task, among the figures.
const TASK: usize = 10;

/// Where a page ends: when its last job began, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// When the job began.
    pub begun: i64,
    /// Its number.
    pub id: u64,
}

/// Keeps what the report of a job says, in the running transaction.
pub(crate) fn keep_figures(change: &Sql<'_>, job: u64, report: &str) -> Result<()> {
    let figures = Figures::of_report(report);
    if figures == Figures::default() {
        return Ok(());
    }
    change.execute(
        "UPDATE jobs SET seen_objects = $2, failed_objects = $3, incomplete_objects = $4,
             seen_bytes = $5, read_bytes = $6, before_dedup_bytes = $7, new_bytes = $8,
             stored_bytes = $9, cpu_ms = $10, elapsed_ms = $11 WHERE id = $1",
        values![
            job,
            figures.objects,
            figures.objects_failed,
            figures.objects_incomplete,
            figures.bytes,
            figures.bytes_read,
            figures.bytes_before_dedup,
            figures.bytes_new,
            figures.bytes_stored,
            figures.cpu_ms,
            figures.elapsed_ms,
        ],
    )?;
    Ok(())
}

impl Catalog {
    /// Backups that made a snapshot, those that began last first, and where the next page begins.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn backup_rows(
        &self,
        filter: &ReportFilter,
        after: Option<Cursor>,
    ) -> Result<(Vec<BackupRow>, Option<Cursor>)> {
        let rows_max = filter.limit.unwrap_or(ROWS_MAX).clamp(1, ROWS_MAX) as usize;
        let (select, values) = jobs_of(filter, after)?;
        let read = |row: &Row| Ok((job(row)?, (figures(row)?, level(row)?)));
        let seen = self.look_long(|look| look.rows(&select, &values, read))?;
        let is_full = seen.len() >= SEEN_MAX as usize;
        let mut last = seen.last().map(|(job, _)| cursor(job)).filter(|_| is_full);
        let mut rows = Vec::new();
        for (job, said) in seen.into_iter().filter(|(job, _)| is_backup(job)) {
            if rows.len() >= rows_max {
                // There is a further one.
                last = rows.last().map(|row: &BackupRow| Cursor { begun: row.begun, id: row.job });
                break;
            }
            rows.push(backup_row(job, said));
        }
        Ok((rows, last))
    }

    /// What the backups of each node cost that began in this time.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn costs(&self, since: i64, until: i64) -> Result<Vec<CostRow>> {
        let [cpu_ms, elapsed_ms, read_bytes] = ["cpu_ms", "elapsed_ms", "read_bytes"].map(sum);
        let select = format!(
            "SELECT node, count(*), count(cpu_ms), {cpu_ms}, {elapsed_ms}, {read_bytes}
             FROM jobs WHERE begun >= $1 AND begun < $2 AND CASE WHEN kind = 'backup'
                AND state IN ('complete', 'partial') THEN 1 ELSE 0 END = 1
             GROUP BY node ORDER BY node"
        );
        self.look_long(|look| look.rows(&select, values![since, until], cost_row))
    }

    /// When the oldest job began.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn oldest_job(&self) -> Result<Option<i64>> {
        let select = "SELECT begun FROM jobs ORDER BY begun, id LIMIT 1";
        self.look(|look| look.row(select, &[], |row| row.get(0)))
    }

    /// Jobs that did not end well, by cause, of those that began at `since` or later; the most jobs first.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn causes(&self, since: i64) -> Result<Vec<CauseRow>> {
        let select = "SELECT state, cause, count(*), count(DISTINCT node), max(id) FROM jobs
             WHERE state IN ('failed', 'lost', 'missed', 'partial', 'cancelled') AND begun >= $1
             GROUP BY state, cause ORDER BY 3 DESC, 1, 2";
        self.look_long(|look| {
            let mut causes = look.rows(select, values![since], cause_row)?;
            for row in &mut causes {
                let newest = "SELECT ended, error FROM jobs WHERE id = $1";
                let read = |row: &Row| Ok((row.get(0)?, row.get(1)?));
                (row.last, row.error) = look.one(newest, values![row.last_job], read)?;
            }
            Ok(causes)
        })
    }
}

/// The sum of a column. Nodes say these numbers, and one that lies must not spoil the report of all: a sum that no
/// column can hold would be an error of the database. Below 2^53 it is exact.
fn sum(column: &str) -> String {
    let sum = format!("sum(CAST({column} AS DOUBLE PRECISION))");
    format!("CAST(CASE WHEN {sum} > {SUM_MAX} THEN {SUM_MAX} ELSE {sum} END AS BIGINT)")
}

/// Jobs that began in the time of the filter. What is no backup is passed over by who reads: with a condition for it,
/// a database could take the index of kinds, and then sort all backups there are.
fn jobs_of(filter: &ReportFilter, after: Option<Cursor>) -> Result<(String, Vec<Value>)> {
    let mut values = Vec::new();
    let mut conditions = String::from("1 = 1");
    let mut and = |condition: &str, value: Value| {
        values.push(value);
        conditions += &format!(" AND {}", condition.replace('?', &format!("${}", values.len())));
    };
    if let Some(node) = &filter.node {
        and("node = ?", node.to_value()?);
    }
    if let Some(since) = filter.since {
        and("begun >= ?", since.to_value()?);
    }
    if let Some(until) = filter.until {
        and("begun < ?", until.to_value()?);
    }
    if let Some(after) = after {
        and("begun <= ?", after.begun.to_value()?);
        let begun = values.len();
        values.push(after.id.to_value()?);
        conditions += &format!(" AND (begun < ${begun} OR id < ${})", values.len());
    }
    let select = format!(
        "SELECT {JOB_COLUMNS}, {FIGURES} FROM jobs WHERE {conditions}
         ORDER BY begun DESC, id DESC LIMIT {SEEN_MAX}"
    );
    Ok((select, values))
}

fn cursor(job: &Job) -> Cursor {
    Cursor { begun: job.begun, id: job.id }
}

fn is_backup(job: &Job) -> bool {
    job.kind == "backup" && matches!(job.state, JobState::Complete | JobState::Partial)
}

fn backup_row(job: Job, (figures, level): (Figures, Option<String>)) -> BackupRow {
    let (policy, schedule, source) = match job.plan {
        Some(plan) => (Some(plan.policy), plan.schedule, Some(plan.source)),
        None => (None, None, None),
    };
    let Job { id, node, begun, ended, state, snapshot, .. } = job;
    BackupRow {
        job: id,
        node,
        policy,
        schedule,
        source,
        level,
        begun,
        ended,
        state,
        snapshot,
        figures,
    }
}

/// What a policy wanted of the run.
fn level(row: &Row) -> Result<Option<String>> {
    let task: Option<String> = row.get(BEHIND + TASK)?;
    let Some(task) = task else { return Ok(None) };
    let task: serde_json::Value = serde_json::from_str(&task).unwrap_or_default();
    let level = match (&task["since"], task["full"].as_bool()) {
        (_, Some(true)) => "complete",
        (serde_json::Value::Null, _) => "incremental",
        _ => "catch-up",
    };
    Ok(Some(level.to_owned()))
}

fn figures(row: &Row) -> Result<Figures> {
    let at = |at: usize| row.get(BEHIND + at);
    Ok(Figures {
        objects: at(0)?,
        objects_failed: at(1)?,
        objects_incomplete: at(2)?,
        bytes: at(3)?,
        bytes_read: at(4)?,
        bytes_before_dedup: at(5)?,
        bytes_new: at(6)?,
        bytes_stored: at(7)?,
        cpu_ms: at(8)?,
        elapsed_ms: at(9)?,
    })
}

fn cost_row(row: &Row) -> Result<CostRow> {
    Ok(CostRow {
        node: row.get(0)?,
        backups: row.get(1)?,
        measured: row.get(2)?,
        cpu_ms: row.get(3)?,
        elapsed_ms: row.get(4)?,
        bytes_read: row.get(5)?,
        cpu_percent: None,
        elapsed_percent: None,
    })
}

fn cause_row(row: &Row) -> Result<CauseRow> {
    let state = row.get::<Word<_>>(0)?.0;
    let cause = row.get::<Option<Word<_>>>(1)?.map(|word| word.0);
    Ok(CauseRow {
        state,
        cause,
        jobs: row.get(2)?,
        nodes: row.get(3)?,
        last_job: row.get(4)?,
        last: None,
        error: None,
        advice: advice(state, cause).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{Ending, NewJob};
    use crate::testing::{On, on_both};
    use api::jobs::{JobCause, Progress};

    fn run(
        catalog: &Catalog,
        node: &str,
        begun: i64,
        (state, cause): (JobState, Option<JobCause>),
    ) {
        let new = NewJob { node, domain: node, kind: "backup", what: "", begun };
        let id = catalog.begin_job(new).unwrap();
        let (progress, snapshot, cancelled) = (&Progress::default(), None, false);
        let error = cause.map(|_| "the disk is full");
        let report = r#"{"report":{"objects_inspected":7,"bytes_processed":50,"elapsed_secs":2.5,"cost":{"user_secs":0.5,"system_secs":0.5}}}"#;
        let report = if begun == 30 { "" } else { report };
        let ended = begun + 5;
        let end = Ending { ended, state, progress, snapshot, error, cause, cancelled, report };
        catalog.end_job(id, end).unwrap();
    }

    fn with_jobs(on: On) -> (tempfile::TempDir, Catalog) {
        let (folder, catalog) = on.catalog();
        let failed = (JobState::Failed, Some(JobCause::BackupFailed));
        run(&catalog, "web", 10, (JobState::Complete, None));
        run(&catalog, "db", 20, (JobState::Partial, None));
        run(&catalog, "web", 30, (JobState::Complete, None));
        run(&catalog, "web", 40, failed);
        run(&catalog, "db", 50, failed);
        (folder, catalog)
    }

    fn backups_come_newest_first_page_by_page_without_those_that_failed(on: On) {
        let (_folder, catalog) = with_jobs(on);
        let filter = ReportFilter { limit: Some(2), ..ReportFilter::default() };
        let (first, next) = catalog.backup_rows(&filter, None).unwrap();
        let (second, end) = catalog.backup_rows(&filter, next).unwrap();
        let begun: Vec<_> = first.iter().chain(&second).map(|row| row.begun).collect();
        assert_eq!((begun, end), (vec![30, 20, 10], None));
        assert_eq!(first[0].figures, Figures::default(), "it had no report");
        assert_eq!(second[0].figures.objects, Some(7));
        let node = Some("web".to_owned());
        let filter = ReportFilter { node, since: Some(10), until: Some(30), ..filter };
        let (rows, _) = catalog.backup_rows(&filter, None).unwrap();
        assert_eq!(rows.iter().map(|row| row.begun).collect::<Vec<_>>(), [10]);
    }

    fn costs_are_summed_over_what_was_measured(on: On) {
        let (_folder, catalog) = with_jobs(on);
        let costs = catalog.costs(0, 100).unwrap();
        let of = |row: &CostRow| (row.node.clone(), row.backups, row.measured, row.cpu_ms);
        let costs: Vec<_> = costs.iter().map(of).collect();
        let (db, web) = (("db".into(), 1, 1, Some(1000)), ("web".into(), 2, 1, Some(1000)));
        assert_eq!(costs, [db, web]);
        let unmeasured = catalog.costs(30, 31).unwrap().remove(0);
        assert_eq!((unmeasured.measured, unmeasured.cpu_ms), (0, None), "unknown, not 0");
    }

    fn jobs_that_did_not_end_well_are_grouped_by_cause(on: On) {
        let (_folder, catalog) = with_jobs(on);
        let causes = catalog.causes(0).unwrap();
        let of = |row: &CauseRow| (row.state, row.jobs, row.nodes, row.last, row.error.clone());
        let full = Some("the disk is full".to_owned());
        let failed = (JobState::Failed, 2, 2, Some(55), full);
        let partial = (JobState::Partial, 1, 1, Some(25), None);
        assert_eq!(causes.iter().map(of).collect::<Vec<_>>(), [failed, partial]);
        assert_eq!(catalog.causes(45).unwrap()[0].jobs, 1);
    }

    on_both![
        backups_come_newest_first_page_by_page_without_those_that_failed,
        costs_are_summed_over_what_was_measured,
        jobs_that_did_not_end_well_are_grouped_by_cause,
    ];
}
