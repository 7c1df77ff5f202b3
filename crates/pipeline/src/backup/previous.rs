//! The previous snapshot: which one a backup builds on, and how far it is trusted.

use super::failed::FailedObject;
use super::monitor::BackupMonitor;
use super::options::BackupOptions;
use crate::manifest::{self, ManifestReader};
use crate::pages::PageReader;
use crate::{Result, UnlockedRepository};
use seal::Sealer;
use store::{StoredSnapshot, WriteLease, WriteSession};

/// The newest trusted snapshot of the source.
pub(super) fn newest(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
) -> Result<Option<StoredSnapshot>> {
    let source = manifest::source_id(repository, &options.node, &options.paths);
    manifest::newest_of(repository, &source, &options.node, &mut |text| monitor.note(text))
}

/// Begins a session based on the newest snapshot of the source, if there is one.
pub(super) fn begin_session(
    repository: &UnlockedRepository,
    writer: &dyn WriteLease,
    options: &BackupOptions,
    sealer: &Sealer,
    monitor: &dyn BackupMonitor,
) -> Result<(Option<StoredSnapshot>, Box<dyn WriteSession>)> {
    loop {
        let previous = newest(repository, options, monitor)?;
        let base = previous.as_ref().map(|stored| stored.name);
        match writer.begin(base, sealer.session_record()) {
            Err(store::Error::SnapshotMissing(_)) => {} // forgotten at this moment
            session => return Ok((previous, session?)),
        }
    }
}

pub(super) fn previous_pages<'a>(
    repository: &'a UnlockedRepository,
    options: &'a BackupOptions,
    previous: Option<&StoredSnapshot>,
    monitor: &dyn BackupMonitor,
) -> Result<Option<PageReader<'a>>> {
    let is_read = !options.full && repository.store.config().dedup();
    let Some(previous) = previous.filter(|_| is_read) else { return Ok(None) };
    let cache = options.cache.as_deref();
    let is_cached = cache.is_some_and(|cache| cache.has(&previous.head.root));
    if repository.reader_keys().is_err() && !is_cached {
        monitor.note("this key is write-only: all files are read again, but stored chunks are not sent again");
        return Ok(None);
    }
    Ok(Some(PageReader::cached(repository, cache)?))
}

/// What the previous snapshot says that it could not read; nothing if it cannot be opened with this key.
pub(super) fn failed_of(
    repository: &UnlockedRepository,
    previous: Option<&StoredSnapshot>,
) -> Vec<FailedObject> {
    let open = |stored: &StoredSnapshot| ManifestReader::new(repository)?.open(stored.clone());
    let opened = previous.and_then(|stored| open(stored).ok());
    opened.map_or_else(Vec::new, |snapshot| snapshot.body.failed)
}

/// Whether data may have been lost since the previous snapshot. Then every chunk taken over from it
/// is looked up, and stored again if it is missing.
pub(super) fn distrusts(
    repository: &UnlockedRepository,
    options: &BackupOptions,
    reads: bool,
    previous: Option<&StoredSnapshot>,
) -> Result<bool> {
    let Some(previous) = previous.filter(|_| reads) else { return Ok(false) };
    if repository.reader_keys().is_err() {
        // The manifest has the damage epoch; a write-only key relies on the one in the cache.
        let epoch = options.cache.as_ref().map(|cache| cache.epoch());
        return Ok(epoch != Some(repository.store.damage_epoch()));
    }
    let snapshot = ManifestReader::new(repository)?.open(previous.clone());
    Ok(snapshot
        .map_or(true, |snapshot| snapshot.body.damage_epoch != repository.store.damage_epoch()))
}
