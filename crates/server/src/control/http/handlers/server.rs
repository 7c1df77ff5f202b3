//! The server itself.

use super::Server;
use crate::control::http::answer::{Answer, Asked, work};
use crate::control::http::who::Admin;
use api::Failure;
use api::status::{Audit, Status};
use axum::extract::State;
use serde::Deserialize;

/// Shows the status of the server.
#[utoipa::path(get, path = "/api/v1/status", tag = "server", security(("admin" = [])),
    responses((status = 200, body = Status), (status = "4XX", body = Failure)))]
pub(crate) async fn status(State(control): Server, _: Admin) -> Answer<Status> {
    work(control, |control| control.status()).await
}

/// Filter for entries.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Entries {
    /// Only entries with lower numbers.
    before: Option<u64>,
    /// Maximum number of entries; default 100, at most 1,000.
    limit: Option<u32>,
}

/// Shows the audit log, newest first; verifies the whole hash chain.
#[utoipa::path(get, path = "/api/v1/audit", tag = "server", params(Entries),
    security(("admin" = [])),
    responses((status = 200, body = Audit), (status = "4XX", body = Failure)))]
pub(crate) async fn audit(
    State(control): Server,
    _: Admin,
    Asked(which): Asked<Entries>,
) -> Answer<Audit> {
    work(control, move |control| control.audit(which.before, which.limit)).await
}
