//! The chunk caches of this machine: one for each source of each repository.

use ids::ObjectId;
use pipeline::UnlockedRepository;
use pipeline::cache::ChunkCache;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a cache, where nobody says otherwise.
pub(crate) const BYTES: u64 = 1 << 30;

/// Where the caches are, unless another directory is given.
pub(crate) fn default_folder(agent_folder: &Path) -> PathBuf {
    agent_folder.join("cache")
}

/// Where the cache of `source` is, below `caches`.
pub(crate) fn folder(caches: &Path, repository: &UnlockedRepository, source: &ObjectId) -> PathBuf {
    let repository = repository.store.config().repository.to_string();
    caches.join(repository).join(source.to_string())
}

/// The cache in `folder`; `None` when somebody else uses it.
pub(crate) fn open(folder: &Path, max_bytes: u64) -> io::Result<Option<Arc<ChunkCache>>> {
    Ok(ChunkCache::open(folder, max_bytes)?.map(Arc::new))
}

/// The same for reading: without a cache it works, too, and nobody need know.
pub(crate) fn to_read(folder: &Path) -> Option<Arc<ChunkCache>> {
    open(folder, BYTES).ok().flatten()
}
