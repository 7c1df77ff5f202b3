//! All connections, and what they are sent unsolicited: limits, commands, cancellations, revocations, the
//! shutdown of the server.

use super::connection_handle::{ConnectionHandle, NewConnection, NodeLimits};
use super::faults;
use parking_lot::Mutex;
use protocol::Packet;
use rustc_hash::FxHashMap;
use server_contract::access_control::{Access, AccessControl, Node};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use transport::quota::{Permit, Quota};

/// Maximum number of messages that wait for a connection; more are dropped.
const WAITING_MAX: usize = 64;
/// Maximum number of connections of one node: its agent, and several commands with all their streams.
pub(super) const NODE_CONNECTIONS_MAX: usize = 64;
/// How often limits are looked up.
const LIMITS_EVERY: Duration = Duration::from_secs(5);
/// A client that is silent for this long is disconnected; clients ping more often.
const SILENT_MAX: Duration = Duration::from_secs(180);

/// All connections of nodes.
pub struct Hub {
    connections: Mutex<FxHashMap<u64, Arc<ConnectionHandle>>>,
    rates: Mutex<FxHashMap<String, Arc<NodeLimits>>>,
    /// Permits for the connections of each node, by its name.
    permits: Quota<String>,
    next: AtomicU64,
    limits_at: Mutex<Option<Instant>>,
    /// The signal of commands at the last tick.
    commands_seen: AtomicU64,
    /// Whether the server stops: no connection is admitted any more.
    is_closed: AtomicBool,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            connections: Mutex::default(),
            rates: Mutex::default(),
            permits: Quota::new(NODE_CONNECTIONS_MAX),
            next: AtomicU64::new(0),
            limits_at: Mutex::default(),
            commands_seen: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }
    }
}

impl Hub {
    /// Admits and registers a connection, or returns the fault for it.
    pub(super) fn enter(
        &self,
        new: NewConnection,
        access_control: &dyn AccessControl,
    ) -> Result<(Arc<ConnectionHandle>, mpsc::Receiver<Packet>), Packet> {
        let permit = self.permit(&new.node, access_control)?;
        let (messages, inbox) = mpsc::channel(WAITING_MAX);
        let rates = self.rates_of(&new.node.name);
        let [up, down] = access_control.bandwidth(&new.node, new.address);
        rates.up.set(up);
        rates.down.set(down);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::new(ConnectionHandle::new(number, new, permit, rates, messages));
        self.note(&handle)?;
        access_control.connected(&handle.node, handle.address);
        Ok((handle, inbox))
    }

    /// A permit among the connections of a node. The control server is not a node and needs none.
    fn permit(
        &self,
        node: &Node,
        access_control: &dyn AccessControl,
    ) -> Result<Option<Permit>, Packet> {
        if access_control.is_control_server(node) {
            return Ok(None);
        }
        let permit = self.permits.acquire(node.name.clone());
        permit.map(Some).ok_or_else(|| faults::too_many_connections(&node.name))
    }

