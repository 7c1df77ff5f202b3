//! Storage servers: for the administrator, and for themselves.

use super::Server;
use crate::control::http::answer::{Answer, At, Body, work};
use crate::control::http::who::{Admin, Caller, FromStorage};
use api::enroll::{Renew, Renewed};
use api::status::Done;
use api::storages::{
    AccessGiven, AdmitNode, AskAccess, AskForget, EnrollStorage, EnrolledStorage, NewStorageToken,
    NodeAdmitted, StorageNews, StorageTokenMade, StorageTold, Storages,
};
use api::{Failure, Name};
use axum::extract::State;

/// Makes a token with which one storage server can enroll, once.
#[utoipa::path(post, path = "/api/v1/storage-tokens", tag = "storages",
    request_body = NewStorageToken, security(("admin" = [])),
    responses((status = 200, body = StorageTokenMade), (status = "4XX", body = Failure)))]
pub(crate) async fn make_token(
    State(control): Server,
    _: Admin,
    Body(new): Body<NewStorageToken>,
) -> Answer<StorageTokenMade> {
    work(control, move |control| control.make_storage_token(Admin::WHO, &new)).await
}

/// All further storage servers.
#[utoipa::path(get, path = "/api/v1/storages", tag = "storages", security(("admin" = [])),
    responses((status = 200, body = Storages), (status = "4XX", body = Failure)))]
pub(crate) async fn storages(State(control): Server, _: Admin) -> Answer<Storages> {
    work(control, |control| control.list_storages()).await
}

/// Revokes a storage server: it is told nothing more and ends, and nodes are not sent there.
#[utoipa::path(post, path = "/api/v1/storages/{storage}/revoke", tag = "storages",
    params(("storage" = Name, Path, description = "The storage server.")),
    security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn revoke(
    State(control): Server,
    _: Admin,
    At(storage): At<Name>,
) -> Answer<Done> {
    work(control, move |control| control.revoke_storage(Admin::WHO, &storage).map(|()| Done {}))
        .await
}

/// Makes a storage server of a machine that has a token. Sent again by who lost the answer, it gets the same one.
#[utoipa::path(post, path = "/api/v1/storage/enroll", tag = "storages",
    request_body = EnrollStorage,
    responses((status = 200, body = EnrolledStorage), (status = "4XX", body = Failure)))]
pub(crate) async fn enroll(
    State(control): Server,
    caller: Caller,
    Body(request): Body<EnrollStorage>,
) -> Answer<EnrolledStorage> {
    work(control, move |control| control.enroll_storage(caller.address, &request)).await
}

/// The next certificate of the storage server that asks.
#[utoipa::path(post, path = "/api/v1/storage/renew", tag = "storages", request_body = Renew,
    security(("storage" = [])),
    responses((status = 200, body = Renewed), (status = "4XX", body = Failure)))]
pub(crate) async fn renew(
    State(control): Server,
    FromStorage(shown): FromStorage,
    Body(request): Body<Renew>,
) -> Answer<Renewed> {
    work(control, move |control| control.renew_storage(&shown, &request)).await
}

/// Whether a node may connect to the storage server that asks.
#[utoipa::path(post, path = "/api/v1/storage/admit", tag = "storages", request_body = AdmitNode,
    security(("storage" = [])),
    responses((status = 200, body = NodeAdmitted), (status = "4XX", body = Failure)))]
pub(crate) async fn admit(
    State(control): Server,
    _: FromStorage,
    Body(asked): Body<AdmitNode>,
) -> Answer<NodeAdmitted> {
    work(control, move |control| control.admit_for_storage(&asked)).await
}

/// What a node may do with a domain that lies on the storage server that asks.
#[utoipa::path(post, path = "/api/v1/storage/access", tag = "storages", request_body = AskAccess,
    security(("storage" = [])),
    responses((status = 200, body = AccessGiven), (status = "4XX", body = Failure)))]
pub(crate) async fn access(
    State(control): Server,
    FromStorage(shown): FromStorage,
    Body(asked): Body<AskAccess>,
) -> Answer<AccessGiven> {
    work(control, move |control| control.access_for_storage(&shown.name, &asked)).await
}

/// Whether a node may forget snapshots of a domain that lies on the storage server that asks; noted in the audit list.
#[utoipa::path(post, path = "/api/v1/storage/forget", tag = "storages", request_body = AskForget,
    security(("storage" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn forget(
    State(control): Server,
    FromStorage(shown): FromStorage,
    Body(asked): Body<AskForget>,
) -> Answer<Done> {
    work(control, move |control| control.forget_on_storage(&shown.name, &asked).map(|()| Done {}))
        .await
}

/// What a storage server tells every second, and what it is told.
#[utoipa::path(post, path = "/api/v1/storage/news", tag = "storages", request_body = StorageNews,
    security(("storage" = [])),
    responses((status = 200, body = StorageTold), (status = "4XX", body = Failure)))]
pub(crate) async fn news(
    State(control): Server,
    FromStorage(shown): FromStorage,
    Body(news): Body<StorageNews>,
) -> Answer<StorageTold> {
    work(control, move |control| control.hear_storage(&shown.name, &news)).await
}
