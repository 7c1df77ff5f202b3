//! Retention: snapshots with what becomes of them, the trash, expiry.

use crate::http::answer::{Answer, Asked, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::retention::Retention;
use api::Failure;
use api::retention::{
    ConfirmedClock, Expire, Expiry, NamedDone, NamedSnapshots, RetainedSnapshot, RetainedSnapshots,
    Simulation, SimulationQuery, SnapshotFilter, SourceDeletion,
};
use api::status::Done;
use axum::extract::State;

/// Lists snapshots of all domains, newest first, with what becomes of each and why.
#[utoipa::path(get, path = "/api/v1/retention/snapshots", tag = "retention",
    params(SnapshotFilter), security(("admin" = [])),
    responses((status = 200, body = RetainedSnapshots), (status = "4XX", body = Failure)))]
pub(crate) async fn snapshots(
    State(retention): Topic<Retention>,
    _: Admin,
    Asked(filter): Asked<SnapshotFilter>,
) -> Answer<RetainedSnapshots> {
    work(retention, move |retention| retention.snapshots(&filter)).await
}

/// Shows one snapshot with what becomes of it and why.
#[utoipa::path(get, path = "/api/v1/retention/snapshots/{id}", tag = "retention",
    params(("id" = String, Path, description = "Its id, or the beginning of it.")),
    security(("admin" = [])),
    responses((status = 200, body = RetainedSnapshot), (status = "4XX", body = Failure)))]
pub(crate) async fn snapshot(
    State(retention): Topic<Retention>,
    _: Admin,
    At(id): At<String>,
) -> Answer<RetainedSnapshot> {
    work(retention, move |retention| retention.snapshot(&id)).await
}

/// Puts named snapshots into the trash, or deletes them now; locked and held ones stay.
#[utoipa::path(post, path = "/api/v1/retention/delete", tag = "retention",
    request_body = NamedSnapshots, security(("admin" = [])),
    responses((status = 200, body = NamedDone), (status = "4XX", body = Failure)))]
pub(crate) async fn delete(
    State(retention): Topic<Retention>,
    _: Admin,
    Body(named): Body<NamedSnapshots>,
) -> Answer<NamedDone> {
    work(retention, move |retention| retention.delete_named(Admin::WHO, &named)).await
}

/// Brings named snapshots back from the trash.
#[utoipa::path(post, path = "/api/v1/retention/undelete", tag = "retention",
    request_body = NamedSnapshots, security(("admin" = [])),
    responses((status = 200, body = NamedDone), (status = "4XX", body = Failure)))]
pub(crate) async fn undelete(
    State(retention): Topic<Retention>,
    _: Admin,
    Body(named): Body<NamedSnapshots>,
) -> Answer<NamedDone> {
    work(retention, move |retention| retention.undelete_named(Admin::WHO, &named)).await
}

/// Carries out retention now, in all domains or in one.
#[utoipa::path(post, path = "/api/v1/retention/expire", tag = "retention",
    request_body = Expire, security(("admin" = [])),
    responses((status = 200, body = Expiry), (status = "4XX", body = Failure)))]
pub(crate) async fn expire(
    State(retention): Topic<Retention>,
    _: Admin,
    Body(wanted): Body<Expire>,
) -> Answer<Expiry> {
    work(retention, move |retention| retention.expire_now(Admin::WHO, &wanted)).await
}

/// Simulates the days to come of a policy.
#[utoipa::path(get, path = "/api/v1/retention/policies/{policy}/simulation", tag = "retention",
    params(("policy" = String, Path, description = "The policy."), SimulationQuery),
    security(("admin" = [])),
    responses((status = 200, body = Simulation), (status = "4XX", body = Failure)))]
pub(crate) async fn simulate(
    State(retention): Topic<Retention>,
    _: Admin,
    At(policy): At<String>,
    Asked(wanted): Asked<SimulationQuery>,
) -> Answer<Simulation> {
    work(retention, move |retention| retention.simulate(&policy, &wanted)).await
}

/// Says that the clock of the server's machine is right, when the server doubts it.
#[utoipa::path(post, path = "/api/v1/clock/confirm", tag = "retention", security(("admin" = [])),
    responses((status = 200, body = ConfirmedClock), (status = "4XX", body = Failure)))]
pub(crate) async fn confirm_clock(
    State(retention): Topic<Retention>,
    _: Admin,
) -> Answer<ConfirmedClock> {
    work(retention, |retention| retention.confirm_clock(Admin::WHO)).await
}

/// Says of a source that it is gone, or that it is there after all.
#[utoipa::path(post, path = "/api/v1/retention/sources", tag = "retention",
    request_body = SourceDeletion, security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn delete_source(
    State(retention): Topic<Retention>,
    _: Admin,
    Body(wanted): Body<SourceDeletion>,
) -> Answer<Done> {
    work(retention, move |retention| {
        let SourceDeletion { node, policy, source, deleted } = &wanted;
        retention.delete_source(Admin::WHO, [node, policy, source], *deleted).map(|()| Done {})
    })
    .await
}