    fn note(&self, handle: &Arc<ConnectionHandle>) -> Result<(), Packet> {
        let mut connections = self.connections.lock();
        // Under the lock: `close` then sees all that were admitted before.
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(faults::shutting_down());
        }
        connections.insert(handle.number, handle.clone());
        Ok(())
    }

    /// Admits no connection any more, and tells all that the server stops.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        for handle in self.all() {
            handle.tell(faults::shutting_down());
        }
    }

    /// Ends all connections, whatever their state.
    pub(super) fn disconnect_all(&self) {
        self.all().iter().for_each(|handle| handle.end_with(faults::shutting_down()));
    }

    /// The connections that have the domain in `folder` open.
    fn in_domain(&self, folder: &Path) -> Vec<Arc<ConnectionHandle>> {
        let mut all = self.all();
        let is_there =
            |access: &Option<Access>| access.as_ref().is_some_and(|it| it.path == folder);
        all.retain(|handle| is_there(&handle.access.lock()));
        all
    }

    /// How many nodes do something in the domain in `folder`: agents that wait for commands do not count.
    pub(super) fn busy_in(&self, folder: &Path) -> usize {
        self.in_domain(folder).iter().filter(|handle| !handle.is_agent()).count()
    }

    /// Ends the connections that have the domain in `folder` open. They come back by themselves.
    pub(super) fn leave_domain(&self, folder: &Path) {
        for handle in self.in_domain(folder) {
            let domain = handle.access.lock().as_ref().map(|access| access.domain.clone());
            handle.end_with(faults::moving(&domain.unwrap_or_default()));
        }
    }

    /// Whether the server stops.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(super) fn leave(&self, handle: &ConnectionHandle, access_control: &dyn AccessControl) {
        if handle.is_agent() {
            access_control.agent_disconnected(&handle.node);
        }
        access_control.disconnected(&handle.node, handle.address);
        self.connections.lock().remove(&handle.number);
        self.rates.lock().retain(|_, rates| Arc::strong_count(rates) > 1);
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.connections.lock().len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.lock().is_empty()
    }

    /// Nodes whose agent is connected.
    pub fn agents(&self) -> Vec<String> {
        let all = self.all();
        let agents = all.iter().filter(|handle| handle.is_agent());
        agents.map(|handle| handle.node.name.clone()).collect()
    }

    /// Sends commands that were given since the last tick to their agents. One that is sent twice is
    /// done once: its number is the same.
    fn send_commands(&self, all: &[Arc<ConnectionHandle>], access_control: &dyn AccessControl) {
        let given = access_control.commands_seen();
        if self.commands_seen.swap(given, Ordering::Relaxed) == given {
            return;
        }
        let mut are_told = true;
        for agent in all.iter().filter(|handle| handle.is_agent()) {
            let commands = access_control.commands(&agent.node);
            let mut packets = commands.iter().filter_map(super::request_handler::command_packet);
            are_told &= packets.all(|packet| agent.tell(packet));
        }
        if !are_told {
            self.commands_seen.store(u64::MAX, Ordering::Relaxed); // again with the next tick
        }
    }

    /// Ends connections that may not continue or are silent, and applies changed limits.
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
        for handle in all {
            match why_to_end(&handle, access_control, now_secs) {
                Some(packet) => handle.end_with(packet),
                None if limits_are_due => apply_limits(&handle, access_control),
                None => {}
            }
        }
    }

    fn all(&self) -> Vec<Arc<ConnectionHandle>> {
        self.connections.lock().values().cloned().collect()
    }

    fn rates_of(&self, node: &str) -> Arc<NodeLimits> {
        self.rates.lock().entry(node.to_owned()).or_default().clone()
    }
}

/// The last packet for a connection that may not continue.
fn why_to_end(
    handle: &ConnectionHandle,
    access_control: &dyn AccessControl,
    now_secs: i64,
) -> Option<Packet> {
    let (node, job) = (&handle.node, handle.job.load(Ordering::Relaxed));
    if node.is_revoked() {
        return Some(faults::revoked());
    }
    if job > 0 && access_control.is_cancelled(job) {
        return Some(faults::cancelled());
    }
    if let Some(access) = &*handle.access.lock()
        && !access_control.still_allows(node, access)
    {
        return Some(faults::withdrawn(&node.name, &access.domain));
    }
    if handle.is_out_of_time(now_secs) {
        return Some(faults::certificate_ended(&node.name));
    }
    (handle.silence() > SILENT_MAX).then(faults::silent)
}

fn apply_limits(handle: &ConnectionHandle, access_control: &dyn AccessControl) {
    let [up, down] = access_control.bandwidth(&handle.node, handle.address);
    handle.rates.up.set(up);
    handle.rates.down.set(down);
    handle.tell_limits([up, down]);
}
