//! Client options that the server sets for nodes.

use crate::http::answer::{Answer, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::{Admin, FromNode};
use crate::options::ClientOptions;
use api::options::{NodeOptions, OptionChange, OptionReport, SetOptions};
use api::{Failure, Name};
use axum::extract::State;

/// The client options of a node, and what the node tells about them.
#[utoipa::path(get, path = "/api/v1/nodes/{node}/options", tag = "options",
    params(("node" = Name, Path, description = "The node.")), security(("admin" = [])),
    responses((status = 200, body = NodeOptions), (status = "4XX", body = Failure)))]
pub(crate) async fn options(
    State(options): Topic<ClientOptions>,
    _: Admin,
    At(node): At<Name>,
) -> Answer<NodeOptions> {
    work(options, move |options| options.of(&node)).await
}

/// Sets or unsets client options of a node. The node gets them with its next backup.
#[utoipa::path(post, path = "/api/v1/nodes/{node}/options", tag = "options", request_body = OptionChange,
    operation_id = "change_options",
    params(("node" = Name, Path, description = "The node.")), security(("admin" = [])),
    responses((status = 200, body = NodeOptions), (status = "4XX", body = Failure)))]
pub(crate) async fn change(
    State(options): Topic<ClientOptions>,
    _: Admin,
    At(node): At<Name>,
    Body(change): Body<OptionChange>,
) -> Answer<NodeOptions> {
    work(options, move |options| options.change(Admin::WHO, &node, &change)).await
}

/// Tells the calling node its client options; the node tells which ones it ignores.
#[utoipa::path(post, path = "/api/v1/node/options", tag = "options", request_body = OptionReport,
    operation_id = "exchange_options", security(("node" = [])),
    responses((status = 200, body = SetOptions), (status = "4XX", body = Failure)))]
pub(crate) async fn exchange(
    State(options): Topic<ClientOptions>,
    FromNode(node): FromNode,
    Body(report): Body<OptionReport>,
) -> Answer<SetOptions> {
    work(options, move |options| options.exchange(&node, &report)).await
}
