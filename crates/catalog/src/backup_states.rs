//! How each source stands: its newest complete backup, how its last run ended, and sums over all its backups.
//!
//! Written in the transaction that ends a job, so that nobody has to read a million jobs to know it, and so that it
//! stays when old jobs are deleted.

use crate::jobs::Ending;
use crate::sql::{Row, Sql, Word, values};
use crate::{Catalog, Result};
use api::jobs::{Job, JobCause, JobState};
use api::reports::Figures;

/// The newest complete backup of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteBackup {
    /// When it began: what changed later is not in it.
    pub begun: i64,
    /// When it ended.
    pub ended: i64,
    /// Its job.
    pub job: u64,
    /// Its snapshot, if its node named one.
    pub snapshot: Option<String>,
}

/// The newest run of a source that ended, or was missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// Its job.
    pub job: u64,
    /// How it ended.
    pub state: JobState,
    /// Why it did not end well.
    pub cause: Option<JobCause>,
    /// When.
    pub ended: i64,
    /// The same for people.
    pub error: Option<String>,
}

/// How a source stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupState {
    /// The node.
    pub node: String,
    /// The policy; `None` for backups that no policy asked for.
    pub policy: Option<String>,
    /// The source, as the jobs of its policy name it; empty without a policy.
    pub source: String,
    /// When it was first expected, or first backed up.
    pub since: i64,
    /// The newest complete backup.
    pub complete: Option<CompleteBackup>,
    /// The newest run.
    pub last: Option<LastRun>,
    /// How long the newest run took that made a snapshot.
    pub took_secs: Option<u64>,
    /// Objects of the newest complete backup.
    pub objects: Option<u64>,
    /// Their bytes.
    pub bytes: Option<u64>,
    /// How many backups were made.
    pub backups: u64,
    /// How many of them said what they stored.
    pub measured: u64,
    /// Bytes that these have stored, over all.
    pub stored_bytes: u64,
}

/// Node, policy and source; the last two are empty for backups that no policy asked for.
pub type SourceKey = (String, String, String);

/// A source that a policy expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'a> {
    /// The node.
    pub node: &'a str,
    /// The policy.
    pub policy: &'a str,
    /// The source.
    pub source: &'a str,
}

const COLUMNS: &str = "node, policy, source, since, complete_begun, complete_ended, complete_job,
    complete_snapshot, last_job, last_state, last_cause, last_ended, last_error, took_secs, objects,
    bytes, backups, measured, stored_bytes";

impl Catalog {
    /// How all sources stand, also those that nobody expects any more.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn backup_states(&self) -> Result<Vec<BackupState>> {
        let select = format!("SELECT {COLUMNS} FROM backup_states ORDER BY node, policy, source");
        self.look_long(|look| look.rows(&select, &[], read))
    }

    /// How long the newest run took that made a snapshot, in seconds, by node, policy and source.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn durations(&self) -> Result<Vec<(SourceKey, i64)>> {
        let select = "SELECT node, policy, source, took_secs FROM backup_states
             WHERE took_secs IS NOT NULL AND policy <> ''";
        let read = |row: &Row| Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?));
        self.look_long(|look| look.rows(select, &[], read))
    }

    /// Notes sources that are expected from now on. One that is known keeps its time.
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    pub fn expect_sources(&self, now_secs: i64, sources: &[Expected<'_>]) -> Result<()> {
        if sources.is_empty() {
            return Ok(());
        }
        self.change(|change| {
            let key = |one: &Expected<'_>| {
                (one.node.to_owned(), one.policy.to_owned(), one.source.to_owned())
            };
            sources.iter().try_for_each(|one| insert(change, &key(one), now_secs))
        })
    }
}

fn insert(change: &Sql<'_>, (node, policy, source): &SourceKey, since: i64) -> Result<()> {
    change.execute(
        "INSERT INTO backup_states (node, policy, source, since) VALUES ($1, $2, $3, $4)
         ON CONFLICT (node, policy, source) DO NOTHING",
        values![node, policy, source, since],
    )?;
    Ok(())
}

