//! The caller of a request: an administrator by the token, a node by its certificate, or unauthenticated.

use super::answer::Failed;
use super::topics::Server;
use crate::storage_servers::{AdmittedStorageServer, Entered};
use api::Code;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use server_contract::access_control::{Node, Peer};
use std::net::IpAddr;
use std::sync::Arc;
use transport::evicting_quota::EvictablePermit;

/// The other end of the connection, as an extension of each of its requests.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Address from which it connects.
    pub address: IpAddr,
    /// Its certificate, if it showed one.
    pub peer: Option<Peer>,
    /// Its permit among unauthenticated connections.
    pub(crate) stranger: Option<Arc<EvictablePermit<IpAddr>>>,
}

impl Caller {
    /// It has authenticated: its connection is not evicted for others any more.
    pub(crate) fn has_shown_itself(&self) {
        self.stranger.iter().for_each(|stranger| stranger.leave());
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        // A router that was mounted without it admits nobody.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Failed::new(status, Code::Failed, "the caller is unknown")
        })
    }
}

/// The administrator.
pub(crate) struct Admin;

impl Admin {
    /// Name in the audit log.
    pub(crate) const WHO: &str = "admin";
}

impl FromRequestParts<Server> for Admin {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Failed> {
        let caller = Caller::from_request_parts(parts, server).await?;
        let given = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(token) = given.and_then(bearer) else {
            return Err(no_admin("administrator only"));
        };
        if !server.0.administrator.is_shown_by(token, caller.address)? {
            return Err(no_admin("the administrator's token is wrong"));
        }
        caller.has_shown_itself();
        Ok(Self)
    }
}

/// The token; the name of the scheme may be written in any case (RFC 9110).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn no_admin(message: &str) -> Failed {
    let status = StatusCode::UNAUTHORIZED;
    Failed::new(status, Code::NotAllowed, message)
        .hint("Set ICECORE_ADMIN_TOKEN to the contents of the server's file admin-token.")
}

/// An admitted storage server.
pub(crate) struct FromStorageServer(pub(crate) AdmittedStorageServer);

impl FromRequestParts<Server> for FromStorageServer {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Failed> {
        let caller = Caller::from_request_parts(parts, server).await?;
        let peer = caller.peer.ok_or_else(|| {
            let status = StatusCode::UNAUTHORIZED;
            let message = "storage servers only, with their certificate";
            Failed::new(status, Code::NotAllowed, message)
                .hint("Enroll the machine first: icecore storage enroll URL TOKEN")
        })?;
        let servers = server.0.storage_servers.clone();
        super::answer::work(servers, move |servers| servers.admit(&peer))
            .await
            .map(|axum::Json(shown)| Self(shown))
    }
}

/// The same, for a heartbeat: its lists are long, and it is taken under a lock, so that few are read at once.
pub(crate) struct HeartbeatOf(pub(crate) AdmittedStorageServer, pub(crate) Entered);

impl FromRequestParts<Server> for HeartbeatOf {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Failed> {
        let FromStorageServer(shown) = FromStorageServer::from_request_parts(parts, server).await?;
        let entered = server.0.storage_server_requests.enter(&shown.name).ok_or_else(|| {
            let status = StatusCode::TOO_MANY_REQUESTS;
            let message = "other heartbeats of this storage server are still being taken";
            Failed::new(status, Code::InUse, message).hint("Try again later.")
        })?;
        Ok(Self(shown, entered))
    }
}

/// An admitted node.
pub(crate) struct FromNode(pub(crate) Node);

impl FromRequestParts<Server> for FromNode {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Failed> {
        let caller = Caller::from_request_parts(parts, server).await?;
        let peer = caller.peer.ok_or_else(|| {
            let status = StatusCode::UNAUTHORIZED;
            Failed::new(status, Code::NotAllowed, "nodes only, with their certificate")
                .hint("Enroll the machine first: icecore agent enroll URL TOKEN")
        })?;
        let admission = server.0.admission.clone();
        super::answer::work(admission, move |admission| admission.admit(&peer))
            .await
            .map(|axum::Json(node)| Self(node))
    }
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn the_scheme_of_a_token_is_read_in_any_case() {
        for value in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(bearer(value), Some("abc"), "{value}");
        }
        for value in ["", "abc", "Basic abc", "Bearerabc"] {
            assert_eq!(bearer(value), None, "{value}");
        }
    }
}
