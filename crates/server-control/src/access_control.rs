//! The control plane's implementation of access control.

use crate::{Control, Error, SERVER, by, now_secs};
use api::commands::{CommandState, CommandUpdate, NodeCommand};
use server_contract::access_control::{
    Access, AccessControl, ForgetQuery, JobEnd, JobNo, JobStatus, Labels, Node, Peer, Refusal,
    Signer,
};
use std::net::IpAddr;

impl AccessControl for Control {
    fn admit(&self, peer: &Peer) -> Result<Node, Refusal> {
        let measures = self.storage_servers.admit_to_measure(peer).transpose();
        let admitted = measures.unwrap_or_else(|| self.admission.admit(peer));
        admitted.map_err(|error| refusal(error, "admission"))
    }

    fn connected(&self, node: &Node, address: IpAddr) {
        self.activity.connected(&node.name, address, now_secs());
    }

    fn disconnected(&self, node: &Node, address: IpAddr) {
        self.activity.disconnected(&node.name, address, now_secs());
    }

    fn agent_connected(&self, node: &Node) {
        self.agents.connected(&node.name);
    }

    fn agent_disconnected(&self, node: &Node) {
        self.agents.disconnected(&node.name);
    }

    fn access(&self, node: &Node, domain: Option<&str>) -> Result<Access, Refusal> {
        self.permissions.access_of(node, domain).map_err(|error| refusal(error, "access"))
    }

    /// Only grants end without a revocation of the node.
    fn still_allows(&self, node: &Node, access: &Access) -> bool {
        access.may_write || self.permissions.is_still_granted(node, &access.domain)
    }

    fn other_signers(&self, node: &Node, domain: &str) -> Result<Vec<Signer>, Refusal> {
        self.permissions
            .signers_besides(node, domain)
            .map_err(|error| refusal(error, "the nodes of a domain"))
    }

    fn permit_forget(&self, node: &Node, asked: &ForgetQuery<'_>) -> Result<(), Refusal> {
        self.jobs.may_have_stored(asked.domain);
        self.forget_permissions.check(node, asked).map_err(|error| refusal(error, "forgetting"))
    }

    fn still_lies_there(&self, access: &Access) -> Result<bool, Refusal> {
        let lies = self.permissions.lies_at(&access.domain, &access.path);
        lies.map_err(|error| refusal(error, "the location of a domain"))
    }

    fn storage_server_of(&self, domain: &str) -> Result<Option<(String, u16)>, Refusal> {
        self.permissions
            .storage_server_of(domain)
            .map_err(|error| refusal(error, "the location of a domain"))
    }

    fn bandwidth(&self, node: &Node, address: IpAddr) -> [u64; 2] {
        self.limits.of(&node.name, address)
    }

    fn may_store(&self, domain: &str, more: u64) -> Result<(), Refusal> {
        self.quotas.take(domain, more)
    }

    fn job_begins(&self, node: &Node, domain: &str, kind: &str, what: &str) -> JobNo {
        let job = self.jobs.begin(&node.name, domain, kind, what);
        // What its policy promises now holds, even if the policy is removed before the snapshot comes.
        if let Err(error) = self.retention.labels(job) {
            tracing::error!(%error, job, "cannot say what the policy of a job promises");
        }
        job
    }

    fn was_read_from_copy(&self, node: &Node, domain: &str, place: &str, records: u64) {
        let detail = format!("{records} from {place} for {}", node.name);
        if let Err(error) = self.catalog.audit_note(by(SERVER), "copy.read", domain, &detail) {
            tracing::error!(%error, domain, "cannot note that a copy was read");
        }
    }

    fn job_is_at(&self, job: JobNo, status: &JobStatus) {
        self.jobs.is_at(job, status);
    }

    fn job_ends(&self, job: JobNo, end: &JobEnd, report: &str) {
        self.jobs.end(job, end, report);
    }

    /// Without the catalog nobody knows what the policy wants: the node has to come again.
    fn labels(&self, job: JobNo) -> Result<Labels, Refusal> {
        self.retention.labels(job).map_err(|error| {
            tracing::error!(%error, job, "cannot say what the receipt of a snapshot says");
            Refusal::transient("the server cannot read its policies")
        })
    }

    fn is_cancelled(&self, job: JobNo) -> bool {
        self.jobs.is_cancelled(job)
    }

    fn commands(&self, node: &Node) -> Vec<NodeCommand> {
        self.commands.open(&node.name)
    }

    fn commands_seen(&self) -> u64 {
        self.commands.given()
    }

    fn command_done(
        &self,
        node: &Node,
        command: u64,
        is_complete: bool,
        report: &str,
    ) -> Result<(), Refusal> {
        let whose = (&*node.name, command);
        let done = self.scheduler.command_done(&self.domains, whose, is_complete, report);
        done.map_err(|error| refusal(error, WHAT_ENDS))?;
        let state = if is_complete { CommandState::Done } else { CommandState::Failed };
        let message = Some(report.to_owned()).filter(|report| !report.is_empty());
        match self.commands.update(node, command, &CommandUpdate { state, message }) {
            Err(Error::Catalog(error)) if error.is_of_database() => {
                Err(refusal(error.into(), WHAT_ENDS))
            }
            Err(error) => {
                tracing::warn!(%error, node = node.name, command, "no command ended");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

const WHAT_ENDS: &str = "the end of a command";

/// The refusal for a peer: internal errors are only logged.
fn refusal(error: Error, what: &str) -> Refusal {
    match error {
        Error::Refused(refusal) => refusal,
        Error::StorageServer { .. } => Refusal::transient(error.to_string()),
        Error::PoolSilent { why, hint } => Refusal::transient(format!("{why}. {hint}")),
        Error::Usage(message) => Refusal::new(message, ""),
        Error::Catalog(error) if error.is_full() => {
            tracing::error!(%error, what, "the disk of the catalog is full");
            Refusal::transient("the disk of the server's catalog is full: make room there")
        }
        // A database that refuses its server has refused no node.
        Error::Catalog(error) if error.is_of_database() => {
            tracing::error!(%error, what, "the catalog does not answer");
            Refusal::transient(
                "the server does not reach its catalog now; the server's log says why",
            )
        }
        other => {
            tracing::error!(error = %other, what, "the server could not answer");
            let message = "the server cannot answer now";
            Refusal::new(message, "Try again; the server's log says why.")
        }
    }
}
