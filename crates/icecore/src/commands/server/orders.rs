//! `icecore server backup`, `restore`, `orders`.

use super::{when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::Result;
use api::Name;
use api::orders::{NewBackup, NewRestore, Order, Orders as Listed, Task};
use serde::Serialize;

/// Order a node to back itself up.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server backup web-01\n  icecore server backup web-01 /etc"
)]
pub(crate) struct Backup {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// What; what its own configuration says when nothing is named.
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

impl Backup {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let new = NewBackup { node: self.node.clone(), paths: self.paths.clone() };
        told(context, &reach.post("/backups", &new)?)
    }
}

/// Order a node to restore something onto itself.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server restore web-01 --target /var/restored /etc\n  icecore server restore web-02 --from web-01 --target /var/restored\n\nFrom a domain that is not its own the node needs a grant: icecore server grant NODE DOMAIN"
)]
pub(crate) struct Restore {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// The snapshot: latest, an id, a time.
    #[arg(long, value_name = "SNAPSHOT", default_value = "latest")]
    snapshot: String,
    /// From this domain instead of its own.
    #[arg(long, value_name = "DOMAIN")]
    from: Option<Name>,
    /// Into this folder of the node.
    #[arg(long, value_name = "DIR")]
    target: String,
    /// Paths in the snapshot; all when none is named.
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

impl Restore {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let new = NewRestore {
            node: self.node.clone(),
            domain: self.from.clone(),
            snapshot: self.snapshot.clone(),
            paths: self.paths.clone(),
            target: self.target.clone(),
        };
        told(context, &reach.post("/restores", &new)?)
    }
}

fn told(context: &Context, order: &Order) -> Result<Code> {
    let node = order.task.node();
    context.out.line(&format!("order {} waits for {node}: icecore server orders", order.id))?;
    context.out.summary(Code::Complete, order)
}

/// List the orders that were given to nodes, newest first.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server orders")]
pub(crate) struct Orders {}

#[derive(Serialize)]
struct Count {
    orders: usize,
}

impl Orders {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let Listed { orders } = reach.get("/orders")?;
        for order in &orders {
            context.out.item("order", order, || row(order))?;
        }
        context.out.summary(Code::Complete, &Count { orders: orders.len() })
    }
}

fn row(order: &Order) -> String {
    let what = match &order.task {
        Task::Backup(backup) => format!("backup {}", backup.paths.join(" ")),
        Task::Restore(restore) => format!("restore {} to {}", restore.snapshot, restore.target),
    };
    let message = order.message.as_deref().unwrap_or_default();
    let (made, state) = (when(order.made), word(&order.state));
    let text =
        format!("{:>6}  {made}  {state:<8} {:<24} {what}  {message}", order.id, order.task.node());
    escape::text(&text)
}
