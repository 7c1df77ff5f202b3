//! The running jobs with their rates, in memory.

use api::jobs::{Job, JobCause, Progress};
use parking_lot::Mutex;
use server_contract::access_control::{JobNo, JobStatus};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Rates are averages over the last samples, at most one a second.
const SAMPLES: usize = 10;
/// A job without progress for this long has rate 0.
const SILENT: Duration = Duration::from_secs(5);
/// Longest path that is shown; longer ones lose their beginning.
const PATH_BYTES_MAX: usize = 512;
const JOB_TEXT_BYTES_MAX: usize = 4096;

/// The running jobs.
#[derive(Default)]
pub(super) struct JobTable {
    running: Mutex<BTreeMap<JobNo, Live>>,
}

pub(super) struct Live {
    pub(super) job: Job,
    /// Set when its session is to end because nobody is left who could go on with it.
    pub(super) given_up: Option<(JobCause, String)>,
    /// Whether it waits once its session has ended.
    pub(super) is_suspended: bool,
    samples: VecDeque<(Instant, u64, u64)>,
}

impl Live {
    /// The job with its rates.
    pub(super) fn shown(&self) -> Job {
        let rates = self.samples.front().zip(self.samples.back()).and_then(|(first, last)| {
            if last.0.elapsed() > SILENT {
                return Some((0.0, 0.0));
            }
            let secs = last.0.duration_since(first.0).as_secs_f64();
            let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / secs;
            (secs > 0.0).then(|| (rate(first.1, last.1), rate(first.2, last.2)))
        });
        let (objects_per_sec, bytes_per_sec) = rates.unzip();
        Job { objects_per_sec, bytes_per_sec, ..self.job.clone() }
    }

    fn sample(&mut self, status: &JobStatus) {
        let now = Instant::now();
        let is_due = self.samples.back().is_none_or(|last| (now - last.0).as_millis() >= 900);
        if is_due {
            self.samples.push_back((now, status.objects, status.bytes));
        }
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }
}

impl JobTable {
    pub(super) fn add(&self, job: Job) {
        let samples = VecDeque::from([(Instant::now(), 0, 0)]);
        self.running
            .lock()
            .insert(job.id, Live { job, samples, given_up: None, is_suspended: false });
    }

    pub(super) fn is_at(&self, id: JobNo, status: &JobStatus) {
        if let Some(live) = self.running.lock().get_mut(&id) {
            live.sample(status);
            live.job.progress = progress(status);
        }
    }

    pub(super) fn take(&self, id: JobNo) -> Option<Live> {
        self.running.lock().remove(&id)
    }

    /// Only a backup that a policy wants can begin again by itself.
    pub(super) fn suspend(&self, id: JobNo) -> Option<bool> {
        let mut running = self.running.lock();
        let live = running.get_mut(&id)?;
        live.is_suspended = live.job.plan.is_some();
        Some(live.is_suspended)
    }

    pub(super) fn give_up(&self, id: JobNo, cause: JobCause, why: &str) {
        if let Some(live) = self.running.lock().get_mut(&id) {
            live.given_up = Some((cause, capped(why).to_owned()));
        }
    }

    pub(super) fn all(&self) -> Vec<Job> {
        self.running.lock().values().map(Live::shown).collect()
    }

    pub(super) fn one(&self, id: JobNo) -> Option<Job> {
        self.running.lock().get(&id).map(Live::shown)
    }

    pub(super) fn count(&self) -> usize {
        self.running.lock().len()
    }

    pub(super) fn has_any_of(&self, node: &str) -> bool {
        self.running.lock().values().any(|live| live.job.node == node)
    }

    pub(super) fn cancel(&self, id: JobNo) -> bool {
        let mut running = self.running.lock();
        running.get_mut(&id).map(|live| live.job.cancelled = true).is_some()
    }

    pub(super) fn is_cancelled(&self, id: JobNo) -> bool {
        let running = self.running.lock();
        let is_over =
            |live: &Live| live.job.cancelled || live.is_suspended || live.given_up.is_some();
        running.get(&id).is_some_and(is_over)
    }
}

fn progress(status: &JobStatus) -> Progress {
    Progress {
        objects: status.objects,
        bytes: status.bytes,
        bytes_read: status.bytes_read,
        bytes_wire: status.bytes_wire,
        stage: capped(&status.stage).to_owned(),
        path: shown_path(&status.path),
    }
}

/// A path for people: bytes that are not UTF-8 are escaped, and of a long one the end is shown.
fn shown_path(path: &[u8]) -> String {
    let start = path.len().saturating_sub(PATH_BYTES_MAX);
    let mut shown = String::new();
    for chunk in path.get(start..).unwrap_or_default().utf8_chunks() {
        let plain = chunk.valid().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
        shown.extend(plain);
        chunk.invalid().iter().for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
    }
    shown
}

/// The beginning of a text that a peer sent.
pub(super) fn capped(text: &str) -> &str {
    &text[..text.floor_char_boundary(JOB_TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_tells_nothing_any_more_has_no_rate() {
        let mut live =
            Live { job: running(), samples: VecDeque::new(), given_up: None, is_suspended: false };
        let ago = |secs: u64| Instant::now().checked_sub(Duration::from_secs(secs)).unwrap();
        live.samples = [(ago(2), 0, 0), (ago(1), 10, 1_000)].into();
        assert!(live.shown().bytes_per_sec.unwrap() > 900.0);
        live.samples = [(ago(61), 0, 0), (ago(60), 10, 1_000)].into();
        assert_eq!(live.shown().bytes_per_sec, Some(0.0));
    }

    fn running() -> Job {
        serde_json::from_value(serde_json::json!({
            "id": 1, "node": "web", "domain": "web", "kind": "backup", "what": "",
            "begun": "1970-01-01T00:00:00Z", "state": "running", "progress": Progress::default(), "cancelled": false
        }))
        .unwrap()
    }

    #[test]
    fn paths_are_shown_without_what_a_terminal_obeys() {
        assert_eq!(shown_path(b"/a\x1b[2J/\xff\xc3\xa4"), "/a\u{fffd}[2J/\\xff\u{e4}");
        assert_eq!(shown_path(&[b'x'; 10_000]).len(), PATH_BYTES_MAX);
    }
}
