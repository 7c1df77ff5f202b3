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
use tokio::sync::{Semaphore, mpsc};
use transport::rate::Rate;

/// Messages that wait for a connection; who does not take them is cut.
const WAITING_MAX: usize = 64;
/// How often limits are looked up.
const LIMITS_EVERY: Duration = Duration::from_secs(5);
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

/// Memory for bodies of large packets under way, of all connections of one node together: whoever
/// announces many and sends none leaves room for others.
const BODIES_BYTES: usize = 64 << 20;

/// What a node may take, over all its connections: how fast it may send and be sent to, and memory.
pub struct Rates {
    /// From the node to the server.
    pub up: Rate,
    /// From the server to the node.
    pub down: Rate,
    /// Memory for bodies of large packets.
    pub(super) bodies: Arc<Semaphore>,
}

impl Default for Rates {
    fn default() -> Self {
        let bodies = Arc::new(Semaphore::new(BODIES_BYTES / PERMIT_BYTES));
        Self { up: Rate::default(), down: Rate::default(), bodies }
    }
}

/// What goes out unasked.
pub(super) enum Message {
    /// A packet.
    Send(Packet),
    /// A last packet.
    End(Packet),
}

/// A connection.
pub struct Connected {
    pub(super) number: u64,
    pub(super) node: Node,
    address: IpAddr,
    pub(super) rates: Arc<Rates>,
    messages: mpsc::Sender<Message>,
    /// 4 for an agent that waits for orders: see `Open`.
    pub(super) purpose: AtomicU64,
    pub(super) job: AtomicU64,
    heard: Mutex<Instant>,
}

impl Connected {
    /// Something came in.
    pub(super) fn heard(&self) {
        *self.heard.lock() = Instant::now();
    }

    /// Whether it waits for orders: see `Open`.
    fn is_agent(&self) -> bool {
        const AGENT: u64 = 4;
        self.purpose.load(Ordering::Relaxed) == AGENT
    }

    fn tell(&self, message: Message) {
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
    ) -> (Arc<Connected>, mpsc::Receiver<Message>) {
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
            heard: Mutex::new(Instant::now()),
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
            packets.for_each(|packet| agent.tell(Message::Send(packet)));
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
                connected.tell(Message::End(faults::revoked()));
            } else if job > 0 && authority.is_cancelled(job) {
                let reason = "an administrator cancelled it".to_owned();
                connected.tell(Message::Send(Packet::Cancel { reason }));
            } else if connected.heard.lock().elapsed() > SILENT_MAX {
                let text = "nothing was heard from this node for too long";
                let packet = protocol::fault::fault(protocol::fault::Code::Busy, text, "", &[]);
                connected.tell(Message::End(packet));
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
    connected.tell(Message::Send(Packet::Limits { up, down, reason }));
}
