//! Memory for direct I/O: the system takes it only from where a block may begin.

/// Where the memory begins, and where the system may ask each write to begin and end. No disk asks for more.
pub(super) const ALIGNMENT: usize = 4096;

/// Bytes that wait to be written, in memory that direct I/O takes.
pub(super) struct AlignedBuffer {
    /// Never grows: it would move.
    memory: Vec<u8>,
    start: usize,
    capacity: usize,
    length: usize,
}

impl AlignedBuffer {
    /// An empty buffer for `capacity` bytes, rounded up to whole blocks.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(ALIGNMENT);
        let memory = vec![0; capacity + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, capacity, length: 0 }
    }

    /// Takes as many of `bytes` as fit; returns their number.
    pub(super) fn push(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.capacity - self.length);
        let at = self.start + self.length;
        self.memory[at..at + count].copy_from_slice(&bytes[..count]);
        self.length += count;
        count
    }

    /// All of its memory, to read into.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.capacity]
    }

    /// Bytes in it.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Whether nothing more fits.
    pub(super) fn is_full(&self) -> bool {
        self.length == self.capacity
    }

    /// What is in it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// What is in it, and zeros up to a multiple of `unit`, which divides [`ALIGNMENT`].
    pub(super) fn padded(&mut self, unit: usize) -> &[u8] {
        let end = self.start + self.length.next_multiple_of(unit);
        self.memory[self.start + self.length..end].fill(0);
        &self.memory[self.start..end]
    }

    /// Removes the first `count` bytes.
    pub(super) fn drop_front(&mut self, count: usize) {
        let (from, end) = (self.start + count, self.start + self.length);
        self.memory.copy_within(from..end, self.start);
        self.length -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_where_a_block_may_and_takes_what_fits() {
        let mut buffer = AlignedBuffer::new(5000);
        assert_eq!(buffer.bytes().as_ptr().addr() % ALIGNMENT, 0);
        assert_eq!(buffer.push(&[1; 8000]), 8000);
        assert_eq!(buffer.push(&[2; 8000]), 192);
        assert!(buffer.is_full());
        buffer.drop_front(8000);
        assert_eq!(buffer.bytes(), [2; 192]);
    }

    #[test]
    fn what_fills_it_up_is_zeros_and_not_what_was_there_before() {
        let mut buffer = AlignedBuffer::new(4096);
        buffer.push(&[9; 4096]);
        buffer.drop_front(4095);
        assert_eq!(buffer.padded(512), [&[9][..], &[0; 511]].concat());
        assert_eq!(buffer.length(), 1);
    }
}
