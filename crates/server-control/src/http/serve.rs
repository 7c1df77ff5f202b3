//! Serving one connection: limits on headers, bodies and time, so that a slow or hostile caller costs little.

use super::Failed;
use super::who::Caller;
use api::Code;
use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use server_contract::access_control::Peer;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use transport::evicting_quota::EvictablePermit;

const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Nobody knows what a request waits for; hardly anything but a database or a storage takes so long.
const SLOW: &str = "the server did not answer in time: perhaps its catalog or its storage hangs";
const SLOW_HINT: &str = "It may still be carried out. To see where the catalog lies, on the server: icecore server catalog show";

/// How long a caller may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// For the head of a request; also how long an idle connection stays.
    head: Duration,
    /// For a request, its body included.
    request: Duration,
    /// For all of a connection: who reads an answer drop by drop does not hold it for ever.
    connection: Duration,
    /// Requests of one connection.
    requests: u64,
}

impl Times {
    const USUAL: Self = Self {
        head: Duration::from_secs(30),
        request: Duration::from_secs(60),
        connection: Duration::from_secs(600),
        requests: u64::MAX,
    };
    /// Of who has shown nothing yet. Who then shows the administrator's token has as long as others.
    const OF_A_STRANGER: Self = Self {
        head: Duration::from_secs(10),
        request: Duration::from_secs(60),
        connection: Duration::from_secs(90),
        requests: 32,
    };
}

/// Serves HTTP/1.1 on a connection whose TLS handshake is done. `certificate` is what the other end showed and TLS has
/// verified.
pub async fn serve<S>(stream: S, router: Router, address: IpAddr, certificate: Option<Vec<u8>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let peer = certificate.map(|certificate| Peer { certificate, address });
    let caller = Caller { address, peer, stranger: None };
    serve_within(stream, router, caller, Times::USUAL).await;
}

/// The same for who shows no certificate: less time, few requests, and the first that is refused is the last one.
pub async fn serve_stranger<S>(
    stream: S,
    router: Router,
    address: IpAddr,
    stranger: Arc<EvictablePermit<IpAddr>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let caller = Caller { address, peer: None, stranger: Some(stranger) };
    serve_within(stream, router, caller, Times::OF_A_STRANGER).await;
}

async fn serve_within<S>(stream: S, router: Router, caller: Caller, times: Times)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (address, is_stranger) = (caller.address, caller.stranger.is_some());
    let requests = AtomicU64::new(0);
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        let is_last = requests.fetch_add(1, Ordering::Relaxed) + 1 >= times.requests;
        let answered = answer(router.clone(), request, times.request);
        async move {
            let Ok(mut response) = answered.await;
            let is_refused = is_stranger && response.status().is_client_error();
            if is_last || is_refused {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(times.head)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = tokio::time::timeout(times.connection, connection).await {
        tracing::debug!(%error, %address, "an HTTP connection broke");
    }
}

async fn answer(
    router: Router,
    request: hyper::Request<Incoming>,
    within: Duration,
) -> Result<axum::response::Response, Infallible> {
    use hyper::service::Service;
    let work = TowerToHyperService::new(router).call(request);
    Ok(match tokio::time::timeout(within, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            tracing::error!("a request took longer than {} s", within.as_secs());
            let status = StatusCode::REQUEST_TIMEOUT;
            Failed::new(status, Code::Unreachable, SLOW).hint(SLOW_HINT).into_response()
        }
    })
}

#[cfg(test)]
mod tests;
