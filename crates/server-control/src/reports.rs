//! Reports over jobs, for people and consoles.

use crate::open::Parts;
use crate::{Error, Result, now_secs};
use api::job_log::JobLog;
use api::reports::{BackupRows, Capacity, CapacityRow, Causes, CostRow, Costs, ReportFilter};
use catalog::Catalog;
use catalog::backup_states::BackupState;
use catalog::reports::Cursor;
use std::sync::Arc;

/// The reports of this server.
pub(crate) struct Reports {
    catalog: Arc<Catalog>,
}

impl Reports {
    pub(crate) fn new(parts: &Parts) -> Self {
        Self { catalog: parts.catalog.clone() }
    }

    /// Backups that made a snapshot.
    ///
    /// # Errors
    /// [`Error::Catalog`]; [`Error::Usage`] for a page that there is not.
    pub(crate) fn backups(&self, filter: &ReportFilter) -> Result<BackupRows> {
        let after = filter.after.as_deref().map(cursor).transpose()?;
        let (rows, next) = self.catalog.backup_rows(filter, after)?;
        let text = |next: Cursor| format!("{}-{}", next.begun, next.id);
        Ok(BackupRows { rows, next: next.map(text) })
    }

    /// What backups cost each node.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn costs(&self, filter: &ReportFilter) -> Result<Costs> {
        let until = filter.until.unwrap_or_else(now_secs);
        let since = match filter.since {
            Some(since) => Some(since),
            None => self.catalog.oldest_job()?,
        };
        let all = self.catalog.costs(since.unwrap_or(until), until)?;
        let all = all.into_iter().filter(|row| is_of(filter, &row.node));
        let secs = since.map_or(0, |since| until - since);
        Ok(Costs { since, until, nodes: all.map(|row| in_percent(row, secs)).collect() })
    }

    /// What the backups of each source take.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn capacity(&self, filter: &ReportFilter) -> Result<Capacity> {
        let states = self.catalog.backup_states()?.into_iter();
        let rows = states.filter(|state| is_of(filter, &state.node)).map(capacity_row);
        Ok(Capacity { rows: rows.collect() })
    }

    /// Jobs that did not end well, by cause.
    ///
    /// # Errors
    /// [`Error::Catalog`].
    pub(crate) fn causes(&self, filter: &ReportFilter) -> Result<Causes> {
        Ok(Causes { causes: self.catalog.causes(filter.since.unwrap_or(0))? })
    }

    /// What happened to a job.
    ///
    /// # Errors
    /// [`Error::Catalog`] if it does not exist.
    pub(crate) fn job_log(&self, id: u64) -> Result<JobLog> {
        self.catalog.job(id)?;
        Ok(JobLog { entries: self.catalog.job_log(id)? })
    }
}

fn is_of(filter: &ReportFilter, node: &str) -> bool {
    filter.node.as_ref().is_none_or(|wanted| wanted == node)
}

fn cursor(text: &str) -> Result<Cursor> {
    let parts = text
        .rsplit_once('-')
        .and_then(|(begun, id)| Some(Cursor { begun: begun.parse().ok()?, id: id.parse().ok()? }));
    parts.ok_or_else(|| Error::Usage("there is no such page: leave 'after' out".to_owned()))
}

/// In percent of all of the time. What nobody measured stays unknown.
fn in_percent(row: CostRow, secs: i64) -> CostRow {
    let percent = |ms: u64| (secs > 0).then(|| ms as f64 / 10.0 / secs as f64);
    let (cpu_percent, elapsed_percent) =
        (row.cpu_ms.and_then(percent), row.elapsed_ms.and_then(percent));
    CostRow { cpu_percent, elapsed_percent, ..row }
}

fn capacity_row(state: BackupState) -> CapacityRow {
    let is_measured = state.backups > 0 && state.measured == state.backups;
    let source = state.policy.as_ref().map(|_| state.source.clone());
    CapacityRow {
        stored_bytes: is_measured.then_some(state.stored_bytes),
        node: state.node,
        policy: state.policy,
        source,
        backups: state.backups,
        objects: state.objects,
        bytes: state.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_of_the_whole_time_and_of_what_was_measured() {
        let (node, cpu_ms, bytes_read) = ("web".to_owned(), Some(36_000), None);
        let (cpu_percent, elapsed_percent, elapsed_ms) = (None, None, None);
        let row = CostRow {
            node,
            backups: 2,
            measured: 1,
            cpu_ms,
            elapsed_ms,
            bytes_read,
            cpu_percent,
            elapsed_percent,
        };
        let shown = in_percent(row.clone(), 3600);
        assert_eq!((shown.cpu_percent, shown.elapsed_percent), (Some(1.0), None));
        assert_eq!(in_percent(row, 0).cpu_percent, None, "of no time");
    }

    #[test]
    fn a_page_is_named_as_the_reply_names_it() {
        assert_eq!(cursor("-5-12").unwrap(), Cursor { begun: -5, id: 12 });
        assert!(cursor("5").is_err() && cursor("a-b").is_err());
    }
}
