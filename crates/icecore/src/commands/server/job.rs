//! `icecore server job`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use api::jobs::{JobPriority, RetriedJob};
use api::status::Done;

/// Suspend, resume, retry or cancel a job, or set its priority.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server job suspend 17\n  icecore server job resume 17\n  icecore server job retry 17\n  icecore server job priority 17 90\n  icecore server job cancel 17"
)]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    action: JobAction,
}

#[derive(clap::Subcommand, Debug)]
enum JobAction {
    /// Let a job of a policy wait until it is resumed. A backup that runs is ended; when it is resumed it starts again
    /// and finds what it had stored.
    #[command(after_help = "Example:\n  icecore server job suspend 17")]
    Suspend {
        /// The job.
        #[arg(value_name = "JOB")]
        id: u64,
    },
    /// Let a suspended job wait for its turn again.
    #[command(after_help = "Example:\n  icecore server job resume 17")]
    Resume {
        /// The job.
        #[arg(value_name = "JOB")]
        id: u64,
    },
    /// Repeat a job of a policy that has ended.
    #[command(after_help = "Example:\n  icecore server job retry 17")]
    Retry {
        /// The job.
        #[arg(value_name = "JOB")]
        id: u64,
    },
    /// Set the priority of a job that waits.
    #[command(after_help = "Example:\n  icecore server job priority 17 90")]
    Priority {
        /// The job.
        #[arg(value_name = "JOB")]
        id: u64,
        /// From 0 to 100: a waiting job of a greater one starts first.
        #[arg(value_name = "PRIORITY", value_parser = clap::value_parser!(u32).range(0..=100))]
        priority: u32,
    },
    /// Cancel a job that waits or runs.
    #[command(after_help = "Example:\n  icecore server job cancel 17")]
    Cancel {
        /// The job.
        #[arg(value_name = "JOB")]
        id: u64,
    },
}

impl JobArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let (id, word, said) = match self.action {
            JobAction::Suspend { id } => {
                (id, "suspend", "is suspended as soon as its session ends")
            }
            JobAction::Resume { id } => (id, "resume", "waits for its turn"),
            JobAction::Cancel { id } => (id, "cancel", "was asked to end"),
            JobAction::Retry { id } => return retry(reach, context, id),
            JobAction::Priority { id, priority } => {
                let _: Done =
                    reach.post(&format!("/jobs/{id}/priority"), &JobPriority { priority })?;
                return told(context, &format!("Job {id} has priority {priority}"), &Done {});
            }
        };
        let done: Done = reach.post(&format!("/jobs/{id}/{word}"), &())?;
        told(context, &format!("Job {id} {said}"), &done)
    }
}

fn retry(reach: &Reach, context: &Context, id: u64) -> Result<Code> {
    let retried: RetriedJob = reach.post(&format!("/jobs/{id}/retry"), &())?;
    told(context, &format!("Job {} does again what job {id} was to do", retried.job), &retried)
}

fn told(context: &Context, said: &str, summary: &impl serde::Serialize) -> Result<Code> {
    context.out.line(&format!("{said}: icecore server jobs"))?;
    context.out.summary(Code::Complete, summary)
}
