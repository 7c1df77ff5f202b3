//! Reclaim with keys: records that are partly unused are opened and repacked.

use crate::blocks::{BlockCache, Scratch};
use crate::{Result, UnlockedRepository, orphans};
use crypto::SlotSecret;
use format::page::Page;
use format::record::{RecordKind, SealedRecord};
use ids::ObjectId;
use repository::Repository;
use repository::lease::Lease;
use repository::reclaim::{ReclaimOutcome, Repacker};
use repository::watch::Watch;
use seal::{Block, BlockCompressor, Level, Sealer};
use serde::Serialize;
use std::collections::VecDeque;
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
    /// Those of them that stay because their containers lie in cold storage classes, where a read costs more.
    pub bytes_cold: u64,
    /// How many containers that are.
    pub containers_cold: u64,
    /// Containers that were not rewritten because the disk was too full.
    pub containers_left: u64,
    /// Lost pages and chunks that snapshots need and that were given up.
    pub lost_objects: u64,
    /// Containers that were rewritten without their damaged records.
    pub damaged_containers: u64,
    /// Orphaned snapshots that were restored to the list.
    pub snapshots_restored: u64,
    /// The longest time in seconds for which anybody had the commit lock, since the repository was opened: so long a
    /// commit would have had to wait.
    pub commit_lock_secs: f64,
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
        bytes_cold: done.bytes_cold,
        containers_cold: done.containers_cold,
        containers_left: done.containers_left,
        lost_objects: done.lost_objects,
        damaged_containers: done.damaged_containers,
        commit_lock_secs: done.commit_lock_secs,
        snapshots_restored,
        dry_run: options.dry_run,
        elapsed_secs: begun.elapsed().as_secs_f64(),
    })
}

/// Frees space beside sessions, with their lease and with `secret`, under the eyes of `watch`: records that are partly
/// unused are repacked. One that cannot be opened, or holds something else than its names say, is copied as it is, as
/// without a key; the second value says what was wrong with the first of these. Anybody who may write can store such a
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
    let mut keyed = Keyed { passes_over: true, ..Keyed::new(&opened, opened.blocks()?)? };
    let done = crate::keyless::reclaim_with(repository, lease, options, Some(&mut keyed), watch)?;
    Ok((done, keyed.passed_over))
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
    /// Records that nobody has taken yet.
    sealed: VecDeque<SealedRecord>,
    /// Whether a record that cannot be opened, or lies, stays as it is. Else it is a doubt, and ends everything.
    passes_over: bool,
    /// Why the first one was passed over.
    passed_over: Option<crate::Error>,
}

/// An object with its verified content.
enum Object {
    Chunk(Vec<u8>),
    Page(Page),
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
            sealed: VecDeque::new(),
            passes_over: false,
            passed_over: None,
        })
    }

    /// The used objects of `record`.
    fn verified(&mut self, record: &[u8], live: &[bool]) -> Result<Vec<(ObjectId, Object)>> {
        let mut bytes = record.to_vec();
        let opened = self.blocks.open_known(&mut bytes, &mut self.scratch)?;
        let ids = &self.repository.keys.writer.ids;
        let used = opened.ids.iter().enumerate().filter(|(at, _)| live.get(*at) == Some(&true));
        used.map(|(at, id)| {
            let payload = opened.payload(at).to_vec();
            let object = match opened.page_head(at) {
                Some((kind, refs)) => {
                    let page = Page { kind, refs: refs.to_vec(), payload };
                    check_name(id, ids.is_page(id, kind as u8, &page.refs, &page.payload))?;
                    Object::Page(page)
                }
                None => {
                    check_name(id, ids.is_chunk(id, &payload))?;
                    Object::Chunk(payload)
                }
            };
            Ok((*id, object))
        })
        .collect()
    }

    /// Adds an object. What it has no room beside is sealed before: no record may have too many bytes or objects.
    fn push(&mut self, id: ObjectId, object: &Object) -> Result<()> {
        let (at, bytes) = match object {
            Object::Chunk(payload) => (0, payload.len()),
            Object::Page(page) => (1, page.payload.len() + page.refs.len() * ObjectId::LEN),
        };
        if self.gathering[at].is_full_for(bytes + ObjectId::LEN, BLOCK_BYTES) {
            self.seal(at)?;
        }
        match object {
            Object::Chunk(payload) => self.gathering[0].push_chunk(id, payload),
            Object::Page(page) => self.gathering[1].push_page(id, page),
        }
        Ok(())
    }

    fn seal(&mut self, at: usize) -> Result<()> {
        let mut record = Sealer::empty_record();
        self.sealer.seal_block(&mut self.gathering[at], &mut self.packer, &mut record)?;
        self.sealed.push_back(record);
        Ok(())
    }

    fn seal_rest(&mut self) -> Result<()> {
        for at in 0..self.gathering.len() {
            if !self.gathering[at].is_empty() {
                self.seal(at)?;
            }
        }
        Ok(())
    }
}

/// The engine knows no keys: it only learns that there was a doubt.
fn doubt<T>(result: Result<T>) -> repository::Result<T> {
    result.map_err(|error| repository::Error::UncertainData(error.to_string()))
}

/// Objects are verified before they are moved: damage must not get a fresh seal.
fn check_name(id: &ObjectId, is_named: bool) -> Result<()> {
    if is_named { Ok(()) } else { Err(crate::Error::WrongContent(*id)) }
}

impl Repacker for Keyed<'_> {
    fn session_record(&self) -> SealedRecord {
        self.sealer.session_record()
    }

    fn add(&mut self, record: &[u8], live: &[bool]) -> repository::Result<bool> {
        let objects = match self.verified(record, live) {
            Err(error) if self.passes_over => {
                self.passed_over.get_or_insert(error);
                return Ok(false);
            }
            objects => doubt(objects)?,
        };
        // All of it is verified before any of it is moved.
        doubt(objects.into_iter().try_for_each(|(id, object)| self.push(id, &object)))?;
        Ok(true)
    }

    fn forget(&mut self) {
        self.gathering.iter_mut().for_each(Block::clear);
        self.sealed.clear();
    }

    fn take(&mut self, end: bool) -> repository::Result<Option<SealedRecord>> {
        if end {
            doubt(self.seal_rest())?;
        }
        Ok(self.sealed.pop_front())
    }

    fn learn(&mut self, session: &[u8]) -> repository::Result<()> {
        match self.blocks.learn_key(session) {
            // Its records cannot be opened, if there are any.
            Err(_) if self.passes_over => Ok(()),
            learned => doubt(learned),
        }
    }
}
