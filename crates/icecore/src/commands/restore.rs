//! `icecore restore`.

mod cold;

use crate::codes::Code;
use crate::context::Context;
use crate::escape::{self, JsonPath};
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::node::{cache, network};
use crate::out::Out;
use crate::proc;
use crate::progress::{Shown, Total};
use crate::session_report::Failed;
use crate::units;
use ::restore::Overwrite;
use cold::Cold;
use parking_lot::Mutex;
use pipeline::UnlockedRepository;
use pipeline::backup::Progress;
use pipeline::manifest::Snapshot;
use pipeline::restore::{self, ConfirmedRemovals, RestoreMonitor, RestoreOptions, RestoreReport};
use pipeline::select::clean_path;
use serde::Serialize;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "Examples:
  icecore restore latest --target /tmp/out
  icecore restore latest@web-1:/etc --target /etc --overwrite if-changed
  icecore restore '2026-11-20 14:00:/home/me' --target /home/me --delete --dry-run
  icecore restore latest --target /tmp/out --include '*.pdf' --verify
  icecore restore latest:/srv/site --target ~/copy --no-owner
  icecore restore latest:/home/me --target /home/me --overwrite if-newer
  icecore restore latest:/srv/site --plan --price-gb bulk=0.0025
  icecore restore latest:/srv/site --bring-back --tier bulk
  icecore restore latest:/srv/site --target /srv/site --bring-back --wait

The content of a named directory is restored directly into the target, which gets the attributes of that directory \
if it does not exist. Files that already exist and are \
equal are left alone, so an interrupted restore can be run again and continues. Exit code 3: some objects \
could not be restored, or had not been read completely by the backup. The latter replace no existing file without \
--overwrite always. \
Nothing that exists above the paths that were backed up is replaced or gets other attributes, and a link \
to a directory in the place of such a path is replaced only with --overwrite always.

--delete deletes, and lists, what the snapshot does not contain, but only below the paths that were backed \
up. What a backup excluded is not in the snapshot, so it is deleted, too. It deletes after everything is \
restored, and nothing if parts of the snapshot are lost. Repositories, file systems and subvolumes of which \
the snapshot has nothing, what the backup did not enter, and what is immutable or lies in such a directory \
are left alone. On a terminal it asks first; try it with --dry-run.

While a restore runs, the target contains a file .icecore-restore-... After an interruption, this file \
tells the next restore to compare contents. With --no-sync, restore does not wait until the data is on \
the disk: if the power fails soon afterwards, restore again with --overwrite always.

What lies in a cold storage class of a bucket (GLACIER, DEEP_ARCHIVE) has to be brought back before it is \
restored. --plan counts all that is chosen, whatever is in the target already. --bring-back asks for what is \
not there yet, each time it runs; with --wait, the restore goes on container by container as they come.";

/// Restore a snapshot or a part of it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    /// Snapshot, and the path in it to restore.
    #[arg(value_name = "SNAP[:PATH]")]
    snapshot: OsString,
    #[command(flatten)]
    filter: Filter,
    /// Directory to restore to.
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["plan", "bring_back"])]
    target: Option<PathBuf>,
    /// Restore only what matches this pattern, as in a .gitignore at the root of the snapshot: `*.pdf` matches
    /// anywhere, a pattern with a slash in it (`home/me/x`) from the root on, whatever PATH is.
    #[arg(short, long = "include", value_name = "PATTERN")]
    includes: Vec<String>,
    /// Do not restore what matches this pattern; patterns are read as those of --include.
    #[arg(short, long = "exclude", value_name = "PATTERN")]
    excludes: Vec<String>,
    /// When to replace what already exists in the target.
    #[arg(long, value_enum, default_value = "if-changed")]
    overwrite: When,
    /// Delete what is in the target but not in the snapshot, below the paths that were backed up.
    #[arg(long)]
    delete: bool,
    /// With --delete on a terminal: do not ask before deleting.
    #[arg(short, long, requires = "delete")]
    yes: bool,
    /// Read all restored data again and compare it.
    #[arg(long)]
    verify: bool,
    /// Show what would be done, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Restore owners by number, not by name.
    #[arg(long)]
    numeric_owners: bool,
    /// Do not restore owners: everything belongs to the user who restores. Setuid and setgid of files of others are
    /// dropped.
    #[arg(long, conflicts_with = "numeric_owners")]
    no_owner: bool,
    /// Do not wait until the data is on the disk.
    #[arg(long)]
    no_sync: bool,
    /// The target was chosen by the server, which may restore below this folder only.
    #[arg(long, value_name = "DIR", hide = true)]
    target_below: Option<PathBuf>,
    /// The machine lets its server restore setuid and setgid, file capabilities and devices.
    #[arg(long, requires = "target_below", hide = true)]
    privileged: bool,
    /// Only this path of the snapshot, by the letter.
    #[arg(long = "only", value_name = "PATH", hide = true)]
    only: Vec<OsString>,
    /// Threads that read and write [default: one per CPU].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    #[command(flatten)]
    cold: Cold,
}

