//! What the host of a server or storage server does with a repository whose keys it does not have: `icecore server
//! check`, `reclaim`, and the same of `icecore storage`.

use super::check::parse_percent;
use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::wait::Wait;
use crate::{escape, lost_config, units};
use pipeline::keyless;
use repository::Repository;
use repository::reclaim::ReclaimOptions;
use serde::Serialize;
use server_contract::repositories;
use std::path::Path;

/// How to reclaim.
#[derive(clap::Args, Debug)]
pub(super) struct Reclaiming {
    /// Show what would be done, and change nothing.
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,
    /// Share of unused data that can stay; less means more copying.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    max_waste: f64,
    /// Also free what interrupted backups stored.
    #[arg(long)]
    interrupted: bool,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Serialize)]
struct Freed {
    dry_run: bool,
    bytes: u64,
    bytes_freed: u64,
    containers_removed: u64,
    containers_rewritten: u64,
    dead_objects: u64,
    bytes_interrupted: u64,
    bytes_secured: u64,
    bytes_cold: u64,
}

/// Checks the repository in `folder`.
pub(super) fn check(context: &Context, folder: &Path) -> Result<Code> {
    let repository = opened(folder)?;
    let report = keyless::scrub(&repository).map_err(|error| context.failure(error))?;
    for damage in &report.damages {
        context.out.note(&escape::text(damage));
    }
    context.out.line(&format!(
        "{}\n  checked  {}, {} with {} ({})",
        if report.damaged == 0 {
            "No damage found".into()
        } else {
            format!("Damage found: {}", units::many(report.damaged, "problem"))
        },
        units::many(report.snapshots, "snapshot"),
        units::many(report.containers, "container"),
        units::many(report.records, "record"),
        units::bytes(report.bytes),
    ))?;
    if report.archived > 0 {
        let archived = units::many(report.archived, "container");
        context.out.line(&format!(
            "  archived {archived}: not read, so nothing is known of what they hold"
        ))?;
    }
    let code = if report.damaged == 0 { Code::Complete } else { Code::Damage };
    context.out.summary(code, &report)
}

impl Reclaiming {
    /// Reclaims in the repository in `folder`.
    pub(super) fn run(&self, context: &Context, folder: &Path) -> Result<Code> {
        let repository = opened(folder)?;
        let options = ReclaimOptions {
            max_waste_percent: self.max_waste,
            dry_run: self.dry_run,
            accept_damage: false,
            free_interrupted: self.interrupted,
        };
        let reclaim = || keyless::reclaim(&repository, "reclaim without keys", options);
        let done = self.wait.patiently(context, reclaim);
        let done = done.map_err(|error| failed(context, error, folder))?;
        context.out.line(&format!(
            "{} {} of {}: {} removed, {} rewritten",
            if self.dry_run { "Would free" } else { "Freed" },
            units::bytes(done.bytes_freed),
            units::bytes(done.bytes),
            units::many(done.containers_removed, "container"),
            units::count(done.containers_rewritten),
        ))?;
        let left = [
            super::reclaim::interrupted(done.bytes_interrupted),
            super::reclaim::secured(done.bytes_secured),
            super::reclaim::cold(done.containers_cold, done.bytes_cold),
        ];
        left.iter().flatten().try_for_each(|line| context.out.line(line))?;
        let freed = Freed {
            dry_run: self.dry_run,
            bytes: done.bytes,
            bytes_freed: done.bytes_freed,
            containers_removed: done.containers_removed,
            containers_rewritten: done.containers_rewritten,
            dead_objects: done.dead_objects,
            bytes_interrupted: done.bytes_interrupted,
            bytes_secured: done.bytes_secured,
            bytes_cold: done.bytes_cold,
        };
        context.out.summary(Code::Complete, &freed)
    }
}

/// A snapshot that is missed is brought back by who has a key.
fn failed(context: &Context, error: pipeline::Error, folder: &Path) -> Failure {
    let location = folder.display().to_string();
    if matches!(error, pipeline::Error::Usage(_)) {
        return Failure::new(Code::Damage, error.to_string()).hint(format!(
            "With a key of the domain, on this machine: icecore rebuild --repo {} --password-file FILE",
            quoted(&location)
        ));
    }
    match error {
        pipeline::Error::Repository(store::Error::InUse { .. }) => {
            Failure::from(error).at(&location)
        }
        error => context.failure(error),
    }
}

fn opened(folder: &Path) -> Result<Repository> {
    let storage = repositories::storage(folder)
        .map_err(|error| not_opened(store::Error::from(error).into(), folder))?;
    Repository::open(storage).map_err(|error| not_opened(error.into(), folder))
}

/// The repository of the domain in `folder` cannot be opened. Where there is none, nobody is told to make one: it would
/// hide what was lost, and no node takes it for its own.
pub(super) fn not_opened(failure: Failure, folder: &Path) -> Failure {
    let location = folder.display().to_string();
    let is_lost = failure.code == Code::NoRepository && !lost_config::is_at(&location);
    let bucket = server_contract::pool::is_in_bucket(folder)
        .and_then(|is| is.then(|| server_contract::pool::place_of(folder)).transpose());
    match bucket {
        _ if !is_lost => failure.at(&location),
        Ok(Some(bucket)) => {
            let name = folder.file_name().unwrap_or_default().display();
            let location = format!("{bucket}/domains/{name}");
            let hint = gone_from_bucket(&quoted(&location));
            Failure::from(store::Error::NoRepository { location }).hint(hint)
        }
        _ => failure.hint(format!(
            "Before the first backup of its nodes there is none. Later: is its file system mounted? If the repository is lost, bring it back from a copy: icecore copy --repo COPY --to {}",
            quoted(&location)
        )),
    }
}

fn gone_from_bucket(location: &str) -> String {
    format!(
        "Before the first backup of its nodes there is none. If its objects were deleted, and the bucket keeps versions: icecore object-lock recover --before TIME --repo {location} && icecore rebuild --repo {location}. From a copy: icecore copy --repo COPY --to {location}"
    )
}
