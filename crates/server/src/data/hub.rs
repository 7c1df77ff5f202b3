//! Who is connected, and what is on its way to them unasked: limits, commands, cancels, revocations, the
//! end of the server.

use super::connected::{Connected, Entering, Rates};
use super::faults;
use crate::access_control::{AccessControl, Node};
use crate::shares::{Place, Shares};
use parking_lot::Mutex;
use protocol::Packet;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Messages that wait for a connection; who does not take them is cut.
const WAITING_MAX: usize = 64;
/// Connections of one node: its agent, and several commands with all their streams.
pub(super) const NODE_CONNECTIONS_MAX: usize = 64;
/// How often limits are looked up.
const LIMITS_EVERY: Duration = Duration::from_secs(5);
/// Who says nothing for so long is gone; clients ping more often.
const SILENT_MAX: Duration = Duration::from_secs(180);

/// All connections of nodes.
pub struct Hub {
    connections: Mutex<FxHashMap<u64, Arc<Connected>>>,
    rates: Mutex<FxHashMap<String, Arc<Rates>>>,
    /// Among the connections of a node, by its name.
    places: Shares<String>,
    next: AtomicU64,
    limits_at: Mutex<Option<Instant>>,
    /// Commands given, when they were last looked at.
    commands_seen: AtomicU64,
    /// Nobody is let in any more.
    is_closed: AtomicBool,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            connections: Mutex::default(),
            rates: Mutex::default(),
            places: Shares::new(NODE_CONNECTIONS_MAX),
            next: AtomicU64::new(0),
            limits_at: Mutex::default(),
            commands_seen: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }
    }
}

impl Hub {
    /// Lets a connection in and notes it; or tells why not.
    pub(super) fn enter(
        &self,
        entering: Entering,
        access_control: &dyn AccessControl,
    ) -> Result<(Arc<Connected>, mpsc::Receiver<Packet>), Packet> {
        let place = self.place(&entering.node, access_control)?;
        let (messages, inbox) = mpsc::channel(WAITING_MAX);
        let rates = self.rates_of(&entering.node.name);
        let [up, down] = access_control.bandwidth(&entering.node, entering.address);
        rates.up.set(up);
        rates.down.set(down);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let connected = Arc::new(Connected::new(number, entering, place, rates, messages));
        self.note(&connected)?;
        access_control.enters(&connected.node, connected.address);
        Ok((connected, inbox))
    }

    /// A place among the connections of a node. The control server is none, and has as many as it needs.
    fn place(
        &self,
        node: &Node,
        access_control: &dyn AccessControl,
    ) -> Result<Option<Place>, Packet> {
        if access_control.is_control_server(node) {
            return Ok(None);
        }
        let place = self.places.take(node.name.clone());
        place.map(Some).ok_or_else(|| faults::too_many_connections(&node.name))
    }

    fn note(&self, connected: &Arc<Connected>) -> Result<(), Packet> {
        let mut connections = self.connections.lock();
        // Under the lock: who closes sees all that were let in before.
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(faults::shutting_down());
        }
        connections.insert(connected.number, connected.clone());
        Ok(())
    }

    /// Lets in nobody any more, and tells everybody that the server stops.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.all().iter().for_each(|connected| connected.tell(faults::shutting_down()));
    }

    /// Ends all connections, whatever they are at.
    pub(super) fn cut(&self) {
        self.all().iter().for_each(|connected| connected.end_with(faults::shutting_down()));
    }

    /// Whether the server stops.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(super) fn leave(&self, connected: &Connected, access_control: &dyn AccessControl) {
        access_control.leaves(&connected.node, connected.address);
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

    /// Sends commands that were given since the last look to their agents. One that is sent twice is
    /// done once: its number is the same.
    fn send_commands(&self, all: &[Arc<Connected>], access_control: &dyn AccessControl) {
        let given = access_control.commands_seen();
        if self.commands_seen.swap(given, Ordering::Relaxed) == given {
            return;
        }
        for agent in all.iter().filter(|connected| connected.is_agent()) {
            let commands = access_control.commands(&agent.node);
            let packets = commands.iter().filter_map(super::work::command_packet);
            packets.for_each(|packet| agent.tell(packet));
        }
    }

    /// Ends what may not go on, cuts who is silent, and applies limits that changed.
    pub(super) fn tick(&self, access_control: &dyn AccessControl) {
        let limits_are_due = {
            let mut at = self.limits_at.lock();
            let due = at.is_none_or(|at| at.elapsed() >= LIMITS_EVERY);
            if due {
                *at = Some(Instant::now());
            }
            due
        };
        let all = self.all();
        self.send_commands(&all, access_control);
        let now_secs = jiff::Timestamp::now().as_second();
        for connected in all {
            match why_to_end(&connected, access_control, now_secs) {
                Some(packet) => connected.end_with(packet),
                None if limits_are_due => apply_limits(&connected, access_control),
                None => {}
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

/// The last packet for a connection that may not go on.
fn why_to_end(
    connected: &Connected,
    access_control: &dyn AccessControl,
    now_secs: i64,
) -> Option<Packet> {
    let (node, job) = (&connected.node, connected.job.load(Ordering::Relaxed));
    if node.is_revoked() {
        return Some(faults::revoked());
    }
    if job > 0 && access_control.is_cancelled(job) {
        return Some(faults::cancelled());
    }
    if let Some(access) = &*connected.access.lock()
        && !access_control.still_lets(node, access)
    {
        return Some(faults::withdrawn(&node.name, &access.domain));
    }
    if connected.is_out_of_time(now_secs) {
        return Some(faults::certificate_ended(&node.name));
    }
    (connected.silence() > SILENT_MAX).then(faults::silent)
}

fn apply_limits(connected: &Connected, access_control: &dyn AccessControl) {
    let [up, down] = access_control.bandwidth(&connected.node, connected.address);
    let rates = &connected.rates;
    if [rates.up.bytes_per_sec(), rates.down.bytes_per_sec()] == [up, down] {
        return;
    }
    rates.up.set(up);
    rates.down.set(down);
    let reason = "the server's limits changed".to_owned();
    connected.tell(Packet::Limits { up, down, reason });
}
