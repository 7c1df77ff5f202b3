//! What to back up, and how.

use crate::cache::ChunkCache;
use crate::throttle::ResourceLimits;
use crate::{Error, Result};
use capture::read::ReadOptions;
use capture::walk::SourceRoot;
use format::entry::Time;
use format::limits::MANIFEST_BODY_MAX;
use std::sync::Arc;

/// What to back up, and how.
#[derive(Clone)]
pub struct BackupOptions {
    /// Trees to back up.
    pub roots: Vec<SourceRoot>,
    /// Name of this machine in the repository.
    pub node: String,
    /// The paths as the user means them; with the node they name the source.
    pub paths: Vec<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// What the walk goes into and leaves out.
    pub walk: capture::walk::WalkOptions,
    /// How files are read.
    pub read: ReadOptions,
    /// Threads that read; 0: as many as the disks of the source like. Compressing takes as many as
    /// there are cores, whatever this is.
    pub threads: usize,
    /// How hard to compress.
    pub level: seal::Level,
    /// Read everything, whatever its times say.
    pub full: bool,
    /// Inode numbers mean nothing on this file system.
    pub ignore_inode: bool,
    /// Open every record again before it is stored.
    pub verify_blocks: bool,
    /// What the run may use at most.
    pub limits: ResourceLimits,
    /// Pages of the last snapshot, kept on this machine.
    pub cache: Option<Arc<ChunkCache>>,
    /// Something that was named is missing: the snapshot is partial, whatever else is read.
    pub is_partial: bool,
    /// The time that the snapshot shall have instead of now.
    pub time: Option<Time>,
    /// Make no snapshot when it would hold the same as the one before.
    pub skip_if_unchanged: bool,
}

/// What a manifest holds beside the names: the report, with room.
const MANIFEST_REST_BYTES: usize = 64 << 10;

impl BackupOptions {
    /// Names that no manifest can hold are told before anything is read, and not at the commit.
    pub(super) fn check_names(&self) -> Result<()> {
        let names = (&self.node, &self.paths, &self.tags);
        let bytes = serde_json::to_vec(&names).map_or(usize::MAX, |names| names.len());
        if bytes <= MANIFEST_BODY_MAX - MANIFEST_REST_BYTES {
            return Ok(());
        }
        let text = "the paths of the sources are longer than a snapshot can hold: back up the folder in \
                which they lie, and leave out the rest with --exclude";
        Err(Error::Usage(text.into()))
    }
}
