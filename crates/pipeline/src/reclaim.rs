//! Reclaim with keys: records that are partly unused are opened and repacked.

use crate::blocks::{BlockCache, Scratch};
use crate::{Result, UnlockedRepository, orphans};
use crypto::SlotSecret;
use format::record::{RecordKind, SealedRecord};
use repository::Repository;
use repository::lease::Lease;
use repository::reclaim::{ReclaimOutcome, Repacker};
use repository::watch::Watch;
use seal::{Block, BlockCompressor, Level, Sealer};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Plaintext bytes of a repacked record.
const BLOCK_BYTES: usize = 2 << 20;
/// Repacked data is old and will stay: worth a better compression.
const LEVEL: Level = Level::Fixed(3);

/// How to reclaim.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimOptions {
    /// Unused bytes that may stay, in percent of all.
    pub max_waste_percent: f64,
    /// Change nothing; only report what would be done.
    pub dry_run: bool,
    /// Give up data that is already lost: see `repository::reclaim::ReclaimOptions`.
    pub accept_damage: bool,
    /// Free at once what interrupted backups stored: see `repository::reclaim::ReclaimOptions`.
    pub free_interrupted: bool,
}

impl Default for ReclaimOptions {
    fn default() -> Self {
        Self {
            max_waste_percent: 5.0,
            dry_run: false,
            accept_damage: false,
            free_interrupted: false,
        }
    }
}

/// The result of a reclaim, or of a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ReclaimReport {
    /// Containers before.
    pub containers: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Objects that snapshots need.
    pub live_objects: u64,
    /// Objects that no snapshot needs.
    pub dead_objects: u64,
    /// Containers that were entirely unused.
    pub containers_removed: u64,
    /// Containers whose used records were copied.
    pub containers_rewritten: u64,
    /// Bytes copied.
    pub bytes_copied: u64,
    /// Bytes freed.
    pub bytes_freed: u64,
    /// Unused bytes that stay, estimated.
    pub bytes_wasted: u64,
    /// Those of them that stay because interrupted backups stored them.
    pub bytes_interrupted: u64,
    /// Those of them that stay because the lock helper of a server keeps their containers.
    pub bytes_secured: u64,
    /// Containers that were not rewritten because the disk was too full.
    pub containers_left: u64,
    /// Lost pages and chunks that snapshots need and that were given up.
    pub lost_objects: u64,
    /// Containers that were rewritten without their damaged records.
    pub damaged_containers: u64,
    /// Orphaned snapshots that were restored to the list.
    pub snapshots_restored: u64,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Wall time.
    pub elapsed_secs: f64,
}

/// Frees the space that no snapshot needs.
///
/// # Errors
/// When data that is needed cannot be read, unless damage is accepted.
pub fn run(repository: &UnlockedRepository, options: &ReclaimOptions) -> Result<ReclaimReport> {
    let begun = Instant::now();
    let engine = repository::reclaim::ReclaimOptions {
        max_waste_percent: options.max_waste_percent,
        dry_run: options.dry_run,
        accept_damage: options.accept_damage,
        free_interrupted: options.free_interrupted,
    };
    let (done, snapshots_restored) = repository.with_reclaim_lease("reclaim", |lease| {
        // The data of an orphaned snapshot looks like that of a forgotten one.
        let restored = if options.dry_run {
            0
        } else {
            orphans::restore_orphans(repository, lease, options.accept_damage)?
        };
        let mut keyed = match &repository.blocks {
            Some(blocks) => Some(Keyed::new(repository, blocks)?),
            None => None,
        };
        let repacker = keyed.as_mut().map(|keyed| keyed as &mut dyn Repacker);
        let done = repository::reclaim::run(repository.local()?, lease, engine, repacker)?;
        Ok((done, restored))
    })?;
    Ok(ReclaimReport {
        containers: done.containers,
        bytes: done.bytes,
        live_objects: done.live_objects,
        dead_objects: done.dead_objects,
        containers_removed: done.containers_removed,
        containers_rewritten: done.containers_rewritten,
        bytes_copied: done.bytes_copied,
        bytes_freed: done.bytes_freed,
        bytes_wasted: done.bytes_wasted,
        bytes_interrupted: done.bytes_interrupted,
        bytes_secured: done.bytes_secured,
        containers_left: done.containers_left,
        lost_objects: done.lost_objects,
        damaged_containers: done.damaged_containers,
        snapshots_restored,
        dry_run: options.dry_run,
        elapsed_secs: begun.elapsed().as_secs_f64(),
    })
}

