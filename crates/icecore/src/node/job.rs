//! A job as the server sees it: its progress, sent every second, and how it ended. A job that takes weeks
//! renews the certificate of its machine meanwhile.

use crate::codes::Code;
use crate::failure::Failure;
use crate::hooks::HookReport;
use crate::node::network;
use crate::node::renewal::Renewal;
use crate::out::Out;
use pipeline::backup::Progress;
use remote::Remote;
use remote::metrics::NetworkReport;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const TELL_EVERY: Duration = Duration::from_secs(1);

/// A job that reports to the server until it ends. For a local repository it does nothing.
pub(crate) struct Job {
    remote: Option<Arc<Remote>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Job {
    /// A job on a repository of this machine: there is nobody to tell.
    pub(crate) fn local() -> Self {
        Self { remote: None, stop: None, thread: None }
    }

    /// Begins to tell. The server shows `stage`, and paths unless `is_sealed`.
    pub(crate) fn begin(
        remote: Arc<Remote>,
        (progress, out): (Arc<Progress>, Arc<Out>),
        mut renewal: Renewal,
        (stage, is_sealed): (&'static str, bool),
    ) -> Self {
        remote.will_tell_end();
        let (stop, stopped) = channel();
        let teller = remote.clone();
        // Where none can start, the server is told at the end, and not before.
        let thread = std::thread::Builder::new().spawn(move || {
            while stopped.recv_timeout(TELL_EVERY) == Err(RecvTimeoutError::Timeout) {
                if let Some(([up, down], reason)) = teller.new_limits() {
                    out.note(&network::limits(up, down, &reason));
                }
                tell(&teller, &progress, stage, is_sealed);
                renewal.look(&out);
            }
            tell(&teller, &progress, stage, is_sealed);
        });
        Self { remote: Some(remote), stop: Some(stop), thread: thread.ok() }
    }

    /// Ends it; `report` is what the job's summary says.
    pub(crate) fn end(mut self, code: Code, report: &impl Serialize) {
        self.quiet();
        let is_complete = matches!(code, Code::Complete | Code::Partial);
        if let Some(remote) = self.remote.take() {
            let ended = EndReport {
                report,
                partial: code == Code::Partial,
                message: (!is_complete).then(|| code.meaning()),
            };
            let report = serde_json::to_string(&ended).unwrap_or_default();
            // The snapshot exists, even if the server does not learn how the job ended.
            let _ = remote.finish(is_complete, &report);
        }
    }

    /// Ends it without success; the server notes why, and what the hooks said that ran before and after.
    pub(crate) fn fail(mut self, failure: &Failure, hooks: &[HookReport]) {
        self.quiet();
        if let Some(remote) = self.remote.take() {
            let report =
                FailedReport { message: &failure.message, name: failure.code.name(), hooks };
            remote.abandon_because(&serde_json::to_string(&report).unwrap_or_default());
        }
    }

    /// What the connection did so far.
    pub(crate) fn wire(&self) -> Option<NetworkReport> {
        self.remote.as_ref().map(|remote| remote.report())
    }

    fn quiet(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Job {
    /// The job failed. A server that cannot be told notices that the session ended.
    fn drop(&mut self) {
        self.quiet();
        if let Some(remote) = self.remote.take() {
            remote.abandon();
        }
    }
}

/// The report of a job that came to its end.
#[derive(Serialize)]
struct EndReport<'a, T> {
    #[serde(flatten)]
    report: &'a T,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
    /// Why it counts as failed all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

/// The report of a job that failed.
#[derive(Serialize)]
struct FailedReport<'a> {
    message: &'a str,
    name: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    hooks: &'a [HookReport],
}

fn tell(remote: &Remote, progress: &Progress, stage: &str, is_sealed: bool) {
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let path = if is_sealed { Vec::new() } else { progress.current() };
    let (objects, bytes) = (get(&progress.objects), get(&progress.bytes));
    remote.progress(objects, bytes, get(&progress.bytes_read), stage, &path);
}
