//! Jobs: those that run, and all of them.

use super::Server;
use crate::control::http::answer::{Answer, Asked, At, work};
use crate::control::http::who::Admin;
use api::Failure;
use api::jobs::{Job, JobFilter, Jobs};
use api::status::Done;
use axum::extract::State;

/// Lists running jobs with their rates.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "jobs", security(("admin" = [])),
    responses((status = 200, body = Jobs), (status = "4XX", body = Failure)))]
pub(crate) async fn sessions(State(control): Server, _: Admin) -> Answer<Jobs> {
    work(control, |control| Ok(control.sessions())).await
}

/// Lists jobs, newest first, one page at a time.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(JobFilter),
    security(("admin" = [])),
    responses((status = 200, body = Jobs), (status = "4XX", body = Failure)))]
pub(crate) async fn history(
    State(control): Server,
    _: Admin,
    Asked(filter): Asked<JobFilter>,
) -> Answer<Jobs> {
    work(control, move |control| control.history(&filter)).await
}

/// Shows one job with its report.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Job), (status = "4XX", body = Failure)))]
pub(crate) async fn job(State(control): Server, _: Admin, At(id): At<u64>) -> Answer<Job> {
    work(control, move |control| control.job(id)).await
}

/// Cancels a running job.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn cancel(State(control): Server, _: Admin, At(id): At<u64>) -> Answer<Done> {
    work(control, move |control| control.cancel_job(Admin::WHO, id).map(|()| Done {})).await
}
