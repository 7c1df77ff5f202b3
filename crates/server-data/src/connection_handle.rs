//! A connection of a node, as other parts of the server see it, and what all connections of the node share.

use super::body_memory::BodyMemory;
use parking_lot::Mutex;
use protocol::Packet;
use protocol::packet::Purpose;
use server_contract::access_control::{Access, Node};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use transport::quota::Permit;
use transport::rate::Rate;
use transport::waits::Waits;

/// Memory for large bodies of one node: its own share, and what it may have of the rest.
const NODE_BODIES_BYTES: usize = 16 << 20;
const NODE_MORE_BYTES: usize = 48 << 20;
/// How long a job may continue after its certificate has expired: 24 hours. A backup that takes days
/// must not fail for that.
const JOB_AFTER_SECS: i64 = 24 * 3600;

/// A new connection.
pub(super) struct NewConnection {
    pub(super) node: Node,
    pub(super) address: IpAddr,
    /// When its certificate expires, seconds since 1970.
    pub(super) certificate_ends: i64,
}

/// What all connections of a node share.
pub(super) struct NodeLimits {
    /// From the node to the server.
    pub(super) up: Rate,
    /// From the server to the node.
    pub(super) down: Rate,
    /// Memory for large bodies of this node.
    pub(super) bodies: BodyMemory,
}

impl Default for NodeLimits {
    fn default() -> Self {
        let bodies = BodyMemory::new(NODE_BODIES_BYTES, NODE_MORE_BYTES);
        Self { up: Rate::default(), down: Rate::default(), bodies }
    }
}

/// Waits of this end of a connection.
#[derive(Default)]
pub(super) struct ServerWaits {
    /// For data from the node.
    pub(super) full: Waits,
    /// For memory, a thread, the disk.
    pub(super) empty: Waits,
}

impl ServerWaits {
    /// As the report of a job shows them.
    pub(super) fn report(&self) -> serde_json::Value {
        serde_json::json!({
            "full_waits": self.full.count(),
            "full_wait_secs": self.full.secs(),
            "empty_waits": self.empty.count(),
            "empty_wait_secs": self.empty.secs(),
        })
    }
}

/// A connection.
pub(super) struct ConnectionHandle {
    pub(super) number: u64,
    pub(super) node: Node,
    pub(super) address: IpAddr,
    certificate_ends: i64,
    pub(super) rates: Arc<NodeLimits>,
    messages: mpsc::Sender<Packet>,
    /// The limits that it was last told, up and down; `None` before it has a domain open.
    told: Mutex<Option<[u64; 2]>>,
    /// What it was opened for; `None` before `Open`.
    pub(super) purpose: Mutex<Option<Purpose>>,
    /// Number of the job that runs on it; 0 for none.
    pub(super) job: AtomicU64,
    /// The domain that it has open: access to it can be withdrawn.
    pub(super) access: Mutex<Option<Access>>,
    /// What this end waited for.
    pub(super) waits: ServerWaits,
    /// Bytes received and sent.
    pub(super) moved: Arc<AtomicU64>,
    /// Whether this end is working on a request: meanwhile the node is silent.
    pub(super) is_working: AtomicBool,
    /// When bytes last moved, and how many had by then.
    heard: Mutex<(Instant, u64)>,
    /// The last packet of a connection that has to end.
    last: Mutex<Option<Packet>>,
    pub(super) end: Notify,
    /// Its permit among the connections of its node.
    _permit: Option<Permit>,
}

impl ConnectionHandle {
    pub(super) fn new(
        number: u64,
        new: NewConnection,
        permit: Option<Permit>,
        rates: Arc<NodeLimits>,
        messages: mpsc::Sender<Packet>,
    ) -> Self {
        let NewConnection { node, address, certificate_ends } = new;
        Self {
            number,
            node,
            address,
            certificate_ends,
            rates,
            messages,
            told: Mutex::default(),
            purpose: Mutex::default(),
            job: AtomicU64::new(0),
            access: Mutex::default(),
            waits: ServerWaits::default(),
            moved: Arc::default(),
            is_working: AtomicBool::new(false),
            heard: Mutex::new((Instant::now(), 0)),
            last: Mutex::default(),
            end: Notify::new(),
            _permit: permit,
        }
    }

