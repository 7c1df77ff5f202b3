//! The options of a backup.

use super::checkpoints::TransactionLimits;
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
    /// The trees to back up.
    pub roots: Vec<SourceRoot>,
    /// The name of this node in the repository.
    pub node: String,
    /// The paths as the user named them; node and paths identify the source.
    pub paths: Vec<String>,
    /// Tags of the snapshot.
    pub tags: Vec<String>,
    /// Directories in which something should be mounted: one that is empty, and had files in the previous snapshot, is
    /// not backed up as empty.
    pub mount_points: Vec<Vec<u8>>,
    /// What the walk enters and skips.
    pub walk: capture::walk::WalkOptions,
    /// How files are read.
    pub read: ReadOptions,
    /// Threads that read; 0 chooses by the type of the disks. Compression always uses all cores.
    pub threads: usize,
    /// The compression level.
    pub level: seal::Level,
    /// Read everything, without change detection.
    pub full: bool,
    /// Read what changed at this time or later, even if it seems unchanged.
    pub read_since: Option<Time>,
    /// Ignore inode numbers, for file systems on which they change.
    pub ignore_inode: bool,
    /// Open and verify every record before it is stored.
    pub verify_blocks: bool,
    /// Resource limits.
    pub limits: ResourceLimits,
    /// After how much it makes a checkpoint.
    pub checkpoint_after: TransactionLimits,
    /// The chunk cache of this node.
    pub cache: Option<Arc<ChunkCache>>,
    /// A path that the user named is missing: the snapshot is partial even if everything else is
    /// read.
    pub is_partial: bool,
    /// The time of the snapshot, instead of now.
    pub time: Option<Time>,
    /// Create no snapshot if nothing changed since the previous one.
    pub skip_if_unchanged: bool,
}

/// Room in a manifest for what is not a name, mostly the report.
const MANIFEST_REST_BYTES: usize = 64 << 10;
/// Names of failed objects take no more: each listing of snapshots reads all manifests.
const FAILED_BYTES_MAX: usize = 128 << 10;

impl BackupOptions {
    fn names_bytes(&self) -> usize {
        let names = (&self.node, &self.paths, &self.tags);
        serde_json::to_vec(&names).map_or(usize::MAX, |names| names.len())
    }

    /// Room in the manifest for the names of failed objects, in bytes.
    pub(super) fn room_for_failed(&self) -> usize {
        let others = self.names_bytes().saturating_add(MANIFEST_REST_BYTES);
        MANIFEST_BODY_MAX.saturating_sub(others).min(FAILED_BYTES_MAX)
    }

    /// Rejects names that no manifest can hold, before anything is read.
    pub(super) fn check_names(&self) -> Result<()> {
        if self.names_bytes() <= MANIFEST_BODY_MAX - MANIFEST_REST_BYTES {
            return Ok(());
        }
        let text = "the paths of the sources are longer than a snapshot can hold: back up the folder in \
                which they lie, and leave out the rest with --exclude";
        Err(Error::Usage(text.into()))
    }
}
