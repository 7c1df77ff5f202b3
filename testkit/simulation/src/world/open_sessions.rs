//! Backups that stay open while others commit, forget and reclaim.

use super::task::{Shared, Task, WriterProcess};
use crate::random::Random;

/// So many are open at a time.
const OPEN_MAX: usize = 3;
/// Steps that one makes at a time.
const STEPS_MAX: u64 = 4;

/// One of them.
struct OpenSession {
    task: Task,
    /// Something went wrong since it began: it may fail.
    has_met_fault: bool,
}

/// Those of the process that runs.
#[derive(Default)]
pub(super) struct OpenSessions(Vec<OpenSession>);

impl OpenSessions {
    /// Something went wrong, perhaps under them.
    pub(super) fn meet_fault(&mut self) {
        self.0.iter_mut().for_each(|open| open.has_met_fault = true);
    }

    /// Perhaps begins one, and lets some go on. How many ended well.
    pub(super) fn go_on(
        &mut self,
        running: &WriterProcess,
        shared: &Shared,
        random: &mut Random,
    ) -> repository::Result<u64> {
        if self.0.len() < OPEN_MAX && random.one_in(4) {
            let task = match random.one_in(2) {
                true => Task::lie(running, shared, random),
                false => Task::backup(running, shared, random),
            };
            self.0.push(OpenSession { task, has_met_fault: false });
        }
        if !self.0.is_empty() && random.one_in(6) {
            shared.disk.note("--- an open session is interrupted");
            let at = random.index(self.0.len());
            drop(self.0.remove(at));
        }
        let mut ended = 0;
        for at in (0..self.0.len()).rev() {
            if random.one_in(2) {
                continue;
            }
            let steps = 1 + random.below(STEPS_MAX);
            match self.0[at].go_on(steps, running, shared) {
                Ok(false) => {}
                Ok(true) => {
                    self.0.remove(at);
                    ended += 1;
                }
                Err(error) => {
                    let open = self.0.remove(at);
                    if !open.has_met_fault {
                        return Err(error);
                    }
                    shared.disk.note(format!("    an open session failed: {error}"));
                }
            }
        }
        Ok(ended)
    }
}

impl OpenSession {
    /// Makes so many steps; whether it is done.
    fn go_on(
        &mut self,
        steps: u64,
        running: &WriterProcess,
        shared: &Shared,
    ) -> repository::Result<bool> {
        shared.disk.note("--- an open session goes on");
        for _ in 0..steps {
            if self.task.advance(running, shared)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
