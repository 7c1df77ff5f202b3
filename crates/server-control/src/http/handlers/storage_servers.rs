//! Storage servers: for the administrator, and for themselves.

use crate::http::answer::{Answer, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::{Admin, Caller, FromStorageServer, HeartbeatOf};
use crate::retention::Retention;
use crate::storage_servers;
use crate::storage_servers::StorageServerRequests;
use api::enroll::{RenewReply, RenewRequest};
use api::status::Done;
use api::storage_servers::{
    AccessReply, AccessRequest, AdmitReply, EnrollStorageServerReply, EnrollStorageServerRequest,
    ForgetRequest, Heartbeat, HeartbeatReply, IssuedStorageServerToken, LabelsReply, LabelsRequest,
    NewStorageServerToken, NodeConnection, StorageServers,
};
use api::{Failure, Name};
use axum::extract::State;
use server_contract::access_control::Labels;

/// Creates a token with which one storage server can enroll, once.
#[utoipa::path(post, path = "/api/v1/storage-server-tokens", tag = "storage-servers",
    request_body = NewStorageServerToken, security(("admin" = [])),
    responses((status = 200, body = IssuedStorageServerToken), (status = "4XX", body = Failure)))]
pub(crate) async fn make_token(
    State(servers): Topic<storage_servers::StorageServers>,
    _: Admin,
    Body(new): Body<NewStorageServerToken>,
) -> Answer<IssuedStorageServerToken> {
    work(servers, move |servers| servers.make_token(Admin::WHO, &new)).await
}

/// Lists all storage servers.
#[utoipa::path(get, path = "/api/v1/storage-servers", tag = "storage-servers", security(("admin" = [])),
    responses((status = 200, body = StorageServers), (status = "4XX", body = Failure)))]
pub(crate) async fn storage_servers(
    State(servers): Topic<storage_servers::StorageServers>,
    _: Admin,
) -> Answer<StorageServers> {
    work(servers, |servers| servers.all()).await
}

/// Revokes a storage server: it stops, and nodes are not redirected there any more.
#[utoipa::path(post, path = "/api/v1/storage-servers/{storage}/revoke", tag = "storage-servers",
    params(("storage" = Name, Path, description = "The storage server.")),
    security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn revoke(
    State(servers): Topic<storage_servers::StorageServers>,
    _: Admin,
    At(storage): At<Name>,
) -> Answer<Done> {
    work(servers, move |servers| servers.revoke(Admin::WHO, &storage).map(|()| Done {})).await
}

/// Enrolls a machine with a token as a storage server. The same request, sent again, gets the same reply.
#[utoipa::path(post, path = "/api/v1/storage-server/enroll", tag = "storage-servers",
    request_body = EnrollStorageServerRequest,
    responses((status = 200, body = EnrollStorageServerReply), (status = "4XX", body = Failure)))]
pub(crate) async fn enroll(
    State(servers): Topic<storage_servers::StorageServers>,
    caller: Caller,
    Body(request): Body<EnrollStorageServerRequest>,
) -> Answer<EnrollStorageServerReply> {
    work(servers, move |servers| servers.enroll(caller.address, &request)).await
}

/// Issues the next certificate of the calling storage server.
#[utoipa::path(post, path = "/api/v1/storage-server/renew", tag = "storage-servers", request_body = RenewRequest,
    security(("storage" = [])),
    responses((status = 200, body = RenewReply), (status = "4XX", body = Failure)))]
pub(crate) async fn renew(
    State(servers): Topic<storage_servers::StorageServers>,
    FromStorageServer(shown): FromStorageServer,
    Body(request): Body<RenewRequest>,
) -> Answer<RenewReply> {
    work(servers, move |servers| servers.renew(&shown, &request)).await
}

/// Says whether a node may connect to the calling storage server.
#[utoipa::path(post, path = "/api/v1/storage-server/admit", tag = "storage-servers", request_body = NodeConnection,
    security(("storage" = [])),
    responses((status = 200, body = AdmitReply), (status = "4XX", body = Failure)))]
pub(crate) async fn admit(
    State(requests): Topic<StorageServerRequests>,
    _: FromStorageServer,
    Body(asked): Body<NodeConnection>,
) -> Answer<AdmitReply> {
    work(requests, move |requests| requests.admit(&asked)).await
}

/// Says what a node may do with a domain on the calling storage server.
#[utoipa::path(post, path = "/api/v1/storage-server/access", tag = "storage-servers", request_body = AccessRequest,
    security(("storage" = [])),
    responses((status = 200, body = AccessReply), (status = "4XX", body = Failure)))]
pub(crate) async fn access(
    State(requests): Topic<StorageServerRequests>,
    FromStorageServer(shown): FromStorageServer,
    Body(asked): Body<AccessRequest>,
) -> Answer<AccessReply> {
    work(requests, move |requests| requests.access(&shown.name, &asked)).await
}

/// Says whether a node may forget snapshots of a domain on the calling storage server; adds an entry to the audit log.
#[utoipa::path(post, path = "/api/v1/storage-server/forget", tag = "storage-servers", request_body = ForgetRequest,
    security(("storage" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn forget(
    State(requests): Topic<StorageServerRequests>,
    FromStorageServer(shown): FromStorageServer,
    Body(asked): Body<ForgetRequest>,
) -> Answer<Done> {
    work(requests, move |requests| requests.forget(&shown.name, &asked).map(|()| Done {})).await
}

/// Says what the receipt of the snapshot of a job on the calling storage server says.
#[utoipa::path(post, path = "/api/v1/storage-server/labels", tag = "storage-servers", request_body = LabelsRequest,
    security(("storage" = [])),
    responses((status = 200, body = LabelsReply), (status = "4XX", body = Failure)))]
pub(crate) async fn labels(
    State(requests): Topic<StorageServerRequests>,
    State(retention): Topic<Retention>,
    FromStorageServer(shown): FromStorageServer,
    Body(asked): Body<LabelsRequest>,
) -> Answer<LabelsReply> {
    work(requests, move |requests| {
        let Some(job) = requests.job_of(&shown.name, &asked) else {
            return Ok(LabelsReply::default());
        };
        let Labels { policy, source, class, lock_secs } = retention.labels(job)?;
        Ok(LabelsReply { is_known: true, policy, source, class, lock_secs })
    })
    .await
}

/// Takes the heartbeat of a storage server, once a second.
#[utoipa::path(post, path = "/api/v1/storage-server/heartbeat", tag = "storage-servers", request_body = Heartbeat,
    security(("storage" = [])),
    responses((status = 200, body = HeartbeatReply), (status = "4XX", body = Failure)))]
pub(crate) async fn heartbeat(
    State(requests): Topic<StorageServerRequests>,
    HeartbeatOf(shown, entered): HeartbeatOf,
    Body(news): Body<Heartbeat>,
) -> Answer<HeartbeatReply> {
    work(requests, move |requests| {
        let told = requests.heartbeat(&shown.name, &news);
        drop(entered); // also if nobody waits any more
        told
    })
    .await
}
