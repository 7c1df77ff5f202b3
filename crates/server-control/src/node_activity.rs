//! Which nodes are connected, and when the others were last seen. Kept in memory and written from time to time: a
//! node that reconnects a thousand times does not cost a thousand syncs.

use crate::now_secs;
use catalog::Catalog;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::net::IpAddr;

/// Connected nodes, and those seen since the last write.
#[derive(Default)]
pub(crate) struct NodeActivity(Mutex<FxHashMap<String, LastSeen>>);

/// When and where a node was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastSeen {
    /// Its data connections to this server.
    connections: usize,
    /// When it was last seen, seconds since 1970.
    pub(crate) at: i64,
    /// Address from which it connected.
    pub(crate) address: IpAddr,
    /// Whether the catalog has it.
    is_written: bool,
}

impl LastSeen {
    fn seen(&mut self, address: IpAddr, now_secs: i64) {
        (self.at, self.address, self.is_written) = (now_secs, address, false);
    }
}

impl NodeActivity {
    /// Records that a node was seen.
    pub(crate) fn seen(&self, node: &str, address: IpAddr, now_secs: i64) {
        self.change(node, address, now_secs, |_| {});
    }

    /// Records that a node opened a connection.
    pub(crate) fn connected(&self, node: &str, address: IpAddr, now_secs: i64) {
        self.change(node, address, now_secs, |seen| seen.connections += 1);
    }

    /// Records that a node closed a connection.
    pub(crate) fn disconnected(&self, node: &str, address: IpAddr, now_secs: i64) {
        let less = |seen: &mut LastSeen| seen.connections = seen.connections.saturating_sub(1);
        self.change(node, address, now_secs, less);
    }

    fn change(&self, node: &str, address: IpAddr, at: i64, change: impl FnOnce(&mut LastSeen)) {
        let mut nodes = self.0.lock();
        let new = || LastSeen { connections: 0, at, address, is_written: false };
        let seen = nodes.entry(node.to_owned()).or_insert_with(new);
        seen.seen(address, at);
        change(seen);
    }

    /// When a node was last seen; a connected one is seen now.
    pub(crate) fn of(&self, node: &str, now_secs: i64) -> Option<LastSeen> {
        let seen = *self.0.lock().get(node)?;
        Some(if seen.is_connected() { LastSeen { at: now_secs, ..seen } } else { seen })
    }

    /// What the catalog does not have yet; disconnected nodes that it has are dropped.
    fn unwritten(&self, now_secs: i64) -> Vec<(String, LastSeen)> {
        let mut nodes = self.0.lock();
        nodes.retain(|_, seen| seen.is_connected() || !seen.is_written);
        for seen in nodes.values_mut().filter(|seen| seen.is_connected()) {
            seen.seen(seen.address, now_secs);
        }
        nodes.iter().map(|(node, seen)| (node.clone(), *seen)).collect()
    }

    /// These are in the catalog now.
    fn are_written(&self, written: &[(String, LastSeen)]) {
        let mut nodes = self.0.lock();
        for (node, before) in written {
            // Who came or went meanwhile is written the next time.
            if let Some(seen) = nodes.get_mut(node).filter(|seen| *seen == before) {
                seen.is_written = true;
            }
        }
    }
}

impl LastSeen {
    /// Whether it is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.connections > 0
    }
}

impl NodeActivity {
    /// Writes to `catalog` when nodes were last seen. A failure is retried the next time. Blocks.
    pub(crate) fn write_to(&self, catalog: &Catalog) {
        let seen = self.unwritten(now_secs());
        let rows: Vec<_> =
            seen.iter().map(|(node, seen)| (&**node, seen.address.to_string(), seen.at)).collect();
        match catalog.nodes_seen(&rows) {
            Ok(()) => self.are_written(&seen),
            Err(error) => tracing::warn!(%error, "cannot write when nodes were last seen"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn who_is_connected_is_seen_now_and_who_left_when_it_left() {
        let activity = NodeActivity::default();
        activity.connected("web", AT, 100);
        activity.connected("web", AT, 110);
        activity.disconnected("web", AT, 120);
        let seen = activity.of("web", 500).unwrap();
        assert_eq!((seen.is_connected(), seen.at), (true, 500));
        activity.disconnected("web", AT, 600);
        let seen = activity.of("web", 900).unwrap();
        assert_eq!((seen.is_connected(), seen.at), (false, 600));
        assert_eq!(activity.of("db", 900), None);
    }

    #[test]
    fn who_left_is_forgotten_once_it_is_written_and_no_sooner() {
        let activity = NodeActivity::default();
        activity.connected("web", AT, 100);
        let written = activity.unwritten(200);
        assert_eq!(written[0].1.at, 200);
        activity.disconnected("web", AT, 300);
        activity.are_written(&written);
        let written = activity.unwritten(400);
        assert_eq!(written[0].1.at, 300, "it left after that was written");
        activity.are_written(&written);
        assert!(activity.unwritten(500).is_empty());
        assert_eq!(activity.of("web", 500), None);
    }
}
