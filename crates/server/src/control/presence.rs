//! Which nodes are here, and when the others were last seen. Kept in memory and written down from time to time: who
//! comes and goes a thousand times costs no thousand syncs.

use super::Control;
use crate::access_control::Node;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::net::IpAddr;

/// The nodes that were seen since they were last written down, and those that are connected.
#[derive(Default)]
pub struct Presence(Mutex<FxHashMap<String, Sight>>);

/// How a node was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Its data connections to this server.
    connections: usize,
    /// When it was last seen, seconds since 1970.
    pub(crate) at: i64,
    /// From where.
    pub(crate) address: IpAddr,
    /// The catalog knows of it.
    is_written: bool,
}

impl Sight {
    fn seen(&mut self, address: IpAddr, now_secs: i64) {
        (self.at, self.address, self.is_written) = (now_secs, address, false);
    }
}

impl Presence {
    /// A node was heard, on whichever way.
    pub(crate) fn seen(&self, node: &str, address: IpAddr, now_secs: i64) {
        self.change(node, address, now_secs, |_| {});
    }

    /// A node has one connection more.
    pub(crate) fn enters(&self, node: &str, address: IpAddr, now_secs: i64) {
        self.change(node, address, now_secs, |sight| sight.connections += 1);
    }

    /// A node has one connection less.
    pub(crate) fn leaves(&self, node: &str, address: IpAddr, now_secs: i64) {
        let less = |sight: &mut Sight| sight.connections = sight.connections.saturating_sub(1);
        self.change(node, address, now_secs, less);
    }

    fn change(&self, node: &str, address: IpAddr, at: i64, change: impl FnOnce(&mut Sight)) {
        let mut sights = self.0.lock();
        let new = || Sight { connections: 0, at, address, is_written: false };
        let sight = sights.entry(node.to_owned()).or_insert_with(new);
        sight.seen(address, at);
        change(sight);
    }

    /// How a node was last seen; who is connected is seen now.
    pub(crate) fn of(&self, node: &str, now_secs: i64) -> Option<Sight> {
        let sight = *self.0.lock().get(node)?;
        Some(if sight.is_connected() { Sight { at: now_secs, ..sight } } else { sight })
    }

    /// What the catalog does not know yet; who is gone and known there is forgotten.
    fn unwritten(&self, now_secs: i64) -> Vec<(String, Sight)> {
        let mut sights = self.0.lock();
        sights.retain(|_, sight| sight.is_connected() || !sight.is_written);
        for sight in sights.values_mut().filter(|sight| sight.is_connected()) {
            sight.seen(sight.address, now_secs);
        }
        sights.iter().map(|(node, sight)| (node.clone(), *sight)).collect()
    }

    /// These are in the catalog now.
    fn are_written(&self, written: &[(String, Sight)]) {
        let mut sights = self.0.lock();
        for (node, before) in written {
            // Who came or went meanwhile is written the next time.
            if let Some(sight) = sights.get_mut(node).filter(|sight| *sight == before) {
                sight.is_written = true;
            }
        }
    }
}

impl Sight {
    /// Whether it is here.
    pub(crate) fn is_connected(&self) -> bool {
        self.connections > 0
    }
}

impl Control {
    /// Writes down who was seen. Of no weight: what fails is tried again the next time. Blocks.
    pub fn note_seen(&self) {
        let seen = self.presence.unwritten(self.now_secs());
        let rows: Vec<_> = seen
            .iter()
            .map(|(node, sight)| (&**node, sight.address.to_string(), sight.at))
            .collect();
        match self.catalog.nodes_seen(&rows) {
            Ok(()) => self.presence.are_written(&seen),
            Err(error) => tracing::warn!(%error, "cannot note which nodes were seen"),
        }
    }

    /// How a node was last seen: by this server, or by a storage server.
    pub(crate) fn sight_of(&self, node: &str) -> Option<Sight> {
        self.presence.of(node, self.now_secs())
    }

    pub(crate) fn node_enters(&self, node: &Node, address: IpAddr) {
        self.presence.enters(&node.name, address, self.now_secs());
    }

    pub(crate) fn node_leaves(&self, node: &Node, address: IpAddr) {
        self.presence.leaves(&node.name, address, self.now_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn who_is_connected_is_seen_now_and_who_left_when_it_left() {
        let presence = Presence::default();
        presence.enters("web", AT, 100);
        presence.enters("web", AT, 110);
        presence.leaves("web", AT, 120);
        let sight = presence.of("web", 500).unwrap();
        assert_eq!((sight.is_connected(), sight.at), (true, 500));
        presence.leaves("web", AT, 600);
        let sight = presence.of("web", 900).unwrap();
        assert_eq!((sight.is_connected(), sight.at), (false, 600));
        assert_eq!(presence.of("db", 900), None);
    }

    #[test]
    fn who_left_is_forgotten_once_it_is_written_and_no_sooner() {
        let presence = Presence::default();
        presence.enters("web", AT, 100);
        let written = presence.unwritten(200);
        assert_eq!(written[0].1.at, 200);
        presence.leaves("web", AT, 300);
        presence.are_written(&written);
        let written = presence.unwritten(400);
        assert_eq!(written[0].1.at, 300, "it left after that was written");
        presence.are_written(&written);
        assert!(presence.unwritten(500).is_empty());
        assert_eq!(presence.of("web", 500), None);
    }
}
