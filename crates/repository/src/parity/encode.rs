//! Computing the parity of a container while it is written: one group of it is in memory.

use super::refused;
use crate::Result;
use format::parity::{GROUP_SHARDS, Geometry, SHARD_BYTES, parity_shards, shard_sum};
use parking_lot::Mutex;
use reed_solomon_simd::engine::DefaultEngine;
use reed_solomon_simd::rate::{EncoderWork, HighRateEncoder, RateEncoder};

/// Bytes of a whole group.
const GROUP_BYTES: usize = GROUP_SHARDS as usize * SHARD_BYTES;
const ZEROS: [u8; SHARD_BYTES] = [0; SHARD_BYTES];

/// Takes the bytes of a container in order, and gives its parity section.
pub struct Encoder {
    percent: u32,
    length: u64,
    group: Vec<u8>,
    parity: Vec<u8>,
    sums: Vec<u8>,
}

/// Working space of the code, as large as a group. One is kept for all: containers that wait for
/// the disk need none, and memory that comes and goes in such pieces stays in holes.
static SPARE: Mutex<Option<(DefaultEngine, EncoderWork)>> = Mutex::new(None);
/// The bytes of a group, kept for the same reason.
static SPARE_GROUP: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl Encoder {
    /// For a container that gets `percent` of parity.
    pub fn new(percent: u32) -> Self {
        let (group, parity, sums) = Default::default();
        Self { percent, length: 0, group, parity, sums }
    }

    /// The next bytes of the container.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.length += bytes.len() as u64;
        if self.group.capacity() == 0 {
            self.group = std::mem::take(&mut *SPARE_GROUP.lock());
            // At once: what grows step by step is copied each time. Pages never used cost nothing.
            self.group.reserve_exact(GROUP_BYTES);
        }
        while !bytes.is_empty() {
            let room = GROUP_BYTES - self.group.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.group.extend_from_slice(now);
            bytes = later;
            if self.group.len() == GROUP_BYTES {
                self.close_group()?;
            }
        }
        Ok(())
    }

    /// The section, given in parts to `write`, for a container that is complete.
    pub fn finish(mut self, write: impl FnOnce(&[&[u8]]) -> Result<()>) -> Result<()> {
        if !self.group.is_empty() {
            self.close_group()?;
        }
        *SPARE_GROUP.lock() = std::mem::take(&mut self.group);
        let geometry = Geometry::new(self.length, self.percent)
            .map_err(|reason| crate::Error::damaged("container", reason))?;
        let head = geometry.encode();
        let zeros = |from, to| &ZEROS[..(to - from) as usize];
        let before = zeros(geometry.protected(), geometry.heads_at()[0]);
        let between = zeros(geometry.zeros_at(), geometry.parity_at());
        write(&[before, &head, &self.sums, between, &self.parity, &self.sums, &head])
    }

    fn close_group(&mut self) -> Result<()> {
        let shards = self.group.len().div_ceil(SHARD_BYTES);
        self.group.resize(shards * SHARD_BYTES, 0);
        let parity = parity_shards(shards as u64, self.percent) as usize;
        let spare = SPARE.lock().take();
        let (engine, work) = spare.unzip();
        let engine = engine.unwrap_or_else(DefaultEngine::new);
        // Always the high rate: which one is faster must not decide what lies on the disk.
        let mut code =
            HighRateEncoder::new(shards, parity, SHARD_BYTES, engine, work).map_err(refused)?;
        for shard in self.group.chunks_exact(SHARD_BYTES) {
            self.sums.extend_from_slice(&shard_sum(shard));
            code.add_original_shard(shard).map_err(refused)?;
        }
        for shard in code.encode().map_err(refused)?.recovery_iter() {
            self.sums.extend_from_slice(&shard_sum(shard));
            self.parity.extend_from_slice(shard);
        }
        *SPARE.lock() = Some(code.into_parts());
        self.group.clear();
        Ok(())
    }
}
