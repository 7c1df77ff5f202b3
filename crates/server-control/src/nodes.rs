//! Nodes, as an administrator sees and revokes them.

use crate::admission::Admission;
use crate::issued_keys::IssuedKeys;
use crate::jobs::Jobs;
use crate::node_activity::NodeActivity;
use crate::open::Parts;
use crate::revocations::Revocations;
use crate::storage_servers::StorageServerTable;
use crate::{Result, by, now_secs};
use api::Name;
use api::nodes::Node;
use catalog::Catalog;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a revocation waits for running jobs.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The nodes.
pub(crate) struct Nodes {
    catalog: Arc<Catalog>,
    activity: Arc<NodeActivity>,
    admission: Arc<Admission>,
    revoked: Arc<Revocations>,
    issued: Arc<IssuedKeys>,
    jobs: Arc<Jobs>,
    on_storage_servers: Arc<StorageServerTable>,
}

impl Nodes {
    /// The nodes of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            activity: parts.activity.clone(),
            admission: parts.admission.clone(),
            revoked: parts.mark.revocations(),
            issued: parts.issued.clone(),
            jobs: parts.jobs.clone(),
            on_storage_servers: parts.table.clone(),
        }
    }

    /// All nodes.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`].
    pub(crate) fn all(&self) -> Result<api::nodes::Nodes> {
        let on_storage_servers = self.on_storage_servers.connected_nodes();
        let shown = |node: catalog::nodes::Node| {
            let is_on_storage_server = on_storage_servers.contains(node.name.as_str());
            self.shown(node, is_on_storage_server)
        };
        Ok(api::nodes::Nodes { nodes: self.catalog.nodes()?.into_iter().map(shown).collect() })
    }

    fn shown(&self, node: catalog::nodes::Node, is_on_storage_server: bool) -> Node {
        let seen = self.activity.of(node.name.as_str(), now_secs());
        let address = seen.map(|seen| seen.address.to_string());
        Node {
            connected: is_on_storage_server || seen.is_some_and(|seen| seen.is_connected()),
            last_seen: seen.map(|seen| seen.at).max(node.last_seen),
            address: address.or(node.address),
            name: node.name,
            domain: node.domain,
            role: node.role,
            forget: node.forget,
            made: node.made,
            version: node.version,
            certificate_expires: node.certificate_expires,
            revoked: node.revoked,
            alarm: node.alarm,
        }
    }

    /// Revokes a node: access is denied, its sessions are closed, and keys granted to it are removed.
    ///
    /// # Errors
    /// [`crate::Error::Catalog`] when there is none; [`crate::Error::System`] when an older catalog would let it in.
    pub(crate) fn revoke(&self, who: &str, name: &Name) -> Result<()> {
        self.catalog.revoke_node(by(who), name)?;
        let listed = self.revoked.catch_up();
        self.close_sessions(name, "revoked");
        listed
    }

    /// Removes a node; what it stored stays.
    ///
    /// # Errors
    /// As [`Nodes::revoke`].
    pub(crate) fn remove(&self, who: &str, name: &Name) -> Result<()> {
        let certificates = self.catalog.remove_node(by(who), name)?;
        let listed = self.revoked.add(&certificates);
        self.close_sessions(name, "removed");
        listed
    }

    fn close_sessions(&self, name: &Name, why: &str) {
        self.admission.revoke(name.as_str());
        tracing::info!(node = %name, "{why}; its sessions are closed");
        self.wait_for_the_end_of(name);
        self.issued.remove_stale();
    }

    /// Jobs of a revoked node end by themselves within a second or two: then the lease is free. On a storage server
    /// it may take longer, which this does not wait for.
    fn wait_for_the_end_of(&self, name: &Name) {
        let begun = Instant::now();
        while self.jobs.has_any_of(name.as_str()) && begun.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
