//! The snapshot that a job of the server made.

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result};
use access::{Client, blocking};
use api::jobs::Job;
use pipeline::UnlockedRepository;
use pipeline::manifest::Snapshot;
use pipeline::select::{SelectBy, SnapshotSelector};

/// The snapshot of the job `number`, which lies in `repository`.
pub(super) fn snapshot(
    context: &Context,
    repository: &UnlockedRepository,
    number: u64,
) -> Result<Snapshot> {
    let (Some(node), Some(remote)) = (context.node()?, context.remote()) else {
        return Err(Failure::usage("--job is for a node of a server")
            .hint("Name the snapshot instead. To list them: icecore snapshots"));
    };
    let client = Client::of_folder(&node.folder, &node.identity)?;
    let job: Job = blocking::wait(client.get(&format!("/node/jobs/{number}")))?;
    let opened = remote.names().1;
    if job.domain != opened {
        return Err(Failure::usage(format!("job {number} is of the domain '{}'", job.domain))
            .hint(format!("icecore map --job {number} --domain {}", job.domain)));
    }
    let Some(id) = &job.snapshot else { return Err(no_snapshot(&job)) };
    let selector = SnapshotSelector { by: SelectBy::IdPrefix(id.clone()), node: None };
    context.find_quietly(repository, &selector).map_err(|error| match error {
        pipeline::Error::SnapshotNotFound(_) => {
            let what = format!("the snapshot {id:.8} of job {number} does not exist any more");
            Failure::new(Code::Failed, what).hint("Those that exist: icecore snapshots")
        }
        error => context.failure(error),
    })
}

fn no_snapshot(job: &Job) -> Failure {
    let why = job.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let state = crate::commands::server::word(&job.state);
    Failure::new(Code::Failed, format!("job {} ({state}) made no snapshot{why}", job.id))
        .hint("Those that exist: icecore snapshots")
}
