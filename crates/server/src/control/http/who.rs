//! The caller of a request: an administrator by the token, a node by its certificate, or unauthenticated.

use super::answer::Failed;
use crate::access_control::{Node, Peer};
use crate::control::Control;
use crate::control::storage_servers::AdmittedStorageServer;
use crate::evicting_quota::EvictablePermit;
use api::Code;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use std::net::IpAddr;
use std::sync::Arc;

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

impl FromRequestParts<Arc<Control>> for Admin {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, control: &Arc<Control>) -> Result<Self, Failed> {
        let caller = Caller::from_request_parts(parts, control).await?;
        let given = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
        match given {
            // A right token is always good: else whoever shares the address could keep the administrator out.
            Some(token) if control.is_admin(token) => {
                caller.has_shown_itself();
                Ok(Self)
            }
            Some(_) => {
                control.attempts.check(caller.address)?;
                control.attempts.failed(caller.address);
                let why = "it is not the token of this server";
                control.refusals.refused("an administrator's token", &why, Some(caller.address));
                Err(no_admin("the administrator's token is wrong"))
            }
            None => Err(no_admin("administrator only")),
        }
    }
}

fn no_admin(message: &str) -> Failed {
    let status = StatusCode::UNAUTHORIZED;
    Failed::new(status, Code::NotAllowed, message)
        .hint("Set ICECORE_ADMIN_TOKEN to the contents of the server's file admin-token.")
}

/// An admitted storage server.
pub(crate) struct FromStorageServer(pub(crate) AdmittedStorageServer);

impl FromRequestParts<Arc<Control>> for FromStorageServer {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, control: &Arc<Control>) -> Result<Self, Failed> {
        let caller = Caller::from_request_parts(parts, control).await?;
        let peer = caller.peer.ok_or_else(|| {
            let status = StatusCode::UNAUTHORIZED;
            let message = "storage servers only, with their certificate";
            Failed::new(status, Code::NotAllowed, message)
                .hint("Enroll the machine first: icecore storage enroll URL TOKEN")
        })?;
        let control = control.clone();
        super::answer::work(control, move |control| control.admit_storage_server(&peer))
            .await
            .map(|axum::Json(shown)| Self(shown))
    }
}

/// An admitted node.
pub(crate) struct FromNode(pub(crate) Node);

impl FromRequestParts<Arc<Control>> for FromNode {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, control: &Arc<Control>) -> Result<Self, Failed> {
        let caller = Caller::from_request_parts(parts, control).await?;
        let peer = caller.peer.ok_or_else(|| {
            let status = StatusCode::UNAUTHORIZED;
            Failed::new(status, Code::NotAllowed, "nodes only, with their certificate")
                .hint("Enroll the machine first: icecore agent enroll URL TOKEN")
        })?;
        let control = control.clone();
        super::answer::work(control, move |control| control.admit_node_of(&peer))
            .await
            .map(|axum::Json(node)| Self(node))
    }
}
