//! Heartbeats of storage servers, once a second: connected nodes and jobs. The reply: which nodes to disconnect,
//! which jobs to cancel, and bandwidth limits.

use super::requests::StorageServerRequests;
use super::table::StorageServerState;
use crate::enroll::checked_version;
use crate::{Result, now_secs};
use api::Name;
use api::jobs::{Job, JobState};
use api::storage_servers::{
    GrantedReader, Heartbeat, HeartbeatReply, JobReply, NodeConnection, StorageJob, StorageJobEnd,
};
use rustc_hash::FxHashMap;
use server_contract::access_control::{JobEnd, JobNo, JobStatus, Node};
use std::time::Instant;

/// How often the catalog records the last heartbeat.
const WRITTEN_SECS: i64 = 60;
/// The most pools of a storage server of which it is shown why they cannot be used; its log has all.
const POOL_FAULTS_MAX: usize = 100;

impl StorageServerRequests {
    /// Takes the heartbeat of an admitted storage server.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn heartbeat(
        &self,
        storage: &Name,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatReply> {
        let mut reply = self.update(storage, heartbeat)?;
        // Without a lock: what is stored may take long to say.
        self.quotas.told(storage, &heartbeat.domains)?;
        reply.quotas = self.quotas.of_storage_server(storage)?;
        (reply.takes_pool_faults, reply.takes_has_bucket) = (true, true);
        reply.takes_clock = true;
        reply.moves = self.table.moves.exchange(storage, &heartbeat.moves);
        Ok(reply)
    }

    /// Its nodes, jobs and readers.
    fn update(&self, storage: &Name, heartbeat: &Heartbeat) -> Result<HeartbeatReply> {
        let state = self.table.of(storage);
        let state = &mut *state.lock();
        if state.run != heartbeat.run {
            self.table.lose_jobs(state);
            self.repositories.is_back(storage);
            let (run, before) = (heartbeat.run.clone(), std::mem::take(&mut state.kept_locks));
            let kept_locks = before.of_a_new_run();
            *state = StorageServerState { run, kept_locks, ..StorageServerState::default() };
        }
        state.at = Some(Instant::now());
        state.kept_locks.told(heartbeat.kept_locks.as_ref());
        let faults = heartbeat.pool_faults.iter().take(POOL_FAULTS_MAX);
        state.pool_faults = faults.cloned().collect();
        state.has_bucket = heartbeat.has_bucket;
        state.clock_ahead_secs =
            heartbeat.clock_secs.map_or(0, |there| there.saturating_sub(now_secs()));
        self.note_storage_server(storage, state, heartbeat)?;
        let (mut reply, mut nodes) = (HeartbeatReply::default(), FxHashMap::default());
        for asked in &heartbeat.nodes {
            reply.limits.push(self.limits.of(asked.node.as_str(), asked.address));
            match self.still_known(state, asked) {
                Some(node) => {
                    self.activity.seen(&node.name, asked.address, now_secs());
                    nodes.insert(asked.serial.clone(), node);
                }
                None => reply.revoked.push(asked.serial.clone()),
            }
        }
        state.nodes = nodes;
        let before = std::mem::take(&mut state.jobs);
        for job in &heartbeat.jobs {
            reply.jobs.push(self.update_job(storage, state, before.get(&job.number).copied(), job));
        }
        let may_not = |reader: &&GrantedReader| !self.may_read_on(storage, reader);
        reply.withdrawn = heartbeat.readers.iter().filter(may_not).cloned().collect();
        Ok(reply)
    }

    /// Writes port and disk space from time to time.
    fn note_storage_server(
        &self,
        storage: &Name,
        state: &mut StorageServerState,
        heartbeat: &Heartbeat,
    ) -> Result<()> {
        let now_secs = now_secs();
        if state.port == heartbeat.port && now_secs - state.written_secs < WRITTEN_SECS {
            return Ok(());
        }
        if let Some(known) = self.catalog.storage_server(storage)? {
            let version = checked_version(&heartbeat.version).ok().map(str::to_owned);
            // Nobody knows how much a bucket has.
            let is_known = heartbeat.total_bytes > 0;
            let bytes = [heartbeat.free_bytes, heartbeat.total_bytes];
            let bytes = bytes.map(|bytes| is_known.then_some(bytes));
            let (port, last_seen) = (Some(heartbeat.port), Some(now_secs));
            self.catalog.storage_server_seen(&catalog::storage_servers::StorageServer {
                port,
                last_seen,
                version,
                bytes,
                ..known
            })?;
            (state.port, state.written_secs) = (heartbeat.port, now_secs);
        }
        Ok(())
    }

    /// A node that may stay connected. An error of the catalog disconnects nobody.
    fn still_known(&self, state: &StorageServerState, asked: &NodeConnection) -> Option<Node> {
        let known = state.nodes.get(&asked.serial);
        match known.filter(|node| node.name == asked.node.as_str()) {
            Some(node) => (!node.is_revoked()).then(|| node.clone()),
            None => self.admission.known_node(&asked.serial, &asked.node, Some(asked.address)).ok(),
        }
    }

    /// Whether a node may still read there by its grant. Nothing is said about domains on other servers.
    fn may_read_on(&self, storage: &Name, reader: &GrantedReader) -> bool {
        self.permissions.lies_on(storage, &reader.domain).unwrap_or(true)
            && self.permissions.is_granted(&reader.node, &reader.domain)
    }

    fn update_job(
        &self,
        storage: &Name,
        state: &mut StorageServerState,
        known: Option<JobNo>,
        job: &StorageJob,
    ) -> JobReply {
        let Some(id) = known.or_else(|| self.take_job(storage, job)) else {
            return JobReply::default();
        };
        state.jobs.insert(job.number, id);
        let cancelled = self.jobs.is_cancelled(id);
        self.jobs.is_at(id, &status(job));
        if let Some(end) = &job.end {
            self.jobs.end(id, &ending(end), &end.report);
        }
        JobReply { job: Some(id), cancelled }
    }

    /// A job that is new, or was lost.
    fn take_job(&self, storage: &Name, job: &StorageJob) -> Option<JobNo> {
        // Jobs of domains that do not lie there are none of its business.
        if !self.permissions.lies_on(storage, &job.domain).unwrap_or(false) {
            return None;
        }
        match job.job.and_then(|id| self.known_job(id, job)) {
            Some(known) => {
                let id = known.id;
                // Others run; or they ended, and the answer was lost.
                if known.state == JobState::Lost {
                    self.jobs.resume(known);
                }
                Some(id)
            }
            None => {
                let (node, domain) = (job.node.as_str(), job.domain.as_str());
                Some(self.jobs.begin(node, domain, &job.kind, &job.what))
            }
        }
    }

    /// The job with this number, if it is the reported one.
    fn known_job(&self, id: JobNo, reported: &StorageJob) -> Option<Job> {
        let is_told = |known: &Job| {
            known.kind == reported.kind
                && known.node == reported.node.as_str()
                && known.domain == reported.domain.as_str()
        };
        self.jobs.job(id).ok().filter(is_told)
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
        JobState::Complete | JobState::Partial => JobEnd::Complete {
            snapshot: end.snapshot.clone(),
            is_partial: end.state == JobState::Partial,
        },
        JobState::Lost => JobEnd::Lost,
        _ => JobEnd::Failed(end.error.clone().unwrap_or_default()),
    }
}
