//! What storage servers tell every second: who is connected, and where jobs are; and what they are told in turn: who
//! may stay no longer, which jobs to end, how fast each may be.

use crate::access_control::{JobEnd, JobNo, JobStatus, Node};
use crate::control::{Control, Result};
use api::Name;
use api::jobs::{Job, JobState};
use api::storages::{
    AdmitNode, JobTold, Reader, StorageJob, StorageJobEnd, StorageNews, StorageTold,
};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who was not heard of for so long is shown as away.
const AWAY_AFTER: Duration = Duration::from_secs(10);
/// After so long its jobs are given up; when it comes back with them they go on.
const SILENT_MAX: Duration = Duration::from_secs(300);
/// How often it is written down that a storage server was heard of.
const WRITTEN_SECS: i64 = 60;

/// The storage servers that were heard of.
#[derive(Default)]
pub struct StorageTable(Mutex<FxHashMap<Name, Arc<Mutex<Heard>>>>);

/// A storage server, as it was last heard of.
#[derive(Default)]
struct Heard {
    at: Option<Instant>,
    /// The run whose numbers of jobs these are.
    run: String,
    nodes: FxHashMap<String, Node>,
    jobs: FxHashMap<u64, JobNo>,
    port: u16,
    written_secs: i64,
}

impl Heard {
    fn is_there(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() < AWAY_AFTER)
    }
}

impl StorageTable {
    fn of(&self, storage: &Name) -> Arc<Mutex<Heard>> {
        self.0.lock().entry(storage.clone()).or_default().clone()
    }

    fn all(&self) -> Vec<Arc<Mutex<Heard>>> {
        self.0.lock().values().cloned().collect()
    }

    pub(super) fn is_connected(&self, storage: &Name) -> bool {
        let heard = self.0.lock().get(storage).cloned();
        heard.is_some_and(|heard| heard.lock().is_there())
    }

    /// Nodes that are connected to storage servers.
    pub(in crate::control) fn connected_nodes(&self) -> FxHashSet<String> {
        let mut found = FxHashSet::default();
        for heard in self.all() {
            let heard = heard.lock();
            if heard.is_there() {
                found.extend(heard.nodes.values().map(|node| node.name.clone()));
            }
        }
        found
    }
}

impl Control {
    /// Hears a storage server that was let in.
    ///
    /// # Errors
    /// [`crate::control::Error::Catalog`].
    pub fn hear_storage(&self, storage: &Name, news: &StorageNews) -> Result<StorageTold> {
        let heard = self.storages.of(storage);
        let heard = &mut *heard.lock();
        if heard.run != news.run {
            self.lose_jobs(heard);
            *heard = Heard { run: news.run.clone(), ..Heard::default() };
        }
        heard.at = Some(Instant::now());
        self.note_storage(storage, heard, news)?;
        let (mut told, mut nodes) = (StorageTold::default(), FxHashMap::default());
        for asked in &news.nodes {
            told.limits.push(self.limit_for(asked.node.as_str(), asked.address));
            match self.still_known(heard, asked) {
                Some(node) => {
                    self.presence.seen(&node.name, asked.address, self.now_secs());
                    nodes.insert(asked.serial.clone(), node);
                }
                None => told.revoked.push(asked.serial.clone()),
            }
        }
        heard.nodes = nodes;
        let before = std::mem::take(&mut heard.jobs);
        for job in &news.jobs {
            told.jobs.push(self.hear_job(storage, heard, before.get(&job.number).copied(), job));
        }
        let may_not = |reader: &&Reader| !self.may_read_on(storage, reader);
        told.withdrawn = news.readers.iter().filter(may_not).cloned().collect();
        Ok(told)
    }

    /// Port and room, written down from time to time.
    fn note_storage(&self, storage: &Name, heard: &mut Heard, news: &StorageNews) -> Result<()> {
        let now_secs = self.now_secs();
        if heard.port == news.port && now_secs - heard.written_secs < WRITTEN_SECS {
            return Ok(());
        }
        if let Some(known) = self.catalog.storage(storage)? {
            let version = super::checked_version(&news.version).ok().map(str::to_owned);
            let bytes = [Some(news.free_bytes), Some(news.total_bytes)];
            let (port, last_seen) = (Some(news.port), Some(now_secs));
            self.catalog.storage_seen(&catalog::storages::Storage {
                port,
                last_seen,
                version,
                bytes,
                ..known
            })?;
            (heard.port, heard.written_secs) = (news.port, now_secs);
        }
        Ok(())
    }

