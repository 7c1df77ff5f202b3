//! What the threads of a backup share.

use super::batch::{Batch, Item};
use super::checkpoints::Checkpoints;
use super::compression::CompressionController;
use super::compressor::CompressorPool;
use super::monitor::BackupMonitor;
use super::options::BackupOptions;
use crate::pages::PageWriter;
use crate::progress::Progress;
use crate::throttle::Throttle;
use crate::{Result, UnlockedRepository};
use capture::owners::OwnerNames;
use chunker::Chunker;
use crypto::IdKey;
use seal::Sealer;
use std::sync::atomic::Ordering;
use store::WriteSession;

/// What the threads of a backup share.
pub(super) struct BackupContext<'a> {
    pub(super) options: &'a BackupOptions,
    pub(super) progress: &'a Progress,
    pub(super) monitor: &'a dyn BackupMonitor,
    pub(super) session: &'a dyn WriteSession,
    pub(super) sealer: &'a Sealer,
    pub(super) pages: &'a PageWriter<'a>,
    pub(super) ids: &'a IdKey,
    pub(super) chunker: Chunker,
    pub(super) compressors: CompressorPool,
    pub(super) throttle: Throttle<'a>,
    pub(super) checkpoints: Checkpoints<'a>,
    pub(super) compression: CompressionController,
    pub(super) owners: OwnerNames,
}

impl<'a> BackupContext<'a> {
    pub(super) fn new(
        repository: &'a UnlockedRepository,
        options: &'a BackupOptions,
        progress: &'a Progress,
        monitor: &'a dyn BackupMonitor,
        session: &'a dyn WriteSession,
        sealer: &'a Sealer,
        pages: &'a PageWriter<'a>,
    ) -> Result<Self> {
        let (ids, chunker) = (pages.ids(), repository.chunker()?);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let compressors = CompressorPool::new(options, cores)?;
        let throttle = Throttle::new(&options.limits, progress);
        let checkpoints = Checkpoints::new(session, options.checkpoint_after);
        Ok(Self {
            options,
            progress,
            monitor,
            session,
            sealer,
            pages,
            ids,
            chunker,
            compressors,
            throttle,
            checkpoints,
            compression: CompressionController::default(),
            owners: OwnerNames::of_this_machine(),
        })
    }

    /// Adds a batch of the walk to the progress.
    pub(super) fn show(&self, batch: &Batch) {
        let (mut objects, mut bytes) = (0, 0_u64);
        for item in batch.items() {
            match item {
                Item::Page(page, _) => {
                    objects += page.sums.entries;
                    bytes = bytes.saturating_add(page.sums.bytes);
                }
                Item::Unchanged(entry) => {
                    (objects, bytes) = (objects + 1, bytes.saturating_add(entry.size));
                }
                _ => objects += 1,
            }
        }
        self.progress.objects.fetch_add(objects, Ordering::Relaxed);
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
