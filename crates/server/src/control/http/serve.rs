//! Serving one connection: limits on headers, bodies and time, so that a slow or hostile caller costs little.

use super::Failed;
use super::who::Caller;
use crate::authority::Peer;
use api::Code;
use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Longest wait for the head of a request; also how long an idle connection stays.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// Longest time for a request, its body included.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// Longest life of a connection: who reads an answer drop by drop does not hold it for ever.
const CONNECTION_TIME: Duration = Duration::from_secs(600);

/// Serves HTTP/1.1 on a connection whose TLS handshake is done. `certificate` is what the other end showed and TLS has
/// verified.
pub async fn serve<S>(stream: S, router: Router, address: IpAddr, certificate: Option<Vec<u8>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let peer = certificate.map(|certificate| Peer { certificate, address });
    let caller = Caller { address, peer };
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        answer(router.clone(), request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIME, connection).await {
        Ok(Err(error)) => tracing::debug!(%error, %address, "an HTTP connection broke"),
        Ok(Ok(())) | Err(_) => {}
    }
}

async fn answer(
    router: Router,
    request: hyper::Request<Incoming>,
) -> Result<axum::response::Response, Infallible> {
    use hyper::service::Service;
    let work = TowerToHyperService::new(router).call(request);
    Ok(match tokio::time::timeout(REQUEST_TIME, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            let status = StatusCode::REQUEST_TIMEOUT;
            Failed::new(status, Code::Failed, "the request took too long").into_response()
        }
    })
}
