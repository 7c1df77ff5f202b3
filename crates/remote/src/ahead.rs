//! What is sent for before it is read, in the order in which it will be: records, and the session keys
//! of their containers. A restore over a long way never waits a round trip for each.

use crate::figures::Figures;
use crate::stream::{Pending, Stream};
use ids::{ContainerNo, Place};
use parking_lot::Mutex;
use protocol::Packet;
use repository::Result;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Bytes on their way or waiting to be read: at least so many, so that a server beside the client is
/// kept busy; at most so many, which is little beside a restore's own queues. Between them, twice
/// what the way holds: an answer to something else waits behind all of them.
const BYTES_MIN: usize = 2 << 20;
const BYTES_MAX: usize = 32 << 20;
/// Requests on their way, so that others find room between them.
const REQUESTS_MAX: usize = 96;

/// What is wanted.
pub(crate) struct Ahead {
    figures: Arc<Figures>,
    wanted: Mutex<Wanted>,
}

#[derive(Default)]
struct Wanted {
    /// On their way, or here.
    sent_for: FxHashMap<Place, VecDeque<Pending>>,
    requests: usize,
    bytes: usize,
    /// Not sent for yet, for want of room.
    wishes: VecDeque<Place>,
    /// Keys of each container that a record was wanted of, until they are taken.
    keys: FxHashMap<ContainerNo, Option<Pending>>,
}

impl Ahead {
    pub(crate) fn new(figures: Arc<Figures>) -> Self {
        Self { figures, wanted: Mutex::default() }
    }

    /// The record at `place` will be read, after all those that were wanted before.
    pub(crate) fn want(&self, stream: &Arc<Stream>, place: Place) -> Result<()> {
        let mut wanted = self.wanted.lock();
        wanted.wishes.push_back(place);
        wanted.send_for(stream, self.room())
    }

    /// The answer that is on its way for `place`, if it was wanted.
    pub(crate) fn take(&self, stream: &Arc<Stream>, place: Place) -> Result<Option<Pending>> {
        let mut wanted = self.wanted.lock();
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
        wanted.send_for(stream, self.room())?;
        Ok(pending)
    }

    /// The same of the keys in a container.
    pub(crate) fn take_keys(&self, container: ContainerNo) -> Option<Pending> {
        self.wanted.lock().keys.get_mut(&container)?.take()
    }

    fn room(&self) -> usize {
        (BYTES_MIN + 2 * self.figures.bytes_of_the_way()).min(BYTES_MAX)
    }
}

impl Wanted {
    fn send_for(&mut self, stream: &Arc<Stream>, room: usize) -> Result<()> {
        while let Some(place) = self.wishes.front().copied() {
            let bytes = place.length as usize;
            let is_full = self.bytes + bytes > room || self.requests >= REQUESTS_MAX;
            if is_full && self.requests > 0 {
                return Ok(());
            }
            self.wishes.pop_front();
            self.send_for_keys(stream, place.container)?;
            let pending = stream.request(&Packet::Read { place })?;
            self.sent_for.entry(place).or_default().push_back(pending);
            self.requests += 1;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Before the first record of a container: who opens it wants them first.
    fn send_for_keys(&mut self, stream: &Arc<Stream>, container: ContainerNo) -> Result<()> {
        if let Entry::Vacant(new) = self.keys.entry(container) {
            let packet = Packet::GetKeys { container, healed: false };
            new.insert(Some(stream.request(&packet)?));
        }
        Ok(())
    }
}
