//! Memory for bodies of large packets. It is taken when a body begins and held while the body arrives, however
//! slowly. So it has two parts: a base with a share for each node, and more, which goes to whoever needs it. A few
//! nodes that send slowly can hold all of the second part, but only their own shares of the first.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 16 << 10;

/// Memory of all nodes, or the part that one of them may have.
#[derive(Debug)]
pub(super) struct BodyMemory {
    base: Arc<Semaphore>,
    more: Arc<Semaphore>,
}

/// Memory for one body, until it is dropped.
pub(super) type BodyPermit = [OwnedSemaphorePermit; 2];

impl BodyMemory {
    pub(super) fn new(base_bytes: usize, more_bytes: usize) -> Self {
        let of = |bytes: usize| Arc::new(Semaphore::new(bytes / PERMIT_BYTES));
        Self { base: of(base_bytes), more: of(more_bytes) }
    }

    /// Waits for memory for `bytes`, both in `own` and in this one, of either part. `None` when the server stops.
    pub(super) async fn room(&self, own: &Self, bytes: usize) -> Option<BodyPermit> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).ok()?;
        tokio::select! {
            biased;
            room = both(&own.base, &self.base, permits) => room,
            room = both(&own.more, &self.more, permits) => room,
        }
    }
}

async fn both(own: &Arc<Semaphore>, all: &Arc<Semaphore>, permits: u32) -> Option<BodyPermit> {
    let own = own.clone().acquire_many_owned(permits).await.ok()?;
    let all = all.clone().acquire_many_owned(permits).await.ok()?;
    Some([own, all])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const RECORD: usize = 8 << 20;

    async fn room(all: &BodyMemory, own: &BodyMemory) -> Option<BodyPermit> {
        tokio::time::timeout(Duration::from_millis(50), all.room(own, RECORD)).await.ok().flatten()
    }

    #[tokio::test]
    async fn four_nodes_that_hold_all_they_can_leave_room_for_a_fifth() {
        let all = BodyMemory::new(192 << 20, 64 << 20);
        let node = || BodyMemory::new(16 << 20, 48 << 20);
        let (mut held, hoarders) = (Vec::new(), [node(), node(), node(), node()]);
        for hoarder in &hoarders {
            while let Some(room) = room(&all, hoarder).await {
                held.push(room);
            }
        }
        assert_eq!(held.len() * RECORD, (4 * 16 + 64) << 20);
        let honest = node();
        let (first, second) = (room(&all, &honest).await, room(&all, &honest).await);
        assert!(first.is_some() && second.is_some());
        assert!(room(&all, &honest).await.is_none(), "the rest is taken");
        drop(held);
        assert!(room(&all, &honest).await.is_some());
    }

    #[tokio::test]
    async fn one_node_alone_has_four_times_its_share() {
        let (all, own) =
            (BodyMemory::new(192 << 20, 64 << 20), BodyMemory::new(16 << 20, 48 << 20));
        let mut held = Vec::new();
        while let Some(room) = room(&all, &own).await {
            held.push(room);
        }
        assert_eq!(held.len() * RECORD, 64 << 20);
    }
}
