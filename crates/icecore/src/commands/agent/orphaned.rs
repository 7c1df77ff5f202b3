//! A backup whose agent was killed: it goes on, and the agent that was started after that gets its command again. That
//! one sees how the process ends, and tells it: nobody else would miss it for minutes.

use super::cancelled::job_of;
use super::node_commands::{Outcome, killed};
use crate::context::Context;
use crate::node::source_lock;
use api::jobs::JobState;
use std::time::Duration;

/// How often it is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits for the end of a process that works for `job` already; `None` if there is none.
pub(super) fn awaited(context: &Context, job: u64) -> Option<Outcome> {
    let folder = context.agent_folder();
    if !source_lock::is_at_work(&folder, job) {
        return None;
    }
    while source_lock::is_at_work(&folder, job) {
        std::thread::sleep(LOOK_EVERY);
    }
    // A process that ends by itself has ended its job before.
    Some(match job_of(context, job).map(|job| job.state) {
        Some(state) if !state.is_open() => Outcome {
            is_complete: matches!(state, JobState::Complete | JobState::Partial),
            text: "a process that the agent before had started has ended".to_owned(),
        },
        Some(_) => {
            Outcome::refused(killed("the process that the agent before had started was killed"))
        }
        None => {
            Outcome::refused("nobody knows how the process of the agent before ended".to_owned())
        }
    })
}
