//! Of two sessions that store the same object, that one counts which the index had first.
//!
//! Both were told that it is new. Who publishes last must not move what the snapshot of the other relies on: a node
//! may claim what it guesses, wait until another has stored it, and then store something else under its name.

use super::Session;
use crate::Result;
use crate::index::Index;
use crate::index::run::{Prefix, Row};
use ids::RecordLocation;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Where the index has objects, in containers that stay while the session runs.
type Known = FxHashMap<Prefix, RecordLocation>;

impl Session {
    /// Durably writes `rows` as a run, without what others have stored first. Calls `publish` with its number, under
    /// the commit lock; where nothing is left to write, with `None`.
    pub(super) fn publish_rows<T>(
        &self,
        rows: &mut Vec<Row>,
        publish: impl FnOnce(Option<u64>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let looked_at = self.leave_out_known(rows)?;
            let run = self.write_run(rows)?;
            let _commit = self.repository.commit.lock();
            if self.known(&self.repository.index(), &looked_at, &looked_at, rows)?.is_empty() {
                return publish(run);
            }
            // Of a run that no state names only this session knows. If it stays, the next writer removes it.
            let _ = self.repository.remove_runs(&self.lease, run.as_slice());
        }
    }

    /// Leaves out of `rows` what the index has by now. Returns the runs that it had then.
    fn leave_out_known(&self, rows: &mut Vec<Row>) -> Result<Vec<u64>> {
        loop {
            let index = self.repository.index();
            let known = self.known(&index, &self.runs_before, &[], rows)?;
            let now = self.repository.index();
            // A merge that began before these pins keeps only the rows that were the newest then.
            if Arc::ptr_eq(&index, &now)
                || known == self.known(&now, &self.runs_before, &[], rows)?
            {
                let (left_out, left): (Vec<_>, _) =
                    rows.iter().partition(|row| known.contains_key(&row.prefix));
                *rows = left;
                self.objects.lock().forget(&left_out);
                return Ok(index.state.runs.clone());
            }
        }
    }

    /// Where `index` has what is in `rows`, in containers that can be relied on, and pins it. Nothing was claimed that
    /// its runs `before` have; what was although the index had it is looked for in all but the runs `tried`.
    fn known(&self, index: &Index, before: &[u64], tried: &[u64], rows: &[Row]) -> Result<Known> {
        let (new, distrusted) = self.objects.lock().not_replacing(rows);
        let mut found = index.find_newer(before, new)?;
        found.extend(index.find_newer(tried, distrusted)?);
        let (mut known, mut lost) = (Known::default(), FxHashSet::default());
        for row in found {
            let container = row.location.container;
            if lost.contains(&container) {
                continue; // it was asked for once
            }
            match self.pin(row.location)? {
                true => drop(known.insert(row.prefix, row.location)),
                false => drop(lost.insert(container)),
            }
        }
        Ok(known)
    }
}
