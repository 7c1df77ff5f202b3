//! Jobs: those that run, and all of them.

use crate::by;
use crate::http::answer::{Answer, Asked, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::jobs;
use crate::scheduler::Scheduler;
use api::Failure;
use api::jobs::{Job, JobFilter, Jobs, StartPolicy, StartedPolicy};
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
    work(scheduler, move |scheduler| {
        scheduler.start(by(Admin::WHO), &policy, start.node.as_ref(), start.dry_run)
    })
    .await
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
