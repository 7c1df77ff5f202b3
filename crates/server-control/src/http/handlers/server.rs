//! The server itself.

use crate::catalog_mark::CatalogMark;
use crate::http::answer::{Answer, Asked, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::retention::Retention;
use crate::status::ServerStatus;
use api::Failure;
use api::status::{Audit, ConfirmedCatalog, Status};
use axum::extract::State;
use serde::Deserialize;

/// Shows the status of the server.
#[utoipa::path(get, path = "/api/v1/status", tag = "server", security(("admin" = [])),
    responses((status = 200, body = Status), (status = "4XX", body = Failure)))]
pub(crate) async fn status(State(server): Topic<ServerStatus>, _: Admin) -> Answer<Status> {
    work(server, |server| server.now()).await
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
    State(server): Topic<ServerStatus>,
    _: Admin,
    Asked(which): Asked<Entries>,
) -> Answer<Audit> {
    work(server, move |server| server.audit(which.before, which.limit)).await
}

/// Says that the catalog counts as it is, when it may lack changes that the server has seen.
#[utoipa::path(post, path = "/api/v1/catalog/confirm", tag = "server", security(("admin" = [])),
    responses((status = 200, body = ConfirmedCatalog), (status = "4XX", body = Failure)))]
pub(crate) async fn confirm_catalog(
    State(mark): Topic<CatalogMark>,
    State(retention): Topic<Retention>,
    _: Admin,
) -> Answer<ConfirmedCatalog> {
    work(retention, move |retention| retention.confirm_catalog(&mark, Admin::WHO)).await
}
