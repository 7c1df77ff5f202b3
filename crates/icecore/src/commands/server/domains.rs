//! `icecore server domains`, `remove-domain`, `snapshots`, `grants`, `grant`, `ungrant`.

use super::{when, word};
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Table, flexible, left, right};
use crate::time;
use api::Name;
use api::domains::{
    Domain, Domains as ListedDomains, Grant, Grants as ListedGrants, Settings,
    Snapshots as ListedSnapshots,
};
use api::status::Done;
use serde::Serialize;
use server_contract::pool::MAIN;

/// List dedup domains.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server domains")]
pub(crate) struct Domains {}

#[derive(Serialize)]
struct Count {
    count: usize,
}

impl Domains {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let ListedDomains { domains } = reach.get("/domains")?;
        let mut table = Table::new(&[
            left("DOMAIN"),
            left("KEYS"),
            left("PRIVACY"),
            right("PARITY"),
            left("DEDUP"),
            left("REPOSITORY"),
            left("STORED ON"),
            flexible("NODES"),
        ]);
        for domain in &domains {
            context.out.record("domain", domain)?;
            table.row(row(domain));
        }
        table.print(&context.out)?;
        if domains.is_empty() {
            context
                .out
                .line("There are no domains yet. To add a node: icecore server token NODE")?;
        }
        context.out.summary(Code::Complete, &Count { count: domains.len() })
    }
}

/// Remove a domain whose directory was deleted because nobody needs its snapshots any more.
///
/// Refused while a node has the domain, or its directory is in a pool, or a pool or storage server cannot be asked.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server remove-domain web\n  icecore server remove-domain web --lost   # the storage server that had it has lost it"
)]
pub(crate) struct RemoveDomain {
    /// The domain.
    #[arg(value_name = "DOMAIN")]
    name: Name,
    /// Its data on a storage server is gone for good. The keys that the server has for it go, too.
    #[arg(long)]
    lost: bool,
}

impl RemoveDomain {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        // An older server knows no query there.
        let query = if self.lost { "?lost=true" } else { "" };
        let done: Done = reach.delete(&format!("/domains/{}{query}", self.name))?;
        context.out.line(&format!("Removed the domain {}.", self.name))?;
        context.out.summary(Code::Complete, &done)
    }
}

fn row(domain: &Domain) -> [String; 8] {
    let nodes: Vec<_> = domain.nodes.iter().map(Name::as_str).collect();
    let Settings { privacy, parity_percent, dedup } = domain.settings;
    [
        domain.name.to_string(),
        word(&domain.keys),
        privacy.to_string(),
        if parity_percent == 0 { String::new() } else { format!("{parity_percent} %") },
        dedup.to_string(),
        domain.repository.clone().unwrap_or_else(|| "none yet".to_owned()),
        domain.storage.as_ref().map_or_else(|| here(domain), ToString::to_string),
        nodes.join(" "),
    ]
}

fn here(domain: &Domain) -> String {
    let pool = domain.pool.as_ref().filter(|pool| pool.as_str() != MAIN);
    pool.map_or_else(|| "this server".to_owned(), |pool| format!("this server, {pool}"))
}

/// List the snapshots of a domain, with what the server knows of them without a key.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server snapshots web-01")]
pub(crate) struct Snapshots {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
}

impl Snapshots {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let found: ListedSnapshots = reach.get(&format!("/snapshots?domain={}", self.domain))?;
        let mut table = Table::new(&[right("NUMBER"), left("ID"), left("TIME")]);
        for snapshot in &found.snapshots {
            context.out.record("snapshot", snapshot)?;
            let (number, id) = (snapshot.number.to_string(), snapshot.id.to_string());
            table.row([number, id, when(snapshot.time)]);
        }
        table.print(&context.out)?;
        if found.snapshots.is_empty() {
            context.out.line(&format!("The domain {} has no snapshots yet.", self.domain))?;
        }
        if found.damaged == 0 {
            return context.out.summary(Code::Complete, &Count { count: found.snapshots.len() });
        }
        context.out.note(&format!(
            "{} cannot be read: icecore server check {}",
            crate::units::many(found.damaged, "snapshot"),
            self.domain
        ));
        context.out.summary(Code::Partial, &Count { count: found.snapshots.len() })
    }
}

/// List grants: which nodes may read domains of others.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server grants")]
pub(crate) struct Grants {}

impl Grants {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let ListedGrants { grants } = reach.get("/grants")?;
        let mut table = Table::new(&[left("NODE"), left("MAY READ"), left("UNTIL")]);
        for grant in &grants {
            context.out.record("grant", grant)?;
            let end = grant.until.map_or("it is withdrawn".to_owned(), when);
            table.row([grant.node.to_string(), grant.domain.to_string(), end]);
        }
        table.print(&context.out)?;
        if grants.is_empty() {
            context.out.line("There are no grants: every node reads only its own domain.")?;
        }
        context.out.summary(Code::Complete, &Count { count: grants.len() })
    }
}

/// Allow a node to read a domain that is not its own, to restore files of another machine.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server grant web-02 web-01 --for 1d\n  icecore server ungrant web-02 web-01\n\nThe node can then read everything in that domain. If the server manages the keys, it makes one for the node, and removes it when the grant ends. What the node has read by then, it keeps."
)]
pub(crate) struct GrantArgs {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// The domain to read.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    /// For how long: 15min, 12h, 7d [default: until it is withdrawn].
    #[arg(long = "for", value_name = "TIME", value_parser = time::parse_term)]
    span: Option<u64>,
}

impl GrantArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let now_secs = jiff::Timestamp::now().as_second();
        let until = self.span.map(|secs| now_secs.saturating_add_unsigned(secs));
        let grant = Grant { node: self.node.clone(), domain: self.domain.clone(), until };
        let _: Done = reach.post("/grants", &grant)?;
        let end = until.map_or(String::new(), |until| format!(" until {}", when(until)));
        context.out.line(&format!("{} may now read {}{end}.", self.node, self.domain))?;
        context.out.summary(Code::Complete, &grant)
    }
}

/// Withdraw a grant, and remove the keys that were made for it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server ungrant web-02 web-01")]
pub(crate) struct Ungrant {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
}

impl Ungrant {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let done: Done = reach.delete(&format!("/grants/{}/{}", self.node, self.domain))?;
        context.out.line(&format!("{} may no longer read {}.", self.node, self.domain))?;
        context.out.summary(Code::Complete, &done)
    }
}
