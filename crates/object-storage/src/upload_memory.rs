//! Memory for what is uploaded. An object goes up as a whole, from memory; many sessions of a server would need as
//! much as all their containers together. Who comes first goes first; a bucket that hangs holds up nobody who writes to
//! another.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So much for one bucket is in memory at a time, of all repositories that this process writes: 512 MiB.
const BYTES_MAX: u64 = 512 << 20;
/// Bytes that one permit stands for.
const PERMIT_BYTES: u64 = 64 << 10;

/// The memory of each bucket.
static BUCKETS: Mutex<BTreeMap<String, Arc<Semaphore>>> = Mutex::new(BTreeMap::new());

/// Waits for memory for `bytes` that go to the bucket of `location`, and holds it until it is dropped.
pub(crate) async fn room(location: &str, bytes: u64) -> Option<OwnedSemaphorePermit> {
    let permits = bytes.min(BYTES_MAX).div_ceil(PERMIT_BYTES);
    of_bucket(location).acquire_many_owned(u32::try_from(permits).ok()?).await.ok()
}

fn of_bucket(location: &str) -> Arc<Semaphore> {
    let name = location.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    let new = || Arc::new(Semaphore::new((BYTES_MAX / PERMIT_BYTES) as usize));
    BUCKETS.lock().entry(name).or_insert_with(new).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const CONTAINER: u64 = 64 << 20;

    async fn at_once(location: &str, bytes: u64) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(Duration::from_millis(50), room(location, bytes)).await.ok().flatten()
    }

    #[tokio::test]
    async fn a_bucket_has_memory_for_some_containers_whoever_writes_them() {
        let held: Vec<_> = futures_util::future::join_all((0..8).map(async |at| {
            at_once(&format!("s3://upload-memory-a/domain-{at}"), CONTAINER).await.unwrap()
        }))
        .await;
        assert!(at_once("s3://upload-memory-a/one", 1).await.is_none());
        let other = at_once("s3://upload-memory-b/one", CONTAINER).await;
        assert!(other.is_some(), "another bucket has its own");
        drop(held);
        // What is larger than all of it goes up alone.
        let alone = at_once("s3://upload-memory-a/one", 2 * BYTES_MAX).await;
        assert!(alone.is_some() && at_once("s3://upload-memory-a/two", 1).await.is_none());
    }
}
