//! Who is connected, and what is on its way to them unasked: limits, orders, cancels, revocations.

use super::{PERMIT_BYTES, faults};
use crate::authority::{Authority, Node};
use parking_lot::Mutex;
use protocol::Packet;
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, mpsc};
use transport::rate::Rate;
use transport::waits::Waits;

/// Messages that wait for a connection; who does not take them is cut.
const WAITING_MAX: usize = 64;
/// How often limits are looked up.
const LIMITS_EVERY: Duration = Duration::from_secs(5);
/// Memory for large bodies of one node.
const NODE_BODIES_BYTES: usize = 64 << 20;
/// Who says nothing for so long is gone; clients ping more often.
const SILENT_MAX: Duration = Duration::from_secs(180);

/// All connections of nodes.
#[derive(Default)]
pub struct Hub {
    connections: Mutex<FxHashMap<u64, Arc<Connected>>>,
    rates: Mutex<FxHashMap<String, Arc<Rates>>>,
    next: AtomicU64,
    limits_at: Mutex<Option<Instant>>,
    /// Orders given, when they were last looked at.
    orders_seen: AtomicU64,
}

/// What all connections of a node share.
pub struct Rates {
    /// From the node to the server.
    pub up: Rate,
    /// From the server to the node.
    pub down: Rate,
    /// Memory for large bodies of this node: it does not take that of others.
    pub(super) bodies: Arc<Semaphore>,
}

impl Default for Rates {
    fn default() -> Self {
        let bodies = Arc::new(Semaphore::new(NODE_BODIES_BYTES / PERMIT_BYTES));
        Self { up: Rate::default(), down: Rate::default(), bodies }
    }
}

/// Waits of this end of a connection.
#[derive(Default)]
pub(super) struct ServerWaits {
    /// For something to come from the node.
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
pub struct Connected {
    pub(super) number: u64,
    pub(super) node: Node,
    address: IpAddr,
    pub(super) rates: Arc<Rates>,
    messages: mpsc::Sender<Packet>,
    /// 4 for an agent that waits for orders: see `Open`.
    pub(super) purpose: AtomicU64,
    pub(super) job: AtomicU64,
    /// What this end waited for.
    pub(super) waits: ServerWaits,
    /// Bytes that came in or went out.
    pub(super) moved: Arc<AtomicU64>,
    /// When something moved last, and how much had by then.
    heard: Mutex<(Instant, u64)>,
    /// The last packet of a connection that has to end, whatever it is at.
    last: Mutex<Option<Packet>>,
    pub(super) end: Notify,
}

impl Connected {
    /// How long nothing has moved.
    fn silence(&self) -> Duration {
        let moved = self.moved.load(Ordering::Relaxed);
        let mut heard = self.heard.lock();
        if heard.1 != moved {
            *heard = (Instant::now(), moved);
        }
        heard.0.elapsed()
    }

    /// Ends the connection, whatever it is at, with a last packet.
    fn end_with(&self, packet: Packet) {
        *self.last.lock() = Some(packet);
        self.end.notify_one();
    }

    /// What it was ended with.
    pub(super) fn last_packet(&self) -> Option<Packet> {
        self.last.lock().take()
    }

    /// Whether it waits for orders: see `Open`.
    fn is_agent(&self) -> bool {
        const AGENT: u64 = 4;
        self.purpose.load(Ordering::Relaxed) == AGENT
    }

    fn tell(&self, message: Packet) {
        // Who has so much waiting does not read; it is cut when it has been silent for long enough.
        let _ = self.messages.try_send(message);
    }
}

impl Hub {
    /// Notes a connection of `node`.
    pub(super) fn enter(
        &self,
        node: Node,
        address: IpAddr,
        authority: &dyn Authority,
    ) -> (Arc<Connected>, mpsc::Receiver<Packet>) {
        let (messages, inbox) = mpsc::channel(WAITING_MAX);
        let rates = self.rates_of(&node.name);
        let [up, down] = authority.bandwidth(&node, address);
        rates.up.set(up);
        rates.down.set(down);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let connected = Arc::new(Connected {
            number,
            node,
            address,
            rates,
            messages,
            purpose: AtomicU64::new(0),
            job: AtomicU64::new(0),
            waits: ServerWaits::default(),
            moved: Arc::default(),
            heard: Mutex::new((Instant::now(), 0)),
            last: Mutex::default(),
            end: Notify::new(),
        });
        self.connections.lock().insert(number, connected.clone());
        (connected, inbox)
    }

    pub(super) fn leave(&self, connected: &Connected) {
        self.connections.lock().remove(&connected.number);
        self.rates.lock().retain(|_, rates| Arc::strong_count(rates) > 1);
    }

    /// Connections now.
    pub fn len(&self) -> usize {
        self.connections.lock().len()
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.connections.lock().is_empty()
    }

    /// Nodes whose agent is connected.
    pub fn agents(&self) -> Vec<String> {
        let all = self.all();
        let agents = all.iter().filter(|connected| connected.is_agent());
        agents.map(|connected| connected.node.name.clone()).collect()
    }

    /// Sends orders that were given since the last look to their agents. One that is sent twice is
    /// done once: its number is the same.
    fn send_orders(&self, all: &[Arc<Connected>], authority: &dyn Authority) {
        let given = authority.orders_given();
        if self.orders_seen.swap(given, Ordering::Relaxed) == given {
            return;
        }
        for agent in all.iter().filter(|connected| connected.is_agent()) {
            let orders = authority.orders(&agent.node);
            let packets = orders.iter().filter_map(super::work::order_packet);
            packets.for_each(|packet| agent.tell(packet));
        }
    }

    /// Ends what was revoked, cuts who is silent, and applies limits that changed.
    pub(super) fn tick(&self, authority: &dyn Authority) {
        let limits_are_due = {
            let mut at = self.limits_at.lock();
            let due = at.is_none_or(|at| at.elapsed() >= LIMITS_EVERY);
            if due {
                *at = Some(Instant::now());
            }
            due
        };
        let all = self.all();
        self.send_orders(&all, authority);
        for connected in all {
            let job = connected.job.load(Ordering::Relaxed);
            if connected.node.is_revoked() {
                connected.end_with(faults::revoked());
            } else if job > 0 && authority.is_cancelled(job) {
                connected.end_with(faults::cancelled());
            } else if connected.silence() > SILENT_MAX {
                let text = "nothing was heard from this node for too long";
                let packet = protocol::fault::fault(protocol::fault::Code::Busy, text, "", &[]);
                connected.end_with(packet);
            } else if limits_are_due {
                apply_limits(&connected, authority);
            }
        }
    }

    fn all(&self) -> Vec<Arc<Connected>> {
        self.connections.lock().values().cloned().collect()
    }

    fn rates_of(&self, node: &str) -> Arc<Rates> {
        self.rates.lock().entry(node.to_owned()).or_default().clone()
    }
}

fn apply_limits(connected: &Connected, authority: &dyn Authority) {
    let [up, down] = authority.bandwidth(&connected.node, connected.address);
    let rates = &connected.rates;
    if [rates.up.bytes_per_sec(), rates.down.bytes_per_sec()] == [up, down] {
        return;
    }
    rates.up.set(up);
    rates.down.set(down);
    let reason = "the server's limits changed".to_owned();
    connected.tell(Packet::Limits { up, down, reason });
}
