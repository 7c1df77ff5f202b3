//! Jobs of a storage server: heartbeats report all of them, and their ends until these are acknowledged.

use api::jobs::{JobState, Progress};
use api::storage_servers::{JobReply, StorageJob, StorageJobEnd};
use parking_lot::Mutex;
use server_contract::access_control::{JobEnd, JobNo, JobStatus, Labels, Node};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of ended jobs that wait for the control server; the oldest are dropped.
const ENDED_MAX: usize = 4096;
/// Maximum number of jobs in one heartbeat.
const TOLD_MAX: usize = 4096;
/// Maximum of report bytes in one heartbeat.
const REPORTS_BYTES_MAX: usize = 2 << 20;
/// Longest report that is kept, as on the control server.
const REPORT_BYTES_MAX: usize = 256 << 10;
/// Longest path that is shown; longer ones lose their beginning.
const PATH_BYTES_MAX: usize = 512;
/// Bytes of a text of a job that a heartbeat carries; the control server takes longer ones from its own nodes.
const HEARTBEAT_TEXT_BYTES_MAX: usize = 1024;

/// The jobs, by number.
#[derive(Default)]
pub(super) struct Jobs {
    next: AtomicU64,
    all: Mutex<BTreeMap<JobNo, Job>>,
}

struct Job {
    told: StorageJob,
    cancelled: bool,
    labels: Option<Labels>,
}

impl Jobs {
    /// Adds a job.
    pub(super) fn begin(&self, node: &Node, domain: &str, kind: &str, what: &str) -> JobNo {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        if let (Ok(node), Ok(domain)) = (node.name.parse(), domain.parse()) {
            let (kind, what) = (capped(kind).to_owned(), capped(what).to_owned());
            let (job, end, progress) = (None, None, Progress::default());
            let told = StorageJob { number, job, node, domain, kind, what, progress, end };
            self.all.lock().insert(number, Job { told, cancelled: false, labels: None });
        }
        number
    }

    /// Records the progress of a job.
    pub(super) fn is_at(&self, number: JobNo, status: &JobStatus) {
        if let Some(job) = self.all.lock().get_mut(&number) {
            job.told.progress = progress(status);
        }
    }

    /// Records the end of a job. A job that has ended does not change.
    pub(super) fn end(&self, number: JobNo, end: &JobEnd, report: &str) {
        let mut all = self.all.lock();
        if let Some(job) = all.get_mut(&number).filter(|job| job.told.end.is_none()) {
            job.told.end = Some(ending(end, report));
        }
        let ended = all.values().filter(|job| job.told.end.is_some());
        if ended.clone().count() > ENDED_MAX
            && let Some(oldest) = ended.map(|job| job.told.number).next()
        {
            all.remove(&oldest);
        }
    }

    /// Backups that the control server knows and whose labels are not known here yet.
    pub(super) fn without_labels(&self) -> Vec<JobNo> {
        let all = self.all.lock();
        let is_one = |job: &&Job| {
            let told = &job.told;
            told.kind == "backup"
                && told.job.is_some()
                && told.end.is_none()
                && job.labels.is_none()
        };
        all.values().filter(is_one).map(|job| job.told.number).collect()
    }

    /// Remembers the labels of a job; what they are now. A lock that was promised when it began holds, even if its
    /// policy was removed since.
    pub(super) fn label(&self, number: JobNo, mut labels: Labels) -> Labels {
        if let Some(job) = self.all.lock().get_mut(&number) {
            let before = job.labels.as_ref().and_then(|labels| labels.lock_secs);
            labels.lock_secs = labels.lock_secs.or(before);
            job.labels = Some(labels.clone());
        }
        labels
    }

    /// The labels of a job, as they were told last.
    pub(super) fn labels(&self, number: JobNo) -> Option<Labels> {
        self.all.lock().get(&number).and_then(|job| job.labels.clone())
    }

    /// Whether its cancellation was requested.
    pub(super) fn is_cancelled(&self, number: JobNo) -> bool {
        self.all.lock().get(&number).is_some_and(|job| job.cancelled)
    }

    /// The jobs for the next heartbeat; others follow. A job that was reported once is reported until it has ended.
    pub(super) fn to_report(&self) -> Vec<StorageJob> {
        let mut bytes = 0;
        let mut told = Vec::new();
        for Job { told: job, .. } in self.all.lock().values() {
            let report = job.end.as_ref().map_or(0, |end| end.report.len());
            let mut job = job.clone();
            if bytes + report > REPORTS_BYTES_MAX {
                job.end = None;
            } else {
                bytes += report;
            }
            told.push(job);
            if told.len() >= TOLD_MAX {
                break;
            }
        }
        told
    }

    /// Applies the reply to a heartbeat. Jobs whose end was acknowledged are dropped.
    pub(super) fn apply_reply(&self, asked: &[StorageJob], told: &[JobReply]) {
        let mut all = self.all.lock();
        for (asked, told) in asked.iter().zip(told) {
            if asked.end.is_some() {
                all.remove(&asked.number);
            } else if let Some(job) = all.get_mut(&asked.number) {
                job.told.job = told.job;
                job.cancelled = told.cancelled;
            }
        }
    }
}

fn progress(status: &JobStatus) -> Progress {
    let start = status.path.len().saturating_sub(PATH_BYTES_MAX);
    let path = status.path.get(start..).unwrap_or_default();
    Progress {
        objects: status.objects,
        bytes: status.bytes,
        bytes_read: status.bytes_read,
        bytes_wire: status.bytes_wire,
        stage: capped(&status.stage).to_owned(),
        path: path.utf8_chunks().map(shown).collect(),
    }
}

/// What is no text is escaped.
fn shown(chunk: std::str::Utf8Chunk<'_>) -> String {
    let escaped = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
    std::iter::once(chunk.valid().to_owned()).chain(escaped).collect()
}

fn ending(end: &JobEnd, report: &str) -> StorageJobEnd {
    // A part of a report is no JSON.
    let report = if report.len() <= REPORT_BYTES_MAX { report.to_owned() } else { String::new() };
    let (state, snapshot, error) = match end {
        JobEnd::Complete { snapshot, is_partial: true } => {
            (JobState::Partial, snapshot.clone(), None)
        }
        JobEnd::Complete { snapshot, .. } => (JobState::Complete, snapshot.clone(), None),
        JobEnd::Failed(why) => (JobState::Failed, None, Some(capped(why).to_owned())),
        JobEnd::Lost => (JobState::Lost, None, None),
    };
    StorageJobEnd { state, snapshot, error, report }
}

/// The beginning of a text that a node sent.
fn capped(text: &str) -> &str {
    &text[..text.floor_char_boundary(HEARTBEAT_TEXT_BYTES_MAX)]
}
