//! Measures the network to a server: round trip, and throughput in both directions. It needs no domain, only a
//! `Welcome`, so it works from a node, a storage server and the control server.

use crate::dial::dial;
use crate::driver::ConnectionDriver;
use crate::metrics::{Metrics, NetworkReport};
use crate::remote::StreamRole;
use crate::route::Route;
use crate::runtime::Runtime;
use crate::server_messages::ServerMessages;
use crate::stream::{Pending, Stream};
use crate::waits::Waits;
use crate::{Endpoint, Failure, Purpose};
use parking_lot::Mutex;
use protocol::{Packet, VERSION_NEWEST, VERSION_OLDEST};
use serde::Serialize;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Result;
use tokio::sync::oneshot;

/// Noise is sent in packets of this size.
const PACKET_BYTES: usize = 256 << 10;
/// Random data are requested in pieces that take about this long.
const ASKED_AHEAD: Duration = Duration::from_millis(500);
const ASKED_BYTES_MIN: u64 = 512 << 10;
const ASKED_BYTES_MAX: u64 = 256 << 20;
/// Time for the first reply.
const GREETS_WITHIN: Duration = Duration::from_secs(30);
/// Number of round trips to measure.
const PINGS: usize = 10;

/// Result of a measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measurement {
    /// Median round trip of a small request in milliseconds, including TLS and the server's own time.
    pub round_trip_ms: f64,
    /// Bytes per second to the server.
    pub up_bytes_per_sec: f64,
    /// Bytes per second from the server.
    pub down_bytes_per_sec: f64,
    /// Metrics while sending; this end's kernel knows little of the other direction.
    #[serde(skip)]
    pub sending: NetworkReport,
    /// Duration of sending in seconds.
    #[serde(skip)]
    pub sending_secs: f64,
}

/// A connection for a measurement. It does not reconnect: the result would be worthless.
pub struct NetworkTest {
    stream: Arc<Stream>,
    server_messages: Arc<ServerMessages>,
    metrics: Arc<Metrics>,
    /// Last: dropped after all that uses it.
    _runtime: Runtime,
}

/// Result of connecting.
type DialResult = std::result::Result<(), Failure>;

impl NetworkTest {
    /// Connects and exchanges `Hello`. Domain and patience of `endpoint` are ignored.
    pub fn connect(endpoint: &Endpoint) -> Result<Self> {
        let runtime = Runtime::start().map_err(Failure::into_error)?;
        let server_messages = Arc::new(ServerMessages::new(endpoint.limits));
        let (stream, metrics) =
            (Stream::new(server_messages.clone()), Arc::new(Metrics::default()));
        let (dialed, told) = oneshot::channel();
        let driver = driver(endpoint, stream.clone(), server_messages.clone(), metrics.clone());
        runtime.spawn(run(driver, endpoint.clone(), dialed));
        let gone = || Failure::ProtocolError("the network thread ended".into());
        let told = told.blocking_recv().unwrap_or_else(|_| Err(gone()));
        told.map_err(Failure::into_error)?;
        let network_test = Self { stream, server_messages, metrics, _runtime: runtime };
        network_test.greet()?;
        Ok(network_test)
    }

