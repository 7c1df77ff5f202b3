//! Copying a batch of objects: their records are read in the order in which they lie, verified, and stored. Meanwhile
//! the walk gathers the next batch.

use super::no_thread;
use super::records::{GoodRecord, RecordReader};
use crate::reading::REFRESH_MAX;
use crate::session::Session;
use crate::watch::Watch;
use crate::{Repository, Result};
use ids::{ObjectId, RecordLocation};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;

/// Records that are read before they are stored: some 16 MiB.
const READ_AHEAD: usize = 8;

/// A batch that is copied.
pub(super) struct Batch<'a> {
    pub(super) source: &'a Arc<Repository>,
    /// Where the records go; `None` to count them.
    pub(super) session: Option<Arc<Session>>,
    /// Whether all of it happens on one thread, in the same order each time.
    pub(super) is_stepwise: bool,
    pub(super) watch: &'a dyn Watch,
}

/// What was copied, or would be.
#[derive(Default)]
pub(super) struct Copied {
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// What cannot be read, and why.
    pub(super) lost: Vec<(ObjectId, String)>,
    /// What a reclaim has moved meanwhile.
    moved: Vec<ObjectId>,
}

/// A record to copy, and what is wanted of it.
struct Job {
    location: RecordLocation,
    ids: Vec<ObjectId>,
}

/// A record that was read, or why it was not.
type Done = (Job, Result<GoodRecord>);

impl Batch<'_> {
    /// Copies the records of `ids`. What a reclaim moves meanwhile is looked for again.
    pub(super) fn run(&self, mut ids: Vec<ObjectId>) -> Result<Copied> {
        let mut copied = Copied::default();
        // Some came along with records of the batch before.
        ids.retain(|id| self.session.as_ref().is_none_or(|session| session.lacks(id)));
        for _ in 0..REFRESH_MAX {
            if ids.is_empty() || !self.watch.goes_on() {
                return Ok(copied);
            }
            let jobs = self.jobs(&ids, &mut copied)?;
            match &self.session {
                None => copied.count(&jobs),
                Some(session) => self.copy(jobs, session, &mut copied)?,
            }
            ids = std::mem::take(&mut copied.moved);
            if !ids.is_empty() {
                self.source.refresh()?;
            }
        }
        copied.lose(ids, "its container is missing");
        Ok(copied)
    }

    /// The records that hold `ids`, in the order in which they lie.
    fn jobs(&self, ids: &[ObjectId], copied: &mut Copied) -> Result<Vec<Job>> {
        let locations = self.source.index().find_many(ids)?;
        let mut found = Vec::with_capacity(ids.len());
        for (id, location) in ids.iter().zip(locations) {
            match location {
                Some(location) => found.push((location, *id)),
                None => copied.lose([*id], "the index does not have it"),
            }
        }
        found.sort_unstable();
        let mut jobs: Vec<Job> = Vec::new();
        for (location, id) in found {
            match jobs.last_mut() {
                Some(last) if last.location == location => last.ids.push(id),
                _ => jobs.push(Job { location, ids: vec![id] }),
            }
        }
        Ok(jobs)
    }

    /// Copies `jobs`, reading ahead of what is stored.
    fn copy(&self, jobs: Vec<Job>, session: &Session, copied: &mut Copied) -> Result<()> {
        let mut reader = RecordReader::new(self.source);
        let mut read = move |job: Job| {
            let record = reader.read(job.location);
            (job, record)
        };
        if self.is_stepwise || jobs.len() < READ_AHEAD {
            return jobs.into_iter().try_for_each(|job| self.store(read(job), session, copied));
        }
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(READ_AHEAD);
            // It ends early when nobody waits for the rest any more.
            let ahead = move || jobs.into_iter().try_for_each(|job| sender.send(read(job)));
            Builder::new().spawn_scoped(scope, ahead).map_err(no_thread)?;
            for done in receiver {
                self.store(done, session, copied)?;
                if !self.watch.goes_on() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Stores a record that was read.
    fn store(&self, (job, record): Done, session: &Session, copied: &mut Copied) -> Result<()> {
        let mut record = match record {
            Ok(record) => record,
            Err(error) if error.is_container_missing() => {
                copied.moved.extend(job.ids);
                return Ok(());
            }
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => {
                copied.lose(job.ids, &error.to_string());
                return Ok(());
            }
        };
        let held: FxHashSet<_> = record.ids.iter().copied().collect();
        let lacking = job.ids.iter().filter(|id| !held.contains(id));
        copied.lose(lacking.copied(), "the index names a record without it");
        record.ids = self.found_in(&record, &job)?;
        if session.append_copied(&record)? {
            let bytes = record.bytes.len() as u64;
            copied.records += 1;
            copied.bytes += bytes;
            self.watch.moved(bytes);
        }
        Ok(())
    }

    /// What the first place finds in this record. It may name other objects as well, which lie elsewhere: what it has
    /// of those nobody knows.
    fn found_in(&self, record: &GoodRecord, job: &Job) -> Result<Vec<ObjectId>> {
        let wanted: FxHashSet<_> = job.ids.iter().copied().collect();
        let locations = self.source.index().find_many(&record.ids)?;
        let both = record.ids.iter().zip(locations);
        let found = both.filter(|(id, at)| wanted.contains(id) || *at == Some(job.location));
        Ok(found.map(|(id, _)| *id).collect())
    }
}

impl Copied {
    fn count(&mut self, jobs: &[Job]) {
        self.records += jobs.len() as u64;
        self.bytes += jobs.iter().map(|job| u64::from(job.location.length)).sum::<u64>();
    }

    fn lose(&mut self, ids: impl IntoIterator<Item = ObjectId>, reason: &str) {
        self.lost.extend(ids.into_iter().map(|id| (id, reason.to_owned())));
    }
}
