//! Jobs: those that run, and all of them.

use crate::by;
use crate::http::answer::{Answer, Asked, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::{Admin, FromNode};
use crate::jobs;
use crate::permissions::Permissions;
use crate::scheduler::Scheduler;
use api::Failure;
use api::jobs::{Job, JobFilter, JobPriority, Jobs, RetriedJob, StartPolicy, StartedPolicy};
use api::status::Done;
use axum::extract::State;

/// Lists running jobs with their rates.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "jobs", security(("admin" = [])),
    responses((status = 200, body = Jobs), (status = "4XX", body = Failure)))]
pub(crate) async fn sessions(State(jobs): Topic<jobs::Jobs>, _: Admin) -> Answer<Jobs> {
    work(jobs, |jobs| Ok(jobs.sessions())).await
}

/// Lists jobs, newest first, one page at a time.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(JobFilter),
    security(("admin" = [])),
    responses((status = 200, body = Jobs), (status = "4XX", body = Failure)))]
pub(crate) async fn history(
    State(jobs): Topic<jobs::Jobs>,
    _: Admin,
    Asked(filter): Asked<JobFilter>,
) -> Answer<Jobs> {
    work(jobs, move |jobs| jobs.history(&filter)).await
}

/// Shows one job with its report.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Job), (status = "4XX", body = Failure)))]
pub(crate) async fn job(State(jobs): Topic<jobs::Jobs>, _: Admin, At(id): At<u64>) -> Answer<Job> {
    work(jobs, move |jobs| jobs.job(id)).await
}

/// Shows the calling node one job: its own, or one of a domain that it may read.
#[utoipa::path(get, path = "/api/v1/node/jobs/{id}", tag = "jobs", operation_id = "job_of_node",
    params(("id" = u64, Path, description = "Its number.")), security(("node" = [])),
    responses((status = 200, body = Job), (status = "4XX", body = Failure)))]
pub(crate) async fn job_for_node(
    State(jobs): Topic<jobs::Jobs>,
    State(permissions): Topic<Permissions>,
    FromNode(node): FromNode,
    At(id): At<u64>,
) -> Answer<Job> {
    work(jobs, move |jobs| jobs.job_for(&permissions, &node, id)).await
}

/// Starts the backups of a policy now: one for each source of each node, unless it has a job that waits or runs.
#[utoipa::path(post, path = "/api/v1/policies/{policy}/start", tag = "jobs",
    params(("policy" = String, Path, description = "Its name.")), request_body = StartPolicy,
    security(("admin" = [])),
    responses((status = 200, body = StartedPolicy), (status = "4XX", body = Failure)))]
pub(crate) async fn start_policy(
    State(scheduler): Topic<Scheduler>,
    _: Admin,
    At(policy): At<String>,
    Body(start): Body<StartPolicy>,
) -> Answer<StartedPolicy> {
    work(scheduler, move |scheduler| scheduler.start(by(Admin::WHO), &policy, &start)).await
}

/// Cancels a job that waits or runs.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn cancel(
    State(jobs): Topic<jobs::Jobs>,
    _: Admin,
    At(id): At<u64>,
) -> Answer<Done> {
    work(jobs, move |jobs| jobs.cancel(Admin::WHO, id).map(|()| Done {})).await
}

/// Suspends a job of a policy that waits or runs. One that runs starts again when it is resumed.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/suspend", tag = "jobs",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn suspend(
    State(jobs): Topic<jobs::Jobs>,
    _: Admin,
    At(id): At<u64>,
) -> Answer<Done> {
    work(jobs, move |jobs| jobs.suspend(Admin::WHO, id).map(|()| Done {})).await
}

/// Lets a suspended job wait for its turn again.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/resume", tag = "jobs",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn resume(
    State(jobs): Topic<jobs::Jobs>,
    _: Admin,
    At(id): At<u64>,
) -> Answer<Done> {
    work(jobs, move |jobs| jobs.resume_suspended(Admin::WHO, id).map(|()| Done {})).await
}

/// Queues what an ended job of a policy was to do, once more.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/retry", tag = "jobs",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = RetriedJob), (status = "4XX", body = Failure)))]
pub(crate) async fn retry(
    State(jobs): Topic<jobs::Jobs>,
    _: Admin,
    At(id): At<u64>,
) -> Answer<RetriedJob> {
    work(jobs, move |jobs| jobs.retry(Admin::WHO, id)).await
}

/// Sets the priority of a job that waits.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/priority", tag = "jobs", request_body = JobPriority,
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn priority(
    State(jobs): Topic<jobs::Jobs>,
    _: Admin,
    At(id): At<u64>,
    Body(new): Body<JobPriority>,
) -> Answer<Done> {
    work(jobs, move |jobs| jobs.set_priority(Admin::WHO, id, new.priority).map(|()| Done {})).await
}
