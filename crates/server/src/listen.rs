//! The accept loop: one port for nodes and for HTTP, told apart by ALPN. An unauthenticated connection
//! gets little time and memory, and only a quota of its address.

use axum::Router;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustls::server::Acceptor;
use server_contract::access_control::Peer;
use server_control::http::{serve, serve_stranger};
use server_data::{Shared, connection};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use transport::evicting_quota::{EvictablePermit, EvictingQuota, network};
use transport::quota::{Permit, Quota};

/// Time for a TLS handshake, including the wait for its turn.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(20);
/// Maximum number of concurrent handshakes of one address: they cost processor time. They begin with a
/// complete ClientHello.
const HANDSHAKES_PER_ADDRESS: usize = 32;
/// Time for a handshake once it has its turn: others wait for it.
const TURN_WITHIN: Duration = Duration::from_secs(5);
/// Connections that wait for their handshake: of one network, and all. The oldest silent ones are evicted.
const WAITING_PER_NETWORK_MAX: usize = 2048;
const WAITING_MAX: usize = 8192;
/// HTTP connections with certificates: a quota of their own.
const HTTP_MAX: usize = 512;
/// HTTP connections without a certificate or the administrator's token: of one network, and all.
const ANONYMOUS_PER_NETWORK_MAX: usize = 32;
const ANONYMOUS_MAX: usize = 256;
/// HTTP connections with one certificate: a storage server sends up to 64 requests at once, and its heartbeat.
const HTTP_PER_CERTIFICATE_MAX: usize = 128;
/// Pause after an error of accept, such as too many open files.
const REST: Duration = Duration::from_millis(50);

/// Failures of accept are logged once in this time: they come as fast as one tries again.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// What the accept loop needs.
pub struct Listening {
    /// The listening socket.
    pub listener: TcpListener,
    /// The server's certificate, and the CA of clients.
    pub tls: Arc<rustls::ServerConfig>,
    /// The data plane.
    pub shared: Arc<Shared>,
    /// The HTTP API.
    pub http: Router,
}

/// Handshakes in progress, by address.
#[derive(Default)]
struct HandshakeQueues(Mutex<FxHashMap<IpAddr, Arc<HandshakeQueue>>>);

struct HandshakeQueue {
    handshakes: Semaphore,
}

impl HandshakeQueues {
    fn of(&self, address: IpAddr) -> Arc<HandshakeQueue> {
        let mut queues = self.0.lock();
        queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        let queue =
            || Arc::new(HandshakeQueue { handshakes: Semaphore::new(HANDSHAKES_PER_ADDRESS) });
        queues.entry(network(address)).or_insert_with(queue).clone()
    }
}

/// Quotas for connections: those that wait for a handshake, HTTP with a certificate (in total and for each
/// certificate), and HTTP without. No kind uses the quota of another.
struct ConnectionQuotas {
    waiting: Arc<EvictingQuota<IpAddr>>,
    certified: Arc<EvictingQuota<[u8; 32]>>,
    own: Quota<[u8; 32]>,
    anonymous: Arc<EvictingQuota<IpAddr>>,
}

impl Default for ConnectionQuotas {
    fn default() -> Self {
        Self {
            waiting: EvictingQuota::new(WAITING_MAX, WAITING_PER_NETWORK_MAX),
            certified: EvictingQuota::new(HTTP_MAX, HTTP_PER_CERTIFICATE_MAX),
            own: Quota::new(HTTP_PER_CERTIFICATE_MAX),
            anonymous: EvictingQuota::new(ANONYMOUS_MAX, ANONYMOUS_PER_NETWORK_MAX),
        }
    }
}

impl ConnectionQuotas {
    /// A permit for a connection with this certificate. When all are taken, the certificate with most connections
    /// loses one.
    fn of(&self, certificate: &[u8]) -> Option<(Permit, EvictablePermit<[u8; 32]>)> {
        let who = pki::fingerprint(certificate);
        Some((self.own.acquire(who)?, self.certified.enter(who)))
    }
}

/// Failures of accept that are not logged yet.
#[derive(Default)]
struct FailedAccepts {
    told: Option<Instant>,
    times: u64,
}

impl FailedAccepts {
    /// Counts one more; how many to log now, if any.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.times += 1;
        if self.told.is_some_and(|told| now.duration_since(told) < TELL_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.times))
    }
}

