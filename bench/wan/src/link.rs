//! What a link does to packets: when each arrives, or that it does not. Pure: times come in as
//! nanoseconds, randomness from a seed.

use std::time::Duration;

/// Nanoseconds of a second.
const SECOND_NS: u128 = 1_000_000_000;

/// What one direction is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// Bits per second, IP headers included; `None`: as fast as this program can.
    pub(crate) rate_bits: Option<u64>,
    /// How long a bit is under way.
    pub(crate) delay: Duration,
    /// Bytes that may wait for the wire; what comes on top is dropped.
    pub(crate) queue_bytes: u64,
    /// Share of the packets that the wire loses.
    pub(crate) loss: f64,
    /// Each packet takes up to this much longer, at random; the order stays.
    pub(crate) jitter: Duration,
}

impl Shape {
    /// Bytes that are in the queue and on the wire when both are full.
    pub(crate) fn bytes_at_once(&self) -> u64 {
        // Without a rate nothing queues here; what is under way at 10 Gbit/s is room enough.
        let rate = self.rate_bits.unwrap_or(10_000_000_000);
        let wire = u128::from(rate) * (self.delay + self.jitter).as_nanos() / 8 / SECOND_NS;
        u64::try_from(wire).unwrap_or(u64::MAX).saturating_add(self.queue_bytes)
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives at this time.
    Arrives(u64),
    /// It found the queue full.
    Dropped,
    /// It was sent and lost on the wire.
    Lost,
}

/// One direction.
///
/// The bucket has no burst: a packet leaves when all bits before it and its own have been sent.
/// So a rate is kept over any span of time and not only on average.
pub(crate) struct Link {
    shape: Shape,
    random: Random,
    /// When the wire is free, in nanoseconds times the rate: without a rounding error.
    free_at: u128,
    last_arrival: u64,
}

impl Link {
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        Self { shape, random: Random(seed), free_at: 0, last_arrival: 0 }
    }

    /// A packet of so many bytes is handed in; `now` never goes back.
    pub(crate) fn offer(&mut self, now: u64, bytes: usize) -> Fate {
        let Some(sent) = self.send(now, bytes as u64) else {
            return Fate::Dropped;
        };
        if self.shape.loss > 0.0 && self.random.share() < self.shape.loss {
            return Fate::Lost;
        }
        let late = nanos(self.shape.delay).saturating_add(self.jitter());
        // Packets of one link do not overtake each other.
        self.last_arrival = self.last_arrival.max(sent.saturating_add(late));
        Fate::Arrives(self.last_arrival)
    }

    /// When its last bit is on the wire; `None` when the queue is full.
    fn send(&mut self, now: u64, bytes: u64) -> Option<u64> {
        let Some(rate) = self.shape.rate_bits.map(u128::from) else {
            return Some(now);
        };
        let start = u128::from(now) * rate;
        let waiting_bytes = self.free_at.saturating_sub(start) / SECOND_NS / 8;
        if waiting_bytes + u128::from(bytes) > u128::from(self.shape.queue_bytes) {
            return None;
        }
        self.free_at = self.free_at.max(start) + u128::from(bytes) * 8 * SECOND_NS;
        u64::try_from(self.free_at / rate).ok()
    }

    fn jitter(&mut self) -> u64 {
        let most = nanos(self.shape.jitter);
        if most == 0 { 0 } else { (self.random.share() * most as f64) as u64 }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    /// At least 0, less than 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn shape(rate_bits: u64, delay_ms: u64, queue_bytes: u64) -> Shape {
        Shape {
            rate_bits: Some(rate_bits),
            delay: Duration::from_millis(delay_ms),
            queue_bytes,
            loss: 0.0,
            jitter: Duration::ZERO,
        }
    }

    #[test]
    fn a_lone_packet_takes_its_bits_and_the_delay() {
        // 1,000 bytes at 8 Mbit/s are one millisecond.
        let mut link = Link::new(shape(8_000_000, 20, 10_000), 1);
        assert_eq!(link.offer(0, 1000), Fate::Arrives(21 * MS));
        assert_eq!(link.offer(50 * MS, 500), Fate::Arrives(70 * MS + MS / 2));
    }

    #[test]
    fn the_rate_is_kept_to_the_bit_over_a_million_packets() {
        let mut link = Link::new(shape(155_000_000, 0, u64::MAX), 1);
        let mut last = 0;
        for _ in 0..1_000_000 {
            if let Fate::Arrives(at) = link.offer(0, 1500) {
                last = at;
            }
        }
        let expected = 1_000_000u128 * 1500 * 8 * SECOND_NS / 155_000_000;
        assert_eq!(u128::from(last), expected);
    }

    #[test]
    fn a_full_queue_drops_at_its_tail_and_takes_again_when_it_has_drained() {
        let mut link = Link::new(shape(8_000_000, 0, 3000), 1);
        let fates: Vec<_> = (0..4).map(|_| link.offer(0, 1000)).collect();
        assert_eq!(fates[2], Fate::Arrives(3 * MS));
        assert_eq!(fates[3], Fate::Dropped);
        assert_eq!(link.offer(MS, 1000), Fate::Arrives(4 * MS));
        assert_eq!(link.offer(MS, 1000), Fate::Dropped);
    }

    #[test]
    fn losses_come_as_often_as_asked_and_the_same_with_the_same_seed() {
        let lossy = Shape { loss: 0.01, ..shape(1_000_000_000, 1, u64::MAX) };
        let run = |seed| {
            let mut link = Link::new(lossy, seed);
            (0..100_000).map(|n| link.offer(n, 100) == Fate::Lost).collect::<Vec<_>>()
        };
        let lost = run(7).iter().filter(|lost| **lost).count();
        assert!((900..1100).contains(&lost), "{lost} of 100,000");
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn what_is_lost_has_used_the_wire() {
        let mut link = Link::new(Shape { loss: 1.0, ..shape(8_000_000, 0, 2000) }, 1);
        assert_eq!(link.offer(0, 1000), Fate::Lost);
        assert_eq!(link.offer(0, 1000), Fate::Lost);
        assert_eq!(link.offer(0, 1000), Fate::Dropped);
    }

    #[test]
    fn jitter_never_reorders() {
        let shaky = Shape { jitter: Duration::from_millis(5), ..shape(1_000_000_000, 5, u64::MAX) };
        let mut link = Link::new(shaky, 1);
        let mut before = 0;
        let mut spread = std::collections::BTreeSet::new();
        for n in 0..1000 {
            let Fate::Arrives(at) = link.offer(n * MS, 100) else { panic!("nothing is lost here") };
            assert!(at >= before);
            before = at;
            spread.insert((at - n * MS) / MS);
        }
        assert!(spread.len() > 3, "{spread:?}");
    }

    #[test]
    fn without_a_rate_only_the_delay_remains() {
        let mut link = Link::new(Shape { rate_bits: None, ..shape(1, 3, 0) }, 1);
        assert_eq!(link.offer(MS, 9000), Fate::Arrives(4 * MS));
    }

    #[test]
    fn the_room_for_a_full_link_is_its_queue_and_its_wire() {
        assert_eq!(shape(8_000_000, 10, 500).bytes_at_once(), 10_500);
    }
}