    /// A node that may stay connected. A trouble of the catalog throws nobody out.
    fn still_known(&self, heard: &Heard, asked: &AdmitNode) -> Option<Node> {
        let known = heard.nodes.get(&asked.serial);
        match known.filter(|node| node.name == asked.node.as_str()) {
            Some(node) => (!node.is_revoked()).then(|| node.clone()),
            None => self.known_node(&asked.serial, &asked.node, Some(asked.address)).ok(),
        }
    }

    /// Whether a node still reads there by its grant. Of domains elsewhere nothing is told.
    fn may_read_on(&self, storage: &Name, reader: &Reader) -> bool {
        self.lies_on(storage, &reader.domain).unwrap_or(true)
            && self.is_granted(&reader.node, &reader.domain)
    }

    fn hear_job(
        &self,
        storage: &Name,
        heard: &mut Heard,
        known: Option<JobNo>,
        job: &StorageJob,
    ) -> JobTold {
        let Some(id) = known.or_else(|| self.take_job(storage, job)) else {
            return JobTold::default();
        };
        heard.jobs.insert(job.number, id);
        let cancelled = self.jobs.is_cancelled(id);
        self.jobs.is_at(id, &status(job));
        if let Some(end) = &job.end {
            self.end_job(id, &ending(end), &end.report);
        }
        JobTold { job: Some(id), cancelled }
    }

    /// A job that was not heard of before, or was given up.
    fn take_job(&self, storage: &Name, job: &StorageJob) -> Option<JobNo> {
        // Jobs of domains that do not lie there are none of its business.
        if !self.lies_on(storage, &job.domain).unwrap_or(false) {
            return None;
        }
        match job.job.and_then(|id| self.known_job(id, job)) {
            Some(known) if known.state == JobState::Lost => self.resume(known),
            // It runs; or it ended, and the answer was lost.
            Some(known) => Some(known.id),
            None => {
                let (node, domain) = (job.node.as_str(), job.domain.as_str());
                Some(self.begin_job(node, domain, &job.kind, &job.what))
            }
        }
    }

    /// The job of this number, when it is the one that is told of.
    fn known_job(&self, id: JobNo, told: &StorageJob) -> Option<Job> {
        let is_told = |known: &Job| {
            known.kind == told.kind
                && known.node == told.node.as_str()
                && known.domain == told.domain.as_str()
        };
        self.job(id).ok().filter(is_told)
    }

    fn resume(&self, known: Job) -> Option<JobNo> {
        let id = known.id;
        match self.catalog.resume_job(id) {
            Ok(()) => self.jobs.goes_on(known),
            Err(error) => tracing::error!(%error, job = id, "a job that goes on is not noted"),
        }
        Some(id)
    }

    /// The jobs of a storage server that stopped are lost.
    fn lose_jobs(&self, heard: &mut Heard) {
        for (_, id) in heard.jobs.drain() {
            self.end_job(id, &JobEnd::Lost, "");
        }
    }

    /// Who was revoked is forgotten with all that it told.
    pub(super) fn lose_storage(&self, storage: &Name) {
        let heard = self.storages.0.lock().remove(storage);
        if let Some(heard) = heard {
            self.lose_jobs(&mut heard.lock());
        }
    }

    /// Gives up the jobs of storage servers that were not heard of for long.
    pub(crate) fn lose_silent_storages(&self) {
        for heard in self.storages.all() {
            let heard = &mut *heard.lock();
            if heard.at.is_some_and(|at| at.elapsed() > SILENT_MAX) {
                self.lose_jobs(heard);
                heard.nodes.clear();
            }
        }
    }
}

fn status(job: &StorageJob) -> JobStatus {
    let progress = &job.progress;
    JobStatus {
        objects: progress.objects,
        bytes: progress.bytes,
        bytes_read: progress.bytes_read,
        bytes_wire: progress.bytes_wire,
        path: progress.path.clone().into_bytes(),
        stage: progress.stage.clone(),
    }
}

fn ending(end: &StorageJobEnd) -> JobEnd {
    match end.state {
        JobState::Complete => JobEnd::Complete { snapshot: end.snapshot.clone() },
        JobState::Lost => JobEnd::Lost,
        JobState::Failed | JobState::Running => {
            JobEnd::Failed(end.error.clone().unwrap_or_default())
        }
    }
}
