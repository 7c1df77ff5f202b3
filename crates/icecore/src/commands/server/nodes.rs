//! `icecore server nodes`, `revoke`, `remove`.

use super::{maybe, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use api::Name;
use api::nodes::{Node, Nodes as Listed};
use api::status::Done;
use serde::Serialize;

/// List the nodes.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  icecore server nodes\n  icecore server nodes --json")]
pub(crate) struct Nodes {}

#[derive(Serialize)]
struct Count {
    nodes: usize,
}

impl Nodes {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let Listed { nodes } = reach.get("/nodes")?;
        context.out.line(&format!(
            "{:<24} {:<24} {:<11} {:<10} {:<20} FROM",
            "NODE", "DOMAIN", "ROLE", "STATE", "LAST SEEN"
        ))?;
        for node in &nodes {
            context.out.item("node", node, || row(node))?;
        }
        for node in &nodes {
            if let Some(alarm) = &node.alarm {
                context.out.note(&format!("ALARM: {}: {alarm}", node.name));
            }
        }
        context.out.summary(Code::Complete, &Count { nodes: nodes.len() })
    }
}

fn row(node: &Node) -> String {
    let state = match (node.revoked, node.connected) {
        _ if node.alarm.is_some() => "ALARM",
        (true, _) => "revoked",
        (false, true) => "connected",
        (false, false) => "-",
    };
    let seen = if node.connected { "now".to_owned() } else { maybe(node.last_seen) };
    let role = word(&node.role);
    let from = node.address.as_deref().unwrap_or("-");
    let (name, domain) = (node.name.as_str(), node.domain.as_str());
    format!("{name:<24} {domain:<24} {role:<11} {state:<10} {seen:<20} {from}")
}

/// Revoke a node or storage server: it is let in no more, its sessions end.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server revoke web-01\n  icecore server revoke disk-1 --storage\n\nWhat it stored stays. The machine can become a node again with a new token."
)]
pub(crate) struct Revoke {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// It is a storage server: it ends by itself, and nodes are not sent there any more.
    #[arg(long)]
    storage: bool,
}

impl Revoke {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let what = if self.storage { "storages" } else { "nodes" };
        let done: Done = reach.post(&format!("/{what}/{}/revoke", self.node), &())?;
        context.out.line(&format!("revoked {}", self.node))?;
        context.out.summary(Code::Complete, &done)
    }
}

/// Forget a node. Its domain and what it stored stay.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server remove web-01")]
pub(crate) struct Remove {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
}

impl Remove {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let done: Done = reach.delete(&format!("/nodes/{}", self.node))?;
        context.out.line(&format!("removed {}; what it stored is still there", self.node))?;
        context.out.summary(Code::Complete, &done)
    }
}
