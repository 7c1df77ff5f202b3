//! The control plane's implementation of access control.

use super::{Control, Error, Result, repositories};
use crate::access_control::{
    Access, AccessControl, ForgetQuery, JobEnd, JobNo, JobStatus, Node, Peer, Refusal, Signer,
};
use api::Name;
use api::commands::{CommandState, CommandUpdate, NodeCommand};
use api::enroll::{KeyMode, Role};
use ids::KeyId;
use std::net::IpAddr;

impl AccessControl for Control {
    fn admit(&self, peer: &Peer) -> std::result::Result<Node, Refusal> {
        let measures = self.admit_to_measure(peer).transpose();
        let admitted = measures.unwrap_or_else(|| self.admit_node_of(peer));
        admitted.map_err(|error| refusal(error, "admission"))
    }

    fn connected(&self, node: &Node, address: IpAddr) {
        self.node_connected(node, address);
    }

    fn disconnected(&self, node: &Node, address: IpAddr) {
        self.node_disconnected(node, address);
    }

    fn access(&self, node: &Node, domain: Option<&str>) -> std::result::Result<Access, Refusal> {
        self.access_of(node, domain).map_err(|error| refusal(error, "access"))
    }

    /// Only grants end without a revocation of the node.
    fn still_allows(&self, node: &Node, access: &Access) -> bool {
        access.may_write || self.is_still_granted(node, &access.domain)
    }

    fn other_signers(
        &self,
        node: &Node,
        domain: &str,
    ) -> std::result::Result<Vec<Signer>, Refusal> {
        self.signers_besides(node, domain).map_err(|error| refusal(error, "the nodes of a domain"))
    }

    fn permit_forget(
        &self,
        node: &Node,
        asked: &ForgetQuery<'_>,
    ) -> std::result::Result<(), Refusal> {
        self.check_forget(node, asked).map_err(|error| refusal(error, "forgetting"))
    }

    fn storage_server_of(
        &self,
        domain: &str,
    ) -> std::result::Result<Option<(String, u16)>, Refusal> {
        self.storage_server_of_domain(domain)
            .map_err(|error| refusal(error, "the location of a domain"))
    }

    fn bandwidth(&self, node: &Node, address: IpAddr) -> [u64; 2] {
        self.limit_for(&node.name, address)
    }

    fn job_begins(&self, node: &Node, domain: &str, kind: &str, what: &str) -> JobNo {
        self.begin_job(&node.name, domain, kind, what)
    }

    fn job_is_at(&self, job: JobNo, status: &JobStatus) {
        self.jobs.is_at(job, status);
    }

    fn job_ends(&self, job: JobNo, end: &JobEnd, report: &str) {
        self.end_job(job, end, report);
    }

    fn is_cancelled(&self, job: JobNo) -> bool {
        self.jobs.is_cancelled(job)
    }

    fn commands(&self, node: &Node) -> Vec<NodeCommand> {
        self.open_commands(&node.name)
    }

    fn commands_seen(&self) -> u64 {
        *self.commands_changed().borrow()
    }

    fn command_done(&self, node: &Node, command: u64, is_complete: bool, report: &str) {
        let state = if is_complete { CommandState::Done } else { CommandState::Failed };
        let message = Some(report.to_owned()).filter(|report| !report.is_empty());
        if let Err(error) = self.update_command(node, command, &CommandUpdate { state, message }) {
            tracing::warn!(%error, node = node.name, command, "cannot write the end of a command");
        }
    }
}

impl Control {
    fn storage_server_of_domain(&self, domain: &str) -> Result<Option<(String, u16)>> {
        let known = self.catalog.domain(&parse(domain)?)?;
        let storage = known.and_then(|domain| domain.storage);
        storage.map(|storage| self.address_of_storage_server(&storage)).transpose()
    }

    fn signers_besides(&self, node: &Node, domain: &str) -> Result<Vec<Signer>> {
        let all = self.catalog.nodes_of(&parse(domain)?)?.into_iter();
        let others = all.filter(|other| !other.revoked && other.name.as_str() != node.name);
        let signer = |other: catalog::nodes::Node| {
            let key = other.key.as_deref().and_then(KeyId::from_hex)?.0;
            Some(Signer { node: other.name.to_string(), key })
        };
        Ok(others.filter_map(signer).collect())
    }

    pub(crate) fn access_of(&self, node: &Node, domain: Option<&str>) -> Result<Access> {
        if node.is_revoked() {
            return Err(refused(format!("the node '{}' is revoked", node.name), ""));
        }
        let name = parse(&node.name)?;
        let known = self.catalog.node(&name)?;
        let known = known
            .filter(|known| !known.revoked)
            .ok_or_else(|| refused(format!("there is no node '{name}'"), ""))?;
        match domain.map(parse).transpose()? {
            Some(other) if other != known.domain => self.granted(&name, &other),
            _ => self.own(&known),
        }
    }

    fn own(&self, node: &catalog::nodes::Node) -> Result<Access> {
        let path = self.folder.domain(&node.domain);
        let missing = || refused(format!("there is no domain '{}'", node.domain), "");
        let domain = self.catalog.domain(&node.domain)?.ok_or_else(missing)?;
        let is_client = domain.keys == KeyMode::Client;
        Ok(Access {
            domain: node.domain.to_string(),
            may_write: true,
            may_read: node.role == Role::Full,
            // A storage server looks for itself.
            may_init: is_client
                && (domain.storage.is_some() || repositories::config(&path)?.is_none()),
            key: node.key.as_deref().and_then(KeyId::from_hex).map(|id| id.0),
            settings: Some(domain.settings),
            path,
        })
    }

    fn granted(&self, node: &Name, domain: &Name) -> Result<Access> {
        let grant = self.catalog.grant(node, domain, self.now_secs())?;
        grant.ok_or_else(|| {
            let message = format!("the node '{node}' may not read the domain '{domain}'");
            refused(message, &format!("On the server: icecore server grant {node} {domain}"))
        })?;
        let (may_write, may_read, may_init) = (false, true, false);
        let (domain, path) = (domain.to_string(), self.folder.domain(domain));
        let (key, settings) = (None, None);
        Ok(Access { domain, path, may_write, may_read, may_init, key, settings })
    }
}

/// A name that a peer sent.
pub(crate) fn parse(text: &str) -> Result<Name> {
    text.parse().map_err(|error: api::name::BadName| Error::Usage(error.to_string()))
}

pub(crate) fn refused(message: String, hint: &str) -> Error {
    Refusal::new(message, hint).into()
}

/// The refusal for a peer: internal errors are only logged.
fn refusal(error: Error, what: &str) -> Refusal {
    match error {
        Error::Refused(refusal) => refusal,
        Error::StorageServer { .. } => Refusal::transient(error.to_string()),
        Error::Usage(message) => Refusal::new(message, ""),
        other => {
            tracing::error!(error = %other, what, "the server could not answer");
            let message = "the server cannot answer now";
            Refusal::new(message, "Try again; the server's log says why.")
        }
    }
}
