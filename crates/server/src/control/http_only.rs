//! A server of the API alone, without the data protocol: for tests, and for looking into a catalog.

use super::Control;
use super::http::{router, serve};
use super::upkeep::UPKEEP_EVERY;
use axum::Router;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Connections at a time; others wait in the queue of the system.
const CONNECTIONS_MAX: usize = 512;
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Accepts connections until the future is dropped.
///
/// # Errors
/// When the listener breaks for good.
pub async fn run(control: Arc<Control>, listener: TcpListener) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(control.tls());
    let router = router(control.clone());
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::spawn(keep_up(Arc::downgrade(&control)));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return Ok(());
        };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Of one connection, or too many files are open: waiting helps, ending does not.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            connection(acceptor, router, stream, from).await;
            drop(place);
        });
    }
}

async fn connection(acceptor: TlsAcceptor, router: Router, stream: TcpStream, from: SocketAddr) {
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await else {
        tracing::debug!(%from, "no TLS handshake");
        return;
    };
    let (_, tls) = stream.get_ref();
    if tls.alpn_protocol() == Some(pki::ALPN_DATA) {
        return;
    }
    let certificate = tls.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.map(|der| der.to_vec());
    serve(stream, router, from.ip().to_canonical(), certificate).await;
}

async fn keep_up(control: std::sync::Weak<Control>) {
    loop {
        tokio::time::sleep(UPKEEP_EVERY).await;
        let Some(control) = control.upgrade() else {
            return;
        };
        let _ = tokio::task::spawn_blocking(move || control.upkeep()).await; // a bug is in the log
    }
}
