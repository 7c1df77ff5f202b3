//! `icecore check`.

use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::progress::Shown;
use crate::terminal::Paint;
use crate::units;
use crate::wait::Wait;
use pipeline::UnlockedRepository;
use pipeline::check::{self, CheckOptions, CheckReport, Damage};
use repository::Repository;
use serde::Serialize;
use std::sync::Arc;

/// Check the repository for damage. Exit code 14: damage found.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore check\n  icecore check --read-data\n  icecore check --read-data=10%\n  icecore check --repair\n  icecore check --repair --copies /mnt/second\n\nWithout --read-data, check verifies the structure: that the repository contains everything its snapshots need. On a node of a server, it checks what the node can see, and says what must be checked on the server.\n\n--repair writes again what is stored twice. Damaged data needs more: the parity of a repository that was created with `icecore init --parity`, or a copy (--copies; see `icecore copy`). Nothing else can write while it runs."
)]
pub(crate) struct Check {
    /// Also read and verify the data: all of it, or a share of the containers, which is another one each day.
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "100%", value_parser = parse_percent)]
    read_data: Option<f64>,
    /// First repair what can be repaired (containers from their parity or from a copy), then check all data.
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    wait: Wait,
    /// Reader threads [default: one per CPU].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

/// Reads `10%` or `10`.
pub(crate) fn parse_percent(text: &str) -> std::result::Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| format!("'{text}' is not a percentage; write 10%"))
}

#[derive(Default, Serialize)]
struct DamageLine<'a> {
    what: &'a str,
    healable: bool,
    snapshots: &'a [String],
    paths: Vec<JsonPath>,
    more_paths: u64,
}

impl Check {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        context.keep_doubts();
        let repository = context.open_to_check()?;
        let threads = self.threads.map_or(0, usize::from);
        let repair = crate::copies::repair(context);
        crate::copies::named(context)?; // a mistake in them is told before anything is read
        if let (true, Some(remote)) = (self.repair, context.remote()) {
            return Err(no_repair_from_afar(remote.names().1));
        }
        let copies = self.copies(context, &repository)?;
        let all = self.repair.then_some(100.0);
        let read_data_percent = self.read_data.or(all);
        let options = CheckOptions { read_data_percent, threads, repair: self.repair };
        if context.remote().is_some() && repository.reader_keys().is_err() {
            return remembered(context, &repository);
        }
        let shown = Shown::start(&context.progress, &context.out, None);
        let report = self.wait.patiently(context, || {
            check::run_with(&repository, &copies, &options, &context.progress)
        });
        drop(shown);
        let mut report = report.map_err(|error| context.failure(error))?;
        report.damages.extend(context.doubts().into_iter().map(doubt));
        for repaired in &report.repaired {
            context.out.line(&format!("repaired: {}", escape::text(repaired)))?;
        }
        let printed = report.damages.iter().try_for_each(|damage| tell(context, damage));
        let printed = printed
            .and_then(|()| report.notes.iter().try_for_each(|note| tell_note(context, note)));
        Failure::ignore_broken_pipe(printed)?;
        summary(&report).iter().try_for_each(|line| context.out.line(line))?;
        let code = ended(&report, read_data_percent.is_some());
        let advice = match context.remote() {
            None => advice(&report, &lead(self.repair && !copies.is_empty(), repair.as_deref())),
            Some(remote) => {
                context.out.line(&left_out(&report, remote.names().1))?;
                advice_from_afar(&report, remote.names().1)
            }
        };
        if let Some(advice) = advice {
            context.out.line(&advice)?;
        }
        context.out.summary(code, &report)
    }
}

/// Who asked for the data to be read is told when not all of it could be.
fn ended(report: &CheckReport, is_data_asked: bool) -> Code {
    match report.damages.is_empty() {
        false => Code::Damage,
        true if is_data_asked && report.containers_archived > 0 => Code::Partial,
        true => Code::Complete,
    }
}

