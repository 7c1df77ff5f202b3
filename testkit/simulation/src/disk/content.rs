//! The bytes of a file: what is read, and what is on the disk.

use crate::random::Random;
use std::ops::Range;

/// What a disk writes at once.
const SECTOR: usize = 512;

/// The bytes of one file.
#[derive(Clone, Default)]
pub(super) struct Content {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// What was written since the last sync.
    dirty: Vec<Range<usize>>,
}

impl Content {
    pub(super) fn cached(&self) -> &[u8] {
        &self.cached
    }

    /// The same bytes in a file of its own, synced.
    pub(super) fn copied(&self) -> Self {
        Self { cached: self.cached.clone(), durable: self.cached.clone(), dirty: Vec::new() }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        let start = self.cached.len();
        self.cached.extend_from_slice(bytes);
        self.dirty.push(start..self.cached.len());
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.cached.len(), 0);
        for range in std::mem::take(&mut self.dirty) {
            self.durable[range.clone()].copy_from_slice(&self.cached[range]);
        }
    }

    /// What a failed sync does: the cache takes for written what is not, and no later sync will
    /// write it.
    pub(super) fn fail_sync(&mut self) {
        self.dirty.clear();
    }

    pub(super) fn flip(&mut self, at: usize, bit: u32) {
        for bytes in [&mut self.cached, &mut self.durable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Puts `bytes` where they do not belong: on the disk and in the cache.
    pub(super) fn overwrite(&mut self, at: usize, new: &[u8]) {
        for bytes in [&mut self.cached, &mut self.durable] {
            let end = bytes.len().min(at + new.len());
            if let Some(place) = bytes.get_mut(at..end) {
                place.copy_from_slice(&new[..end - at]);
            }
        }
    }

    /// The end is gone.
    pub(super) fn cut(&mut self, length: usize) {
        self.cached.truncate(length);
        self.durable.truncate(length);
    }

    /// Only what is on the disk stays, and of the rest what it had written by itself.
    pub(super) fn lose_power(&mut self, random: &mut Random) {
        let dirty = std::mem::take(&mut self.dirty);
        let survives = Survival::of(random);
        if !dirty.is_empty() {
            let grown = self.cached.len().saturating_sub(self.durable.len());
            let length = self.durable.len() + survives.length(grown, random);
            self.durable.resize(length, 0);
        }
        for range in dirty {
            self.keep(range, survives, random);
        }
        self.cached.clone_from(&self.durable);
    }

    fn keep(&mut self, range: Range<usize>, survives: Survival, random: &mut Random) {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / SECTOR + 1) * SECTOR).min(self.durable.len());
            if at >= end {
                return;
            }
            if survives.sector(random) {
                self.durable[at..end].copy_from_slice(&self.cached[at..end]);
            }
            at = end;
        }
    }
}

/// How much of what was not synced is on the disk after all.
#[derive(Clone, Copy)]
enum Survival {
    None,
    All,
    /// All up to some length: as an ordered journal has it.
    Beginning,
    /// Sectors here and there, zeros between them.
    Some,
}

impl Survival {
    fn of(random: &mut Random) -> Self {
        *random.pick(&[Self::None, Self::All, Self::Beginning, Self::Some])
    }

    fn length(self, grown: usize, random: &mut Random) -> usize {
        match self {
            Self::None => 0,
            Self::All => grown,
            Self::Beginning | Self::Some => random.index(grown + 1),
        }
    }

    fn sector(self, random: &mut Random) -> bool {
        match self {
            Self::None => false,
            Self::All | Self::Beginning => true,
            Self::Some => random.one_in(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.append(bytes);
        content
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_may_not() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..200 {
            let mut content = written(&[1; 1000]);
            content.sync();
            content.append(&[2; 2000]);
            content.lose_power(&mut Random::new(seed));
            let (old, new) = content.cached().split_at(1000);
            assert_eq!(old, [1; 1000]);
            match new.iter().filter(|byte| **byte == 2).count() {
                0 => lost += 1,
                2000 => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 20 && kept > 20 && torn > 20, "{lost} {kept} {torn}");
    }

    #[test]
    fn after_a_failed_sync_the_next_one_says_yes_and_writes_nothing() {
        let mut content = written(&[1; 700]);
        content.fail_sync();
        content.sync();
        assert_eq!(content.cached(), [1; 700]);
        content.lose_power(&mut Random::new(0));
        assert!(content.cached().iter().all(|byte| *byte == 0));
    }
}