/// Whether to delete.
fn question(target: &Path, would: &RestoreReport) -> String {
    let target = escape::escape(target.as_os_str().as_bytes());
    let (objects, bytes) =
        (units::many(would.deleted, "object"), units::bytes(would.deleted_bytes));
    format!("Delete {objects} ({bytes}) in {target} that the snapshot does not contain?")
}

/// When something that is there is replaced.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum When {
    /// Always.
    Always,
    /// If kind, size or time differ.
    IfChanged,
    /// If the one in the snapshot is newer.
    IfNewer,
    /// Never.
    Never,
}

#[derive(Serialize)]
struct Summary<'a> {
    snapshot_id: String,
    target: JsonPath,
    dry_run: bool,
    report: &'a RestoreReport,
}

impl Restore {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        // Without a word, the server would take the machine for lost.
        self.restore(context).inspect_err(|failure| context.tell_failed(failure))
    }

    fn restore(&self, context: &Context) -> Result<Code> {
        let target = self.target()?;
        self.refuse_repositories(context, target)?;
        self.cold.prepare(context)?;
        proc::tell_if_missing(context);
        let repository = context.open_to_restore()?;
        let (snapshot, path) =
            context.snapshot_and_path(&repository, &self.snapshot, &self.filter)?;
        if self.delete {
            // What is newer in the target may be what the newer snapshot has.
            context.refuse_doubtful_choice(&snapshot)?;
        }
        if self.cold.is_asked() {
            let asked = self.look_ahead(context, &repository, (&snapshot, &path))?;
            if self.cold.ends_early() || asked != Code::Complete {
                return Ok(asked);
            }
        }
        let total = path
            .is_empty()
            .then_some(&snapshot.body.report)
            .filter(|report| report.bytes_inspected > 0)
            .map(|report| Total {
                objects: report.objects_inspected,
                bytes: report.bytes_inspected,
            });
        let folder = cache::folder(&context.caches(), &repository, &snapshot.head.source);
        // Names lie in it in the clear: a restore elsewhere leaves none there.
        let helps = context.remote().is_some() || context.is_far() && folder.is_dir();
        let cache = helps.then(|| cache::to_read(&folder)).flatten();
        let confirmed = self.ask_to_delete(context, &repository, (&snapshot, &path))?;
        let job = context.job(api::jobs::RESTORE);
        let shown = Shown::start(&context.progress, &context.out, total);
        let reporter = Reporter::new(&context.out, self.dry_run);
        let report = restore::run(
            &repository,
            &snapshot,
            &path,
            target,
            &RestoreOptions { cache, confirmed, ..self.options() },
            &context.progress,
            &reporter,
        );
        drop(shown);
        let report = report.map_err(|error| context.failure(error))?;
        self.has_matched(&report)?;
        let wire = job.wire();
        let is_gone = report.damaged > 0 && pipeline::manifest::is_gone(&repository, &snapshot);
        let mut lines = self.lines(target, &report, &reporter.failed);
        lines.extend(advice(&report, is_gone).map(str::to_owned));
        lines.extend(
            wire.iter()
                .filter_map(|wire| network::bottleneck(wire, report.elapsed_secs))
                .map(|network| row("network", &network)),
        );
        lines.iter().try_for_each(|line| context.out.line(line))?;
        let summary = Summary {
            snapshot_id: snapshot.id().to_string(),
            target: JsonPath::as_is(target.as_os_str().as_bytes()),
            dry_run: self.dry_run,
            report: &report,
        };
        let code = context.code_of_choice(code(&report, is_gone));
        job.end(code, &summary);
        context.out.summary(code, &summary)
    }

    /// Where to; nowhere if nothing is restored.
    fn target(&self) -> Result<&Path> {
        match &self.target {
            Some(target) => Ok(target),
            None if self.cold.ends_early() => Ok(Path::new("")),
            None => Err(Failure::usage("--wait restores, and needs a directory for that")
                .hint("Name it: --target DIR. To only ask the bucket, leave out --wait.")),
        }
    }

    /// Shows or asks for what the restore needs of cold storage classes.
    fn look_ahead(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
        (snapshot, path): (&Snapshot, &[u8]),
    ) -> Result<Code> {
        let shown = Shown::start(&context.progress, &context.out, None);
        // Counters of its own: what is only looked at is no progress.
        let progress = Progress::default();
        let needs = restore::needs(repository, snapshot, path, &self.options(), &progress);
        drop(shown);
        let needs = needs.map_err(|error| context.failure(error))?;
        let chosen = [("--include", &*self.includes), ("--exclude", &*self.excludes)];
        let words = cold::words(&self.snapshot, chosen);
        self.cold.run(context, (snapshot.id().to_string(), &words), &needs)
    }

    /// Nothing is restored over what it is read from.
    fn refuse_repositories(&self, context: &Context, target: &Path) -> Result<()> {
        if target.as_os_str().is_empty() {
            return Ok(());
        }
        let copies =
            crate::copies::named(context)?.into_iter().map(|copy| PathBuf::from(copy.place));
        let read = context.repo().ok().into_iter().chain(copies);
        let mut around = read.filter(|place| crate::place::lies_in(target, place));
        let Some(place) = around.next() else { return Ok(()) };
        let (target, place) = (target.display(), place.display());
        let message = format!("the target {target} lies in the repository {place}");
        Err(Failure::usage(message).hint("Restore to another directory: --target DIR"))
    }

    /// On a terminal, lists what would be deleted and asks. Scripts have said what they want. Returns what may be
    /// deleted, if somebody was asked.
    fn ask_to_delete(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
        (snapshot, path): (&Snapshot, &[u8]),
    ) -> Result<Option<Arc<ConfirmedRemovals>>> {
        let is_watched = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let is_asked = self.delete && !self.dry_run && !self.yes && is_watched;
        if !is_asked || context.out.json {
            return Ok(None);
        }
        let options = RestoreOptions { dry_run: true, verify: false, ..self.options() };
        // Counters of its own: what is only looked at is no progress.
        let (progress, reporter) = (Progress::default(), Reporter::new(&context.out, true));
        let target = self.target()?;
        let would =
            restore::run(repository, snapshot, path, target, &options, &progress, &reporter);
        let would = would.map_err(|error| context.failure(error))?;
        let told = Some(Arc::new(reporter.removed.into_inner()));
        context.out.flush()?;
        if would.deleted == 0 || crate::secret::confirm(&question(target, &would))? {
            return Ok(told);
        }
        Err(Failure::new(Code::Failed, "not confirmed: nothing was restored or deleted")
            .hint("To restore without deleting, leave out --delete."))
    }

    /// A pattern that matches nothing is a mistake, and nobody shall take it for a restore.
    fn has_matched(&self, report: &RestoreReport) -> Result<()> {
        let met = [report.files, report.directories, report.links, report.unchanged, report.kept];
        if self.includes.is_empty() || report.failed > 0 || met.iter().any(|count| *count > 0) {
            return Ok(());
        }
        Err(Failure::new(Code::Failed, "nothing in the snapshot matches --include")
            .hint("To look for a file: icecore find NAME"))
    }

    /// The answer first; then what else was done, and what was not.
    fn lines(&self, target: &Path, report: &RestoreReport, failed: &Failed) -> Vec<String> {
        let objects = report.directories + report.links;
        let others = if objects > 0 {
            format!(" and {}", units::many(objects, "other object"))
        } else {
            String::new()
        };
        let rate = match report.bytes as f64 / report.elapsed_secs.max(0.001) {
            ..=0.0 => String::new(),
            rate => format!(" ({})", units::rate(rate)),
        };
        let (verb, took) = match self.dry_run {
            true => ("Would restore", String::new()),
            false => ("Restored", format!(" in {}{rate}", units::duration(report.elapsed_secs))),
        };
        let mut lines = vec![format!(
            "{verb} {} ({}){others} to {}{took}",
            units::many(report.files, "file"),
            units::bytes(report.bytes),
            escape::escape(target.as_os_str().as_bytes()),
        )];
        let deleted =
            format!("not in the snapshot, {} (--delete)", units::bytes(report.deleted_bytes));
        // One object may lack several.
        let lacking = match report.degraded {
            1 => "attribute or link is not as in the snapshot, as reported above",
            _ => "attributes or links are not as in the snapshot, as reported above",
        };
        let rows = [
            (report.unchanged, "unchanged", "already there and equal"),
            (report.kept, "kept", "already there and left alone (--overwrite)"),
            (report.deleted, if self.dry_run { "to delete" } else { "deleted" }, deleted.as_str()),
            (report.degraded, "incomplete", lacking),
            (
                report.healed_records,
                "repaired",
                "damaged and computed from parity. To repair the repository: icecore check --repair",
            ),
        ];
        for (count, label, what) in rows.into_iter().filter(|(count, ..)| *count > 0) {
            lines.push(row(label, &format!("{} {what}", units::count(count))));
        }
        if report.verified > 0 {
            let result = match report.differing {
                0 => "all equal".to_owned(),
                some => format!("{} of them not equal to the snapshot", units::count(some)),
            };
            let verified = units::many(report.verified, "object");
            lines.push(row("verified", &format!("{verified}, {result}")));
        }
        if self.dry_run {
            lines.push("Nothing was changed (--dry-run).".to_owned());
        }
        if report.failed > 0 {
            let heading = |told| failed_heading(report.failed, told);
            lines.extend(failed.lines(heading, "each was reported above"));
        }
        lines
    }

    fn options(&self) -> RestoreOptions {
        RestoreOptions {
            overwrite: match self.overwrite {
                When::Always => Overwrite::Always,
                When::IfChanged => Overwrite::IfChanged,
                When::IfNewer => Overwrite::IfNewer,
                When::Never => Overwrite::Never,
            },
            delete: self.delete,
            confirmed: None,
            verify: self.verify,
            dry_run: self.dry_run,
            include: self.includes.clone(),
            exclude: self.excludes.clone(),
            threads: self.threads.map_or(0, usize::from),
            numeric_owners: self.numeric_owners,
            no_owner: self.no_owner,
            no_sync: self.no_sync,
            cache: None,
            // A server that is hostile has everything in a snapshot that it likes.
            is_unprivileged: self.target_below.is_some() && !self.privileged,
            target_below: self.target_below.clone(),
            paths: self.only.iter().map(|path| clean_path(path.as_bytes())).collect(),
        }
    }
}

