//! Heartbeats of storage servers, once a second: connected nodes and jobs. The reply: which nodes to disconnect,
//! which jobs to cancel, and bandwidth limits.

use super::requests::StorageServerRequests;
use super::table::{StorageServerState, ToldJob};
use crate::enroll::checked_version;
use crate::{Error, Result, SERVER, by, now_secs};
use api::Name;
use api::jobs::{Job, JobState};
use api::storage_servers::{
    GrantedReader, Heartbeat, HeartbeatReply, JobReply, NodeConnection, StorageJob, StorageJobEnd,
};
use rustc_hash::{FxHashMap, FxHashSet};
use server_contract::access_control::{JobEnd, JobNo, JobStatus, Node};
use std::time::Instant;

/// How often the catalog records the last heartbeat.
const WRITTEN_SECS: i64 = 60;
/// The most reads from copies of which one heartbeat tells, and how much it may say of a place.
const COPY_READS_MAX: usize = 100;
const TEXT_CHARS_MAX: usize = 1000;
/// The most pools of a storage server of which it is shown why they cannot be used; its log has all.
const POOL_FAULTS_MAX: usize = 100;
/// The longest list of a heartbeat that is taken.
const LISTED_MAX: usize = 1 << 16;
/// The most beginnings and ends of jobs that one heartbeat writes to the catalog; the next one goes on.
const WRITTEN_MAX: u32 = 256;
/// The most jobs of which a heartbeat tells.
const JOBS_TOLD_MAX: usize = 4_096;
/// The most jobs of a storage server that are known at once, with those that ended a moment ago.
const JOBS_MAX: usize = 4 * JOBS_TOLD_MAX;

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
        (reply.takes_clock, reply.takes_copy_reads) = (true, true);
        self.note_copy_reads(storage, heartbeat)?;
        reply.moves = self.table.moves.exchange(storage, &heartbeat.moves);
        Ok(reply)
    }

    /// Its nodes, jobs and readers.
    fn update(&self, storage: &Name, heartbeat: &Heartbeat) -> Result<HeartbeatReply> {
        refuse_endless(heartbeat)?;
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
        state.pool_faults = faults.map(|fault| shortened(fault)).collect();
        state.has_bucket = heartbeat.has_bucket;
        state.clock_ahead_secs =
            heartbeat.clock_secs.map_or(0, |there| there.saturating_sub(now_secs()));
        self.note_storage_server(storage, state, heartbeat)?;
        let (mut reply, mut nodes) = (HeartbeatReply::default(), FxHashMap::default());
        for asked in &heartbeat.nodes {
            reply.limits.push(self.limits.of(asked.node.as_str(), asked.address));
            match self.still_known(state, asked)? {
                Some(node) => {
                    self.activity.seen(&node.name, asked.address, now_secs());
                    nodes.insert(asked.serial.clone(), node);
                }
                None => reply.revoked.push(asked.serial.clone()),
            }
        }
        state.nodes = nodes;
        reply.jobs = self.update_jobs(storage, state, heartbeat)?;
        let may_not = |reader: &&GrantedReader| !self.may_read_on(storage, reader);
        reply.withdrawn = heartbeat.readers.iter().filter(may_not).cloned().collect();
        Ok(reply)
    }

    /// Notes them as those on this server. Of a domain that lies elsewhere it is not believed.
    fn note_copy_reads(&self, storage: &Name, heartbeat: &Heartbeat) -> Result<()> {
        for read in heartbeat.copy_reads.iter().take(COPY_READS_MAX) {
            if self.permissions.lies_on(storage, &read.domain)? {
                if !self.copy_reads.take(storage.as_str(), 1) {
                    tracing::warn!(%storage, "it tells of too many reads from copies: one is left out");
                    continue;
                }
                let place = shortened(&read.place);
                let detail = format!("{} from {place} for {}", read.records, read.node);
                let domain = read.domain.as_str();
                self.catalog.audit_note(by(SERVER), "copy.read", domain, &detail)?;
            }
        }
        Ok(())
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
    fn still_known(
        &self,
        state: &StorageServerState,
        asked: &NodeConnection,
    ) -> Result<Option<Node>> {
        let known = state.nodes.get(&asked.serial);
        if let Some(node) = known.filter(|node| node.name == asked.node.as_str()) {
            return Ok((!node.is_revoked()).then(|| node.clone()));
        }
        match self.admission.known_node(&asked.serial, &asked.node, Some(asked.address)) {
            Ok(node) => Ok(Some(node)),
            Err(Error::Catalog(error)) if error.is_of_database() => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// Whether a node may still read there by its grant. Nothing is said about domains on other servers.
    fn may_read_on(&self, storage: &Name, reader: &GrantedReader) -> bool {
        self.permissions.lies_on(storage, &reader.domain).unwrap_or(true)
            && self.permissions.is_granted(&reader.node, &reader.domain)
    }

    /// If the catalog fails, those that were taken by then stay known: their numbers were not told. The reply ends
    /// where the next one goes on: nobody else hears of this storage server until it is given.
    fn update_jobs(
        &self,
        storage: &Name,
        state: &mut StorageServerState,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<JobReply>> {
        let (mut replies, mut written) = (Vec::new(), 0);
        for job in heartbeat.jobs.iter().take(JOBS_TOLD_MAX) {
            let known = state.jobs.get(&job.number).map(|known| known.id);
            let (is_new, has_ended) = (known.is_none(), job.end.is_some());
            let is_full = (is_new || has_ended) && written >= WRITTEN_MAX;
            if is_full || is_new && state.jobs.len() >= JOBS_MAX {
                break;
            }
            let id = known.map_or_else(|| self.take_job(storage, job), |id| Ok(Some(id)))?;
            if let Some(id) = id {
                // One that has ended stays known: its number may not have been heard, and it would begin anew.
                written += u32::from(is_new) + u32::from(has_ended);
                state.jobs.insert(job.number, ToldJob { id, at: Instant::now() });
            }
            replies.push(id.map_or_else(JobReply::default, |id| self.update_job(id, job)));
        }
        let told: FxHashSet<_> = heartbeat.jobs.iter().map(|job| job.number).collect();
        self.table.lose_untold(state, &told);
        Ok(replies)
    }

    fn update_job(&self, id: JobNo, job: &StorageJob) -> JobReply {
        let cancelled = self.jobs.is_cancelled(id);
        self.jobs.is_at(id, &status(job));
        if let Some(end) = &job.end {
            self.jobs.end(id, &ending(end), &end.report);
        }
        JobReply { job: Some(id), cancelled }
    }

    /// A job that is new, or of which this server has no session any more; `None` for one that is none of the business
    /// of `storage`, since its domain does not lie there, or its node has nothing to do with that.
    fn take_job(&self, storage: &Name, job: &StorageJob) -> Result<Option<JobNo>> {
        if !self.permissions.lies_on(storage, &job.domain)? {
            return Ok(None);
        }
        let known = job.job.map(|id| self.known_job(id, job)).transpose()?.flatten();
        let Some(known) = known else {
            return self.begin_job(job);
        };
        let id = known.id;
        match known.state {
            JobState::Lost => self.jobs.resume(known),
            // The server has started it, and was started anew while it ran.
            JobState::Running if !self.jobs.has_session(id) => self.jobs.take_over(known),
            // It runs; or it ended, and the answer was lost.
            _ => {}
        }
        Ok(Some(id))
    }

    /// A job of a node that has this domain, or may read it; of others nothing is believed. One whose storage server
    /// says too often that it began another one has to wait.
    fn begin_job(&self, job: &StorageJob) -> Result<Option<JobNo>> {
        let own = self.catalog.node(&job.node)?.is_some_and(|node| node.domain == job.domain);
        if !own && !self.permissions.is_granted(&job.node, &job.domain) {
            return Ok(None);
        }
        let (node, domain) = (job.node.as_str(), job.domain.as_str());
        if !self.begun.take(node, 1) {
            tracing::warn!(
                node,
                domain,
                "its storage server tells of too many jobs: one is left out"
            );
            return Ok(None);
        }
        Ok(Some(self.jobs.begin(node, domain, &job.kind, &job.what)))
    }

    /// The job with this number, if it is the reported one.
    fn known_job(&self, id: JobNo, reported: &StorageJob) -> Result<Option<Job>> {
        let is_told = |known: &Job| {
            known.kind == reported.kind
                && known.node == reported.node.as_str()
                && known.domain == reported.domain.as_str()
        };
        match self.jobs.job(id) {
            Err(Error::Catalog(error)) if error.is_of_database() => Err(error.into()),
            job => Ok(job.ok().filter(is_told)),
        }
    }
}

/// Lists are as long as what a storage server has.
fn refuse_endless(heartbeat: &Heartbeat) -> Result<()> {
    let Heartbeat { nodes, jobs, readers, domains, moves, .. } = heartbeat;
    let longest =
        [nodes.len(), jobs.len(), readers.len(), domains.len(), moves.len()].into_iter().max();
    if longest.is_some_and(|longest| longest > LISTED_MAX) {
        return Err(Error::Usage(format!("a list of the heartbeat has over {LISTED_MAX} entries")));
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
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
