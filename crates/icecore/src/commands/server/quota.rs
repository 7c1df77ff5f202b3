//! `icecore server quota`.

use super::site::ObjectAction;
use super::word;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Table, flexible, left, right};
use crate::terminal::Paint;
use crate::{escape, units};
use ::site::{Kind, Size};
use api::Name;
use api::quotas::{DomainUse, Quota, QuotaState, Quotas};
use serde::Serialize;
use serde_json::{Value, json};

/// Limit how much domains, nodes and groups store, and show how much they store.
///
/// What counts is the length of all containers of the domains, so also what no snapshot needs any more, until a reclaim
/// frees it. A node and a group count with the domains to which they back up.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server quota set berlin 20T --group berlin\n  icecore server quota set web 500G --node web-01 --domain shared\n  icecore server quota status\n  icecore server quota remove web\n\nA backup that finds its quota used up is refused, or ends with exit code 15; what it stored is used by the next one. Restore, forget and reclaim always work."
)]
pub(crate) struct QuotaArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show each quota with what its domains store.
    #[command(after_help = "Example:\n  icecore server quota status --json")]
    Status,
    Set(Set),
    #[command(flatten)]
    Declare(ObjectAction),
}

/// Declare a quota, or replace the one of this name.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  icecore server quota set berlin 20T --group berlin")]
struct Set {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    /// The most that its domains may store together, such as 500G.
    #[arg(value_name = "BYTES")]
    bytes: Size,
    /// Count this domain. Can be repeated.
    #[arg(long = "domain", value_name = "DOMAIN", value_parser = super::domain_text)]
    domain: Vec<String>,
    /// Count the domain of this node. Can be repeated.
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<Name>,
    /// Count the domains of the nodes of this group. Can be repeated.
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
}

#[derive(Serialize)]
struct Count {
    quotas: usize,
    full: usize,
}

impl QuotaArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        match &self.action {
            Action::Status => status(reach, context),
            Action::Set(set) => {
                super::site::replace(Kind::Quota, (&set.name, &set.body()), reach, context)
            }
            Action::Declare(action) => action.run(Kind::Quota, reach, context),
        }
    }
}

impl Set {
    fn body(&self) -> Value {
        let lists = [
            ("domains", json!(self.domain)),
            ("nodes", json!(self.nodes)),
            ("groups", json!(self.groups)),
        ];
        let named = lists
            .into_iter()
            .filter(|(_, list)| list.as_array().is_some_and(|all| !all.is_empty()));
        let mut body = json!({ "bytes": self.bytes });
        named.for_each(|(key, list)| body[key] = list);
        body
    }
}

fn status(reach: &Reach, context: &Context) -> Result<Code> {
    let Quotas { quotas } = reach.get("/quotas")?;
    let mut table = Table::new(&[
        left("QUOTA"),
        left("STATE"),
        right("STORED"),
        right("QUOTA"),
        flexible("DOMAINS"),
    ]);
    for quota in &quotas {
        context.out.record("quota", quota)?;
        add(&mut table, quota);
    }
    table.print(&context.out)?;
    if quotas.is_empty() {
        context.out.line("There are no quotas. To set one: icecore server quota set --help")?;
    }
    let full = quotas.iter().filter(|quota| quota.state != QuotaState::Open).count();
    context.out.summary(Code::Complete, &Count { quotas: quotas.len(), full })
}

fn add(table: &mut Table, quota: &Quota) {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), units::bytes);
    let domain =
        |one: &DomainUse| format!("{} ({})", escape::text(one.domain.as_str()), bytes(one.bytes));
    let domains: Vec<_> = quota.domains.iter().map(domain).collect();
    table.row([
        escape::text(&quota.name),
        word(&quota.state),
        bytes(quota.used_bytes),
        units::bytes(quota.bytes),
        domains.join("  "),
    ]);
    if quota.state != QuotaState::Open {
        table.paint(1, Paint::Red);
    }
}
