//! A cancelled job whose backup runs its hooks yet: it has no session that the server could end, so the agent asks, and
//! ends the process.

use crate::context::Context;
use access::{Client, blocking};
use api::jobs::{Job, JobState};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often the server is asked.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// How long it may take to answer: the end of the process waits for that.
const ASK_TIME: Duration = Duration::from_secs(5);

/// A process that works for a job.
pub(super) struct Worker {
    job: u64,
    process: OwnedFd,
}

impl Worker {
    /// `None` where the kernel gives no handle of a process (before Linux 5.3): a number alone may be another one's by
    /// then.
    pub(super) fn of(child: &Child, job: u64) -> Option<Self> {
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
        Some(Self { job, process })
    }

    /// Asks it to end once its job is cancelled; until the job has a session, or `over` is closed.
    pub(super) fn watch(&self, context: &Context, over: &Receiver<()>) {
        while over.recv_timeout(ASK_EVERY) == Err(RecvTimeoutError::Timeout) {
            // A server that does not answer has cancelled nothing of which anybody knows.
            match job_of(context, self.job) {
                Some(job) if !job.progress.stage.is_empty() => return,
                Some(job) if is_cancelled(&job) => {
                    let _ = pidfd_send_signal(&self.process, Signal::TERM); // it may have ended
                    return;
                }
                _ => {}
            }
        }
    }
}

/// A job of this node, as the server sees it; `None` if that does not say so.
pub(super) fn job_of(context: &Context, number: u64) -> Option<Job> {
    let node = context.enrolled().ok()?;
    let client = Client::of_folder(&node.folder, &node.identity).ok()?.with_call_time(ASK_TIME);
    blocking::wait(client.get(&format!("/node/jobs/{number}"))).ok()
}

fn is_cancelled(job: &Job) -> bool {
    job.cancelled || matches!(job.state, JobState::Cancelled | JobState::Suspended)
}