/// A difference after a restore is worse than an object that could not be written. What a snapshot that `is_gone` lacks
/// is no damage.
fn code(report: &RestoreReport, is_gone: bool) -> Code {
    if !report.restored_anything() && report.failed > 0 {
        if report.damaged > 0 && !is_gone { Code::Damage } else { Code::Failed }
    } else if report.differing > 0 {
        Code::DrillMismatch
    } else if report.failed > 0 || report.degraded > 0 {
        Code::Partial
    } else {
        Code::Complete
    }
}

/// What is above the first of the messages. These also name attributes that could not be set, and what is in the way of
/// many objects only once.
fn failed_heading(failed: u64, told: u64) -> String {
    let objects = units::many(failed, "object");
    match told == failed {
        true => format!("  {objects} could not be restored:"),
        false => {
            let messages = units::many(told, "message");
            format!("  {objects} could not be restored; of {messages}, the first:")
        }
    }
}

/// What to do next, if anything.
fn advice(report: &RestoreReport, is_gone: bool) -> Option<&'static str> {
    (report.damaged > 0).then_some(match is_gone {
        true => {
            "The snapshot was deleted while it was restored, and a reclaim freed what only it had. To find another one: icecore snapshots"
        }
        false => {
            "Parts of the snapshot are damaged. To see all damage: icecore check; to find another snapshot: icecore snapshots"
        }
    })
}

