//! Requests of S3 that the client library does not know: each is signed as an address, and repeated while it may help.

use crate::errors::{answered, unanswered};
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpResponse};
use object_store::path::Path;
use object_store::signer::{HeaderMap, HeaderName, HeaderValue, Method, SignedUrlOptions, Signer};
use repository::storage::{StorageError, StorageResult};
use serde::Deserialize;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// How often a request is sent that was not answered, or by a storage that is busy.
const TRIES: u32 = 6;
/// Before the second of such tries; each further one waits twice as long.
const WAIT: Duration = Duration::from_millis(200);
/// So long a signature counts: longer than a storage is waited for.
const SIGNED_FOR: Duration = Duration::from_secs(600);
/// The most of an answer that is read: a page of a listing has 1,000 names of up to 1,024 bytes.
const ANSWER_MAX: usize = 8 << 20;

/// Sends such requests.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) signer: Arc<AmazonS3>,
    pub(crate) http: HttpClient,
}

/// One request.
#[derive(Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Of an object; without one it is of the bucket.
    pub(crate) path: Path,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn get(path: Path, query: &[(&str, &str)]) -> Self {
        let query = query.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Self { path, query, ..Self::default() }
    }

    pub(crate) fn put(path: Path, query: &[(&str, &str)], body: String) -> Self {
        Self { method: Method::PUT, body: body.into(), ..Self::get(path, query) }
    }

    pub(crate) fn delete(path: Path, query: &[(&str, &str)]) -> Self {
        Self { method: Method::DELETE, ..Self::get(path, query) }
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

impl Signed {
    /// The headers and the body of what the storage answers; `operation` is done to `name`, for messages.
    pub(crate) async fn send(
        &self,
        (operation, name): (&'static str, &str),
        request: &Request,
    ) -> StorageResult<(HeaderMap, Bytes)> {
        let mut wait = WAIT;
        for _ in 1..TRIES {
            match self.try_send((operation, name), request).await {
                Err(error) if may_pass(&error) => tokio::time::sleep(wait).await,
                answer => return answer,
            }
            wait *= 2;
        }
        self.try_send((operation, name), request).await
    }

    async fn try_send(
        &self,
        (operation, name): (&'static str, &str),
        request: &Request,
    ) -> StorageResult<(HeaderMap, Bytes)> {
        let failed = |error| unanswered(operation, name, &error);
        let sent = self.http.execute(self.signed(operation, name, request).await?).await;
        let answer = sent.map_err(failed)?;
        let (status, is_success) = (answer.status().as_u16(), answer.status().is_success());
        // What a HEAD promises, it does not send.
        let promised = promised(&answer).filter(|_| request.method != Method::HEAD);
        let headers = answer.headers().clone();
        let other = |kind, why| StorageError::new(operation, name, Error::new(kind, why));
        let body = body(answer).await.map_err(failed)?;
        let body = body.ok_or_else(|| other(ErrorKind::InvalidData, "the answer is too long"))?;
        if promised.is_some_and(|length| length != body.len()) {
            return Err(other(ErrorKind::ConnectionReset, "the answer is not whole"));
        }
        if is_success {
            return Ok((headers, body));
        }
        Err(answered(operation, name, status, &String::from_utf8_lossy(&body)))
    }

    async fn signed(
        &self,
        operation: &'static str,
        name: &str,
        asked: &Request,
    ) -> StorageResult<HttpRequest> {
        let mut options = SignedUrlOptions::new().with_query(asked.query.iter().cloned());
        options.signed_headers.clone_from(&asked.headers);
        let (method, path) = (asked.method.clone(), &asked.path);
        let url = self.signer.signed_url_opts(method, path, SIGNED_FOR, &options).await;
        let url = url.map_err(|error| crate::errors::failed(operation, name, &error))?;
        let mut request = HttpRequest::new(asked.body.clone().into());
        *request.method_mut() = asked.method.clone();
        *request.uri_mut() = url.as_str().parse().map_err(|_| {
            StorageError::new(operation, name, Error::from(ErrorKind::InvalidInput))
        })?;
        *request.headers_mut() = asked.headers.clone();
        Ok(request)
    }
}

/// How long the answer is to be, if it says so.
fn promised(answer: &HttpResponse) -> Option<usize> {
    answer.headers().get("content-length")?.to_str().ok()?.parse().ok()
}

/// All of the answer; `None` when it is too long.
async fn body(answer: HttpResponse) -> Result<Option<Bytes>, HttpError> {
    let mut parts = answer.into_body().bytes_stream();
    let mut bytes = BytesMut::new();
    while let Some(part) = parts.try_next().await? {
        if bytes.len() + part.len() > ANSWER_MAX {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some(bytes.freeze()))
}

/// Whether the same request may be answered better later.
fn may_pass(error: &StorageError) -> bool {
    use ErrorKind::{ConnectionRefused, ConnectionReset, TimedOut};
    matches!(error.source.kind(), ConnectionRefused | ConnectionReset | TimedOut)
}

/// What an answer says in XML, if it is such a text.
pub(crate) fn parsed<T: for<'a> Deserialize<'a>>(answer: &[u8]) -> Option<T> {
    quick_xml::de::from_str(std::str::from_utf8(answer).ok()?).ok()
}

/// An answer to a request to the whole bucket at `location` that is no such text.
pub(crate) fn unreadable(operation: &'static str, location: &str) -> StorageError {
    let error = Error::new(ErrorKind::InvalidData, "its answer cannot be read");
    StorageError::new(operation, location, error)
}
