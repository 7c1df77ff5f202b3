//! Requests records before they are read, in the order in which they will be, and the session keys of
//! their containers. A restore over a long route does not wait a round trip for each.

use crate::metrics::Metrics;
use crate::stream::{Pending, Stream};
use ids::{ContainerNo, RecordLocation};
use parking_lot::Mutex;
use protocol::Packet;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use store::Result;

/// Bytes in flight or waiting to be read: a minimum that keeps a nearby server busy, and a maximum that
/// is small beside a restore's own queues. Between them, twice the bandwidth-delay product: replies to
/// other requests wait behind all of them.
const BYTES_MIN: usize = 2 << 20;
const BYTES_MAX: usize = 32 << 20;
/// Maximum number of requests in flight, so that others find room between them.
const REQUESTS_MAX: usize = 96;
const _: () = assert!(REQUESTS_MAX < protocol::limits::REQUESTS_MAX / 2);

/// Records to prefetch.
pub(crate) struct Prefetcher {
    metrics: Arc<Metrics>,
    wanted: Mutex<Wanted>,
}

#[derive(Default)]
struct Wanted {
    /// Requested: in flight, or received.
    requested: FxHashMap<RecordLocation, VecDeque<Pending>>,
    requests: usize,
    bytes: usize,
    /// Not requested yet, because too much is in flight.
    queued: VecDeque<RecordLocation>,
    /// Keys of each container of a prefetched record, until they are taken.
    keys: FxHashMap<ContainerNo, Option<Pending>>,
}

impl Prefetcher {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, wanted: Mutex::default() }
    }

    /// Prefetches the record at `location`, after all those before.
    pub(crate) fn prefetch(&self, stream: &Arc<Stream>, location: RecordLocation) -> Result<()> {
        let mut wanted = self.wanted.lock();
        wanted.queued.push_back(location);
        wanted.send_for(stream, self.room())
    }

    /// The pending reply for `location`, if it was prefetched.
    pub(crate) fn take(
        &self,
        stream: &Arc<Stream>,
        location: RecordLocation,
    ) -> Result<Option<Pending>> {
        let mut wanted = self.wanted.lock();
        let Some(waiting) = wanted.requested.get_mut(&location) else {
            // Read sooner than its turn: it is asked for like any other.
            if let Some(at) = wanted.queued.iter().position(|wish| *wish == location) {
                wanted.queued.remove(at);
            }
            return Ok(None);
        };
        let pending = waiting.pop_front();
        if waiting.is_empty() {
            wanted.requested.remove(&location);
        }
        wanted.requests -= 1;
        wanted.bytes -= location.length as usize;
        wanted.send_for(stream, self.room())?;
        Ok(pending)
    }

    /// The same for the keys of a container.
    pub(crate) fn take_keys(&self, container: ContainerNo) -> Option<Pending> {
        self.wanted.lock().keys.get_mut(&container)?.take()
    }

    fn room(&self) -> usize {
        (BYTES_MIN + 2 * self.metrics.bandwidth_delay_bytes()).min(BYTES_MAX)
    }
}

impl Wanted {
    fn send_for(&mut self, stream: &Arc<Stream>, room: usize) -> Result<()> {
        while let Some(location) = self.queued.front().copied() {
            let bytes = location.length as usize;
            let is_full = self.bytes + bytes > room || self.requests >= REQUESTS_MAX;
            if is_full && self.requests > 0 {
                return Ok(());
            }
            self.queued.pop_front();
            self.request_keys(stream, location.container)?;
            let pending = stream.request(&Packet::Read { location })?;
            self.requested.entry(location).or_default().push_back(pending);
            self.requests += 1;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Before the first record of a container: who opens it wants them first.
    fn request_keys(&mut self, stream: &Arc<Stream>, container: ContainerNo) -> Result<()> {
        if let Entry::Vacant(new) = self.keys.entry(container) {
            let packet = Packet::GetKeys { container, healed: false };
            new.insert(Some(stream.request(&packet)?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_messages::ServerMessages;
    use protocol::frame::{HEADER_BYTES, Header};
    use protocol::packet::End;

    struct Lab {
        stream: Arc<Stream>,
        prefetcher: Prefetcher,
    }

    impl Lab {
        fn new() -> Self {
            let stream = Stream::new(Arc::new(ServerMessages::new([0, 0])));
            Self { stream, prefetcher: Prefetcher::new(Arc::default()) }
        }

        fn want(&self, location: RecordLocation) {
            self.prefetcher.prefetch(&self.stream, location).unwrap();
        }

        /// What goes out now.
        fn sent(&self) -> Vec<Packet> {
            std::iter::from_fn(|| self.stream.next_frame())
                .map(|frame| {
                    let head: [u8; HEADER_BYTES] = frame[..HEADER_BYTES].try_into().unwrap();
                    let kind = Header::decode(&head, End::Client).unwrap().kind;
                    Packet::decode(kind, frame[HEADER_BYTES..].to_vec()).unwrap()
                })
                .collect()
        }
    }

    fn location(container: u64, number: u32, length: u32) -> RecordLocation {
        RecordLocation { container: ContainerNo(container), offset: number * length, length }
    }

    #[test]
    fn records_are_asked_for_before_they_are_read_each_container_with_its_keys() {
        let lab = Lab::new();
        let wanted = [location(1, 0, 9), location(1, 1, 9), location(2, 0, 9)];
        wanted.iter().for_each(|location| lab.want(*location));
        let keys = |number| Packet::GetKeys { container: ContainerNo(number), healed: false };
        let read = |at: usize| Packet::Read { location: wanted[at] };
        assert_eq!(lab.sent(), [keys(1), read(0), read(1), keys(2), read(2)]);
        assert!(lab.prefetcher.take_keys(ContainerNo(1)).is_some());
        assert!(
            lab.prefetcher.take_keys(ContainerNo(1)).is_none(),
            "asked for again the next time"
        );
        assert!(lab.prefetcher.take(&lab.stream, wanted[2]).unwrap().is_some(), "in any order");
        assert!(lab.prefetcher.take(&lab.stream, wanted[2]).unwrap().is_none(), "once");
        assert_eq!(lab.sent(), []);
    }

    #[test]
    fn no_more_is_on_its_way_than_fits_and_what_is_taken_makes_room() {
        let lab = Lab::new();
        let length = 1 << 20;
        (0..10).for_each(|number| lab.want(location(1, number, length)));
        assert_eq!(lab.sent().len(), 1 + BYTES_MIN / length as usize);
        assert!(lab.prefetcher.take(&lab.stream, location(1, 0, length)).unwrap().is_some());
        assert_eq!(lab.sent(), [Packet::Read { location: location(1, 2, length) }]);
        // One that was not sent for yet is given up: it is read like any other.
        assert!(lab.prefetcher.take(&lab.stream, location(1, 3, length)).unwrap().is_none());
        assert!(lab.prefetcher.take(&lab.stream, location(1, 1, length)).unwrap().is_some());
        assert_eq!(lab.sent(), [Packet::Read { location: location(1, 4, length) }]);
    }

    #[test]
    fn small_records_leave_room_for_other_requests() {
        let lab = Lab::new();
        (0..500).for_each(|number| lab.want(location(1, number, 100)));
        assert_eq!(lab.sent().len(), 1 + REQUESTS_MAX);
    }

    #[test]
    fn a_record_larger_than_all_room_is_sent_for_alone() {
        let lab = Lab::new();
        (0..2).for_each(|number| lab.want(location(1, number, 2 * BYTES_MAX as u32)));
        assert_eq!(lab.sent().len(), 2, "keys and one record");
    }
}
