//! Tokens, enrollment, renewal, keys.

use crate::enroll::Enrollment;
use crate::grants::Grants;
use crate::http::answer::{Answer, Body, work};
use crate::http::topics::Topic;
use crate::http::who::{Admin, Caller, FromNode};
use crate::tokens::Tokens;
use api::Failure;
use api::enroll::{
    EnrollReply, EnrollRequest, IssuedKey, IssuedToken, NewKey, NewToken, RenewReply, RenewRequest,
};
use axum::extract::State;

/// Creates a token with which one machine can enroll, once.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "enrollment", request_body = NewToken,
    security(("admin" = [])),
    responses((status = 200, body = IssuedToken), (status = "4XX", body = Failure)))]
pub(crate) async fn make_token(
    State(tokens): Topic<Tokens>,
    _: Admin,
    Body(new): Body<NewToken>,
) -> Answer<IssuedToken> {
    work(tokens, move |tokens| tokens.make(Admin::WHO, &new)).await
}

/// Enrolls a machine with a token as a node. The same request, sent again, gets the same reply.
#[utoipa::path(post, path = "/api/v1/enroll", tag = "enrollment", request_body = EnrollRequest,
    responses((status = 200, body = EnrollReply), (status = "4XX", body = Failure)))]
pub(crate) async fn enroll(
    State(enrollment): Topic<Enrollment>,
    caller: Caller,
    Body(request): Body<EnrollRequest>,
) -> Answer<EnrollReply> {
    work(enrollment, move |enrollment| {
        if enrollment.knows_token(&request) {
            caller.has_shown_itself();
        }
        enrollment.enroll(caller.address, &request)
    })
    .await
}

/// Issues the next certificate of the calling node.
#[utoipa::path(post, path = "/api/v1/renew", tag = "enrollment", request_body = RenewRequest,
    security(("node" = [])),
    responses((status = 200, body = RenewReply), (status = "4XX", body = Failure)))]
pub(crate) async fn renew(
    State(enrollment): Topic<Enrollment>,
    FromNode(node): FromNode,
    Body(request): Body<RenewRequest>,
) -> Answer<RenewReply> {
    work(enrollment, move |enrollment| enrollment.renew(&node, &request)).await
}

/// Issues a key of a granted domain to the calling node.
#[utoipa::path(post, path = "/api/v1/node/keys", tag = "enrollment", request_body = NewKey,
    security(("node" = [])),
    responses((status = 200, body = IssuedKey), (status = "4XX", body = Failure)))]
pub(crate) async fn make_key(
    State(grants): Topic<Grants>,
    FromNode(node): FromNode,
    Body(new): Body<NewKey>,
) -> Answer<IssuedKey> {
    work(grants, move |grants| grants.make_key(&node, &new)).await
}
