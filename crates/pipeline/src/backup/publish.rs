//! The end of a backup: its report, its manifest and its snapshot.

use super::counters::{Counters, UsageMeter};
use super::failed::{FailedObject, within};
use super::options::BackupOptions;
use crate::manifest::{self, ManifestBody, NewManifest};
use crate::report::BackupReport;
use crate::{Result, UnlockedRepository};
use format::entry::Time;
use seal::Sealer;
use std::time::Instant;
use store::{SnapshotRef, StoredSnapshot, WriteSession};

/// The outcome of a backup.
#[derive(Clone, Debug)]
pub struct BackupOutcome {
    /// The snapshot; the previous one if none was created.
    pub snapshot: SnapshotRef,
    /// No snapshot was created because nothing had changed, as requested.
    pub is_skipped: bool,
    /// The number of the snapshot within its source.
    pub source_sequence: u64,
    /// The report.
    pub report: BackupReport,
    /// Whether parts of the source could not be read.
    pub partial: bool,
}

/// When a backup started, and what the process had used until then.
pub(super) struct RunStart {
    pub(super) time: Time,
    pub(super) clock: Instant,
    pub(super) cost: UsageMeter,
}

impl RunStart {
    fn new(repository: &UnlockedRepository) -> Self {
        let time = repository.environment.now();
        let time = Time { secs: time.as_secs() as i64, nanos: time.subsec_nanos() };
        Self { time, clock: Instant::now(), cost: UsageMeter::start() }
    }

    /// The start of a backup, with the time from the options.
    pub(super) fn of(repository: &UnlockedRepository, options: &BackupOptions) -> Self {
        let begun = Self::new(repository);
        Self { time: options.time.unwrap_or(begun.time), ..begun }
    }
}

/// Whether the new snapshot would equal the `previous` one: the same tree, nothing new stored, and
/// both complete.
pub(super) fn is_same(previous: &StoredSnapshot, root: &tree::Root, report: &BackupReport) -> bool {
    let is_new = report.chunks_new > 0 || report.bytes_of_pages > 0;
    let is_partial = report.objects_failed > 0 || report.objects_incomplete > 0;
    !is_new && !is_partial && root.id == previous.head.root && !previous.head.is_partial()
}

pub(super) fn skipped(
    previous: &StoredSnapshot,
    counters: Counters,
    begun: &RunStart,
) -> BackupOutcome {
    let mut report = counters.report;
    report.elapsed_secs = begun.clock.elapsed().as_secs_f64();
    report.cost = begun.cost.read();
    let source_sequence = previous.head.source_sequence;
    BackupOutcome {
        snapshot: previous.name,
        is_skipped: true,
        source_sequence,
        report,
        partial: false,
    }
}

/// Completes the report, signs the manifest and publishes.
pub(super) fn publish(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    session: Box<dyn WriteSession>,
    sealer: &Sealer,
    manifest: NewManifest,
    (counters, failed): (Counters, Vec<FailedObject>),
    begun: &RunStart,
) -> Result<BackupOutcome> {
    let mut report = counters.report;
    report.bytes_transferred = session.acknowledged_bytes()?;
    report.elapsed_secs = begun.clock.elapsed().as_secs_f64();
    report.cost = begun.cost.read();
    let is_unread = report.objects_failed > 0 || report.objects_incomplete > 0;
    let partial = options.is_partial || is_unread;
    let body = ManifestBody {
        node: options.node.clone(),
        paths: options.paths.clone(),
        tags: options.tags.clone(),
        partial,
        damage_epoch: repository.store.damage_epoch(),
        program: concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned(),
        report: report.clone(),
        failed: within(failed, options.room_for_failed()),
    };
    let (before, source_sequence) = (Instant::now(), manifest.source_sequence());
    let committed = manifest::commit(repository, session, sealer, manifest, &body)?;
    // The stored report cannot contain the time of its own commit; the one that is shown does.
    // Amounts are equal in both: without the record of the snapshot itself.
    report.stages.commit_secs = before.elapsed().as_secs_f64();
    report.elapsed_secs = begun.clock.elapsed().as_secs_f64();
    report.cost = begun.cost.read();
    Ok(BackupOutcome {
        snapshot: committed.snapshot,
        is_skipped: false,
        source_sequence,
        report,
        partial,
    })
}
