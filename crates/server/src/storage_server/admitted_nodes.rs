//! Nodes that the control server has admitted: connected nodes and their bandwidth limits.

use api::storage_servers::{HeartbeatReply, NodeConnection};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use server_contract::access_control::Node;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a reply is reused: not longer than a heartbeat takes.
const FRESH: Duration = Duration::from_secs(2);

/// The nodes, by certificate and address.
#[derive(Default)]
pub(super) struct AdmittedNodes(Mutex<FxHashMap<(String, IpAddr), Admitted>>);

struct Admitted {
    asked: NodeConnection,
    at: Instant,
    revoked: Arc<AtomicBool>,
    limits: [u64; 2],
}

impl Admitted {
    fn node(&self) -> Node {
        let (name, serial) = (self.asked.node.to_string(), self.asked.serial.clone());
        Node { name, serial, revoked: self.revoked.clone() }
    }

    fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    /// Whether it has a connection.
    fn is_connected(&self) -> bool {
        Arc::strong_count(&self.revoked) > 1
    }
}

impl AdmittedNodes {
    /// A node that was admitted recently.
    pub(super) fn fresh(&self, asked: &NodeConnection) -> Option<Node> {
        let known = self.0.lock();
        let found = known.get(&key(asked))?;
        let is_fresh = found.at.elapsed() < FRESH && !found.is_revoked();
        (is_fresh && found.asked.node == asked.node).then(|| found.node())
    }

    /// Records an admitted node. Its connections share one flag.
    pub(super) fn admitted(&self, asked: NodeConnection, limits: [u64; 2]) -> Node {
        let mut known = self.0.lock();
        let before = known.get(&key(&asked)).filter(|before| !before.is_revoked());
        let revoked = before.map(|before| before.revoked.clone()).unwrap_or_default();
        let admitted = Admitted { at: Instant::now(), revoked, limits, asked };
        let node = admitted.node();
        known.insert(key(&admitted.asked), admitted);
        node
    }

    /// The connected nodes; others are dropped after a while.
    pub(super) fn connected(&self) -> Vec<NodeConnection> {
        let mut known = self.0.lock();
        known.retain(|_, node| node.is_connected() || node.at.elapsed() < FRESH);
        known.values().filter(|node| node.is_connected()).map(|node| node.asked.clone()).collect()
    }

    pub(super) fn limits(&self, serial: &str, address: IpAddr) -> [u64; 2] {
        let known = self.0.lock();
        known.get(&(serial.to_owned(), address)).map_or([0, 0], |node| node.limits)
    }

    /// Applies the reply to a heartbeat.
    pub(super) fn apply_reply(&self, asked: &[NodeConnection], told: &HeartbeatReply) {
        let mut known = self.0.lock();
        for (asked, limits) in asked.iter().zip(&told.limits) {
            if let Some(node) = known.get_mut(&key(asked)) {
                node.limits = *limits;
            }
        }
        for node in known.values().filter(|node| told.revoked.contains(&node.asked.serial)) {
            node.revoked.store(true, Ordering::Relaxed);
        }
    }
}

fn key(asked: &NodeConnection) -> (String, IpAddr) {
    (asked.serial.clone(), asked.address)
}