    fn greet(&self) -> Result<()> {
        let program = concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned();
        let hello = Packet::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, program };
        match self.stream.call(&hello)? {
            Packet::Welcome { .. } => Ok(()),
            other => Err(Failure::from_packet(other).into_error()),
        }
    }

    /// Opens a domain, as jobs do: then the server sends its limits. Returns host and port of the storage server when
    /// the domain lies on one; the caller decides whether to trust that.
    pub fn open(&self, domain: &str) -> Result<Option<(String, u16)>> {
        match self.stream.call(&StreamRole::Open(Purpose::Measure).request(domain))? {
            // What the server says right behind its answer is here when the next one is.
            Packet::Opened { .. } => self.ping().map(|()| None),
            Packet::Redirect { host, port } => Ok(Some((host, port))),
            other => Err(Failure::from_packet(other).into_error()),
        }
    }

    /// Bandwidth limits that the server sent since the last call, and the reason.
    pub fn new_limits(&self) -> Option<([u64; 2], String)> {
        self.server_messages.new_limits()
    }

    /// Measures for about `time` in each direction.
    pub fn measure(&self, time: Duration) -> Result<Measurement> {
        let round_trip_ms = self.round_trip()?;
        let ahead = ASKED_AHEAD.as_secs_f64() + 2.0 * round_trip_ms / 1e3;
        let before = Instant::now();
        let up_bytes_per_sec = self.up(time, ahead)?;
        let (sending, sending_secs) = (self.report(), before.elapsed().as_secs_f64());
        let down_bytes_per_sec = self.down(time, ahead)?;
        Ok(Measurement {
            round_trip_ms,
            up_bytes_per_sec,
            down_bytes_per_sec,
            sending,
            sending_secs,
        })
    }

    /// Metrics of the connection so far.
    pub fn report(&self) -> NetworkReport {
        let waits = &self.stream.empty_waits;
        self.metrics.report((waits.count(), waits.secs()), 0).within(self.server_messages.limits())
    }

    fn ping(&self) -> Result<()> {
        self.stream.call(&Packet::GetNoise { bytes: 0 }).map(drop)
    }

    fn round_trip(&self) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..PINGS {
            let before = Instant::now();
            self.ping()?;
            times.push(before.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[PINGS / 2])
    }

    /// No more is in flight than arrives in `ahead` seconds: on a slow route the end would take long.
    fn up(&self, time: Duration, ahead: f64) -> Result<f64> {
        let mut noise = vec![0; PACKET_BYTES];
        let _ = getrandom::fill(&mut noise);
        let frame = Packet::SendNoise { noise }.frame(0);
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < time {
            let arrived = bytes - self.stream.bytes_in_flight().min(bytes);
            let room = arrived as f64 / start.elapsed().as_secs_f64() * ahead;
            self.stream.drain_to((room as usize).max(ASKED_BYTES_MIN as usize), 0)?;
            self.stream.send_record(frame.clone(), 0)?;
            bytes += frame.len();
        }
        self.stream.drain(0)?;
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    }

    fn down(&self, time: Duration, ahead: f64) -> Result<f64> {
        let (start, mut bytes) = (Instant::now(), 0u64);
        let ask = |bytes| -> Result<(u64, Pending)> {
            Ok((bytes, self.stream.request(&Packet::GetNoise { bytes })?))
        };
        // Two requests in flight: the network is never idle between them.
        let mut in_flight = VecDeque::from([ask(ASKED_BYTES_MIN)?, ask(ASKED_BYTES_MIN)?]);
        while let Some((asked, pending)) = in_flight.pop_front() {
            pending.wait()?;
            bytes += asked;
            let rate = bytes as f64 / start.elapsed().as_secs_f64();
            let next = (rate * ahead) as u64;
            if start.elapsed().as_secs_f64() + ahead < time.as_secs_f64() {
                in_flight.push_back(ask(next.clamp(ASKED_BYTES_MIN, ASKED_BYTES_MAX))?);
            }
        }
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    }
}

impl Drop for NetworkTest {
    fn drop(&mut self) {
        self.stream.end(over());
    }
}

fn over() -> Failure {
    Failure::ProtocolError("the connection was closed".into())
}

fn driver(
    endpoint: &Endpoint,
    stream: Arc<Stream>,
    server_messages: Arc<ServerMessages>,
    metrics: Arc<Metrics>,
) -> ConnectionDriver {
    ConnectionDriver {
        number: 0,
        route: Arc::new(Route::new(endpoint)),
        stream,
        server_messages,
        metrics,
        role: Arc::new(Mutex::new(StreamRole::Open(Purpose::Measure))),
        purpose: None,
        config: Vec::new(),
        last_received: Mutex::new(Instant::now()),
        first: None,
        waits: Waits::default(),
    }
}

/// One connection, from its beginning to its end.
async fn run(driver: ConnectionDriver, endpoint: Endpoint, dialed: oneshot::Sender<DialResult>) {
    let failure = match dial(&endpoint).await {
        Ok(connection) => {
            let _ = dialed.send(Ok(()));
            tokio::select! {
                failure = driver.serve(connection, None) => failure,
                failure = reply_timeout(&driver, &endpoint) => failure,
            }
        }
        Err(failure) => {
            let _ = dialed.send(Err(failure.clone()));
            failure
        }
    };
    driver.stream.end(failure);
}

/// Ends when there is no first answer; else never.
async fn reply_timeout(driver: &ConnectionDriver, endpoint: &Endpoint) -> Failure {
    tokio::time::sleep(GREETS_WITHIN).await;
    if driver.stream.answers() > 0 {
        std::future::pending::<()>().await;
    }
    let reason = format!("no answer in {GREETS_WITHIN:?}");
    Failure::Unreachable { server: endpoint.describe(), reason, kind: ErrorKind::TimedOut }
}
