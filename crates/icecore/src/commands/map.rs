//! `icecore map`.

mod of_job;
mod rows;
mod wanted;

use super::diff::unread_of;
use super::ls::{finished, lost, stop};
use crate::codes::Code;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::filter::Filter;
use crate::units;
use ids::SnapshotId;
use pipeline::UnlockedRepository;
use pipeline::browse::diff::{self, DifferenceKind, Unread};
use pipeline::browse::{self, map};
use pipeline::manifest::Snapshot;
use pipeline::pages::PageReader;
use pipeline::select::{SelectBy, SnapshotSelector};
use rows::{Format, Row, quoted};
use serde::Serialize;
use std::ffi::OsString;
use wanted::Wanted;

/// List every object of a snapshot as CSV, as text, or as JSON lines with --json.
///
/// Paths are sealed from the server, so the map of a job is made on a machine that has the keys, at any time while the
/// snapshot exists.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore map latest > snapshot.csv\n  icecore map latest:/srv --json | jq 'select(.size > 1000000)'\n  icecore map --job 4711 --changed\n  icecore map latest --name '*.mp4' --larger-than 1G --format text\n  icecore map latest --failed"
)]
pub(crate) struct Map {
    /// Snapshot, and the path in it.
    #[arg(value_name = "SNAP[:PATH]", required_unless_present = "job")]
    snapshot: Option<OsString>,
    /// On a node: the snapshot that this job of the server made.
    #[arg(long, value_name = "N", conflicts_with = "snapshot")]
    job: Option<u64>,
    /// List instead the objects that the backup could not read, or not completely, with the reasons.
    #[arg(long)]
    failed: bool,
    /// Only what is new or changed since the snapshot before it of the same source.
    #[arg(long, conflicts_with = "failed")]
    changed: bool,
    /// How to print objects: `csv`, or `text` as `icecore ls -l` does.
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "csv",
        conflicts_with = "failed"
    )]
    format: Format,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    filter: Filter,
}

/// What the first snapshot of a source names as the one before it.
const NO_SNAPSHOT: SnapshotId = SnapshotId([0; SnapshotId::LEN]);

#[derive(Default, Serialize)]
struct Count {
    entries: u64,
    size: u64,
    chunks: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, row: &Row) {
        self.entries += 1;
        self.size = self.size.saturating_add(row.size);
        self.chunks += row.chunks;
        self.bytes = self.bytes.saturating_add(row.bytes);
    }
}

impl Map {
    pub(crate) fn run(&self, context: &Context) -> Result<Code> {
        let repository = context.open()?;
        let (snapshot, path) = self.chosen(context, &repository)?;
        if self.failed {
            return failed(context, &snapshot, &path);
        }
        let pages = PageReader::new(&repository).map_err(|error| context.failure(error))?;
        rows::heading(context, self.format, self.changed)?;
        let before = match self.changed {
            true => self.before(context, &repository, &snapshot)?,
            false => None,
        };
        let wanted = self.wanted.matcher();
        let (mut count, mut unwritten) = (Count::default(), None);
        let (mut lost, mut lists, mut unread) = (Vec::new(), Vec::new(), Unread::default());
        let mut visit = |entry: format::entry::Entry, change: Option<&'static str>| {
            if !wanted.takes(&entry) {
                return Ok(());
            }
            let row = Row::new(&entry, map::stored_size(&pages, &entry, &mut lists)?, change);
            count.add(&row);
            let shown = context.out.item("object", &row, || row.text(&entry, self.format));
            shown.map_err(|failure| stop(&mut unwritten, failure))
        };
        let result = match &before {
            Some(before) => diff::run(&pages, (before, &snapshot), &path, &mut unread, |found| {
                match (found.now, rows::change(found.kind)) {
                    (Some(entry), change @ Some(_)) => visit(entry, change),
                    _ => Ok(()),
                }
            }),
            None => {
                let change = self.changed.then(|| rows::change(DifferenceKind::Added)).flatten();
                browse::below(&pages, &snapshot, &path, &mut lost, |entry| visit(entry, change))
            }
        };
        let compared = before.iter().flat_map(|before| unread_of(&unread, before, &snapshot));
        let pages = lost.iter().chain(&lists).map(|page| (snapshot.id(), page)).chain(compared);
        let code = lost::tell(context, pages, Code::Complete);
        finished(context, result, unwritten)?;
        context.out.summary(context.code_of_choice(code), &count)
    }

    /// The snapshot that was named, or that a job made, and the path in it.
    fn chosen(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
    ) -> Result<(Snapshot, Vec<u8>)> {
        match (&self.snapshot, self.job) {
            (_, Some(job)) => of_job::snapshot(context, repository, job).map(|it| (it, Vec::new())),
            (Some(named), None) => context.snapshot_and_path(repository, named, &self.filter),
            (None, None) => Err(Failure::usage("no snapshot given")),
        }
    }

    /// The snapshot before it. Without one, everything is new.
    fn before(
        &self,
        context: &Context,
        repository: &UnlockedRepository,
        snapshot: &Snapshot,
    ) -> Result<Option<Snapshot>> {
        let previous = snapshot.head.previous;
        if previous == NO_SNAPSHOT {
            return Ok(None);
        }
        let by = SelectBy::IdPrefix(previous.to_string());
        match context.find_quietly(repository, &SnapshotSelector { by, node: None }) {
            Ok(found) => Ok(Some(found)),
            Err(pipeline::Error::SnapshotNotFound(_)) => Err(is_gone(snapshot)),
            Err(error) => Err(context.failure(error)),
        }
    }
}

fn is_gone(snapshot: &Snapshot) -> Failure {
    let (before, id) = (snapshot.head.previous.to_string(), snapshot.id().to_string());
    let what = format!("the snapshot {before:.8}, before {id:.8}, does not exist any more");
    Failure::new(Code::Failed, what)
        .hint(format!("Compare it with one that does: icecore diff SNAP {id:.8}"))
}

#[derive(Serialize)]
struct FailedCount {
    /// Objects that are listed.
    listed: usize,
    /// Objects that failed and that the snapshot does not name.
    not_listed: u64,
}

/// What the backup could not read: it is not in the tree, or not all of it.
fn failed(context: &Context, snapshot: &Snapshot, path: &[u8]) -> Result<Code> {
    if !path.is_empty() {
        return Err(Failure::usage("--failed lists what failed in the whole snapshot")
            .hint("Leave out the path behind the snapshot."));
    }
    let (failed, report) = (&snapshot.body.failed, &snapshot.body.report);
    if !failed.is_empty() {
        context.out.print("path,reason")?;
    }
    for object in failed {
        let row = || format!("{},{}", quoted(&object.path), quoted(&escape::text(&object.reason)));
        context.out.item("failed", object, row)?;
    }
    let all = report.objects_failed + report.objects_incomplete;
    let not_listed = all.saturating_sub(failed.len() as u64);
    if failed.is_empty() && not_listed == 0 {
        context.out.line("Nothing failed in this backup.")?;
    }
    if not_listed > 0 {
        let objects = units::many(not_listed, "object");
        context.out.note(&format!(
            "{objects} failed that the snapshot does not name: see what the backup printed"
        ));
    }
    let count = FailedCount { listed: failed.len(), not_listed };
    context.out.summary(context.code_of_choice(Code::Complete), &count)
}
