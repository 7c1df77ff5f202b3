//! Tokens, enrollment, renewal, keys.

use super::Server;
use crate::control::http::answer::{Answer, Body, work};
use crate::control::http::who::{Admin, Caller, FromNode};
use api::Failure;
use api::enroll::{Enroll, Enrolled, KeyMade, NewKey, NewToken, Renew, Renewed, TokenMade};
use axum::extract::State;

/// Makes a token with which one machine can enroll, once.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "enrollment", request_body = NewToken,
    security(("admin" = [])),
    responses((status = 200, body = TokenMade), (status = "4XX", body = Failure)))]
pub(crate) async fn make_token(
    State(control): Server,
    _: Admin,
    Body(new): Body<NewToken>,
) -> Answer<TokenMade> {
    work(control, move |control| control.make_token(Admin::WHO, &new)).await
}

/// Makes a node of a machine that has a token. Sent again by who lost the answer, it gets the same one.
#[utoipa::path(post, path = "/api/v1/enroll", tag = "enrollment", request_body = Enroll,
    responses((status = 200, body = Enrolled), (status = "4XX", body = Failure)))]
pub(crate) async fn enroll(
    State(control): Server,
    caller: Caller,
    Body(request): Body<Enroll>,
) -> Answer<Enrolled> {
    work(control, move |control| {
        if control.knows_token(&request) {
            caller.has_shown_itself();
        }
        control.enroll(caller.address, &request)
    })
    .await
}

/// The next certificate of the node that asks.
#[utoipa::path(post, path = "/api/v1/renew", tag = "enrollment", request_body = Renew,
    security(("node" = [])),
    responses((status = 200, body = Renewed), (status = "4XX", body = Failure)))]
pub(crate) async fn renew(
    State(control): Server,
    FromNode(node): FromNode,
    Body(request): Body<Renew>,
) -> Answer<Renewed> {
    work(control, move |control| control.renew(&node, &request)).await
}

/// A key of a domain that was granted to the node that asks.
#[utoipa::path(post, path = "/api/v1/node/keys", tag = "enrollment", request_body = NewKey,
    security(("node" = [])),
    responses((status = 200, body = KeyMade), (status = "4XX", body = Failure)))]
pub(crate) async fn make_key(
    State(control): Server,
    FromNode(node): FromNode,
    Body(new): Body<NewKey>,
) -> Answer<KeyMade> {
    work(control, move |control| control.make_key(&node, &new)).await
}
