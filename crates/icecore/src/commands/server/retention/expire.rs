//! `icecore server expire`.

use crate::clock_advice::advised;
use crate::codes::Code;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::Result;
use crate::{escape, units};
use api::retention::{DomainExpiry, Expire, Expiry};

/// Carry out retention now: put into the trash what nothing keeps, and delete what has outlived its trash period.
///
/// The server does this by itself once a day, or as an upkeep with the task `expire` says. The space comes back with the next reclaim.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server expire --dry-run\n  icecore server expire --domain web-01\n\nWhy a snapshot stays or goes: icecore server retention explain POLICY. What the days to come bring: icecore server retention simulate POLICY"
)]
pub(crate) struct ExpireArgs {
    /// Only in this domain.
    #[arg(long, value_name = "DOMAIN", value_parser = crate::commands::server::domain_text)]
    domain: Option<String>,
    /// Show what would happen, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl ExpireArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let domain = crate::commands::server::domain(self.domain.as_ref())?;
        let domain = domain.map(|domain| domain.to_string());
        let done: Expiry =
            reach.post("/retention/expire", &Expire { domain, dry_run: self.dry_run })?;
        for one in &done.domains {
            context.out.record("domain", one)?;
            for line in lines(one) {
                context.out.print(&escape::text(&line))?;
            }
        }
        context.out.line(&last_line(&done))?;
        if let Some(doubt) = &done.doubt {
            let doubt = advised(doubt, "icecore server clock confirm");
            context.out.note(&escape::text(&format!("nothing expires while {doubt}")));
        }
        let failed = done.domains.iter().filter(|one| one.error.is_some());
        for one in failed.clone() {
            let why = one.error.as_deref().unwrap_or_default();
            context.out.note(&escape::text(&format!("{}: {why}", one.domain)));
        }
        let is_whole = failed.count() == 0 && done.doubt.is_none();
        let code = if is_whole { Code::Complete } else { Code::Partial };
        context.out.summary(code, &done)
    }
}

/// What happened in a domain; nothing if nothing did.
fn lines(one: &DomainExpiry) -> Vec<String> {
    let words = [
        (one.trashed.len(), "into the trash"),
        (one.undeleted.len(), "brought back"),
        (one.expired.len(), "deleted"),
        (one.refused.len(), "refused"),
    ];
    let parts = words.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts.map(|(count, word)| format!("{count} {word}")).collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let kept = units::count(one.kept);
    let mut lines = vec![format!("{}  {} ({kept} kept)", one.domain, parts.join(", "))];
    let refused = one.refused.iter();
    lines.extend(
        refused.map(|it| format!("          {}  {}", super::listed::short(&it.id), it.why)),
    );
    lines
}

fn last_line(done: &Expiry) -> String {
    let sum = |count: fn(&DomainExpiry) -> usize| -> u64 {
        done.domains.iter().map(|one| count(one) as u64).sum()
    };
    let trashed = units::many(sum(|one| one.trashed.len()), "snapshot");
    let deleted = units::count(sum(|one| one.expired.len()));
    if done.dry_run {
        return format!(
            "Would put {trashed} into the trash and delete {deleted}. Nothing was changed (--dry-run)."
        );
    }
    format!("Put {trashed} into the trash, deleted {deleted}.")
}
