//! The job of a connection: its begin, its progress, and how it ended.

use super::{Answer, RequestHandler};
use crate::faults;
use crate::read_counters::READ;
use protocol::Packet;
use protocol::packet::Purpose;
use protocol::state::State;
use repository::fallback::CopyUse;
use server_contract::access_control::{JobEnd, JobStatus};
use std::sync::atomic::Ordering;

impl RequestHandler {
    /// `false` when the node has begun too many.
    pub(super) fn job_begins(&mut self, kind: &str) -> bool {
        let Some(open) = &self.open else { return true };
        let (node, domain) = (&self.handle.node, &open.access.domain);
        if !self.shared.may_begin_job(node) {
            return false;
        }
        let job = self.shared.access_control.job_begins(node, domain, kind, "");
        self.handle.job.store(job, Ordering::Relaxed);
        self.job = Some(job);
        true
    }

    pub(super) fn progress(&self, status: JobStatus) {
        let access_control = &*self.shared.access_control;
        match (&self.session, self.job) {
            (Some((session, _)), _) => session.progress(status, access_control),
            (None, Some(job)) => access_control.job_is_at(job, &status),
            (None, None) => {}
        }
    }

    pub(super) fn finish(&mut self, is_complete: bool, report: &[u8]) -> Answer {
        let end = match is_complete {
            true => JobEnd::Complete { snapshot: None, is_partial: is_partial(report) },
            false => JobEnd::Failed(reason(report)),
        };
        let report = with_waits(report, self.handle.waits.report());
        self.handle.job.store(0, Ordering::Relaxed);
        if let Some(job) = self.job.take() {
            self.shared.access_control.job_ends(job, &end, &report);
        } else if let Some((session, _)) = self.session.take() {
            session.finish(&*self.shared.access_control, &end, &report);
            session.detach();
            self.shared.sessions.remove(&session);
            self.state = State::Open;
        }
        Ok(Some(Packet::Done {}))
    }

    /// Records reading as a job, whatever its purpose: the list of jobs shows who read which domain, and how much. A
    /// backup reads pages of the last snapshot, before its session and in it, which is not counted.
    pub(super) fn note_read(&mut self, record: &[u8]) -> Result<(), Packet> {
        let access_control = &*self.shared.access_control;
        if let Some((session, _)) = &self.session {
            return session.note_read(record, access_control);
        }
        self.reads.add(record);
        let is_backup = *self.handle.purpose.lock() == Some(Purpose::Backup);
        if self.job.is_none() && self.reads.is_news(is_backup) {
            self.reads.is_job = true;
            if !self.job_begins(READ) {
                return Err(faults::too_many_jobs(&self.handle.node.name));
            }
        }
        if let (true, Some(job)) = (self.reads.is_job, self.job) {
            self.shared.access_control.job_is_at(job, &self.reads.status());
        }
        Ok(())
    }

    /// The connection is gone. A session waits for its node; a restore does not.
    pub(crate) fn end(&mut self) {
        self.tell_copies();
        if let Some((session, _)) = self.session.take() {
            session.detach();
        }
        // Who made its snapshot and said no more has ended all the same: see `expired`.
        // When the server stops, it was not the node that went away: the next start says so.
        if let Some(job) = self.job.take().filter(|_| !self.shared.hub.is_closed()) {
            let (end, report) = match &self.reads {
                _ if self.handle.node.is_revoked() => {
                    (JobEnd::Failed(crate::REVOKED.to_owned()), String::new())
                }
                reads if reads.is_job => {
                    (JobEnd::Complete { snapshot: None, is_partial: false }, reads.report())
                }
                _ => (JobEnd::Lost, String::new()),
            };
            self.shared.access_control.job_ends(job, &end, &report);
        }
    }
}

impl RequestHandler {
    /// Says which copies had to be read: the disk of the pool may be failing.
    fn tell_copies(&mut self) {
        let Some(open) = self.open.take() else { return };
        let domain = open.access.domain.as_str();
        for CopyUse { place, reads, problem } in open.copies_used() {
            if let Some(problem) = problem {
                tracing::warn!(domain, place, problem, "a copy cannot be used");
            }
            if reads > 0 {
                tracing::warn!(domain, place, reads, "records were lost, and read from a copy");
                let access_control = &self.shared.access_control;
                access_control.was_read_from_copy(&self.handle.node, domain, &place, reads);
            }
        }
    }
}

/// Whether a restore says that it could not do all.
fn is_partial(report: &[u8]) -> bool {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(report).ok();
    parsed.is_some_and(|report| report["partial"] == true)
}

/// Why a job failed: the message of its report; of a program that sends only a text, that.
fn reason(report: &[u8]) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(report).ok();
    let message = parsed.as_ref().and_then(|report| report["message"].as_str());
    message.map_or_else(|| String::from_utf8_lossy(report).into_owned(), str::to_owned)
}

/// The report of a node, with the waits of this end added.
fn with_waits(report: &[u8], waits: serde_json::Value) -> String {
    match serde_json::from_slice(report) {
        Ok(serde_json::Value::Object(mut report)) => {
            report.insert("server".to_owned(), waits);
            serde_json::Value::Object(report).to_string()
        }
        _ => String::from_utf8_lossy(report).into_owned(),
    }
}