fn row(label: &str, text: &str) -> String {
    format!("  {label:<11}{text}")
}

struct Reporter<'a> {
    out: &'a Out,
    dry_run: bool,
    failed: Failed,
    removed: Mutex<ConfirmedRemovals>,
}

impl<'a> Reporter<'a> {
    fn new(out: &'a Out, dry_run: bool) -> Self {
        let (failed, removed) = Default::default();
        Self { out, dry_run, failed, removed }
    }
}

#[derive(Serialize)]
struct Removed {
    #[serde(flatten)]
    path: JsonPath,
    objects: u64,
    bytes: u64,
    dry_run: bool,
}

#[derive(Serialize)]
struct Problem<'a> {
    #[serde(flatten)]
    path: JsonPath,
    reason: &'a str,
}

impl RestoreMonitor for Reporter<'_> {
    fn problem(&self, path: &[u8], text: &str) {
        let shown = format!("{}: {text}", escape::escape(path));
        self.failed.note(path, text);
        self.out.beside("problem", &Problem { path: JsonPath::as_is(path), reason: text }, &shown);
    }

    fn removed(&self, path: &[u8], objects: u64, bytes: u64) {
        if self.dry_run {
            self.removed.lock().add(path, objects);
        }
        let shown = || {
            let verb = if self.dry_run { "would delete" } else { "deleted" };
            let rest = match objects {
                0 | 1 => String::new(),
                objects => format!("/  with {} in it", units::many(objects - 1, "object")),
            };
            let separator = if objects > 1 { ", " } else { "  " };
            let size = match bytes {
                0 => String::new(),
                bytes => format!("{separator}{}", units::bytes(bytes)),
            };
            format!("{verb}  {}{rest}{size}", escape::escape(path))
        };
        let removed =
            Removed { path: JsonPath::as_is(path), objects, bytes, dry_run: self.dry_run };
        // Output that nobody reads is no reason to stop in the middle.
        let _ = self.out.item("removed", &removed, shown);
    }

    fn note(&self, text: &str) {
        self.out.note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_ends_with_what_is_worst() {
        let report = |failed, degraded, differing| RestoreReport {
            failed,
            degraded,
            differing,
            ..RestoreReport::default()
        };
        let some = |report| RestoreReport { files: 1, ..report };
        assert_eq!(code(&report(0, 0, 0), false), Code::Complete);
        assert_eq!(code(&report(0, 1, 0), false), Code::Partial);
        assert_eq!(code(&some(report(1, 0, 0)), false), Code::Partial);
        assert_eq!(code(&some(report(1, 1, 1)), false), Code::DrillMismatch);
    }

    /// Seen: "7 objects could not be restored:", three of them, "and 7 more".
    #[test]
    fn the_messages_of_a_restore_add_up() {
        let failed = Failed::default();
        (0..10).for_each(|path| failed.note(path.to_string().as_bytes(), "why"));
        let lines = failed.lines(|told| failed_heading(7, told), "above");
        assert_eq!(lines[0], "  7 objects could not be restored; of 10 messages, the first:");
        assert_eq!((lines.len(), &*lines[4]), (5, "    and 7 more: above"));
        assert_eq!(failed_heading(10, 10), "  10 objects could not be restored:");
    }

    #[test]
    fn a_restore_that_brought_nothing_is_not_partial() {
        let report = |damaged| RestoreReport { failed: 1, damaged, ..RestoreReport::default() };
        assert_eq!(code(&report(1), false), Code::Damage);
        assert_eq!(code(&report(0), false), Code::Failed);
        // Somebody deleted the snapshot meanwhile: nothing is damaged.
        assert_eq!(code(&report(1), true), Code::Failed);
        let [gone, damaged] = [true, false].map(|is_gone| advice(&report(1), is_gone).unwrap());
        assert!(gone.contains("was deleted") && !gone.contains("check"), "{gone}");
        assert!(damaged.contains("icecore check"), "{damaged}");
        assert_eq!(advice(&report(0), true), None);
        assert_eq!(code(&RestoreReport { directories: 1, ..report(1) }, false), Code::Partial);
    }
}
