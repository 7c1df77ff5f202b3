//! Quotas: how much of them is used. They are declared as objects of the site.

use crate::http::answer::{Answer, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::quotas;
use api::Failure;
use api::quotas::Quotas;
use axum::extract::State;

/// Lists all quotas, and what their domains store.
#[utoipa::path(get, path = "/api/v1/quotas", tag = "quotas", security(("admin" = [])),
    responses((status = 200, body = Quotas), (status = "4XX", body = Failure)))]
pub(crate) async fn quotas(State(quotas): Topic<quotas::Quotas>, _: Admin) -> Answer<Quotas> {
    work(quotas, quotas::Quotas::all).await
}
