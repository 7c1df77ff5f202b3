//! The packets that are under way: a ring of bytes, filled and emptied in order, made once.

use std::collections::VecDeque;

/// Longest packet: what an IP header can say.
pub(crate) const PACKET_MAX: usize = 65_535;

/// Packets in the order in which they arrive.
pub(crate) struct DelayLine {
    bytes: Vec<u8>,
    packets: VecDeque<Packet>,
    /// Where the next packet is read to; always with room for the longest behind it.
    tail: usize,
}

#[derive(Clone, Copy)]
struct Packet {
    arrives: u64,
    at: usize,
    len: usize,
}

impl DelayLine {
    /// Room for about so many bytes of packets, whatever their sizes.
    pub(crate) fn new(bytes_at_once: u64) -> Self {
        /// No IP packet is shorter.
        const PACKET_MIN: usize = 20;
        // The end of the ring and the packet being read are not for use: two of the longest.
        let ring = usize::try_from(bytes_at_once).unwrap_or(usize::MAX / 4) + 4 * PACKET_MAX;
        Self { bytes: vec![0; ring], packets: VecDeque::with_capacity(ring / PACKET_MIN), tail: 0 }
    }

    /// A free piece for the next packet; `None` while everything is full.
    pub(crate) fn space(&mut self) -> Option<&mut [u8]> {
        let oldest = self.packets.front().map(|packet| packet.at);
        if self.tail + PACKET_MAX > self.bytes.len() {
            // Back to the start, unless packets still lie behind the tail.
            if oldest.is_some_and(|at| at > self.tail) {
                return None;
            }
            self.tail = 0;
        }
        let end = self.tail + PACKET_MAX;
        let is_free = match oldest {
            None => true,
            Some(at) if at >= self.tail => at >= end,
            Some(_) => true,
        };
        is_free.then(|| &mut self.bytes[self.tail..end])
    }

    /// Keeps the packet that was read into [`Self::space`].
    pub(crate) fn push(&mut self, len: usize, arrives: u64) {
        self.packets.push_back(Packet { arrives, at: self.tail, len });
        self.tail += len;
    }

    /// When the next packet arrives.
    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.packets.front().map(|packet| packet.arrives)
    }

    /// The next packet, if it has arrived.
    pub(crate) fn due(&self, now: u64) -> Option<&[u8]> {
        let packet = self.packets.front().filter(|packet| packet.arrives <= now)?;
        Some(&self.bytes[packet.at..packet.at + packet.len])
    }

    /// Forgets the next packet.
    pub(crate) fn pop(&mut self) {
        self.packets.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(line: &mut DelayLine, byte: u8, len: usize, arrives: u64) -> bool {
        let Some(space) = line.space() else { return false };
        space[..len].fill(byte);
        line.push(len, arrives);
        true
    }

    #[test]
    fn packets_come_out_whole_in_order_and_not_before_their_time() {
        let mut line = DelayLine::new(10_000);
        assert!(put(&mut line, 1, 100, 5) && put(&mut line, 2, 1500, 6));
        assert_eq!(line.next_arrival(), Some(5));
        assert_eq!(line.due(4), None);
        assert_eq!(line.due(5), Some(&[1; 100][..]));
        line.pop();
        assert_eq!(line.due(5), None);
        assert_eq!(line.due(9), Some(&[2; 1500][..]));
        line.pop();
        assert_eq!(line.next_arrival(), None);
    }

    #[test]
    fn the_ring_goes_round_for_ever_without_mixing_packets() {
        let mut line = DelayLine::new(200_000);
        let len = |n: u64| 20 + (n * 7919 % 1481) as usize;
        for n in 0..50_000u64 {
            assert!(put(&mut line, n as u8, len(n), n));
            if let Some(old) = n.checked_sub(100) {
                let packet = line.due(old).expect("it is due");
                assert_eq!(packet.len(), len(old));
                assert!(packet.iter().all(|byte| *byte == old as u8));
                line.pop();
            }
        }
    }

    #[test]
    fn what_it_was_made_for_fits_also_when_the_ring_is_torn() {
        let mut line = DelayLine::new(300_000);
        for round in 0..50u64 {
            let mut held = 0;
            while held < 300_000 {
                assert!(put(&mut line, 1, 1500, 0), "round {round}: only {held} bytes");
                held += 1500;
            }
            while line.due(0).is_some() {
                line.pop();
            }
            // Begin somewhere else the next time.
            assert!(put(&mut line, 1, 977, 0));
            line.pop();
        }
    }

    #[test]
    fn a_full_ring_says_so_and_recovers() {
        let mut line = DelayLine::new(1000);
        while put(&mut line, 1, PACKET_MAX, 0) {}
        line.pop();
        line.pop();
        assert!(put(&mut line, 2, 100, 0));
    }
}
