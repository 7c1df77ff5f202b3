//! A storage server: it holds repositories of domains, and asks the governing server who may do what. It has no key of
//! any domain, no catalog and no API.
//!
//! ```text
//!  node ──▶ listen ──▶ data ──▶ Storing (AccessControl) ──admit, access──▶ governing server
//!                                   └──news, once a second──────────▶ (who is here, jobs)
//!                                   ◀──who must go, cancels, limits───
//! ```
//! When the governing server cannot be reached, what runs goes on, and who comes is told to come back.

mod jobs;
mod known;
mod questions;
mod readers;

pub use crate::control::folder::Folder;

use crate::access_control::{
    Access, AccessControl, Forgetting, JobEnd, JobNo, JobStatus, Node, Peer, Refusal,
};
use crate::control::elsewhere::GOVERNING;
use crate::data::receipts::Receipts;
use crate::{control, disk};
use api::Name;
use api::commands::NodeCommand;
use api::storages::{
    AccessGiven, AdmitNode, AskAccess, AskForget, NodeAdmitted, Reader, StorageNews, StorageTold,
};
use ids::KeyId;
use jobs::Jobs;
use known::Known;
use questions::Questions;
use readers::Readers;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Why the governing server gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It says no.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
        /// What to do.
        hint: String,
    },
    /// It cannot be reached, or cannot answer.
    #[error("the governing server cannot answer: {0}")]
    Away(String),
}

/// The way to the governing server.
pub trait Governing: Send + Sync {
    /// Sends `body` to `path` of its API. Blocks.
    ///
    /// # Errors
    /// [`Trouble`].
    fn post(&self, path: &str, body: serde_json::Value) -> Result<serde_json::Value, Trouble>;
}

/// The authority of a storage server.
pub struct Storing {
    folder: Folder,
    governing: Arc<dyn Governing>,
    /// Names this run.
    run: String,
    port: AtomicU16,
    known: Known,
    jobs: Jobs,
    questions: Questions,
    readers: Readers,
}

impl Storing {
    /// A storage server with its repositories in `folder`.
    ///
    /// # Errors
    /// [`control::Error::NoRandom`].
    pub fn new(folder: Folder, governing: Arc<dyn Governing>) -> control::Result<Arc<Self>> {
        let mut run = [0; 8];
        getrandom::fill(&mut run).map_err(|_| control::Error::NoRandom)?;
        let run = data_encoding::HEXLOWER.encode(&run);
        let (port, known, jobs, questions, readers) = Default::default();
        Ok(Arc::new(Self { folder, governing, run, port, known, jobs, questions, readers }))
    }

    /// Who gives receipts of what is stored here.
    ///
    /// # Errors
    /// Those of [`Receipts::open`].
    pub fn receipts(&self) -> std::io::Result<Receipts> {
        Receipts::open(&self.folder.file(""))
    }

    /// It listens at this port.
    pub fn listens_at(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Tells the governing server how it is, and does what it is told. To be called every second. Blocks.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when this storage server was revoked: it has to end.
    pub fn tell(&self) -> Result<(), Trouble> {
        let [free_bytes, total_bytes] = disk::room(&self.folder.file("pool"));
        let nodes = self.known.connected();
        let jobs = self.jobs.to_tell();
        let news = StorageNews {
            run: self.run.clone(),
            port: self.port.load(Ordering::Relaxed),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            free_bytes: free_bytes.unwrap_or_default(),
            total_bytes: total_bytes.unwrap_or_default(),
            nodes,
            jobs,
            readers: self.readers.to_tell(),
        };
        let told: StorageTold = self.ask("/storage/news", &news)?;
        self.known.are_told(&news.nodes, &told);
        self.jobs.are_told(&news.jobs, &told.jobs);
        self.readers.are_told(&news.readers, &told.withdrawn);
        Ok(())
    }

    fn ask<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Trouble> {
        let away = |error: serde_json::Error| Trouble::Away(error.to_string());
        let body = serde_json::to_value(body).map_err(away)?;
        serde_json::from_value(self.governing.post(path, body)?).map_err(away)
    }

    /// A question for which a node waits: not more of them at once than leave room for what runs.
    fn ask_for_node<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Trouble> {
        let _turn = self.questions.turn()?;
        self.ask(path, body).inspect_err(|trouble| self.questions.failed(trouble))
    }

    fn admit_node(&self, facts: &pki::Facts, address: IpAddr) -> Result<Node, Refusal> {
        let name = name(&facts.common_name)?;
        let asked = AdmitNode { serial: facts.serial.clone(), node: name, address };
        if let Some(node) = self.known.fresh(&asked) {
            return Ok(node);
        }
        let admitted: NodeAdmitted =
            self.ask_for_node("/storage/admit", &asked).map_err(|trouble| refusal(&trouble))?;
        Ok(self.known.admitted(asked, admitted.limits))
    }

    fn access_of(&self, node: &Node, domain: Option<&str>) -> Result<Access, Refusal> {
        let (serial, domain) = (node.serial.clone(), domain.map(name).transpose()?);
        let asked = AskAccess { serial, node: name(&node.name)?, domain };
        let given: AccessGiven =
            self.ask_for_node("/storage/access", &asked).map_err(|trouble| refusal(&trouble))?;
        self.readers.is_let_in(&Reader { node: asked.node, domain: given.domain.clone() });
        let path = self.folder.domain(&given.domain);
        let is_made = control::repositories::config(&path).is_ok_and(|config| config.is_some());
        Ok(Access {
            domain: given.domain.to_string(),
            path,
            may_write: given.may_write,
            may_read: given.may_read,
            may_init: given.may_init && !is_made,
            key: given.key.as_deref().and_then(KeyId::from_hex).map(|id| id.0),
            settings: Some(given.settings),
        })
    }

    /// What the governing server may do: make a repository, look at what lies in the clear, put and remove key slots.
    fn access_of_governing(&self, domain: Option<&str>) -> Result<Access, Refusal> {
        let domain = domain.ok_or_else(|| Refusal::new("the governing server names a domain", ""));
        let domain = name(domain?)?;
        let path = self.folder.domain(&domain);
        let (may_write, may_read, may_init) = (false, true, true);
        let (domain, key, settings) = (domain.to_string(), None, None);
        Ok(Access { domain, path, may_write, may_read, may_init, key, settings })
    }
}

impl AccessControl for Storing {
    fn admit(&self, peer: &Peer) -> Result<Node, Refusal> {
        let facts =
            pki::inspect(&peer.certificate).map_err(|error| Refusal::new(error.to_string(), ""))?;
        if facts.common_name == GOVERNING {
            let (name, serial) = (facts.common_name, facts.serial);
            return Ok(Node { name, serial, revoked: Arc::default() });
        }
        self.admit_node(&facts, peer.address)
    }

