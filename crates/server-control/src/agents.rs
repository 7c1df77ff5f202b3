//! Agents that wait for commands.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Which nodes can be asked for something now.
#[derive(Default)]
pub(crate) struct Agents(Mutex<FxHashMap<String, Agent>>);

struct Agent {
    connections: usize,
    /// When the last connection ended.
    left: Instant,
}

impl Agents {
    /// The agent of `node` waits for commands.
    pub(crate) fn connected(&self, node: &str) {
        let mut agents = self.0.lock();
        let new = || Agent { connections: 0, left: Instant::now() };
        agents.entry(node.to_owned()).or_insert_with(new).connections += 1;
    }

    /// A connection of the agent of `node` has ended.
    pub(crate) fn disconnected(&self, node: &str) {
        if let Some(agent) = self.0.lock().get_mut(node) {
            agent.connections = agent.connections.saturating_sub(1);
            agent.left = Instant::now();
        }
    }

    /// Whether the agent of `node` is there.
    pub(crate) fn has(&self, node: &str) -> bool {
        self.0.lock().get(node).is_some_and(|agent| agent.connections > 0)
    }

    /// The nodes whose agents are there.
    pub(crate) fn all(&self) -> Vec<String> {
        let agents = self.0.lock();
        let here = agents.iter().filter(|(_, agent)| agent.connections > 0);
        here.map(|(node, _)| node.clone()).collect()
    }

    /// How long the agent of `node` has been away; `since` if it was never there.
    pub(crate) fn away(&self, node: &str, since: Instant) -> Duration {
        match self.0.lock().get(node) {
            Some(agent) if agent.connections > 0 => Duration::ZERO,
            Some(agent) => agent.left.elapsed(),
            None => since.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_there_until_its_last_connection_ends() {
        let agents = Agents::default();
        let since = Instant::now();
        agents.connected("web");
        agents.connected("web");
        agents.disconnected("web");
        assert!(agents.has("web") && agents.away("web", since).is_zero());
        agents.disconnected("web");
        assert!(!agents.has("web") && agents.all().is_empty());
        assert!(agents.away("db", since) >= agents.away("web", since));
    }
}