    /// How long the node has been silent although it was its turn.
    pub(super) fn silence(&self) -> Duration {
        let moved = self.moved.load(Ordering::Relaxed);
        let mut heard = self.heard.lock();
        if heard.1 != moved || self.is_working.load(Ordering::Relaxed) {
            *heard = (Instant::now(), moved);
        }
        heard.0.elapsed()
    }

    /// Whether its certificate has expired, and no job may continue.
    pub(super) fn is_out_of_time(&self, now_secs: i64) -> bool {
        let has_job = self.job.load(Ordering::Relaxed) > 0;
        let after_secs = if has_job { JOB_AFTER_SECS } else { 0 };
        self.certificate_ends.saturating_add(after_secs) <= now_secs
    }

    /// Ends the connection with a last packet, whatever its state.
    pub(super) fn end_with(&self, packet: Packet) {
        *self.last.lock() = Some(packet);
        self.end.notify_one();
    }

    /// Whether it was ended so: nothing that still arrives counts.
    pub(super) fn is_ending(&self) -> bool {
        self.last.lock().is_some()
    }

    /// The packet with which it was ended.
    pub(super) fn last_packet(&self) -> Option<Packet> {
        self.last.lock().take()
    }

    /// Whether it is an agent that waits for commands.
    pub(super) fn is_agent(&self) -> bool {
        *self.purpose.lock() == Some(Purpose::Agent)
    }

    /// Sends `message` between two frames. A `Fault` is the last one. `false` if so many wait that it is dropped: such
    /// a client does not read, and is disconnected once it was silent for long enough.
    pub(super) fn tell(&self, message: Packet) -> bool {
        self.messages.try_send(message).is_ok()
    }

    /// Limits as the packet that tells them, for whoever has just opened a domain. None is told, too: the client may
    /// know others from a connection before this one.
    pub(super) fn first_limits(&self) -> Packet {
        let [up, down] = [&self.rates.up, &self.rates.down].map(Rate::bytes_per_sec);
        *self.told.lock() = Some([up, down]);
        Packet::Limits { up, down, reason: "set on the server".to_owned() }
    }

    /// Tells limits if this connection was told others. What another connection of the node was told does not count.
    pub(super) fn tell_limits(&self, limits: [u64; 2]) {
        let mut told = self.told.lock();
        if told.is_none_or(|told| told == limits) {
            return;
        }
        let ([up, down], reason) = (limits, "the server's limits changed".to_owned());
        if self.messages.try_send(Packet::Limits { up, down, reason }).is_ok() {
            *told = Some(limits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected() -> ConnectionHandle {
        let node = Node { name: "web".into(), serial: "1".into(), revoked: Arc::default() };
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let new = NewConnection { node, address, certificate_ends: 1_000 };
        ConnectionHandle::new(1, new, None, Arc::default(), mpsc::channel(1).0)
    }

    #[test]
    fn a_commit_that_takes_long_is_no_silence_of_the_node() {
        let (handle, long) = (connected(), Duration::from_secs(600));
        let an_hour_ago = |handle: &ConnectionHandle| handle.heard.lock().0 -= 6 * long;
        an_hour_ago(&handle);
        assert!(handle.silence() > long);
        handle.is_working.store(true, Ordering::Relaxed);
        assert!(handle.silence() < long);
        handle.is_working.store(false, Ordering::Relaxed);
        assert!(handle.silence() < long, "from now on it is the node's turn");
        an_hour_ago(&handle);
        assert!(handle.silence() > long);
    }

    #[test]
    fn a_job_goes_on_for_a_day_after_its_certificate_and_no_longer() {
        let handle = connected();
        assert!(!handle.is_out_of_time(999));
        assert!(handle.is_out_of_time(1_000));
        handle.job.store(7, Ordering::Relaxed);
        assert!(!handle.is_out_of_time(1_000 + JOB_AFTER_SECS - 1));
        assert!(handle.is_out_of_time(1_000 + JOB_AFTER_SECS));
    }
}
