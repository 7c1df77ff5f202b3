//! The pools of the server.

use crate::http::answer::{Answer, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::pools;
use api::pools::{NewPool, Pool, Pools, RemovePool, SetPoolState};
use api::{Failure, Name};
use axum::extract::State;

/// Lists the pools of the server, with their room and their domains.
#[utoipa::path(get, path = "/api/v1/pools", tag = "pools", security(("admin" = [])),
    responses((status = 200, body = Pools), (status = "4XX", body = Failure)))]
pub(crate) async fn pools(State(pools): Topic<pools::Pools>, _: Admin) -> Answer<Pools> {
    work(pools, pools::Pools::all).await
}

/// Makes a directory of the server a pool; or says where a pool is now, which is known by its identity.
#[utoipa::path(post, path = "/api/v1/pools", tag = "pools", request_body = NewPool,
    security(("admin" = [])),
    responses((status = 200, body = Pool), (status = "4XX", body = Failure)))]
pub(crate) async fn add(
    State(pools): Topic<pools::Pools>,
    _: Admin,
    Body(new): Body<NewPool>,
) -> Answer<Pool> {
    work(pools, move |pools| pools.add(Admin::WHO, &new)).await
}

/// Changes what a pool is used for. Sessions that begin later follow.
#[utoipa::path(post, path = "/api/v1/pools/{pool}/state", tag = "pools",
    params(("pool" = Name, Path, description = "The pool.")), request_body = SetPoolState,
    security(("admin" = [])),
    responses((status = 200, body = Pool), (status = "4XX", body = Failure)))]
pub(crate) async fn set_state(
    State(pools): Topic<pools::Pools>,
    _: Admin,
    At(pool): At<Name>,
    Body(SetPoolState { state }): Body<SetPoolState>,
) -> Answer<Pool> {
    work(pools, move |pools| pools.set_state(Admin::WHO, &pool, state)).await
}

/// Forgets a further pool in which no domains lie, or one that is lost. What lies in its directory stays there.
#[utoipa::path(post, path = "/api/v1/pools/{pool}/remove", tag = "pools",
    params(("pool" = Name, Path, description = "The pool.")), request_body = RemovePool,
    security(("admin" = [])),
    responses((status = 200, body = Pools), (status = "4XX", body = Failure)))]
pub(crate) async fn remove(
    State(pools): Topic<pools::Pools>,
    _: Admin,
    At(pool): At<Name>,
    Body(RemovePool { lost }): Body<RemovePool>,
) -> Answer<Pools> {
    work(pools, move |pools| pools.remove(Admin::WHO, &pool, lost)).await
}
