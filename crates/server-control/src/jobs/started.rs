//! Jobs that the server has started: their nodes were asked for them, and their sessions have not come yet.

use api::commands::command_of;
use api::jobs::Job;
use parking_lot::Mutex;
use server_contract::access_control::JobNo;
use std::collections::{BTreeMap, BTreeSet};

/// Commands that were cancelled and may still be carried out: so many are remembered.
const OVER_MAX: usize = 4096;

/// By the number of the command.
#[derive(Default)]
pub(super) struct StartedRuns(Mutex<Table>);

#[derive(Default)]
struct Table {
    expected: BTreeMap<u64, Job>,
    over: BTreeSet<u64>,
}

impl StartedRuns {
    /// A session for `command` is expected.
    pub(super) fn expect(&self, command: u64, job: Job) {
        self.0.lock().expected.insert(command, job);
    }

    /// The job whose session this is. Only the node that was asked can take it, in its
    /// domain. It runs, by `run`, before anybody finds
    /// that it is expected no more.
    pub(super) fn take(
        &self,
        (node, domain): (&str, &str),
        kind: &str,
        what: &str,
        run: impl FnOnce(&Job),
    ) -> Option<Job> {
        let command = command_of(what).filter(|_| kind == "backup")?;
        let mut table = self.0.lock();
        table.expected.get(&command).filter(|job| (&*job.node, &*job.domain) == (node, domain))?;
        let job = table.expected.remove(&command)?;
        run(&job);
        Some(job)
    }

    /// The session of this command is not wanted any more. Returns whether it was expected still.
    pub(super) fn forget(&self, command: u64, is_cancelled: bool) -> bool {
        let mut table = self.0.lock();
        let was_expected = table.expected.remove(&command).is_some();
        if is_cancelled {
            table.over.insert(command);
        }
        while table.over.len() > OVER_MAX {
            table.over.pop_first();
        }
        was_expected
    }

    /// Whether the command of this session was cancelled before it came.
    pub(super) fn is_over(&self, what: &str) -> bool {
        command_of(what).is_some_and(|command| self.0.lock().over.contains(&command))
    }

    /// The command of a job.
    pub(super) fn command_of(&self, job: JobNo) -> Option<u64> {
        let table = self.0.lock();
        table.expected.iter().find(|(_, expected)| expected.id == job).map(|(command, _)| *command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::jobs::Progress;

    fn job(id: u64) -> Job {
        serde_json::from_value(serde_json::json!({
            "id": id, "node": "web", "domain": "web", "kind": "backup", "what": "",
            "begun": "1970-01-01T00:00:00Z", "state": "running", "progress": Progress::default(), "cancelled": false
        }))
        .unwrap()
    }

    #[test]
    fn only_the_node_that_was_asked_takes_a_job_and_once() {
        let started = StartedRuns::default();
        started.expect(7, job(1));
        assert!(started.take(("db", "web"), "backup", "command 7", |_| {}).is_none());
        assert!(started.take(("web", "db"), "backup", "command 7", |_| {}).is_none());
        assert!(started.take(("web", "web"), "restore", "command 7", |_| {}).is_none());
        assert!(started.take(("web", "web"), "backup", "command 8", |_| {}).is_none());
        assert_eq!(started.command_of(1), Some(7));
        assert_eq!(started.take(("web", "web"), "backup", "command 7", |_| {}).unwrap().id, 1);
        assert!(started.take(("web", "web"), "backup", "command 7", |_| {}).is_none());
    }

    #[test]
    fn a_session_whose_command_was_cancelled_is_known() {
        let started = StartedRuns::default();
        started.expect(7, job(1));
        started.forget(7, true);
        assert!(started.is_over("command 7") && !started.is_over("command 8"));
        assert!(started.take(("web", "web"), "backup", "command 7", |_| {}).is_none());
    }
}
