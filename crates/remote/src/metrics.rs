//! Metrics of a connection: bytes, waits, and the kernel's statistics.

use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use transport::socket::Buffers;
use transport::tcp_info::TcpInfo;
use transport::waits::Waits;

/// Samples closer than this say nothing about a rate.
const SAMPLE_SECS_MIN: f64 = 0.1;

/// Counters of all streams to one server.
#[derive(Default)]
pub struct Metrics {
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    /// Bytes written so far, including frames in flight.
    pub(crate) moved: AtomicU64,
    pub(crate) disconnects: AtomicU64,
    /// Waits because there was nothing to send.
    pub(crate) full_waits: Waits,
    buffers: Mutex<Option<Buffers>>,
    sockets: Mutex<BTreeMap<u8, Socket>>,
}

/// The kernel's statistics of a stream: of its current connection, and of those before.
#[derive(Clone, Copy, Default)]
struct Socket {
    now: TcpInfo,
    past: TcpInfo,
    sampled: Option<Instant>,
    /// Highest rate between two samples, in bytes per second.
    fastest: f64,
}

impl Socket {
    fn sample(&mut self, info: TcpInfo) {
        if let Some(before) = self.sampled.replace(Instant::now()) {
            let bytes = info.bytes_received.saturating_sub(self.now.bytes_received);
            let secs = before.elapsed().as_secs_f64().max(SAMPLE_SECS_MIN);
            self.fastest = self.fastest.max(bytes as f64 / secs);
        }
        self.now = info;
    }

    fn sum(&self, field: impl Fn(&TcpInfo) -> u64) -> u64 {
        field(&self.now) + field(&self.past)
    }
}

/// The metrics as reports show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, serde::Deserialize)]
#[serde(default)]
pub struct NetworkReport {
    /// Bytes to the server, without TLS and TCP.
    pub sent_bytes: u64,
    /// Bytes from the server.
    pub received_bytes: u64,
    /// Bytes of records sent again after a disconnect.
    pub resent_bytes: u64,
    /// Connections that were lost.
    pub disconnects: u64,
    /// How often the sender waited for data to send.
    pub full_waits: u64,
    /// Seconds of these.
    pub full_wait_secs: f64,
    /// How often the pipeline waited for room in the send window.
    pub empty_waits: u64,
    /// Seconds of these.
    pub empty_wait_secs: f64,
    /// Round trip in milliseconds.
    pub rtt_ms: f64,
    /// Smallest round trip in milliseconds.
    pub min_rtt_ms: f64,
    /// Number of streams.
    pub streams: u64,
    /// Retransmitted segments, on all streams.
    pub retransmitted: u32,
    /// Bytes that the server's kernel has acknowledged, on all streams.
    pub acked_bytes: u64,
    /// Seconds in which there was data to send, on all streams.
    pub busy_secs: f64,
    /// Seconds of these in which the other end's receive window was full.
    pub receiver_limited_secs: f64,
    /// Seconds of these in which the send buffer was full.
    pub send_buffer_limited_secs: f64,
    /// Congestion window in bytes.
    pub congestion_window_bytes: u64,
    /// Requested buffer size in bytes; 0 when left to the system.
    pub buffer_asked_bytes: u64,
    /// Send buffer as granted at the start, in bytes.
    pub send_buffer_bytes: u64,
    /// Receive buffer as granted at the start, in bytes.
    pub receive_buffer_bytes: u64,
    /// Current bandwidth limit to the server, in bytes per second; 0 for none.
    pub limit_up_bytes_per_sec: u64,
    /// Current bandwidth limit from the server, in bytes per second; 0 for none.
    pub limit_down_bytes_per_sec: u64,
}

impl NetworkReport {
    /// Adds the current bandwidth limits, up and down.
    pub(crate) fn within(self, [up, down]: [u64; 2]) -> Self {
        Self { limit_up_bytes_per_sec: up, limit_down_bytes_per_sec: down, ..self }
    }
}

impl Metrics {
    pub(crate) fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The stream `number` has a new connection.
    pub(crate) fn connected(&self, number: u8, buffers: Buffers) {
        *self.buffers.lock() = Some(buffers);
        let mut sockets = self.sockets.lock();
        let socket = sockets.entry(number).or_default();
        let (past, now) = (socket.past, socket.now);
        socket.past = TcpInfo {
            retransmitted: past.retransmitted + now.retransmitted,
            bytes_acked: past.bytes_acked + now.bytes_acked,
            busy_micros: past.busy_micros + now.busy_micros,
            receiver_limited_micros: past.receiver_limited_micros + now.receiver_limited_micros,
            send_buffer_limited_micros: past.send_buffer_limited_micros
                + now.send_buffer_limited_micros,
            ..past
        };
        socket.now = TcpInfo::default();
        socket.sampled = None;
    }

    pub(crate) fn sample(&self, number: u8, info: TcpInfo) {
        self.sockets.lock().entry(number).or_default().sample(info);
    }

    /// Bandwidth-delay product of the route from the server, in bytes: highest rate by shortest round trip.
    pub(crate) fn bandwidth_delay_bytes(&self) -> usize {
        let socket = self.sockets.lock().get(&0).copied().unwrap_or_default();
        (socket.fastest * f64::from(socket.now.min_rtt_micros) / 1e6) as usize
    }

    /// The counters now; `empty_waits` and `resent_bytes` are those of the streams.
    pub(crate) fn report(&self, empty_waits: (u64, f64), resent_bytes: u64) -> NetworkReport {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sockets = self.sockets.lock().clone();
        let sum = |field: fn(&TcpInfo) -> u64| -> u64 {
            sockets.values().map(|socket| socket.sum(field)).sum()
        };
        let info = sockets.get(&0).copied().unwrap_or_default().now;
        let buffers = self.buffers.lock().unwrap_or_default();
        let secs = |micros: u64| micros as f64 / 1e6;
        NetworkReport {
            sent_bytes: get(&self.sent_bytes),
            received_bytes: get(&self.received_bytes),
            resent_bytes,
            disconnects: get(&self.disconnects),
            full_waits: self.full_waits.count(),
            full_wait_secs: self.full_waits.secs(),
            empty_waits: empty_waits.0,
            empty_wait_secs: empty_waits.1,
            rtt_ms: f64::from(info.rtt_micros) / 1e3,
            min_rtt_ms: f64::from(info.min_rtt_micros) / 1e3,
            streams: sockets.len() as u64,
            retransmitted: sum(|info| info.retransmitted.into()) as u32,
            acked_bytes: sum(|info| info.bytes_acked),
            busy_secs: secs(sum(|info| info.busy_micros)),
            receiver_limited_secs: secs(sum(|info| info.receiver_limited_micros)),
            send_buffer_limited_secs: secs(sum(|info| info.send_buffer_limited_micros)),
            congestion_window_bytes: u64::from(info.window_segments)
                * u64::from(info.segment_bytes),
            buffer_asked_bytes: buffers.asked_bytes as u64,
            send_buffer_bytes: buffers.send_bytes as u64,
            receive_buffer_bytes: buffers.receive_bytes as u64,
            ..NetworkReport::default()
        }
    }
}