/// The row of a job's source.
fn key(job: &Job) -> SourceKey {
    let plan = job.plan.as_ref();
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let policy = text(plan.map(|plan| &plan.policy));
    (job.node.clone(), policy, text(plan.map(|plan| &plan.source)))
}

/// A run of this source has ended, in the running transaction. Restores and other readings are none.
pub(crate) fn ended(change: &Sql<'_>, job: &Job, end: &Ending<'_>) -> Result<()> {
    if job.kind != "backup" {
        return Ok(());
    }
    let key = key(job);
    insert(change, &key, job.begun)?;
    set_last(change, &key, job.id, end)?;
    match end.state {
        JobState::Complete | JobState::Partial => add_backup(change, &key, job, end),
        _ => Ok(()),
    }
}

fn set_last(change: &Sql<'_>, key: &SourceKey, job: u64, end: &Ending<'_>) -> Result<()> {
    let (node, policy, source) = key;
    change.execute(
        "UPDATE backup_states SET last_job = $4, last_state = $5, last_cause = $6, last_ended = $7,
             last_error = $8 WHERE node = $1 AND policy = $2 AND source = $3",
        values![
            node,
            policy,
            source,
            job,
            Word(end.state),
            end.cause.map(Word),
            end.ended,
            end.error
        ],
    )?;
    Ok(())
}

fn add_backup(change: &Sql<'_>, key: &SourceKey, job: &Job, end: &Ending<'_>) -> Result<()> {
    let (node, policy, source) = key;
    let figures = Figures::of_report(end.report);
    let took = u64::try_from(end.ended - job.begun).unwrap_or(0);
    let stored = figures.bytes_stored;
    // The node says how much it was. A sum that no column can hold would keep the job from ending.
    change.execute(
        "UPDATE backup_states SET backups = backups + 1, took_secs = $4, measured = measured + $5,
             stored_bytes = CASE WHEN $6 > $7 - stored_bytes THEN $7 ELSE stored_bytes + $6 END
         WHERE node = $1 AND policy = $2 AND source = $3",
        values![node, policy, source, took, stored.is_some(), stored.unwrap_or(0), i64::MAX],
    )?;
    if end.state != JobState::Complete {
        return Ok(());
    }
    change.execute(
        "UPDATE backup_states SET complete_begun = $4, complete_ended = $5, complete_job = $6,
             complete_snapshot = $7, objects = $8, bytes = $9
         WHERE node = $1 AND policy = $2 AND source = $3",
        values![
            node,
            policy,
            source,
            job.begun,
            end.ended,
            job.id,
            end.snapshot,
            figures.objects,
            figures.bytes
        ],
    )?;
    Ok(())
}

fn read(row: &Row) -> Result<BackupState> {
    let policy: String = row.get(1)?;
    Ok(BackupState {
        node: row.get(0)?,
        policy: (!policy.is_empty()).then_some(policy),
        source: row.get(2)?,
        since: row.get(3)?,
        complete: complete(row)?,
        last: last(row)?,
        took_secs: row.get(13)?,
        objects: row.get(14)?,
        bytes: row.get(15)?,
        backups: row.get(16)?,
        measured: row.get(17)?,
        stored_bytes: row.get(18)?,
    })
}

fn complete(row: &Row) -> Result<Option<CompleteBackup>> {
    let Some(begun) = row.get(4)? else { return Ok(None) };
    let (ended, job, snapshot) = (row.get(5)?, row.get(6)?, row.get(7)?);
    Ok(Some(CompleteBackup { begun, ended, job, snapshot }))
}

