//! What an administrator sees: nodes, domains, snapshots, the server itself, the audit log.

use super::{Control, Result, repositories};
use api::Name;
use api::domains::{Domain, Domains, Snapshot, Snapshots};
use api::nodes::{Node, Nodes};
use api::status::{Audit, Status};
use data_encoding::HEXLOWER;
use std::time::{Duration, Instant};

/// How long a revocation waits for running jobs.
const END_WITHIN: Duration = Duration::from_secs(5);

const AUDIT_DEFAULT: u32 = 100;
const AUDIT_MAX: u32 = 1000;

impl Control {
    /// All nodes.
    ///
    /// # Errors
    /// [`super::Error::Catalog`].
    pub fn nodes(&self) -> Result<Nodes> {
        let on_storage_servers = self.storage_servers.connected_nodes();
        let shown = |node: catalog::nodes::Node| {
            let is_on_storage_server = on_storage_servers.contains(node.name.as_str());
            self.shown(node, is_on_storage_server)
        };
        Ok(Nodes { nodes: self.catalog.nodes()?.into_iter().map(shown).collect() })
    }

    fn shown(&self, node: catalog::nodes::Node, is_on_storage_server: bool) -> Node {
        let seen = self.last_seen_of(node.name.as_str());
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
    /// [`super::Error::Catalog`] when there is none.
    pub fn revoke_node(&self, who: &str, name: &Name) -> Result<()> {
        self.catalog.revoke_node(self.by(who), name)?;
        self.revocations.revoke_node(name.as_str());
        tracing::info!(node = %name, "revoked; its sessions are closed");
        self.wait_for_the_end_of(name);
        self.remove_stale_keys();
        Ok(())
    }

    /// Jobs of a revoked node end by themselves within a second or two: then the lease is free. On a storage server
    /// it may take longer, which this does not wait for.
    fn wait_for_the_end_of(&self, name: &Name) {
        let begun = Instant::now();
        while self.jobs.has_any_of(name.as_str()) && begun.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Removes a node; what it stored stays.
    ///
    /// # Errors
    /// [`super::Error::Catalog`] when there is none.
    pub fn remove_node(&self, who: &str, name: &Name) -> Result<()> {
        self.catalog.remove_node(self.by(who), name)?;
        self.revocations.revoke_node(name.as_str());
        tracing::info!(node = %name, "removed; its sessions are closed");
        self.wait_for_the_end_of(name);
        self.remove_stale_keys();
        Ok(())
    }

    /// All domains.
    ///
    /// # Errors
    /// [`super::Error::Catalog`].
    pub fn domains(&self) -> Result<Domains> {
        let nodes = self.catalog.nodes()?;
        let of = |name: &Name| {
            let writers = nodes.iter().filter(|node| node.domain == *name);
            writers.map(|node| node.name.clone()).collect()
        };
        let domains = self.catalog.domains()?.into_iter().map(|domain| Domain {
            nodes: of(&domain.name),
            name: domain.name,
            keys: domain.keys,
            settings: domain.settings,
            made: domain.made,
            repository: domain.repository,
            storage: domain.storage,
        });
        let domains = domains.map(|domain| self.with_repository(domain));
        Ok(Domains { domains: domains.collect() })
    }

    /// Adds the repository id: a node with its own keys creates its repository without telling the control plane.
    fn with_repository(&self, domain: Domain) -> Domain {
        // A storage server is not asked for a list.
        if domain.repository.is_some() || domain.storage.is_some() {
            return domain;
        }
        let config = repositories::config(&self.folder.domain(&domain.name)).ok().flatten();
        let repository = config.map(|config| config.repository.to_string());
        Domain { repository, ..domain }
    }

    /// The clear parts of the snapshots of a domain.
    ///
    /// # Errors
    /// [`super::Error::Catalog`] when there is no such domain; [`super::Error::Repository`].
    pub fn snapshots(&self, domain: &Name) -> Result<Snapshots> {
        let repository = self.domain_repository_by_name(domain)?;
        let mut found = Snapshots { domain: domain.clone(), snapshots: Vec::new(), damaged: 0 };
        for stored in repository.snapshots()? {
            match stored {
                Ok(stored) => found.snapshots.push(Snapshot {
                    number: stored.name.sequence,
                    id: stored.name.id.to_string(),
                    time: stored.head.time_secs,
                    key: stored.head.writer.to_string(),
                }),
                Err(_) => found.damaged += 1,
            }
        }
        Ok(found)
    }

    /// Status of the server.
    ///
    /// # Errors
    /// [`super::Error::Catalog`].
    pub fn status(&self) -> Result<Status> {
        let (nodes, storage_servers) = (self.catalog.nodes()?, self.catalog.storage_servers()?);
        let [free_bytes, total_bytes] = crate::disk::room(&self.folder.file("pool"));
        Ok(Status {
            free_bytes,
            total_bytes,
            storage_servers: storage_servers.iter().filter(|storage| !storage.revoked).count()
                as u64,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            address: self.address(),
            nodes: nodes.iter().filter(|node| !node.revoked).count() as u64,
            domains: self.catalog.domains()?.len() as u64,
            running: self.jobs.count() as u64,
            alarms: (nodes.iter().filter(|node| node.alarm.is_some()).count()
                + storage_servers.iter().filter(|storage| storage.alarm.is_some()).count())
                as u64,
            ca_fingerprint: HEXLOWER.encode(&self.ca.fingerprint()),
            certificate_expires: *self.certificate_expires.lock(),
        })
    }

    /// The audit log, and whether its hash chain is intact.
    ///
    /// # Errors
    /// [`super::Error::Catalog`].
    pub fn audit(&self, before: Option<u64>, limit: Option<u32>) -> Result<Audit> {
        let limit = limit.unwrap_or(AUDIT_DEFAULT).clamp(1, AUDIT_MAX);
        let entries = self.catalog.audit_entries(before, limit)?;
        let verdict = self.catalog.audit_verify()?;
        let (total, broken_at, head) = (verdict.total, verdict.broken_at, verdict.head);
        Ok(Audit { entries, total, broken_at, head })
    }
}
