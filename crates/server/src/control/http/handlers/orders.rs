//! Orders: to be given by the administrator, looked up and answered by nodes.

use super::Server;
use crate::control::http::answer::{Answer, At, Body, work};
use crate::control::http::who::{Admin, FromNode};
use api::Failure;
use api::orders::{NewBackup, NewRestore, Order, OrderUpdate, Orders, Task};
use api::status::Done;
use axum::extract::State;

/// Orders that a node restores something onto itself.
#[utoipa::path(post, path = "/api/v1/restores", tag = "orders", request_body = NewRestore,
    security(("admin" = [])),
    responses((status = 200, body = Order), (status = "4XX", body = Failure)))]
pub(crate) async fn restore(
    State(control): Server,
    _: Admin,
    Body(new): Body<NewRestore>,
) -> Answer<Order> {
    work(control, move |control| control.give_order(Admin::WHO, &Task::Restore(new))).await
}

/// Orders that a node backs itself up.
#[utoipa::path(post, path = "/api/v1/backups", tag = "orders", request_body = NewBackup,
    security(("admin" = [])),
    responses((status = 200, body = Order), (status = "4XX", body = Failure)))]
pub(crate) async fn backup(
    State(control): Server,
    _: Admin,
    Body(new): Body<NewBackup>,
) -> Answer<Order> {
    work(control, move |control| control.give_order(Admin::WHO, &Task::Backup(new))).await
}

/// The newest orders of all nodes.
#[utoipa::path(get, path = "/api/v1/orders", tag = "orders", security(("admin" = [])),
    responses((status = 200, body = Orders), (status = "4XX", body = Failure)))]
pub(crate) async fn orders(State(control): Server, _: Admin) -> Answer<Orders> {
    work(control, |control| control.all_orders()).await
}

/// The orders that the node which asks has not ended.
#[utoipa::path(get, path = "/api/v1/node/orders", tag = "orders", security(("node" = [])),
    responses((status = 200, body = Orders), (status = "4XX", body = Failure)))]
pub(crate) async fn own_orders(State(control): Server, FromNode(node): FromNode) -> Answer<Orders> {
    work(control, move |control| Ok(Orders { orders: control.open_orders(&node.name) })).await
}

/// What the node says of its order.
#[utoipa::path(post, path = "/api/v1/node/orders/{id}", tag = "orders",
    params(("id" = u64, Path, description = "Its number.")), request_body = OrderUpdate,
    security(("node" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn order_is(
    State(control): Server,
    FromNode(node): FromNode,
    At(id): At<u64>,
    Body(update): Body<OrderUpdate>,
) -> Answer<Done> {
    work(control, move |control| control.order_is(&node, id, &update).map(|()| Done {})).await
}
