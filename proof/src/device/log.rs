//! What was written to a disk, in order, with its flushes; and what may be on it after a power cut.

use simulation::Random;
use std::ops::Range;

/// What a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// One request to the disk.
pub(super) enum Request {
    /// Bytes written at an offset.
    Write(u64, Vec<u8>),
    /// All before is durable.
    Flush,
}

/// A disk and all that it was asked for.
pub(super) struct Log {
    content: Vec<u8>,
    requests: Vec<Request>,
}

impl Log {
    /// A disk of zeros.
    pub(super) fn new(bytes: usize) -> Self {
        Self { content: vec![0; bytes], requests: Vec::new() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.content.len() as u64
    }

    /// Requests so far.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        apply(&mut self.content, offset, bytes);
        self.requests.push(Request::Write(offset, bytes.to_vec()));
    }

    pub(super) fn flush(&mut self) {
        self.requests.push(Request::Flush);
    }

    /// The bytes from `offset` on, fewer at the end.
    pub(super) fn read(&self, offset: u64, length: usize) -> &[u8] {
        let rest = self.content.get(offset as usize..).unwrap_or_default();
        rest.get(..length).unwrap_or(rest)
    }

    /// Where flushes are: what lies before each is durable once it is answered.
    pub(super) fn flushes(&self) -> Vec<usize> {
        let all = self.requests.iter().enumerate();
        let flushes = all.filter(|(_, request)| matches!(request, Request::Flush));
        flushes.map(|(at, _)| at).collect()
    }

    /// The requests, when nobody uses the disk any more.
    pub(super) fn into_requests(self) -> Vec<Request> {
        self.requests
    }
}

/// A disk that is taken through the requests, forwards only.
pub(super) struct Replay {
    requests: Vec<Request>,
    /// What is durable at `reached`.
    durable: Vec<u8>,
    reached: usize,
}

/// What the disk did with the writes since the last flush before the power went.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cache {
    /// Nothing of it reached the disk.
    Lost,
    /// All of it did.
    Written,
    /// Some of it, in any order, and single sectors of it.
    Torn,
}

impl Replay {
    pub(super) fn new(requests: Vec<Request>, bytes: u64) -> Self {
        Self { requests, durable: vec![0; bytes as usize], reached: 0 }
    }

    /// Everything before `end` is durable. `end` never falls.
    pub(super) fn advance(&mut self, end: usize) {
        let passed = self.requests.get(self.reached..end).unwrap_or_default();
        for request in passed {
            if let Request::Write(offset, bytes) = request {
                apply(&mut self.durable, *offset, bytes);
            }
        }
        self.reached = self.reached.max(end);
    }

    /// What is on the disk when the power goes: what is durable, and of the requests in `since` as
    /// much as `cache` says.
    pub(super) fn image(&self, since: Range<usize>, cache: Cache, random: &mut Random) -> Vec<u8> {
        let mut image = self.durable.clone();
        for request in self.requests.get(since).unwrap_or_default() {
            let Request::Write(offset, bytes) = request else { continue };
            match cache {
                Cache::Lost => {}
                Cache::Written => apply(&mut image, *offset, bytes),
                Cache::Torn => tear(&mut image, *offset, bytes, random),
            }
        }
        image
    }
}

/// A third of the writes is whole, a third lost, a third reaches the disk in some of its sectors.
fn tear(image: &mut [u8], offset: u64, bytes: &[u8], random: &mut Random) {
    match random.below(3) {
        0 => apply(image, offset, bytes),
        1 => {}
        _ => {
            for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                if random.one_in(2) {
                    apply(image, offset + (at * SECTOR_BYTES) as u64, sector);
                }
            }
        }
    }
}

fn apply(content: &mut [u8], offset: u64, bytes: &[u8]) {
    let start = offset as usize;
    if let Some(place) = content.get_mut(start..start + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay() -> Replay {
        let mut log = Log::new(4096);
        log.write(0, &[1; 1024]);
        log.flush();
        log.write(1024, &[2; 1024]);
        assert_eq!(log.read(512, 1024), [[1; 512], [2; 512]].concat());
        assert_eq!(log.flushes(), [1]);
        Replay::new(log.into_requests(), 4096)
    }

    #[test]
    fn what_was_flushed_stays_and_the_rest_may_be_there() {
        let (mut replay, mut random) = (replay(), Random::new(1));
        replay.advance(1);
        let lost = replay.image(2..3, Cache::Lost, &mut random);
        assert_eq!(lost[..2048], [[1; 1024], [0; 1024]].concat());
        let written = replay.image(2..3, Cache::Written, &mut random);
        assert_eq!(written[..2048], [[1; 1024], [2; 1024]].concat());
    }

    #[test]
    fn a_torn_write_is_there_in_some_of_its_sectors() {
        let (mut replay, mut random) = (replay(), Random::new(1));
        replay.advance(1);
        let images = (0..64).map(|_| replay.image(2..3, Cache::Torn, &mut random));
        let found: std::collections::BTreeSet<_> =
            images.map(|image| (image[1024], image[1536])).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(0, 0), (0, 2), (2, 0), (2, 2)]);
    }
}
