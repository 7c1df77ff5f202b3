//! `icecore server nodes`, `revoke`, `remove`.

use super::{ago, when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use crate::table::{Table, left};
use crate::terminal::Paint;
use api::Name;
use api::jobs::Jobs;
use api::nodes::{ForgetPermission, ForgetScope, Node, Nodes as Listed};
use api::status::Done;
use serde::Serialize;
use std::collections::BTreeMap;

/// List nodes.
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
        let backups = if context.out.json { Backups::default() } else { Backups::get(reach)? };
        let mut table = Table::new(&[
            left("NODE"),
            left("DOMAIN"),
            left("ROLE"),
            left("STATE"),
            left("LAST SEEN"),
            left("LAST GOOD BACKUP"),
            left("FROM"),
            left("VERSION"),
        ]);
        for node in &nodes {
            context.out.record("node", node)?;
            table.row(row(node, &backups));
            if node.alarm.is_some() {
                table.paint(3, Paint::Red);
            }
        }
        table.print(&context.out)?;
        if nodes.is_empty() {
            context.out.line("There are no nodes yet. To add one: icecore server token NODE")?;
        }
        for node in &nodes {
            if let Some(alarm) = &node.alarm {
                context.out.note(&format!("ALARM: {}: {alarm}", node.name));
            } else if let Some(ended) = ended(node) {
                let (name, ended) = (&node.name, when(ended));
                context.out.note(&format!(
                    "{name}: its certificate expired on {ended}, and it is denied access. To enroll it again: icecore server token {name}"
                ));
            }
        }
        context.out.summary(Code::Complete, &Count { nodes: nodes.len() })
    }
}

/// Complete backups that are looked at for the last one of each node: as many as the server lists at once.
const BACKUPS_MAX: usize = 1000;

/// When each node last made a complete backup.
#[derive(Default)]
struct Backups {
    last: BTreeMap<String, i64>,
    /// There are no older ones than those that were looked at.
    is_all: bool,
}

impl Backups {
    fn get(reach: &Reach) -> Result<Self> {
        let path = format!("/jobs?kind=backup&state=complete&limit={BACKUPS_MAX}");
        let Jobs { jobs, next } = reach.get(&path)?;
        let mut last = BTreeMap::new();
        for job in jobs {
            // The newest is the first.
            last.entry(job.node).or_insert(job.ended.unwrap_or(job.begun));
        }
        Ok(Self { last, is_all: next.is_none() })
    }

    fn of(&self, node: &Name) -> String {
        match self.last.get(node.as_str()) {
            Some(ended) => ago(Some(*ended)),
            None if self.is_all => "never".to_owned(),
            None => String::new(),
        }
    }
}

/// When the certificate of a node that is not here expired, if it did: its agent knocks in vain.
fn ended(node: &Node) -> Option<i64> {
    let now = jiff::Timestamp::now().as_second();
    let is_out = !node.revoked && !node.connected;
    node.certificate_expires.filter(|ends| is_out && *ends < now)
}

fn row(node: &Node, backups: &Backups) -> [String; 8] {
    let state = match (node.revoked, node.connected) {
        _ if node.alarm.is_some() => "ALARM",
        _ if ended(node).is_some() => "expired",
        (true, _) => "revoked",
        (false, true) => "connected",
        (false, false) => "away",
    };
    let role = match node.forget {
        ForgetScope::None => word(&node.role),
        ForgetScope::Own => format!("{}+forget", word(&node.role)),
        ForgetScope::Domain => format!("{}+forget-all", word(&node.role)),
    };
    [
        node.name.to_string(),
        node.domain.to_string(),
        role,
        state.to_owned(),
        if node.connected { "now".to_owned() } else { ago(node.last_seen) },
        backups.of(&node.name),
        escape::text(node.address.as_deref().unwrap_or_default()),
        escape::text(node.version.as_deref().unwrap_or_default()),
    ]
}

/// Revoke a node or storage server: access denied, sessions closed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server revoke web-01\n  icecore server revoke disk-1 --storage\n\nIts backups stay. The machine can enroll again with a new token."
)]
pub(crate) struct Revoke {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// Revoke a storage server: it stops, and nodes are no longer directed to it.
    #[arg(long)]
    storage: bool,
}

impl Revoke {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let what = if self.storage { "storage-servers" } else { "nodes" };
        let done: Done = reach.post(&format!("/{what}/{}/revoke", self.node), &())?;
        context
            .out
            .line(&format!("Revoked {}: access is denied, sessions are closed.", self.node))?;
        context.out.summary(Code::Complete, &done)
    }
}

/// Allow a node to forget snapshots remotely: those that the server received from it.
///
/// Without this permission, nodes remove nothing. The domain must have client keys, and the node must sign with a
/// full key of the domain.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server allow-forget db-01\n  icecore server allow-forget db-01 --all\n\nWhoever breaks into such a node can remove its backups. It is safer to forget on the server, and to keep a second copy."
)]
pub(crate) struct AllowForget {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// Also the snapshots of other nodes of its domain.
    #[arg(long)]
    all: bool,
}

/// Withdraw the permission to forget snapshots.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server deny-forget db-01")]
pub(crate) struct DenyForget {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
}

impl AllowForget {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let scope = if self.all { ForgetScope::Domain } else { ForgetScope::Own };
        let which = if self.all { "all snapshots of its domain" } else { "its own snapshots" };
        set(reach, &self.node, scope)?;
        context.out.line(&format!("{} may now forget {which}.", self.node))?;
        context.out.summary(Code::Complete, &ForgetPermission { scope })
    }
}

impl DenyForget {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let scope = ForgetScope::None;
        set(reach, &self.node, scope)?;
        context.out.line(&format!("{} may no longer forget snapshots.", self.node))?;
        context.out.summary(Code::Complete, &ForgetPermission { scope })
    }
}

fn set(reach: &Reach, node: &Name, scope: ForgetScope) -> Result<()> {
    let _: Done = reach.post(&format!("/nodes/{node}/forget"), &ForgetPermission { scope })?;
    Ok(())
}

/// Remove a node from the list. Its domain and its backups stay.
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
        context.out.line(&format!("Removed {}. Its backups are still there.", self.node))?;
        context.out.summary(Code::Complete, &done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_certificate_expired_is_told_apart_from_one_that_is_away() {
        let now = jiff::Timestamp::now();
        let node = |ends_secs: i64, connected: bool, revoked: bool| -> Node {
            let expires = now + jiff::SignedDuration::from_secs(ends_secs);
            serde_json::from_value(serde_json::json!({
                "name": "web", "domain": "web", "role": "full", "made": now.to_string(),
                "certificate_expires": expires.to_string(), "connected": connected, "revoked": revoked,
            }))
            .unwrap()
        };
        let state = |node: &Node| row(node, &Backups::default())[3].clone();
        for (node, expected) in [
            (node(-60, false, false), "expired"),
            (node(3600, false, false), "away"),
            (node(-60, true, false), "connected"),
            (node(-60, false, true), "revoked"),
        ] {
            assert_eq!(state(&node), expected);
            assert_eq!(ended(&node).is_some(), expected == "expired");
        }
    }
}
