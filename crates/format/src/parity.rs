//! The parity section, which may follow a container: it heals damaged sectors.
//!
//! ```text
//!  0             protected
//! | container … | zeros | head 48 | sums | zeros | parity shards | sums | head 48 |
//! ```
//! The container is divided into shards, and these into groups with their own parity shards. All metadata is stored
//! twice, at both ends of the section and in separate sectors: one damaged sector costs one copy, and nothing of the
//! container. This module defines the layout; the crate `repository` computes parity and heals.

use crate::container::{HEADER_BYTES, TRAILER_BYTES};
use crate::limits::{CONTAINER_BYTES_MAX, PARITY_PERCENT_MAX};
use crate::wire::{Reader, checksum};
use crate::{Error, Result};

/// First bytes of either head.
pub const MAGIC: [u8; 8] = *b"ICEPARI1";
/// Length of a head in bytes.
pub const HEAD_BYTES: usize = 8 + 8 + 4 + 4 + 4 + 4 + 16;
/// Length of a shard in bytes: a sector of today's disks, which is what rots at once.
pub const SHARD_BYTES: usize = 4096;
/// Data shards of a whole group: 8 MiB.
pub const GROUP_SHARDS: u64 = (8 << 20) / SHARD_BYTES as u64;
/// Length of the checksum of a shard in bytes.
pub const SUM_BYTES: usize = 8;
/// The fewest parity shards of a group: the smallest container survives the loss of any two
/// sectors.
const PARITY_SHARDS_MIN: u64 = 2;
const SHARD: u64 = SHARD_BYTES as u64;
const SUM: u64 = SUM_BYTES as u64;
const HEAD: u64 = HEAD_BYTES as u64;

/// How a container is protected. All places in the section follow from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    protected: u64,
    percent: u32,
}

/// A group: a stretch of the container, and where its parity and its checksums lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Offset of its first data shard.
    pub data_at: u64,
    /// Protected bytes in it; the last shard is filled up with zeros.
    pub data_bytes: u64,
    /// Data shards.
    pub data_shards: usize,
    /// Offset of its first parity shard.
    pub parity_at: u64,
    /// Parity shards: so many lost shards can be healed.
    pub parity_shards: usize,
    /// Offsets of the two tables of checksums: data shards, then parity shards.
    pub sums_at: [u64; 2],
}

impl Geometry {
    /// Protects the first `protected` bytes with `percent` of parity.
    pub fn new(protected: u64, percent: u32) -> Result<Self> {
        let too_large = |value, limit| Err(Error::TooLarge { what: "parity head", value, limit });
        if protected > CONTAINER_BYTES_MAX {
            return too_large(protected, CONTAINER_BYTES_MAX);
        }
        if percent > PARITY_PERCENT_MAX {
            return too_large(percent.into(), PARITY_PERCENT_MAX.into());
        }
        if percent == 0 || protected < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(Error::Invalid { what: "parity head" });
        }
        Ok(Self { protected, percent })
    }

    /// The head as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.protected.to_le_bytes());
        for value in [SHARD_BYTES as u32, GROUP_SHARDS as u32, self.percent, 0] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        let sum = checksum(&[&out]);
        out.extend_from_slice(&sum);
        out
    }

    /// The head at the start of `bytes`, its checksum verified.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "parity head");
        let covered = reader.clone().bytes(HEAD_BYTES - 16)?;
        if reader.array()? != MAGIC {
            return Err(reader.invalid());
        }
        let protected = reader.u64()?;
        let sizes = [reader.u32()?, reader.u32()?];
        let (percent, zero) = (reader.u32()?, reader.u32()?);
        if reader.array()? != checksum(&[covered]) {
            return Err(Error::Checksum { what: "parity head" });
        }
        if sizes != [SHARD_BYTES as u32, GROUP_SHARDS as u32] || zero != 0 {
            return Err(reader.invalid());
        }
        Self::new(protected, percent)
    }

    /// Length in bytes of what is protected: the container without its parity.
    pub fn protected(&self) -> u64 {
        self.protected
    }

    /// Parity shards for each hundred data shards.
    pub fn percent(&self) -> u32 {
        self.percent
    }

    /// Number of groups.
    pub fn groups(&self) -> u64 {
        self.data_shards().div_ceil(GROUP_SHARDS)
    }

    /// The group `number`, from 0.
    pub fn group(&self, number: u64) -> Option<Group> {
        let before = number.checked_mul(GROUP_SHARDS)?;
        let data_shards = self.data_shards().checked_sub(before)?.min(GROUP_SHARDS);
        if data_shards == 0 {
            return None;
        }
        let parity_before = number * self.parity_of(GROUP_SHARDS);
        let sums_before = (before + parity_before) * SUM;
        let data_at = before * SHARD;
        Some(Group {
            data_at,
            data_bytes: (data_shards * SHARD).min(self.protected - data_at),
            data_shards: data_shards as usize,
            parity_at: self.parity_at() + parity_before * SHARD,
            parity_shards: self.parity_of(data_shards) as usize,
            sums_at: self.sums_at().map(|at| at + sums_before),
        })
    }

    /// Offsets of the two heads.
    pub fn heads_at(&self) -> [u64; 2] {
        let [_, second_sums] = self.sums_at();
        [self.first_head_at(), second_sums + self.sums_bytes()]
    }

    /// Offset of the first head: the next sector.
    fn first_head_at(&self) -> u64 {
        self.protected.next_multiple_of(SHARD)
    }

    /// Offset of the first parity shard. Shards lie as sectors do, so that one sector is one shard.
    pub fn parity_at(&self) -> u64 {
        self.zeros_at().next_multiple_of(SHARD)
    }

    /// Offset of the zeros between the first table and the parity.
    pub fn zeros_at(&self) -> u64 {
        self.first_head_at() + HEAD + self.sums_bytes()
    }

    /// Offsets of the two tables.
    fn sums_at(&self) -> [u64; 2] {
        let second = self.parity_at() + self.parity_shards() * SHARD;
        [self.first_head_at() + HEAD, second]
    }

    /// Length in bytes of a table.
    fn sums_bytes(&self) -> u64 {
        (self.data_shards() + self.parity_shards()) * SUM
    }

    /// Length in bytes of the container with its parity.
    pub fn end(&self) -> u64 {
        self.heads_at()[1] + HEAD
    }

    fn data_shards(&self) -> u64 {
        self.protected.div_ceil(SHARD)
    }

    fn parity_shards(&self) -> u64 {
        let (whole, rest) = (self.data_shards() / GROUP_SHARDS, self.data_shards() % GROUP_SHARDS);
        let of_rest = if rest == 0 { 0 } else { self.parity_of(rest) };
        whole * self.parity_of(GROUP_SHARDS) + of_rest
    }

    fn parity_of(&self, data_shards: u64) -> u64 {
        parity_shards(data_shards, self.percent)
    }
}

