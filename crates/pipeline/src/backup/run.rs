//! A backup from its beginning to its snapshot.

use super::context::BackupContext;
use super::merge::Merge;
use super::monitor::BackupMonitor;
use super::options::BackupOptions;
use super::pipeline;
use super::previous::{begin_session, distrusts, failed_of, previous_pages};
use super::publish::{BackupOutcome, RunStart, is_same, publish, skipped};
use super::reorder::ReorderBuffer;
use crate::manifest::{self, NewManifest};
use crate::pages::PageWriter;
use crate::progress::Progress;
use crate::{Error, Result, UnlockedRepository, effective_time};
use format::entry::Time;
use store::{StoredSnapshot, WriteLease};

/// How many sessions may be lost in one backup: a server that fails each time needs attention.
const SESSIONS_MAX: usize = 100;

/// Backs up the source and publishes a snapshot.
///
/// # Errors
/// [`Error::Cancelled`]; [`Error::NothingRead`]; errors of the storage. Objects that cannot be read
/// are no error: they go to `monitor`, and the snapshot is partial.
pub fn run(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    progress: &Progress,
    monitor: &dyn BackupMonitor,
) -> Result<BackupOutcome> {
    options.check_names()?;
    let mut begun = RunStart::of(repository, options);
    let mut last = store::Error::SessionLost;
    for _ in 0..SESSIONS_MAX {
        let done = repository.with_write_lease("backup", |lease| {
            write_snapshot(repository, lease, options, progress, monitor, &begun)
        });
        match done {
            Err(Error::Repository(store::Error::SessionLost)) => {
                monitor.note(
                    "the server lost the session: starting again; data that is already stored is not sent again",
                );
                progress.start_again();
                monitor.take_failed();
                begun = RunStart { clock: begun.clock, ..RunStart::of(repository, options) };
            }
            // A key was removed since the key list was read: a new key epoch has begun.
            Err(Error::Repository(store::Error::KeysChanged)) => {
                repository.refresh_key_list()?;
                progress.start_again();
                monitor.take_failed();
                last = store::Error::KeysChanged;
            }
            done => return done,
        }
    }
    Err(last.into())
}

fn write_snapshot(
    repository: &UnlockedRepository,
    lease: &dyn WriteLease,
    options: &BackupOptions,
    progress: &Progress,
    monitor: &dyn BackupMonitor,
    begun: &RunStart,
) -> Result<BackupOutcome> {
    let source = manifest::source_id(repository, &options.node, &options.paths);
    let sealer = repository.sealer()?;
    let (previous, session) = begin_session(repository, lease, options, &sealer, monitor)?;
    let pages = previous_pages(repository, options, previous.as_ref(), monitor)?;
    if options.skip_if_unchanged && !repository.store.config().dedup() {
        monitor.note("--skip-if-unchanged does nothing here: without deduplication each backup is stored as a whole");
    }
    let ids = repository.backup_ids(&source, previous.as_ref().map(|stored| stored.name.id));
    // What is kept of pages is never met again in another backup.
    let cache = options.cache.as_deref().filter(|_| !ids.is_per_backup());
    let page_writer = PageWriter::new(&*session, &sealer, &ids, cache)?;
    let shared = BackupContext::new(
        repository,
        options,
        progress,
        monitor,
        &*session,
        &sealer,
        &page_writer,
    )?;
    let previous_head = previous.as_ref().map(|stored| stored.head);
    let distrust =
        distrusts(repository, options, pages.is_some(), previous.as_ref())?.then_some(&*session);
    let failed = failed_of(repository, previous.as_ref());
    let merge = Merge::new(options, pages.as_ref(), previous_head, distrust, &failed);
    let reorder = ReorderBuffer::new(&page_writer, repository.cut_key(), monitor);
    let (root, mut counters) = pipeline::run(options, &shared, merge, reorder)?;
    drop(shared);
    counters.report.bytes_of_pages = page_writer.finish()?;
    drop(page_writer);
    if let Some(previous) = previous.as_ref().filter(|_| options.skip_if_unchanged)
        && !options.is_partial
        && is_same(previous, &root, &counters.report)
    {
        return Ok(skipped(previous, counters, begun));
    }
    tell_doubt(begun.time, previous.as_ref(), monitor);
    let manifest = NewManifest {
        source,
        previous: previous_head,
        previous_id: previous.as_ref().map(|stored| stored.name.id),
        time: begun.time,
        root,
        original: None,
    };
    let ended = (counters, monitor.take_failed());
    let done = publish(repository, options, session, &sealer, manifest, ended, begun)?;
    if let Some(cache) = &options.cache
        && let Err(error) = cache.save(repository.store.damage_epoch())
    {
        monitor.note(&format!(
            "cannot save the chunk cache ({error}): the next backup runs without it"
        ));
    }
    Ok(done)
}

/// Where no server says when a snapshot was received, a clock that went back makes snapshots suspect. Told of the first
/// of them: to know it of each, all snapshots of the source would have to be read.
fn tell_doubt(own: Time, previous: Option<&StoredSnapshot>, monitor: &dyn BackupMonitor) {
    let Some(previous) = previous.filter(|previous| previous.receipt.is_none()) else { return };
    let newest = effective_time::recorded_time(&previous.head);
    if effective_time::is_before(own, newest) {
        monitor.note(&format!(
            "this snapshot is dated more than ten minutes before {}, the newest one of its source. Unless the time of that one is wrong, no rule of forget counts this one. What the clock of this machine shows: timedatectl",
            previous.name.id
        ));
    }
}