/// What could not be read, or was not because it costs.
fn unread(report: &CheckReport) -> Vec<String> {
    let many = |count| units::many(count, "container");
    let archived = (report.containers_archived > 0).then(|| {
        format!("  archived {}: not read, so nothing is known of what they hold; to read them: icecore restore SNAPSHOT --bring-back", many(report.containers_archived))
    });
    let cold = (report.containers_cold > 0).then(|| {
        format!("  cold     {}: they are there, and were not read (reading costs more); to read them: icecore check --read-data", many(report.containers_cold))
    });
    archived.into_iter().chain(cold).collect()
}

impl Check {
    /// The copies that a repair may use, if there is one.
    fn copies(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
    ) -> Result<Vec<Arc<Repository>>> {
        if !self.repair {
            return Ok(Vec::new());
        }
        crate::copies::opened(context, repository.store.config())
    }
}

fn no_repair_from_afar(domain: &str) -> Failure {
    Failure::new(
        Code::Usage,
        "a repair rewrites files of the repository, and this machine cannot reach them",
    )
    .hint(format!("See what is damaged, on the server: icecore server check {domain}"))
}

/// What only the machine can check on which the repository lies, and how.
fn left_out(report: &CheckReport, domain: &str) -> String {
    let gaps = match report.gaps {
        0 => String::new(),
        gaps => format!(
            "; {} that others refer to {} not listed: the server also knows whether somebody forgot them",
            units::many(gaps, "snapshot"),
            if gaps == 1 { "is" } else { "are" }
        ),
    };
    format!(
        "  not checked from this machine: {}. On the server: icecore server check {domain}{gaps}",
        report.left_out.join(", ")
    )
}

/// The same as [`advice`] for who cannot reach the containers.
fn advice_from_afar(report: &CheckReport, domain: &str) -> Option<String> {
    if report.damages.is_empty() {
        return None;
    }
    let forget = match report.damaged_snapshots() {
        ids if ids.is_empty() => String::new(),
        ids => format!(
            "\nRestore what you need of the damaged snapshots. What cannot be stored again is then given up on the server:\n  icecore server forget {domain} --damaged {0}\nIf only the nodes have the keys, use a node that is allowed to: icecore forget --damaged {0}",
            ids.join(" ")
        ),
    };
    Some(format!(
        "What to do, on the machine that holds the repository: see what its disk lost, and have the index list only what is left. The password is what icecore server key {domain} prints; if only the nodes have the keys, one of theirs:\n  icecore server check {domain}\n  icecore rebuild --repo DATA/pool/domains/{domain}\nOn a storage server the first is: icecore storage check {domain}. A further pool has the repository at DATA/pools/POOL/domains/{domain}.\nThen on this machine:\n  icecore backup --full PATH...\n  icecore check\nA backup of the same sources stores again what was lost and still exists.{forget}"
    ))
}

/// What a machine can see whose key reads nothing: the newest snapshot of each of its sources, who signed it, and
/// that it is none from before what this machine remembers.
fn remembered(context: &Context, repository: &pipeline::UnlockedRepository) -> Result<Code> {
    let node = context.enrolled()?;
    let memory = crate::node::memory::Memory::load(&node.folder, repository)?;
    let damages: Vec<_> = context.doubts().into_iter().map(doubt).collect();
    damages.iter().try_for_each(|damage| tell(context, damage))?;
    let left_out =
        vec!["content", "older snapshots", "other sources", "containers", "parity", "index"];
    let snapshots = memory.sources() as u64;
    let report = CheckReport { snapshots, damages, left_out, ..CheckReport::default() };
    context.out.line(&format!(
        "{}. Checked: number and signature of the newest snapshot of {} that this machine backed up",
        match report.damages.len() {
            0 => "No damage found".to_owned(),
            some => format!("Damage found: {}", units::many(some as u64, "problem")),
        },
        units::many(snapshots, "source"),
    ))?;
    context.out.line(&format!(
        "  not checked, since this key cannot read: {}. On the server: icecore server check {}",
        report.left_out.join(", "),
        node.identity.agent.domain
    ))?;
    let code = if report.damages.is_empty() { Code::Complete } else { Code::Damage };
    context.out.summary(code, &report)
}

