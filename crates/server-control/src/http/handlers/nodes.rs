//! Nodes and limits.

use crate::forget::ForgetPermissions;
use crate::http::answer::{Answer, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::{limits, nodes};
use api::limits::{Limit, Limits};
use api::nodes::{ForgetPermission, Nodes};
use api::status::Done;
use api::{Failure, Name};
use axum::extract::State;

/// Lists all nodes.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes", security(("admin" = [])),
    responses((status = 200, body = Nodes), (status = "4XX", body = Failure)))]
pub(crate) async fn nodes(State(nodes): Topic<nodes::Nodes>, _: Admin) -> Answer<Nodes> {
    work(nodes, |nodes| nodes.all()).await
}

/// Revokes a node: access is denied, and its sessions are closed at once.
#[utoipa::path(post, path = "/api/v1/nodes/{node}/revoke", tag = "nodes",
    params(("node" = Name, Path, description = "The node.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn revoke(
    State(nodes): Topic<nodes::Nodes>,
    _: Admin,
    At(node): At<Name>,
) -> Answer<Done> {
    work(nodes, move |nodes| nodes.revoke(Admin::WHO, &node).map(|()| Done {})).await
}

/// Sets which snapshots of its domain a node may forget; none by default.
#[utoipa::path(post, path = "/api/v1/nodes/{node}/forget", tag = "nodes", request_body = ForgetPermission,
    params(("node" = Name, Path, description = "The node.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn allow_forget(
    State(permissions): Topic<ForgetPermissions>,
    _: Admin,
    At(node): At<Name>,
    Body(may): Body<ForgetPermission>,
) -> Answer<Done> {
    work(permissions, move |permissions| {
        permissions.allow(Admin::WHO, &node, may.scope).map(|()| Done {})
    })
    .await
}

/// Removes a node. Its domain and its snapshots stay.
#[utoipa::path(delete, path = "/api/v1/nodes/{node}", tag = "nodes",
    params(("node" = Name, Path, description = "The node.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn remove(
    State(nodes): Topic<nodes::Nodes>,
    _: Admin,
    At(node): At<Name>,
) -> Answer<Done> {
    work(nodes, move |nodes| nodes.remove(Admin::WHO, &node).map(|()| Done {})).await
}

/// Lists all bandwidth limits.
#[utoipa::path(get, path = "/api/v1/limits", tag = "limits", security(("admin" = [])),
    responses((status = 200, body = Limits), (status = "4XX", body = Failure)))]
pub(crate) async fn limits(State(limits): Topic<limits::Limits>, _: Admin) -> Answer<Limits> {
    work(limits, |limits| limits.all()).await
}

/// Adds a bandwidth limit; it applies within seconds, also to running jobs.
#[utoipa::path(post, path = "/api/v1/limits", tag = "limits", request_body = Limit,
    security(("admin" = [])),
    responses((status = 200, body = Limit), (status = "4XX", body = Failure)))]
pub(crate) async fn add_limit(
    State(limits): Topic<limits::Limits>,
    _: Admin,
    Body(new): Body<Limit>,
) -> Answer<Limit> {
    work(limits, move |limits| limits.add(Admin::WHO, &new)).await
}

/// Removes a bandwidth limit.
#[utoipa::path(delete, path = "/api/v1/limits/{id}", tag = "limits",
    params(("id" = u64, Path, description = "Its number.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn remove_limit(
    State(limits): Topic<limits::Limits>,
    _: Admin,
    At(id): At<u64>,
) -> Answer<Done> {
    work(limits, move |limits| limits.remove(Admin::WHO, id).map(|()| Done {})).await
}
