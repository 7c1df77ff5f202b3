//! Nodes and limits.

use super::Server;
use crate::control::http::answer::{Answer, At, Body, work};
use crate::control::http::who::Admin;
use api::limits::{Limit, Limits};
use api::nodes::{ForgetPermission, Nodes};
use api::status::Done;
use api::{Failure, Name};
use axum::extract::State;

/// Lists all nodes.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes", security(("admin" = [])),
    responses((status = 200, body = Nodes), (status = "4XX", body = Failure)))]
pub(crate) async fn nodes(State(control): Server, _: Admin) -> Answer<Nodes> {
    work(control, |control| control.nodes()).await
}

/// Revokes a node: access is denied, and its sessions are closed at once.
#[utoipa::path(post, path = "/api/v1/nodes/{node}/revoke", tag = "nodes",
    params(("node" = Name, Path, description = "The node.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn revoke(State(control): Server, _: Admin, At(node): At<Name>) -> Answer<Done> {
    work(control, move |control| control.revoke_node(Admin::WHO, &node).map(|()| Done {})).await
}

/// Sets which snapshots of its domain a node may forget; none by default.
#[utoipa::path(post, path = "/api/v1/nodes/{node}/forget", tag = "nodes", request_body = ForgetPermission,
    params(("node" = Name, Path, description = "The node.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn allow_forget(
    State(control): Server,
    _: Admin,
    At(node): At<Name>,
    Body(may): Body<ForgetPermission>,
) -> Answer<Done> {
    work(control, move |control| {
        control.allow_forget(Admin::WHO, &node, may.scope).map(|()| Done {})
    })
    .await
}

/// Removes a node. Its domain and its snapshots stay.
#[utoipa::path(delete, path = "/api/v1/nodes/{node}", tag = "nodes",
    params(("node" = Name, Path, description = "The node.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn remove(State(control): Server, _: Admin, At(node): At<Name>) -> Answer<Done> {
    work(control, move |control| control.remove_node(Admin::WHO, &node).map(|()| Done {})).await
}

/// Lists all bandwidth limits.
#[utoipa::path(get, path = "/api/v1/limits", tag = "limits", security(("admin" = [])),
    responses((status = 200, body = Limits), (status = "4XX", body = Failure)))]
pub(crate) async fn limits(State(control): Server, _: Admin) -> Answer<Limits> {
    work(control, |control| control.limits()).await
}

/// Adds a bandwidth limit; it applies at once, also to running jobs.
#[utoipa::path(post, path = "/api/v1/limits", tag = "limits", request_body = Limit,
    security(("admin" = [])),
    responses((status = 200, body = Limit), (status = "4XX", body = Failure)))]
pub(crate) async fn add_limit(
    State(control): Server,
    _: Admin,
    Body(new): Body<Limit>,
) -> Answer<Limit> {
    work(control, move |control| control.add_limit(Admin::WHO, &new)).await
}

/// Removes a bandwidth limit.
#[utoipa::path(delete, path = "/api/v1/limits/{id}", tag = "limits",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn remove_limit(
    State(control): Server,
    _: Admin,
    At(id): At<u64>,
) -> Answer<Done> {
    work(control, move |control| control.remove_limit(Admin::WHO, id).map(|()| Done {})).await
}