fn doubt(what: String) -> Damage {
    Damage { what, ..Damage::default() }
}

/// What to do next, if anything: commands that end in a clean check, one after the other.
fn advice(report: &CheckReport, lead: &str) -> Option<String> {
    let some = |is: fn(&Damage) -> bool| report.damages.iter().any(is);
    if report.damages.is_empty() {
        return None;
    }
    if some(|damage| damage.healable && !damage.has_twin) {
        return Some("What to do: the disk has begun to fail. Copy the repository to another disk first. Then restore the damaged sectors from parity:\n  icecore check --repair".into());
    }
    if some(|damage| damage.has_twin) {
        return Some("What to do: an interrupted command leaves only one of two equal files, and so does a disk that has begun to fail. Write the other one again:\n  icecore check --repair".into());
    }
    if !report.damaged_keys.is_empty() {
        let remove = |id: &String| format!("\n  icecore key remove {id}");
        let all: String = report.damaged_keys.iter().map(remove).collect();
        return Some(format!(
            "What to do, with a full key:{all}\n  icecore check\nGive whoever used such a key a new one (icecore key add). What the key signed stays valid."
        ));
    }
    if report.needs_rebuild {
        return Some(format!(
            "{lead}: restore what you need of the damaged snapshots now; what still comes back may not afterwards. Then, in this order:\n  icecore rebuild\n  icecore backup PATH...\n  icecore check\nThe new index lists nothing damaged, a backup of the same sources stores again what is missing and still exists,\nand the check says what is left to do."
        ));
    }
    let ids = report.damaged_snapshots();
    let (what, forget) = match ids.is_empty() {
        true => ("give up what is lost", String::new()),
        false => (
            "restore what you need of the damaged snapshots; what is not named above still comes back. Then give up what is lost, and these snapshots with it",
            format!("\n  icecore forget --damaged {}", ids.join(" ")),
        ),
    };
    Some(format!("{lead}: {what}:{forget}\n  icecore reclaim --accept-damage\n  icecore check"))
}

/// How advice begins. A copy may still have what the next commands give up, unless the repair has asked the copies.
fn lead(has_asked_copies: bool, repair: Option<&str>) -> String {
    match repair {
        _ if has_asked_copies => "What to do".to_owned(),
        Some(repair) => format!("Repair from the copies first:\n  {repair}\nIf damage is left"),
        None => {
            "If the repository has a copy, repair from it first:\n  icecore check --repair --copies REPOSITORY\nOtherwise".to_owned()
        }
    }
}

fn tell_note(context: &Context, note: &Damage) -> Result<()> {
    let line = DamageLine { what: &note.what, snapshots: &note.snapshots, ..DamageLine::default() };
    context.out.item("note", &line, || format!("note: {}", escape::text(&note.what)))
}

fn tell(context: &Context, damage: &Damage) -> Result<()> {
    let paths = damage.paths.iter().map(|path| JsonPath::new(path)).collect();
    let Damage { what, healable, snapshots, more_paths, .. } = damage;
    let (healable, more_paths) = (*healable, *more_paths);
    let line = DamageLine { what, healable, snapshots, paths, more_paths };
    context.out.item("damage", &line, || {
        let mut text =
            context.out.paint(Paint::Red, &format!("damage: {}", escape::text(&damage.what)));
        text.push_str(&concerned(damage));
        text
    })
}

