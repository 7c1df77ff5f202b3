//! The chunk caches of this machine: one for each source of each repository.

use crate::context::Context;
use client::UnlockedRepository;
use client::cache::ChunkCache;
use ids::ObjectId;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a cache, where nobody says otherwise.
pub(crate) const BYTES: u64 = 1 << 30;

/// Where the cache of `source` is; below `place`, if that is given.
pub(crate) fn folder(
    context: &Context,
    archive: &UnlockedRepository,
    source: &ObjectId,
    place: Option<&Path>,
) -> PathBuf {
    let place = place.map_or_else(|| context.agent_folder().join("cache"), Path::to_owned);
    let repository = archive.store.config().repository.to_string();
    place.join(repository).join(source.to_string())
}

/// The cache in `folder`; `None` when somebody else uses it.
pub(crate) fn open(folder: &Path, max_bytes: u64) -> io::Result<Option<Arc<ChunkCache>>> {
    Ok(ChunkCache::open(folder, max_bytes)?.map(Arc::new))
}

/// The same for who only reads: without one it works, too, and nobody need know.
pub(crate) fn to_read(
    context: &Context,
    archive: &UnlockedRepository,
    source: &ObjectId,
) -> Option<Arc<ChunkCache>> {
    context.remote()?;
    open(&folder(context, archive, source, None), BYTES).ok().flatten()
}
