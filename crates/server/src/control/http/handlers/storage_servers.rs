//! Storage servers: for the administrator, and for themselves.

use super::Server;
use crate::control::http::answer::{Answer, At, Body, work};
use crate::control::http::who::{Admin, Caller, FromStorageServer};
use api::enroll::{RenewReply, RenewRequest};
use api::status::Done;
use api::storage_servers::{
    AccessReply, AccessRequest, AdmitReply, EnrollStorageServerReply, EnrollStorageServerRequest,
    ForgetRequest, Heartbeat, HeartbeatReply, IssuedStorageServerToken, NewStorageServerToken,
    NodeConnection, StorageServers,
};
use api::{Failure, Name};
use axum::extract::State;

/// Creates a token with which one storage server can enroll, once.
#[utoipa::path(post, path = "/api/v1/storage-server-tokens", tag = "storage-servers",
    request_body = NewStorageServerToken, security(("admin" = [])),
    responses((status = 200, body = IssuedStorageServerToken), (status = "4XX", body = Failure)))]
pub(crate) async fn make_token(
    State(control): Server,
    _: Admin,
    Body(new): Body<NewStorageServerToken>,
) -> Answer<IssuedStorageServerToken> {
    work(control, move |control| control.make_storage_server_token(Admin::WHO, &new)).await
}

/// Lists all storage servers.
#[utoipa::path(get, path = "/api/v1/storage-servers", tag = "storage-servers", security(("admin" = [])),
    responses((status = 200, body = StorageServers), (status = "4XX", body = Failure)))]
pub(crate) async fn storage_servers(State(control): Server, _: Admin) -> Answer<StorageServers> {
    work(control, |control| control.list_storage_servers()).await
}

/// Revokes a storage server: it stops, and nodes are not redirected there any more.
#[utoipa::path(post, path = "/api/v1/storage-servers/{storage}/revoke", tag = "storage-servers",
    params(("storage" = Name, Path, description = "The storage server.")),
    security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn revoke(
    State(control): Server,
    _: Admin,
    At(storage): At<Name>,
) -> Answer<Done> {
    work(control, move |control| {
        control.revoke_storage_server(Admin::WHO, &storage).map(|()| Done {})
    })
    .await
}

/// Enrolls a machine with a token as a storage server. The same request, sent again, gets the same reply.
#[utoipa::path(post, path = "/api/v1/storage-server/enroll", tag = "storage-servers",
    request_body = EnrollStorageServerRequest,
    responses((status = 200, body = EnrollStorageServerReply), (status = "4XX", body = Failure)))]
pub(crate) async fn enroll(
    State(control): Server,
    caller: Caller,
    Body(request): Body<EnrollStorageServerRequest>,
) -> Answer<EnrollStorageServerReply> {
    work(control, move |control| control.enroll_storage_server(caller.address, &request)).await
}

/// Issues the next certificate of the calling storage server.
#[utoipa::path(post, path = "/api/v1/storage-server/renew", tag = "storage-servers", request_body = RenewRequest,
    security(("storage" = [])),
    responses((status = 200, body = RenewReply), (status = "4XX", body = Failure)))]
pub(crate) async fn renew(
    State(control): Server,
    FromStorageServer(shown): FromStorageServer,
    Body(request): Body<RenewRequest>,
) -> Answer<RenewReply> {
    work(control, move |control| control.renew_storage_server(&shown, &request)).await
}

/// Says whether a node may connect to the calling storage server.
#[utoipa::path(post, path = "/api/v1/storage-server/admit", tag = "storage-servers", request_body = NodeConnection,
    security(("storage" = [])),
    responses((status = 200, body = AdmitReply), (status = "4XX", body = Failure)))]
pub(crate) async fn admit(
    State(control): Server,
    _: FromStorageServer,
    Body(asked): Body<NodeConnection>,
) -> Answer<AdmitReply> {
    work(control, move |control| control.admit_for_storage_server(&asked)).await
}

/// Says what a node may do with a domain on the calling storage server.
#[utoipa::path(post, path = "/api/v1/storage-server/access", tag = "storage-servers", request_body = AccessRequest,
    security(("storage" = [])),
    responses((status = 200, body = AccessReply), (status = "4XX", body = Failure)))]
pub(crate) async fn access(
    State(control): Server,
    FromStorageServer(shown): FromStorageServer,
    Body(asked): Body<AccessRequest>,
) -> Answer<AccessReply> {
    work(control, move |control| control.access_for_storage_server(&shown.name, &asked)).await
}

/// Says whether a node may forget snapshots of a domain on the calling storage server; adds an entry to the audit log.
#[utoipa::path(post, path = "/api/v1/storage-server/forget", tag = "storage-servers", request_body = ForgetRequest,
    security(("storage" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn forget(
    State(control): Server,
    FromStorageServer(shown): FromStorageServer,
    Body(asked): Body<ForgetRequest>,
) -> Answer<Done> {
    work(control, move |control| {
        control.forget_on_storage_server(&shown.name, &asked).map(|()| Done {})
    })
    .await
}

/// Takes the heartbeat of a storage server, once a second.
#[utoipa::path(post, path = "/api/v1/storage-server/heartbeat", tag = "storage-servers", request_body = Heartbeat,
    security(("storage" = [])),
    responses((status = 200, body = HeartbeatReply), (status = "4XX", body = Failure)))]
pub(crate) async fn heartbeat(
    State(control): Server,
    FromStorageServer(shown): FromStorageServer,
    Body(news): Body<Heartbeat>,
) -> Answer<HeartbeatReply> {
    work(control, move |control| control.heartbeat(&shown.name, &news)).await
}
