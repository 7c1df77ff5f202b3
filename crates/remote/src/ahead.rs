//! Records that are sent for before they are read, in the order in which they will be: a restore
//! over a long way never waits a round trip for each.

use crate::stream::{Pending, Stream};
use ids::Place;
use parking_lot::Mutex;
use protocol::Packet;
use repository::Result;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes on their way or waiting to be read: a long way at a gigabit, and little beside a restore's
/// own queues.
const BYTES_MAX: usize = 32 << 20;
/// Requests on their way, so that others find room between them.
const REQUESTS_MAX: usize = 96;

/// Records that are wanted.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<Wanted>);

#[derive(Default)]
struct Wanted {
    /// On their way, or here.
    sent_for: FxHashMap<Place, VecDeque<Pending>>,
    requests: usize,
    bytes: usize,
    /// Not sent for yet, for want of room.
    wishes: VecDeque<Place>,
}

impl Ahead {
    /// The record at `place` will be read, after all those that were wanted before.
    pub(crate) fn want(&self, stream: &Arc<Stream>, place: Place) -> Result<()> {
        let mut wanted = self.0.lock();
        wanted.wishes.push_back(place);
        wanted.send_for(stream)
    }

    /// The answer that is on its way for `place`, if it was wanted.
    pub(crate) fn take(&self, stream: &Arc<Stream>, place: Place) -> Result<Option<Pending>> {
        let mut wanted = self.0.lock();
        let Some(waiting) = wanted.sent_for.get_mut(&place) else {
            // Read sooner than its turn: it is asked for like any other.
            if let Some(at) = wanted.wishes.iter().position(|wish| *wish == place) {
                wanted.wishes.remove(at);
            }
            return Ok(None);
        };
        let pending = waiting.pop_front();
        if waiting.is_empty() {
            wanted.sent_for.remove(&place);
        }
        wanted.requests -= 1;
        wanted.bytes -= place.length as usize;
        wanted.send_for(stream)?;
        Ok(pending)
    }
}

impl Wanted {
    fn send_for(&mut self, stream: &Arc<Stream>) -> Result<()> {
        while let Some(place) = self.wishes.front().copied() {
            let bytes = place.length as usize;
            let is_full = self.bytes + bytes > BYTES_MAX || self.requests >= REQUESTS_MAX;
            if is_full && self.requests > 0 {
                return Ok(());
            }
            self.wishes.pop_front();
            let pending = stream.request(&Packet::Read { place })?;
            self.sent_for.entry(place).or_default().push_back(pending);
            self.requests += 1;
            self.bytes += bytes;
        }
        Ok(())
    }
}
