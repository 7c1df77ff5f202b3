//! `icecore server check`, `reclaim`: what the host of a server does with domains whose keys it does not have.

use crate::codes::Code;
use crate::commands::check::parse_percent;
use crate::commands::forget::Forget;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::{escape, units};
use api::Name;
use client::{Archive, keyless};
use crypto::SlotSecret;
use repository::Repository;
use repository::local::LocalStorage;
use repository::reclaim::Options;
use serde::Serialize;
use std::sync::Arc;

/// Check a domain without its keys: checksums, and that nothing is missing. Reads the server's own files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  icecore server check web-01\n\nThe server may run or not. Whether what is sealed is what it should be, only a node with the key can say:\nicecore check"
)]
pub(crate) struct Check {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
}

/// Give back the space of what was forgotten in a domain, without its keys. Works on the server's own files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server reclaim web-01 --dry-run\n  icecore server reclaim web-01\n\nThe server may run or not; while a node backs up to the domain, it is refused. When a snapshot that nobody forgot\nhas lost its file, nothing is removed."
)]
pub(crate) struct Reclaim {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    /// Say what would be done, and do nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Dead bytes that may stay: less means more copying.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    max_waste: f64,
}

/// Forget snapshots of a domain whose keys the server manages, with the server's own key. Works on the server's own files.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server forget web-01 --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --dry-run\n  icecore server forget web-01 --keep-within 90d --prune --wait 10m\n\nThe rules are those of: icecore forget --help. The server may run or not; while a node backs up to the domain, it is\nrefused."
)]
pub(crate) struct ForgetIn {
    /// The domain.
    #[arg(id = "of", value_name = "DOMAIN")]
    domain: Name,
    #[command(flatten)]
    forget: Forget,
}

impl ForgetIn {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let open = || {
            let opened = server::control::Control::open_to_forget(&reach.data(), &self.domain);
            let (folder, secret) = opened.map_err(|error| self.unopened(error))?;
            let place = folder.display().to_string();
            let storage = LocalStorage::open(&folder)
                .map_err(|error| Failure::from(repository::Error::from(error)).at(&place))?;
            let opened = Archive::open(Arc::new(storage), SlotSecret::Recovery(*secret));
            opened.map_err(|error| Failure::from(error).at(&place))
        };
        let reclaim = format!("icecore server reclaim {}", self.domain);
        self.forget.run_in(context, open, &reclaim)
    }

    /// Where only nodes know the keys, one of them forgets.
    fn unopened(&self, error: server::control::Error) -> Failure {
        let is_of_nodes = matches!(error, server::control::Error::NoKeys(_));
        let mut failure = Failure::from(error);
        if is_of_nodes {
            failure.hint = Some(format!(
                "With its recovery key: icecore forget --repo DATA/pool/domains/{} --password-file FILE; or from a node that may: icecore server allow-forget NODE",
                self.domain
            ));
        }
        failure
    }
}

#[derive(Serialize)]
struct Freed {
    dry_run: bool,
    bytes: u64,
    bytes_freed: u64,
    containers_removed: u64,
    containers_rewritten: u64,
    dead_objects: u64,
}

impl Check {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let repository = opened(reach, &self.domain, "domain.check")?;
        let report = keyless::check(&repository).map_err(|error| context.failure(error))?;
        for damage in &report.damages {
            context.out.note(&escape::text(damage));
        }
        context.out.line(&format!(
            "{}, {} with {} ({}): {}",
            units::many(report.snapshots, "snapshot"),
            units::many(report.containers, "container"),
            units::many(report.records, "record"),
            units::bytes(report.bytes),
            if report.damaged == 0 {
                "no damage".into()
            } else {
                units::many(report.damaged, "damage")
            }
        ))?;
        let code = if report.damaged == 0 { Code::Complete } else { Code::Damage };
        context.out.summary(code, &report)
    }
}

impl Reclaim {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let action = if self.dry_run { "domain.check" } else { "domain.reclaim" };
        let repository = opened(reach, &self.domain, action)?;
        let options = Options {
            max_waste_percent: self.max_waste,
            dry_run: self.dry_run,
            accept_damage: false,
        };
        let done = keyless::reclaim(&repository, "reclaim without keys", options);
        let done = done.map_err(|error| {
            let is_missed = matches!(error, client::Error::Usage(_));
            let failure = context.failure(error);
            if is_missed {
                return Failure::new(Code::Damage, failure.message).hint("On a node with the key of the domain, or with its recovery key on this machine: icecore rebuild");
            }
            failure
        })?;
        context.out.line(&format!(
            "{} {} of {}: {} containers removed, {} rewritten",
            if self.dry_run { "would free" } else { "freed" },
            units::bytes(done.bytes_freed),
            units::bytes(done.bytes),
            units::count(done.containers_removed),
            units::count(done.containers_rewritten),
        ))?;
        let freed = Freed {
            dry_run: self.dry_run,
            bytes: done.bytes,
            bytes_freed: done.bytes_freed,
            containers_removed: done.containers_removed,
            containers_rewritten: done.containers_rewritten,
            dead_objects: done.dead_objects,
        };
        context.out.summary(Code::Complete, &freed)
    }
}

fn opened(reach: &Reach, domain: &Name, action: &str) -> Result<Repository> {
    let folder = server::control::Control::domain_folder(&reach.data(), domain, action)?;
    let storage = LocalStorage::open(&folder).map_err(|error| {
        Failure::from(repository::Error::from(error)).at(&folder.display().to_string())
    })?;
    Repository::open(Arc::new(storage)).map_err(Failure::from)
}
