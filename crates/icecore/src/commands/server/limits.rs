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

/// Limits of bandwidth.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server limit add --network 10.8.0.0/16 --days mon-fri --hours 08:00-18:00 --up 2M\n  icecore server limit add --node laptop-7 --up 1M --down 4M\n  icecore server limit list\n  icecore server limit remove 3\n\nOne for a node goes before one for a network, a smaller network before a larger one, and one with hours before one without. Hours are by the server's clock and may pass midnight."
)]
pub(crate) struct LimitArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Add a limit; it holds at once.
    Add(Add),
    /// List the limits.
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
    /// For this node.
    #[arg(
        long,
        value_name = "NODE",
        required_unless_present = "network",
        conflicts_with = "network"
    )]
    node: Option<Name>,
    /// For who calls from this network, such as 192.0.2.0/24 or 2001:db8::/32.
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// On these days, such as mon-fri or sat,sun.
    #[arg(long, value_name = "DAYS")]
    days: Option<String>,
    /// Between these times, such as 08:00-18:00.
    #[arg(long, value_name = "HOURS")]
    hours: Option<String>,
    /// Most bytes a second to the server, such as 10M; 0 for no limit.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, required_unless_present = "down")]
    up: Option<u64>,
    /// Most bytes a second from the server.
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
                context.out.line(&format!("removed limit {id}"))?;
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
        rate @ 1..RATE_MIN => Err(format!("{rate} bytes a second; write a unit, such as {rate}M")),
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
