//! `icecore reclaim`.

mod room;

use super::check::parse_percent;
use crate::codes::Code;
use crate::context::Context;
use crate::copies;
use crate::failure::{Failure, Result};
use crate::units;
use crate::wait::Wait;
use pipeline::UnlockedRepository;
use pipeline::reclaim::{self, ReclaimOptions, ReclaimReport};

/// Free the space of data that no snapshot needs.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore reclaim --dry-run\n  icecore reclaim --wait 10m\n  icecore reclaim --max-waste 0%\n\nIf reclaim finds something unexpected, it stops before it deletes uncertain data. On a full disk it works step by step, with space that is kept for it; if that is too little, it says how much has to be free. Other programs call this prune or garbage collection.\n\nWhat an interrupted backup stored stays for three reclaims, so that its next run need not store it again. --interrupted frees it at once.\n\n--accept-damage continues although data of a snapshot is already lost. It keeps everything that can still be read and that a snapshot needs, gives up what only lost pages refer to, and rewrites containers with damaged records without those records. It reads every byte. Run icecore rebuild and a new backup first."
)]
pub(crate) struct Reclaim {
    /// Show what would be done, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Share of unused data that can stay; less means more copying.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    max_waste: f64,
    /// Give up what is already lost, and keep the rest.
    #[arg(long)]
    accept_damage: bool,
    /// Also free what interrupted backups stored.
    #[arg(long)]
    interrupted: bool,
    #[command(flatten)]
    wait: Wait,
}

impl Reclaim {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open_fresh()?;
        let options = ReclaimOptions {
            max_waste_percent: self.max_waste,
            dry_run: self.dry_run,
            accept_damage: self.accept_damage,
            free_interrupted: self.interrupted,
        };
        let report = run(context, &repository, &options, self.wait)?;
        context.out.summary(Code::Complete, &report)
    }
}

/// Damage is not passed over unless somebody says so.
fn failure(
    context: &Context,
    repository: &UnlockedRepository,
    options: &ReclaimOptions,
    error: pipeline::Error,
) -> Failure {
    if matches!(&error, pipeline::Error::Repository(error) if error.is_full()) {
        return full(context, repository, error);
    }
    let failure = context.failure(error);
    if failure.code != Code::Damage || options.accept_damage {
        return failure;
    }
    let first = match copies::repair(context) {
        Some(repair) => format!("Repair it from the copies first: {repair}. If damage is left: "),
        None => String::new(),
    };
    failure.hint(format!("{first}See what is damaged: icecore check. To give up what is lost and keep the rest: icecore reclaim --accept-damage"))
}

fn full(context: &Context, repository: &UnlockedRepository, error: pipeline::Error) -> Failure {
    let failure = context.failure(error);
    match room::advice(context, repository) {
        Some(advice) => failure.hint(format!("{advice}. Then run again: icecore reclaim")),
        None => failure,
    }
}

/// Reclaims as it does without flags: for `forget --prune`.
pub(super) fn all(
    context: &Context,
    repository: &UnlockedRepository,
    wait: Wait,
) -> Result<ReclaimReport> {
    run(context, repository, &ReclaimOptions::default(), wait)
}

/// Reclaims, and tells what came of it.
fn run(
    context: &Context,
    repository: &UnlockedRepository,
    options: &ReclaimOptions,
    wait: Wait,
) -> Result<ReclaimReport> {
    let report = wait.patiently(context, || reclaim::run(repository, options));
    let report = report.map_err(|error| failure(context, repository, options, error))?;
    if report.snapshots_restored > 0 {
        context.out.note(&restored(report.snapshots_restored));
    }
    if report.containers_left > 0 {
        let left = units::many(report.containers_left, "container");
        let advice = room::advice(context, repository).unwrap_or_else(|| "Make room".to_owned());
        context.out.note(&format!(
            "the disk has no room to rewrite {left}. {advice}. Then run again: icecore reclaim"
        ));
    }
    if options.accept_damage {
        context.out.line(&given_up(&report))?;
    }
    lines(&report).iter().try_for_each(|line| context.out.line(line))?;
    if report.dry_run {
        context.out.line("Nothing was changed (--dry-run).")?;
    }
    Ok(report)
}