/// Parity shards of a group of `data_shards`.
pub fn parity_shards(data_shards: u64, percent: u32) -> u64 {
    (data_shards * u64::from(percent)).div_ceil(100).max(PARITY_SHARDS_MIN)
}

/// The checksum of a shard: short, as there are many, and what they make good is looked at again.
pub fn shard_sum(shard: &[u8]) -> [u8; SUM_BYTES] {
    let sum = checksum(&[shard]);
    let mut first = [0; SUM_BYTES];
    first.iter_mut().zip(sum).for_each(|(to, from)| *to = from);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: u64 = (HEADER_BYTES + TRAILER_BYTES) as u64;

    fn sizes() -> impl Iterator<Item = Geometry> {
        let lengths = [SMALLEST, 4095, 4096, 4097, 8 << 20, (8 << 20) + 1, 70_000_000, 1 << 32];
        let both =
            lengths.into_iter().flat_map(|length| [1, 3, 25].map(|percent| (length, percent)));
        both.map(|(length, percent)| Geometry::new(length, percent).unwrap())
    }

    #[test]
    fn groups_fill_the_container_and_the_section_without_overlap() {
        for geometry in sizes() {
            let (mut data, mut parity) = (0, geometry.parity_at());
            let mut sums = geometry.sums_at();
            for number in 0..geometry.groups() {
                let group = geometry.group(number).unwrap();
                assert_eq!((group.data_at, group.parity_at, group.sums_at), (data, parity, sums));
                assert!(group.parity_shards >= 2, "{geometry:?}");
                assert!(group.data_bytes > (group.data_shards as u64 - 1) * SHARD);
                data += group.data_bytes;
                parity += group.parity_shards as u64 * SHARD;
                let bytes = (group.data_shards + group.parity_shards) as u64 * SUM;
                sums = sums.map(|at| at + bytes);
            }
            assert_eq!(geometry.group(geometry.groups()), None);
            assert_eq!(geometry.group(u64::MAX), None);
            assert_eq!((data, parity), (geometry.protected(), geometry.sums_at()[1]));
            assert_eq!(sums[0], geometry.zeros_at());
            assert!(sums[0] <= geometry.parity_at() && geometry.parity_at() - sums[0] < SHARD);
            assert_eq!(sums[1], geometry.heads_at()[1]);
            assert_eq!(geometry.parity_at() % SHARD, 0);
            assert_eq!(geometry.end(), sums[1] + HEAD);
        }
    }

    #[test]
    fn a_parity_head_is_read_back_and_flips_and_truncations_are_found() {
        for geometry in sizes() {
            let bytes = geometry.encode();
            assert_eq!(bytes.len(), HEAD_BYTES);
            assert_eq!(Geometry::decode(&bytes), Ok(geometry));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Geometry::decode(&damaged).is_err(), "bit {bit}");
            }
            (0..bytes.len()).for_each(|end| assert!(Geometry::decode(&bytes[..end]).is_err()));
        }
    }

    #[test]
    fn what_no_writer_makes_is_refused() {
        for (protected, percent) in
            [(SMALLEST, 0), (SMALLEST, 26), (SMALLEST - 1, 3), (CONTAINER_BYTES_MAX + 1, 3)]
        {
            assert!(Geometry::new(protected, percent).is_err(), "{protected} {percent}");
        }
        let good = Geometry::new(SMALLEST, 3).unwrap().encode();
        // Other sizes of shards and groups, a percentage beyond the limit, and what must be zero.
        for at in [16, 20, 24, 28] {
            let mut bytes = good.clone();
            bytes[at] = 99;
            let sum = checksum(&[&bytes[..32]]);
            bytes[32..].copy_from_slice(&sum);
            assert!(Geometry::decode(&bytes).is_err(), "field at {at}");
        }
    }
}