/// Accepts until the future is dropped.
pub async fn run(listening: Listening) {
    let ticks = tick(listening.shared.clone());
    tokio::select! {
        () = ticks => {}
        () = accept(listening) => {}
    }
}

async fn accept(listening: Listening) {
    let Listening { listener, tls, shared, http } = listening;
    let queues = HandshakeQueues::default();
    let quotas = Arc::new(ConnectionQuotas::default());
    let mut failed = FailedAccepts::default();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(times) = failed.count(Instant::now()) {
                    tracing::warn!(%error, times, "cannot accept connections");
                }
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let queue = queues.of(canonical(address));
        let incoming = IncomingConnection {
            tls: tls.clone(),
            shared: shared.clone(),
            http: http.clone(),
            quotas: quotas.clone(),
            address: canonical(address),
        };
        tokio::spawn(incoming.serve_connection(stream, queue));
    }
}

/// An IPv4 address on an IPv6 socket as an IPv4 address.
fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

async fn tick(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let shared = shared.clone();
        if tokio::task::spawn_blocking(move || shared.tick()).await.is_err() {
            tracing::error!("the periodic task failed");
        }
    }
}

struct IncomingConnection {
    tls: Arc<rustls::ServerConfig>,
    shared: Arc<Shared>,
    http: Router,
    quotas: Arc<ConnectionQuotas>,
    address: IpAddr,
}

impl IncomingConnection {
    async fn serve_connection(self, stream: TcpStream, queue: Arc<HandshakeQueue>) {
        let waiting = self.quotas.waiting.enter(network(self.address));
        let handshake = async {
            transport::socket::prepare(&stream).ok()?;
            let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await.ok()?;
            let _turn = queue.handshakes.acquire().await.ok()?;
            let done = hello.into_stream(self.tls.clone());
            tokio::time::timeout(TURN_WITHIN, done).await.ok()?.ok()
        };
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HANDSHAKE_WITHIN, handshake) => shaken,
            () = waiting.evicted() => return,
        };
        let Ok(Some(stream)) = shaken else { return };
        drop(waiting);
        drop(queue);
        let peer = peer(&stream, self.address);
        match stream.get_ref().1.alpn_protocol() {
            Some(protocol::ALPN) => {
                if let Some(peer) = peer {
                    let ends = certificate_ends(&peer.certificate);
                    connection::run(self.shared, stream, peer, ends).await;
                }
            }
            _ => self.http(stream, peer).await,
        }
    }

    async fn http(self, stream: TlsStream<TcpStream>, peer: Option<Peer>) {
        let Some(peer) = peer else {
            let stranger = Arc::new(self.quotas.anonymous.enter(network(self.address)));
            let served = serve_stranger(stream, self.http, self.address, stranger.clone());
            return tokio::select! {
                () = served => {}
                () = stranger.evicted() => {}
            };
        };
        let Some((_own, permit)) = self.quotas.of(&peer.certificate) else { return };
        tokio::select! {
            () = serve(stream, self.http, self.address, Some(peer.certificate)) => {}
            () = permit.evicted() => {}
        }
    }
}

fn peer(stream: &TlsStream<TcpStream>, address: IpAddr) -> Option<Peer> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?.to_vec();
    Some(Peer { certificate, address })
}

/// When a certificate ends, seconds since 1970; one that cannot be read has ended.
fn certificate_ends(certificate: &[u8]) -> i64 {
    pki::inspect(certificate).map_or(0, |facts| facts.not_after_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_certificate_does_not_take_all_places_for_http() {
        let quotas = ConnectionQuotas::default();
        let held: Vec<_> =
            (0..HTTP_PER_CERTIFICATE_MAX).map(|_| quotas.of(b"one").unwrap()).collect();
        assert!(quotas.of(b"one").is_none() && quotas.of(b"other").is_some());
        drop(held);
        assert!(quotas.of(b"one").is_some());
    }

    #[test]
    fn a_minute_of_failed_accepts_is_one_line_and_a_number() {
        let (mut failed, now) = (FailedAccepts::default(), Instant::now());
        assert_eq!(failed.count(now), Some(1), "the first at once");
        assert!((0..1_000).all(|_| failed.count(now).is_none()));
        assert_eq!(failed.count(now + TELL_EVERY), Some(1_001));
        assert_eq!(failed.count(now + TELL_EVERY), None);
    }
}
