//! Upkeep of domains: how it goes, and starting it now.

use crate::http::answer::{Answer, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::upkeep::Upkeep;
use crate::{by, now_secs};
use api::pools::MoveDomain;
use api::upkeep::{StartUpkeep, StartedUpkeep, StartedUpkeepJob, UpkeepStatus};
use api::{Failure, Name};
use axum::extract::State;

/// Shows each task of upkeep in each domain: when it is due, how it went, and alarms.
#[utoipa::path(get, path = "/api/v1/upkeep", tag = "upkeep", security(("admin" = [])),
    responses((status = 200, body = UpkeepStatus), (status = "4XX", body = Failure)))]
pub(crate) async fn status(State(upkeep): Topic<Upkeep>, _: Admin) -> Answer<UpkeepStatus> {
    work(upkeep, |upkeep| upkeep.status(now_secs())).await
}

/// Starts the tasks of an upkeep now: one job for each in each domain, unless it has one that waits or runs.
#[utoipa::path(post, path = "/api/v1/upkeep/{upkeep}/start", tag = "upkeep",
    params(("upkeep" = String, Path, description = "Its name.")), request_body = StartUpkeep,
    security(("admin" = [])),
    responses((status = 200, body = StartedUpkeep), (status = "4XX", body = Failure)))]
pub(crate) async fn start(
    State(upkeep): Topic<Upkeep>,
    _: Admin,
    At(name): At<String>,
    Body(how): Body<StartUpkeep>,
) -> Answer<StartedUpkeep> {
    work(upkeep, move |upkeep| upkeep.start(by(Admin::WHO), &name, &how)).await
}

/// Moves a domain of this server to another pool, as a job. Nodes use the domain meanwhile, but for a short time at the
/// end.
#[utoipa::path(post, path = "/api/v1/domains/{domain}/move", tag = "pools",
    params(("domain" = Name, Path, description = "The domain.")), request_body = MoveDomain,
    security(("admin" = [])),
    responses((status = 200, body = StartedUpkeepJob), (status = "4XX", body = Failure)))]
pub(crate) async fn move_domain(
    State(upkeep): Topic<Upkeep>,
    _: Admin,
    At(domain): At<Name>,
    Body(wanted): Body<MoveDomain>,
) -> Answer<StartedUpkeepJob> {
    work(upkeep, move |upkeep| upkeep.start_move(by(Admin::WHO), &domain, &wanted)).await
}