fn last(row: &Row) -> Result<Option<LastRun>> {
    let Some(job) = row.get(8)? else { return Ok(None) };
    Ok(Some(LastRun {
        job,
        state: row.get::<Word<_>>(9)?.0,
        cause: row.get::<Option<Word<_>>>(10)?.map(|word| word.0),
        ended: row.get(11)?,
        error: row.get(12)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::NewJob;
    use crate::testing::{On, on_both};
    use api::jobs::Progress;

    fn back_up(catalog: &Catalog, [begun, ended]: [i64; 2], state: JobState, report: &str) -> u64 {
        let (node, domain, kind, what) = ("web", "web", "backup", "");
        let id = catalog.begin_job(NewJob { node, domain, kind, what, begun }).unwrap();
        let (progress, snapshot) = (&Progress::default(), Some("5a"));
        let (error, cause, cancelled) = (None, None, false);
        let end = Ending { ended, state, progress, snapshot, error, cause, cancelled, report };
        catalog.end_job(id, end).unwrap();
        id
    }

    const REPORT: &str =
        r#"{"report":{"objects_inspected":7,"bytes_inspected":900,"bytes_transferred":40}}"#;

    fn a_source_has_its_newest_complete_backup_and_how_its_last_run_ended(on: On) {
        let (_folder, catalog) = on.catalog();
        let first = back_up(&catalog, [10, 30], JobState::Complete, REPORT);
        let second = back_up(&catalog, [50, 95], JobState::Partial, REPORT);
        let last = back_up(&catalog, [100, 110], JobState::Failed, "");
        let [state] = &catalog.backup_states().unwrap()[..] else { panic!("one source") };
        let snapshot = Some("5a".to_owned());
        let complete = CompleteBackup { begun: 10, ended: 30, job: first, snapshot };
        assert_eq!((state.policy.as_deref(), state.since), (None, 10));
        assert_eq!(state.complete, Some(complete), "job {second} was partial");
        let run = state.last.as_ref().unwrap();
        assert_eq!((run.job, run.state, run.ended), (last, JobState::Failed, 110));
        assert_eq!((state.objects, state.bytes), (Some(7), Some(900)));
        assert_eq!((state.backups, state.measured, state.stored_bytes), (2, 2, 80));
        assert_eq!(state.took_secs, Some(45), "of the newest one that made a snapshot");
    }

    fn what_no_report_says_stays_unknown(on: On) {
        let (_folder, catalog) = on.catalog();
        back_up(&catalog, [10, 30], JobState::Complete, "no JSON");
        let state = catalog.backup_states().unwrap().remove(0);
        assert_eq!((state.objects, state.bytes, state.backups, state.measured), (None, None, 1, 0));
    }

    /// It must not keep its jobs from ending either, nor spoil the reports of others.
    fn figures_that_a_node_made_up_are_summed_without_an_error(on: On) {
        let (_folder, catalog) = on.catalog();
        let lie = r#"{"report":{"objects_inspected":18446744073709551615,"bytes_processed":18446744073709551615,
            "bytes_transferred":18446744073709551615,"cost":{"user_secs":1e300,"system_secs":1},"elapsed_secs":1e300}}"#;
        let ids: Vec<_> =
            (0..3).map(|at| back_up(&catalog, [at, at + 10], JobState::Complete, lie)).collect();
        for id in ids {
            assert_eq!(catalog.job(id).unwrap().state, JobState::Complete);
        }
        let state = catalog.backup_states().unwrap().remove(0);
        assert_eq!((state.backups, state.stored_bytes), (3, i64::MAX as u64));
        let costs = catalog.costs(0, 1000).unwrap();
        assert!(costs[0].bytes_read > Some(1 << 62), "{costs:?}");
        assert!(costs[0].cpu_ms > Some(1 << 62) && costs[0].elapsed_ms > Some(1 << 62));
    }

    fn an_expected_source_keeps_the_time_at_which_it_was_first_expected(on: On) {
        let (_folder, catalog) = on.catalog();
        let source = Expected { node: "web", policy: "daily", source: "/etc" };
        catalog.expect_sources(100, &[source]).unwrap();
        catalog.expect_sources(200, &[source]).unwrap();
        let state = catalog.backup_states().unwrap().remove(0);
        assert_eq!((state.since, state.complete, state.last), (100, None, None));
        assert_eq!(state.policy.as_deref(), Some("daily"));
    }

    on_both![
        a_source_has_its_newest_complete_backup_and_how_its_last_run_ended,
        what_no_report_says_stays_unknown,
        figures_that_a_node_made_up_are_summed_without_an_error,
        an_expected_source_keeps_the_time_at_which_it_was_first_expected,
    ];
}
