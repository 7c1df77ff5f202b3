//! Replies of the API: one form of success and one of failure.

use crate::{Error, Result};
use api::sites::Mistake;
use api::{Code, Failure};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use catalog::Error as CatalogError;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A failure reply.
#[derive(Debug)]
pub struct Failed {
    /// HTTP status.
    pub status: StatusCode,
    /// The body.
    pub failure: Failure,
}

const FULL: &str = "the disk of the server's catalog is full";
/// The disk of a database is that of another machine, perhaps: only where it lies can be told.
const FULL_HINT: &str = "Make room on the file system of the server's data directory, or on that of its database; forgetting snapshots does not help. To see where the catalog lies, on the server: icecore server catalog show";

impl Failed {
    /// A failure with this status.
    pub fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Self {
        Self { status, failure: Failure::new(code, message) }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.failure = self.failure.hint(hint);
        self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (self.status, axum::Json(self.failure)).into_response()
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        use StatusCode as Status;
        let message = error.to_string();
        match error {
            Error::Catalog(CatalogError::Missing { what, .. }) => {
                let list = format!("All of them: icecore server {}", list_of(what));
                Self::new(Status::NOT_FOUND, Code::Failed, message).hint(list)
            }
            Error::Catalog(CatalogError::Exists { .. }) => {
                Self::new(Status::CONFLICT, Code::Failed, message)
            }
            Error::Mistakes(mistakes) => Self::of_mistakes(message, mistakes),
            Error::ChangedSince { show, .. } => {
                let hint = format!("Nothing was changed. Look at it again: {show}");
                Self::new(Status::CONFLICT, Code::Failed, message).hint(hint)
            }
            Error::Catalog(CatalogError::ChangedSince { .. }) => {
                Self::new(Status::CONFLICT, Code::Failed, message).hint("Nothing was changed. Try again.")
            }
            Error::Catalog(CatalogError::Token(_)) => {
                Self::new(Status::FORBIDDEN, Code::NotAllowed, message)
                    .hint("Create a new one on the server: icecore server token NODE")
            }
            // Not a no: who asks again later may be let in.
            Error::Refused(refusal) if refusal.is_transient => {
                Self::new(Status::CONFLICT, Code::InUse, message).hint("Try again later.")
            }
            Error::Refused(refusal) => {
                let failed = Self::new(Status::FORBIDDEN, Code::NotAllowed, message);
                if refusal.hint.is_empty() { failed } else { failed.hint(refusal.hint) }
            }
            Error::Unfit { hint, .. } => {
                Self::new(Status::BAD_REQUEST, Code::Usage, message).hint(hint)
            }
            Error::Usage(_) | Error::NoKeys(_) => {
                Self::new(Status::BAD_REQUEST, Code::Usage, message)
            }
            Error::Pki(pki::Error::Unreadable { .. } | pki::Error::Request(_)) => {
                Self::new(Status::BAD_REQUEST, Code::Usage, message)
            }
            Error::TooMany(_) => Self::new(Status::TOO_MANY_REQUESTS, Code::NotAllowed, message)
                .hint("Wait a minute, then try again."),
            Error::Repository(repository::Error::InUse { .. }) => {
                Self::new(Status::CONFLICT, Code::InUse, message).hint("Try again later.")
            }
            Error::Busy(_) => Self::new(Status::CONFLICT, Code::InUse, message)
                .hint("Try again in a minute. If that does not help, check its storage server: icecore server storage-servers"),
            Error::StorageServer { .. } => Self::new(Status::BAD_GATEWAY, Code::Unreachable, message)
                .hint("Check whether it runs: icecore server storage-servers"),
            Error::PoolSilent { hint, .. } => {
                Self::new(Status::BAD_GATEWAY, Code::Unreachable, message).hint(hint)
            }
            other => Self::of_server(&other),
        }
    }
}