/// Whom a damage concerns, as people read it.
fn concerned(damage: &Damage) -> String {
    let mut text = String::new();
    match damage {
        Damage { has_twin: true, .. } => text.push_str(" (check --repair writes it again)"),
        Damage { healable: true, .. } => text.push_str(" (parity can repair it)"),
        _ => {}
    }
    if !damage.snapshots.is_empty() {
        text.push_str(&format!("\n  in snapshots: {}", damage.snapshots.join(" ")));
    }
    damage.paths.iter().for_each(|path| text.push_str(&format!("\n  {}", escape::path(path))));
    if damage.more_paths > 0 {
        let more = units::count(damage.more_paths);
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

/// The answer first; then what it rests on.
fn summary(report: &CheckReport) -> Vec<String> {
    let (are, them) = if report.orphans == 1 { ("is", "it") } else { ("are", "them") };
    let found = match report.damages.len() {
        0 if report.orphans > 0 => format!(
            "No damage found in the listed snapshots. {} {are} complete but not listed: the next backup lists {them}",
            units::many(report.orphans, "snapshot")
        ),
        0 => "No damage found".to_owned(),
        some => format!("Damage found: {}", units::many(some as u64, "problem")),
    };
    let read = match report.bytes_read {
        0 if report.containers == 0 => "nothing: no data is stored yet".to_owned(),
        0 => "none of the data; to read all of it: icecore check --read-data".to_owned(),
        bytes => format!(
            "{} in {}",
            units::bytes(bytes),
            units::many(report.containers_read, "container")
        ),
    };
    let expired = (report.expired > 0).then(|| {
        let expired = units::many(report.expired, "snapshot");
        format!("  expired  {expired}: the server signed that nothing kept them")
    });
    let lines = [
        format!("{found} (took {})", units::duration(report.elapsed_secs)),
        format!(
            "  checked  {}, {}, {}, {}",
            units::many(report.snapshots, "snapshot"),
            units::many(report.pages, "page"),
            units::many(report.chunks, "chunk"),
            units::many(report.containers, "container"),
        ),
        format!("  read     {read}"),
    ];
    lines.into_iter().chain(unread(report)).chain(expired).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_healed_is_healed_first() {
        let report = |healable: &[bool]| CheckReport {
            damages: healable
                .iter()
                .map(|healable| Damage { healable: *healable, ..Damage::default() })
                .collect(),
            ..CheckReport::default()
        };
        assert_eq!(advice(&report(&[]), "What to do"), None);
        let given = advice(&report(&[false]), "What to do").unwrap();
        assert!(given.contains("icecore reclaim --accept-damage"), "{given}");
        let given =
            advice(&CheckReport { needs_rebuild: true, ..report(&[false]) }, "Otherwise").unwrap();
        assert!(
            given.starts_with("Otherwise: restore")
                && given.contains("in this order:\n  icecore rebuild"),
            "{given}"
        );
        let damaged_keys = vec!["0102".to_owned()];
        let given = advice(&CheckReport { damaged_keys, ..report(&[false]) }, "").unwrap();
        assert!(given.contains("\n  icecore key remove 0102\n  icecore check\n"), "{given}");
        assert!(advice(&report(&[false, true]), "").unwrap().contains("icecore check --repair"));
        let mut twin = report(&[true, false]);
        twin.damages[0].has_twin = true;
        let given = advice(&twin, "").unwrap();
        assert!(given.ends_with("icecore check --repair") && !given.contains("parity"), "{given}");
    }

    #[test]
    fn a_copy_is_asked_before_anything_is_given_up() {
        assert!(lead(false, None).contains("icecore check --repair --copies REPOSITORY\n"));
        assert!(lead(false, Some("icecore x")).contains(":\n  icecore x\n"));
        assert_eq!(lead(true, Some("icecore x")), "What to do", "it was asked");
    }

    /// Review finding U16: 100 of 314 files were listed, and nothing said so.
    #[test]
    fn paths_that_are_not_named_are_counted() {
        let some = Damage { paths: vec![b"a".to_vec()], more_paths: 214, ..Damage::default() };
        assert_eq!(concerned(&some), "\n  /a\n  and 214 more");
        assert_eq!(concerned(&Damage { more_paths: 0, ..some }), "\n  /a");
    }

    #[test]
    fn shares_are_read() {
        assert_eq!(
            [parse_percent("10%"), parse_percent("2.5"), parse_percent("100%")],
            [Ok(10.0), Ok(2.5), Ok(100.0)]
        );
        ["", "%", "101", "-1", "x", "nan"]
            .iter()
            .for_each(|text| assert!(parse_percent(text).is_err(), "{text}"));
    }
}
