//! The send window: what was sent and not yet acknowledged. It bounds what a client keeps in memory,
//! and is sent again after a disconnect.

use crate::{Error, Result};
use std::collections::VecDeque;

/// Frames of one stream in flight; `T` holds one.
#[derive(Debug)]
pub struct Window<T> {
    /// Maximum of bytes in flight; one frame always fits.
    limit_bytes: usize,
    /// Frames that are not acknowledged, oldest first, with their lengths.
    sent: VecDeque<(T, usize)>,
    bytes: usize,
    /// Number of acknowledged frames.
    acknowledged: u64,
}

impl<T> Window<T> {
    /// An empty window.
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, sent: VecDeque::new(), bytes: 0, acknowledged: 0 }
    }

    /// Whether a frame of `bytes` may be sent now.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.sent.is_empty() || self.bytes + bytes <= self.limit_bytes
    }

    /// Adds a frame that is being sent.
    pub fn push(&mut self, frame: T, bytes: usize) {
        self.bytes += bytes;
        self.sent.push_back((frame, bytes));
    }

    /// The other end has taken `applied` frames in total.
    ///
    /// # Errors
    /// [`Error::NotSent`] when the count falls, or exceeds what was sent.
    pub fn acknowledge(&mut self, applied: u64) -> Result<()> {
        let more = applied.checked_sub(self.acknowledged).ok_or(Error::NotSent)?;
        if more > self.sent.len() as u64 {
            return Err(Error::NotSent);
        }
        for (_, bytes) in self.sent.drain(..more as usize) {
            self.bytes -= bytes;
        }
        self.acknowledged = applied;
        Ok(())
    }

    /// Frames that the other end may not have, oldest first.
    pub fn unacknowledged(&self) -> impl Iterator<Item = &T> {
        self.sent.iter().map(|(frame, _)| frame)
    }

    /// Whether everything is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Number of frames sent so far.
    pub fn sent_frames(&self) -> u64 {
        self.acknowledged + self.sent.len() as u64
    }

    /// Bytes in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_goes_and_the_rest_is_sent_again() {
        let mut window = Window::new(100);
        for frame in 0..4 {
            assert!(window.has_room_for(25));
            window.push(frame, 25);
        }
        assert!(!window.has_room_for(1));
        window.acknowledge(3).unwrap();
        assert_eq!(window.unacknowledged().copied().collect::<Vec<_>>(), [3]);
        assert!(window.has_room_for(75) && !window.has_room_for(76));
        assert_eq!(window.acknowledge(5), Err(Error::NotSent));
        assert_eq!(window.acknowledge(2), Err(Error::NotSent), "nothing is taken back");
        window.acknowledge(4).unwrap();
        assert!(window.has_room_for(1000), "one frame always fits");
    }
}