/// What is said of snapshots whose files in `snapshots/` were gone.
fn restored(snapshots: u64) -> String {
    let back = units::many(snapshots, "snapshot");
    let (files, are) =
        if snapshots == 1 { ("its file", "it is") } else { ("their files", "they are") };
    format!("{back} that nobody forgot had lost {files}; {are} listed again: icecore snapshots")
}

fn given_up(report: &ReclaimReport) -> String {
    format!(
        "{} {} that snapshots need and that are lost, with everything below them, and the damaged records of {}",
        if report.dry_run { "Would give up" } else { "Gave up" },
        units::many(report.lost_objects, "object"),
        units::many(report.damaged_containers, "container"),
    )
}

/// What stays for backups that were interrupted.
pub(super) fn interrupted(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| {
        format!(
            "  {} of interrupted backups stays for their next run; to free it now: --interrupted",
            units::bytes(bytes)
        )
    })
}

/// What stays because a lock helper keeps it.
pub(super) fn secured(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| {
        format!(
            "  {} of unused data stays until locks end: the lock helper keeps its containers",
            units::bytes(bytes)
        )
    })
}

/// What stays because it would have to be read where that costs more than usual.
pub(super) fn cold(containers: u64, bytes: u64) -> Option<String> {
    (bytes > 0).then(|| {
        format!(
            "  {} of unused data stays in {} of a cold storage class: to move the rest would cost a read",
            units::bytes(bytes),
            units::many(containers, "container")
        )
    })
}

/// What came of it, in a line. Small containers are put together although that frees nothing.
fn answer(report: &ReclaimReport) -> String {
    let (verb, tidied) = match report.dry_run {
        true => ("Would free", "would only put"),
        false => ("Freed", "only put"),
    };
    let changes = report.containers_removed + report.containers_rewritten;
    let all = units::bytes(report.bytes);
    match report.bytes_freed {
        0 if changes == 0 => format!("Nothing to reclaim in {all}"),
        0 => format!("{verb} nothing in {all}: {tidied} small containers together"),
        freed => format!(
            "{verb} {} of {all} in {}",
            units::bytes(freed),
            units::duration(report.elapsed_secs)
        ),
    }
}

/// The answer first; then what was done for it.
fn lines(report: &ReclaimReport) -> Vec<String> {
    let mut lines = vec![answer(report)];
    let mut containers = Vec::new();
    if report.containers_removed > 0 {
        containers.push(format!("{} removed", units::count(report.containers_removed)));
    }
    if report.containers_rewritten > 0 {
        let copied = match report.bytes_copied {
            0 => String::new(),
            bytes => format!(" ({} copied)", units::bytes(bytes)),
        };
        containers.push(format!("{} rewritten{copied}", units::count(report.containers_rewritten)));
    }
    if !containers.is_empty() {
        let all = units::many(report.containers, "container");
        lines.push(format!("  {all}: {}", containers.join(" · ")));
    }
    if report.dead_objects > 0 {
        lines.push(format!(
            "  {} of {} chunks and pages are not used",
            units::count(report.dead_objects),
            units::count(report.dead_objects + report.live_objects),
        ));
    }
    let stays = report.bytes_interrupted + report.bytes_secured + report.bytes_cold;
    let left = report.bytes_wasted.saturating_sub(stays);
    if left > 0 {
        lines.push(format!(
            "  {} of unused data stays: moving it costs more than it frees (--max-waste)",
            units::bytes(left)
        ));
    }
    lines.extend(interrupted(report.bytes_interrupted));
    lines.extend(secured(report.bytes_secured));
    lines.extend(cold(report.containers_cold, report.bytes_cold));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It said that there was nothing to reclaim, and below that 21 containers would be rewritten.
    #[test]
    fn work_that_frees_nothing_is_told_as_work() {
        let report = |rewritten, freed, dry_run| ReclaimReport {
            bytes: 1 << 20,
            bytes_freed: freed,
            containers_rewritten: rewritten,
            dry_run,
            ..ReclaimReport::default()
        };
        let told = |rewritten, freed, dry_run| lines(&report(rewritten, freed, dry_run)).remove(0);
        assert_eq!(told(0, 0, true), "Nothing to reclaim in 1.00 MiB");
        let small = told(21, 0, true);
        assert_eq!(
            small,
            "Would free nothing in 1.00 MiB: would only put small containers together"
        );
        assert!(told(21, 0, false).starts_with("Freed nothing in 1.00 MiB: only put"));
        assert!(told(21, 1 << 19, true).starts_with("Would free 512"));
    }
}
