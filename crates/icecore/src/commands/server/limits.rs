//! `icecore server limit`.

use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Table, left, right};
use crate::{escape, units};
use api::Name;
use api::limits::{Limit, Limits};
use api::status::Done;
use serde::Serialize;

/// Manage bandwidth limits.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server limit add --network 10.8.0.0/16 --days mon-fri --hours 08:00-18:00 --up 2M\n  icecore server limit add --node laptop-7 --up 1M --down 4M\n  icecore server limit list\n  icecore server limit remove 3\n\nA limit for a node takes precedence over one for a network, a smaller network over a larger one, and a limit with hours over one without. Hours are in the server's time zone and can pass midnight."
)]
pub(crate) struct LimitArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Add a limit. It applies within seconds, also to running jobs.
    Add(Add),
    /// List limits.
    List,
    /// Remove a limit.
    Remove {
        /// Its number.
        #[arg(value_name = "LIMIT")]
        id: u64,
    },
}

#[derive(clap::Args, Debug)]
struct Add {
    /// Limit this node.
    #[arg(
        long,
        value_name = "NODE",
        required_unless_present = "network",
        conflicts_with = "network"
    )]
    node: Option<Name>,
    /// Limit nodes that connect from this network, such as 192.0.2.0/24 or 2001:db8::/32.
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// Only on these days, such as mon-fri or sat,sun.
    #[arg(long, value_name = "DAYS")]
    days: Option<String>,
    /// Only between these times, such as 08:00-18:00.
    #[arg(long, value_name = "HOURS")]
    hours: Option<String>,
    /// Maximum bytes per second to the server, such as 10M; 0 for no limit.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, required_unless_present = "down")]
    up: Option<u64>,
    /// Maximum bytes per second from the server.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    down: Option<u64>,
}

#[derive(Serialize)]
struct Count {
    limits: usize,
}

impl LimitArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Add(add) => add.run(reach, context),
            Action::List => list(reach, context),
            Action::Remove { id } => {
                let done: Done = reach.delete(&format!("/limits/{id}"))?;
                context.out.line(&format!("Removed limit {id}."))?;
                context.out.summary(Code::Complete, &done)
            }
        }
    }
}

impl Add {
    fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let new = Limit {
            id: None,
            node: self.node.clone(),
            network: self.network.clone(),
            days: self.days.clone(),
            hours: self.hours.clone(),
            up: self.up.unwrap_or(0),
            down: self.down.unwrap_or(0),
        };
        let added: Limit = reach.post("/limits", &new)?;
        table(std::slice::from_ref(&added)).print(&context.out)?;
        context.out.summary(Code::Complete, &added)
    }
}

/// A rate below this is a unit that was forgotten: nothing would ever end.
const RATE_MIN: u64 = 1 << 10;

fn parse_rate(text: &str) -> std::result::Result<u64, String> {
    match units::parse_bytes(text)? {
        rate @ 1..RATE_MIN => {
            Err(format!("{rate} bytes per second is too little; add a unit, such as {rate}M"))
        }
        rate => Ok(rate),
    }
}

fn list(reach: &Reach, context: &Context) -> Result<Code> {
    let Limits { limits } = reach.get("/limits")?;
    limits.iter().try_for_each(|limit| context.out.record("limit", limit))?;
    table(&limits).print(&context.out)?;
    if limits.is_empty() {
        context.out.line("There are no limits. To add one: icecore server limit add --help")?;
    }
    context.out.summary(Code::Complete, &Count { limits: limits.len() })
}

fn table(limits: &[Limit]) -> Table {
    let mut table = Table::new(&[
        right("LIMIT"),
        left("FOR"),
        left("DAYS"),
        left("HOURS"),
        right("UP"),
        right("DOWN"),
    ]);
    for limit in limits {
        let node = limit.node.as_ref().map(|node| format!("node {node}"));
        let network = limit.network.as_ref().map(|network| format!("network {network}"));
        let rate =
            |bytes: u64| if bytes == 0 { "no limit".into() } else { units::rate(bytes as f64) };
        table.row([
            limit.id.unwrap_or_default().to_string(),
            escape::text(&node.or(network).unwrap_or_default()),
            escape::text(limit.days.as_deref().unwrap_or("every day")),
            escape::text(limit.hours.as_deref().unwrap_or("all day")),
            rate(limit.up),
            rate(limit.down),
        ]);
    }
    table
}