    fn access(&self, node: &Node, domain: Option<&str>) -> Result<Access, Refusal> {
        match self.is_governing(node) {
            true => self.access_of_governing(domain),
            false => self.access_of(node, domain),
        }
    }

    /// The governing server notes it before it says yes: when it is away, nothing is forgotten.
    fn forgets(&self, node: &Node, asked: &Forgetting<'_>) -> Result<(), Refusal> {
        let named = asked.snapshots.iter().take(control::forgetting::NAMED_MAX);
        let asked = AskForget {
            serial: node.serial.clone(),
            node: name(&node.name)?,
            domain: name(asked.domain)?,
            count: asked.snapshots.len() as u64,
            ids: named.map(ToString::to_string).collect(),
            are_own: asked.are_own,
        };
        let done: Result<api::status::Done, _> = self.ask_for_node("/storage/forget", &asked);
        done.map(drop).map_err(|trouble| refusal(&trouble))
    }

    fn still_lets(&self, node: &Node, access: &Access) -> bool {
        self.is_governing(node) || self.readers.may_go_on(node, access)
    }

    fn is_governing(&self, node: &Node) -> bool {
        node.name == GOVERNING
    }

    fn bandwidth(&self, node: &Node, address: IpAddr) -> [u64; 2] {
        self.known.limits(&node.serial, address)
    }

    fn job_begins(&self, node: &Node, domain: &str, kind: &str, what: &str) -> JobNo {
        self.jobs.begin(node, domain, kind, what)
    }

    fn job_is_at(&self, job: JobNo, status: &JobStatus) {
        self.jobs.is_at(job, status);
    }

    fn job_ends(&self, job: JobNo, end: &JobEnd, report: &str) {
        self.jobs.end(job, end, report);
    }

    fn is_cancelled(&self, job: JobNo) -> bool {
        self.jobs.is_cancelled(job)
    }

    /// Commands are the governing server's business.
    fn commands(&self, _node: &Node) -> Vec<NodeCommand> {
        Vec::new()
    }

    fn commands_seen(&self) -> u64 {
        0
    }

    fn command_done(&self, node: &Node, command: u64, _is_complete: bool, _report: &str) {
        tracing::warn!(
            node = node.name,
            command,
            "a command is none of a storage server's business"
        );
    }
}

fn name(text: &str) -> Result<Name, Refusal> {
    text.parse().map_err(|error: api::name::BadName| Refusal::new(error.to_string(), ""))
}

fn refusal(trouble: &Trouble) -> Refusal {
    match trouble {
        Trouble::Refused { message, hint } => Refusal::new(message, hint),
        Trouble::Away(why) => {
            tracing::warn!(why, "the governing server gives no answer");
            Refusal::of_the_moment("the storage server cannot ask the governing server")
        }
    }
}

/// What a storage server says to who speaks HTTP with it.
pub fn no_http() -> axum::Router {
    use axum::http::StatusCode;
    axum::Router::new().fallback(async || {
        let message = "this is a storage server: the API is at the governing server";
        control::http::Failed::new(StatusCode::NOT_FOUND, api::Code::Usage, message)
    })
}

#[cfg(test)]
mod tests;