/// Frees space beside sessions, with their lease and with `secret`, under the eyes of `watch`: records that are partly
/// unused are repacked. If one cannot be opened, or holds something else than its names say, the rest is done as
/// without a key, which copies records as they are; the second value says why. Anybody who may write can store such a
/// record, and must not keep the space of others. As without a key, an orphaned snapshot ends it.
///
/// # Errors
/// [`crate::Error::WrongKey`] when `secret` opens no key slot; as [`crate::keyless::reclaim_beside`].
pub fn reclaim_beside(
    repository: &Arc<Repository>,
    lease: &Lease,
    secret: SlotSecret<'_>,
    options: repository::reclaim::ReclaimOptions,
    watch: &dyn Watch,
) -> Result<(ReclaimOutcome, Option<crate::Error>)> {
    let opened = UnlockedRepository::open_shared(repository.clone(), secret)?;
    let mut keyed = Keyed::new(&opened, opened.blocks()?)?;
    let done = crate::keyless::reclaim_with(repository, lease, options, Some(&mut keyed), watch);
    match (done, keyed.failed.take()) {
        (Err(_), Some(why)) => {
            let done = crate::keyless::reclaim_beside(repository, lease, options, watch)?;
            Ok((done, Some(why)))
        }
        (done, _) => Ok((done?, None)),
    }
}

/// Opens records, and seals their used objects under a session key of its own.
struct Keyed<'a> {
    repository: &'a UnlockedRepository,
    blocks: &'a BlockCache,
    sealer: Sealer,
    packer: BlockCompressor,
    scratch: Scratch,
    /// Chunks and pages, which never share a record.
    gathering: [Block; 2],
    failed: Option<crate::Error>,
}

impl<'a> Keyed<'a> {
    fn new(repository: &'a UnlockedRepository, blocks: &'a BlockCache) -> Result<Self> {
        Ok(Self {
            repository,
            blocks,
            sealer: repository.sealer()?,
            packer: BlockCompressor::new(LEVEL)?,
            scratch: Scratch::new()?,
            gathering: [Block::new(RecordKind::Data), Block::new(RecordKind::Pages)],
            failed: None,
        })
    }

    fn gather(&mut self, record: &[u8], live: &[bool]) -> Result<()> {
        let mut bytes = record.to_vec();
        let opened = self.blocks.open_known(&mut bytes, &mut self.scratch)?;
        let ids = &self.repository.keys.writer.ids;
        for (at, id) in opened.ids.iter().enumerate().filter(|(at, _)| live.get(*at) == Some(&true))
        {
            let payload = opened.payload(at).to_vec();
            match opened.page_head(at) {
                Some((kind, refs)) => {
                    let page = format::page::Page { kind, refs: refs.to_vec(), payload };
                    check_name(id, ids.page_id(kind as u8, &page.refs, &page.payload))?;
                    self.gathering[1].push_page(*id, &page);
                }
                None => {
                    check_name(id, ids.chunk_id(&payload))?;
                    self.gathering[0].push_chunk(*id, &payload);
                }
            }
        }
        Ok(())
    }

    fn seal_next(&mut self, end: bool) -> Result<Option<SealedRecord>> {
        for block in &mut self.gathering {
            if block.bytes() >= BLOCK_BYTES || end && !block.is_empty() {
                let mut record = Sealer::empty_record();
                self.sealer.seal_block(block, &mut self.packer, &mut record)?;
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The engine knows no keys: it only learns that there was a doubt, and the error is kept here.
    fn doubt<T>(&mut self, result: Result<T>) -> repository::Result<T> {
        result.map_err(|error| {
            let doubt = repository::Error::UncertainData(error.to_string());
            self.failed = Some(error);
            doubt
        })
    }
}

/// Objects are verified before they are moved: damage must not get a fresh seal.
fn check_name(id: &ids::ObjectId, name: ids::ObjectId) -> Result<()> {
    if name == *id { Ok(()) } else { Err(crate::Error::WrongContent(*id)) }
}

impl Repacker for Keyed<'_> {
    fn session_record(&self) -> SealedRecord {
        self.sealer.session_record()
    }

    fn add(&mut self, record: &[u8], live: &[bool]) -> repository::Result<()> {
        let result = self.gather(record, live);
        self.doubt(result)
    }

    fn forget(&mut self) {
        self.gathering.iter_mut().for_each(Block::clear);
    }

    fn take(&mut self, end: bool) -> repository::Result<Option<SealedRecord>> {
        let result = self.seal_next(end);
        self.doubt(result)
    }

    fn learn(&mut self, session: &[u8]) -> repository::Result<()> {
        let result = self.blocks.learn_key(session);
        self.doubt(result)
    }
}
