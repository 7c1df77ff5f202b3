//! The routes of the API.

use super::Failed;
use super::handlers::{
    commands, domains, enroll, events, jobs, nodes, options, pools, quotas, reports, retention,
    server, sites, storage_servers, upkeep,
};
use super::openapi;
use super::topics::Server;
use crate::Control;
use api::Code;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post};
use std::sync::Arc;

/// Bodies are small: the largest is a request for a certificate, or a command with many paths.
const BODY_BYTES_MAX: usize = 256 << 10;
/// A heartbeat with some thousand jobs.
const HEARTBEAT_BYTES_MAX: usize = 8 << 20;
/// A file of the site, in which JSON may write each character as six.
const SITE_BYTES_MAX: usize = 6 * site::file::FILE_BYTES_MAX + (1 << 10);

/// The whole API.
pub fn router(control: Arc<Control>) -> Router {
    Router::new()
        .nest(api::BASE, routes())
        .fallback(async || {
            Failed::new(StatusCode::NOT_FOUND, Code::Usage, "no such path")
                .hint("All paths: GET /api/v1/openapi.json")
        })
        .method_not_allowed_fallback(async || {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            Failed::new(status, Code::Usage, "method not allowed for this path")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Server(control.clone()), note_change))
        .with_state(Server(control))
}

/// What an administrator has changed is noted beside the catalog before the answer: a catalog that was restored from
/// an older copy is recognized by it.
async fn note_change(
    State(Server(control)): State<Server>,
    request: Request,
    next: Next,
) -> Response {
    let is_administrator = request.headers().contains_key(AUTHORIZATION);
    let may_change = is_administrator && request.method() != Method::GET;
    let answer = next.run(request).await;
    if may_change {
        let _ = tokio::task::spawn_blocking(move || control.mark.note()).await; // a bug is in the log
    }
    answer
}

fn routes() -> Router<Server> {
    let all = [nodes_and_data(), jobs_and_sites(), of_storage_servers()];
    let own = Router::new()
        .route("/openapi.json", get(openapi::answer))
        .route("/status", get(server::status))
        .route("/audit", get(server::audit))
        .route("/catalog/confirm", post(server::confirm_catalog));
    all.into_iter().fold(own, Router::merge)
}

fn nodes_and_data() -> Router<Server> {
    Router::new()
        .route("/tokens", post(enroll::make_token))
        .route("/enroll", post(enroll::enroll))
        .route("/renew", post(enroll::renew))
        .route("/node/keys", post(enroll::make_key))
        .route("/node/commands", get(commands::own_commands))
        .route("/node/commands/{id}", post(commands::update_command))
        .route("/node/jobs/{id}", get(jobs::job_for_node))
        .route("/node/options", post(options::exchange))
        .route("/nodes", get(nodes::nodes))
        .route("/nodes/{node}", delete(nodes::remove))
        .route("/nodes/{node}/revoke", post(nodes::revoke))
        .route("/nodes/{node}/forget", post(nodes::allow_forget))
        .route("/nodes/{node}/options", get(options::options).post(options::change))
        .route("/limits", get(nodes::limits).post(nodes::add_limit))
        .route("/limits/{id}", delete(nodes::remove_limit))
        .route("/domains", get(domains::domains))
        .route("/domains/{domain}", delete(domains::remove))
        .route("/domains/{domain}/place", post(domains::place))
        .route("/domains/{domain}/move", post(upkeep::move_domain))
        .route("/grants", get(domains::grants).post(domains::grant))
        .route("/grants/{node}/{domain}", delete(domains::withdraw))
        .route("/snapshots", get(domains::snapshots))
        .route("/retention/snapshots", get(retention::snapshots))
        .route("/retention/snapshots/{id}", get(retention::snapshot))
        .route("/retention/delete", post(retention::delete))
        .route("/retention/undelete", post(retention::undelete))
        .route("/retention/expire", post(retention::expire))
        .route("/retention/sources", post(retention::delete_source))
        .route("/retention/policies/{policy}/simulation", get(retention::simulate))
        .route("/clock/confirm", post(retention::confirm_clock))
}

fn jobs_and_sites() -> Router<Server> {
    Router::new()
        .route("/sessions", get(jobs::sessions))
        .route("/jobs", get(jobs::history))
        .route("/jobs/{id}", get(jobs::job))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/log", get(reports::job_log))
        .route("/events", get(events::events))
        .route("/protection", get(reports::protection))
        .route("/reports/backups", get(reports::backups))
        .route("/reports/costs", get(reports::costs))
        .route("/reports/capacity", get(reports::capacity))
        .route("/reports/causes", get(reports::causes))
        .route("/jobs/{id}/suspend", post(jobs::suspend))
        .route("/jobs/{id}/resume", post(jobs::resume))
        .route("/jobs/{id}/retry", post(jobs::retry))
        .route("/jobs/{id}/priority", post(jobs::priority))
        .route("/policies/{policy}/start", post(jobs::start_policy))
        .route("/upkeep", get(upkeep::status))
        .route("/upkeep/{upkeep}/start", post(upkeep::start))
        .route("/pools", get(pools::pools).post(pools::add))
        .route("/pools/{pool}/state", post(pools::set_state))
        .route("/pools/{pool}/remove", post(pools::remove))
        .route("/quotas", get(quotas::quotas))
        .route("/restores", post(commands::restore))
        .route("/backups", post(commands::backup))
        .route("/commands", get(commands::commands))
        .route("/objects/{kind}", get(sites::objects))
        .route("/objects/{kind}/{name}", get(sites::object).put(sites::put).delete(sites::remove))
        .route(
            "/site",
            get(sites::export).post(sites::apply).layer(DefaultBodyLimit::max(SITE_BYTES_MAX)),
        )
}

fn of_storage_servers() -> Router<Server> {
    Router::new()
        .route("/storage-server-tokens", post(storage_servers::make_token))
        .route("/storage-servers", get(storage_servers::storage_servers))
        .route("/storage-servers/{storage}/revoke", post(storage_servers::revoke))
        .route("/storage-server/enroll", post(storage_servers::enroll))
        .route("/storage-server/renew", post(storage_servers::renew))
        .route("/storage-server/admit", post(storage_servers::admit))
        .route("/storage-server/access", post(storage_servers::access))
        .route("/storage-server/forget", post(storage_servers::forget))
        .route("/storage-server/labels", post(storage_servers::labels))
        .route(
            "/storage-server/heartbeat",
            post(storage_servers::heartbeat).layer(DefaultBodyLimit::max(HEARTBEAT_BYTES_MAX)),
        )
}
