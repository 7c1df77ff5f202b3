//! One group of a container: what of it is good, and the rest made good by its parity.

use super::refused;
use crate::Result;
use crate::container::lenient::read_what_can_be;
use crate::storage::FileReader;
use format::parity::{Group, SHARD_BYTES, SUM_BYTES, shard_sum};
use reed_solomon_simd::engine::DefaultEngine;
use reed_solomon_simd::rate::{HighRateDecoder, RateDecoder};

/// A group as it was read.
pub(super) struct Shards {
    group: Group,
    data: Vec<u8>,
    parity: Vec<u8>,
    /// Data shards, then parity shards.
    good: Vec<bool>,
    /// Whether both tables of checksums are whole and say the same.
    pub(super) sums_agree: bool,
}

impl Shards {
    /// Reads `group`; what cannot be read is not good.
    pub(super) fn read(file: &dyn FileReader, group: Group) -> Self {
        let mut data = vec![0; group.data_shards * SHARD_BYTES];
        let mut parity = vec![0; group.parity_shards * SHARD_BYTES];
        let mut readable =
            read_what_can_be(file, &mut data[..group.data_bytes as usize], group.data_at);
        readable &= read_what_can_be(file, &mut parity, group.parity_at);
        let mut sums =
            [(); 2].map(|()| vec![0; (group.data_shards + group.parity_shards) * SUM_BYTES]);
        for (sums, at) in sums.iter_mut().zip(group.sums_at) {
            readable &= read_what_can_be(file, sums, at);
        }
        let [first, second] = &sums;
        let told = first.chunks_exact(SUM_BYTES).zip(second.chunks_exact(SUM_BYTES));
        let shards = data.chunks_exact(SHARD_BYTES).chain(parity.chunks_exact(SHARD_BYTES));
        let is_good = |(shard, (one, other)): (&[u8], (&[u8], &[u8]))| {
            let sum = shard_sum(shard);
            sum == *one || sum == *other
        };
        let good = shards.zip(told).map(is_good).collect();
        let sums_agree = readable && first == second;
        Self { group, data, parity, good, sums_agree }
    }

    /// Data shards, and parity shards, that are not good.
    pub(super) fn bad(&self) -> [u64; 2] {
        let (data, parity) = self.good.split_at(self.group.data_shards);
        [data, parity].map(|good| good.iter().filter(|good| !**good).count() as u64)
    }

    /// Whether bad data can be made good.
    pub(super) fn can_heal(&self) -> bool {
        let [data, parity] = self.bad();
        data + parity <= self.group.parity_shards as u64
    }

    /// The protected bytes of the group, made good; `None` when too many shards are lost.
    pub(super) fn heal(mut self) -> Result<Option<Vec<u8>>> {
        if self.bad()[0] > 0 {
            if !self.can_heal() {
                return Ok(None);
            }
            self.decode()?;
        }
        self.data.truncate(self.group.data_bytes as usize);
        Ok(Some(self.data))
    }

    fn decode(&mut self) -> Result<()> {
        let Group { data_shards, parity_shards, .. } = self.group;
        let mut code = HighRateDecoder::new(
            data_shards,
            parity_shards,
            SHARD_BYTES,
            DefaultEngine::new(),
            None,
        )
        .map_err(refused)?;
        let (data_good, parity_good) = self.good.split_at(data_shards);
        let shards = self.data.chunks_exact(SHARD_BYTES).enumerate().zip(data_good);
        for ((at, shard), _) in shards.filter(|(_, good)| **good) {
            code.add_original_shard(at, shard).map_err(refused)?;
        }
        let shards = self.parity.chunks_exact(SHARD_BYTES).enumerate().zip(parity_good);
        for ((at, shard), _) in shards.filter(|(_, good)| **good) {
            code.add_recovery_shard(at, shard).map_err(refused)?;
        }
        let result = code.decode().map_err(refused)?;
        for (at, shard) in result.restored_original_iter() {
            let start = at * SHARD_BYTES;
            self.data[start..start + SHARD_BYTES].copy_from_slice(shard);
        }
        Ok(())
    }
}