/// The command that lists objects of this kind.
fn list_of(what: &str) -> &str {
    match what {
        "node" | "certificate" => "nodes",
        "domain" => "domains",
        "grant" => "grants",
        "limit" => "limit list",
        "command" => "commands",
        "storage server" => "storage-servers",
        "received snapshot" => "snapshot list",
        "pool" => "pool list",
        "declared unit" => "unit list",
        "declared retention" => "retention list",
        "declared schedule" => "schedule list",
        "declared node" => "node list",
        "declared group" => "group list",
        "declared policy" => "policy list",
        "declared hold" => "hold list",
        "declared upkeep" => "upkeep list",
        "declared quota" => "quota list",
        _ => "jobs",
    }
}

impl Failed {
    /// What was declared cannot be meant so: all that is wrong, with the fix of the first in the hint.
    fn of_mistakes(message: String, mistakes: Vec<Mistake>) -> Self {
        let fix = mistakes.first().and_then(|first| first.fix.clone());
        let mut failed = Self::new(StatusCode::BAD_REQUEST, Code::Usage, message);
        failed.failure.hint = fix;
        failed.failure.mistakes = mistakes;
        failed
    }

    /// An internal error of the server: the details go to the log only.
    fn of_server(error: &Error) -> Self {
        tracing::error!(%error, "a request failed");
        let (status, code, message) = match error {
            Error::Repository(error) if error.is_full() => {
                (StatusCode::INTERNAL_SERVER_ERROR, Code::NoSpace, "the disk of the server is full")
            }
            Error::Catalog(error) if error.is_full() => {
                let failed = Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::NoSpace, FULL);
                return failed.hint(FULL_HINT);
            }
            Error::Catalog(error) if error.is_of_database() => {
                let message = "the server does not reach its catalog now";
                (StatusCode::SERVICE_UNAVAILABLE, Code::Unreachable, message)
            }
            _ => {
                let message = "the server failed to carry out the request";
                (StatusCode::INTERNAL_SERVER_ERROR, Code::Failed, message)
            }
        };
        Self::new(status, code, message).hint("The server's log says why.")
    }
}

/// JSON of a success.
pub(crate) type Answer<T> = std::result::Result<axum::Json<T>, Failed>;

/// Runs `work` on a thread that may wait for the disk.
pub(crate) async fn work<T: Send + Sync + 'static, R: Send + 'static>(
    topic: Arc<T>,
    work: impl FnOnce(&T) -> Result<R> + Send + 'static,
) -> Answer<R> {
    let done = tokio::task::spawn_blocking(move || work(&topic)).await;
    let done = done.map_err(|_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Failed::new(status, Code::Failed, "internal error of the server")
    })?;
    Ok(axum::Json(done?))
}

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> std::result::Result<Self, Failed> {
        match axum::Json::from_request(request, state).await {
            Ok(axum::Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(of_json(&rejection)),
        }
    }
}

fn of_json(rejection: &JsonRejection) -> Failed {
    let status = match rejection.status() {
        StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
        status => status,
    };
    Failed::new(status, Code::Usage, rejection.body_text())
}

/// The query of the URL.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> std::result::Result<Self, Failed> {
        let query: std::result::Result<Query<T>, QueryRejection> =
            Query::from_request_parts(parts, state).await;
        query.map(|Query(value)| Self(value)).map_err(|rejection| {
            Failed::new(StatusCode::BAD_REQUEST, Code::Usage, rejection.body_text())
        })
    }
}

/// A component of the path.
pub(crate) struct At<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> std::result::Result<Self, Failed> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(value)| Self(value)).map_err(|rejection| {
            Failed::new(StatusCode::BAD_REQUEST, Code::Usage, rejection.body_text())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server_contract::access_control::Refusal;

    /// A storage server that asks for a node would else send it home.
    #[test]
    fn what_passes_is_no_refusal() {
        let said = |refusal: Refusal| {
            let failed = Failed::from(Error::from(refusal));
            (failed.status, failed.failure.code)
        };
        let busy = said(Refusal::transient("the domain 'web' is being moved"));
        assert_eq!(busy, (StatusCode::CONFLICT, Code::InUse.number()));
        let no = said(Refusal::new("the node 'web' is revoked", ""));
        assert_eq!(no, (StatusCode::FORBIDDEN, Code::NotAllowed.number()));
    }
}
