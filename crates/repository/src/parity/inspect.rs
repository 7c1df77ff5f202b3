//! Finds damaged shards of a container with the checksums in its parity.

use super::group::Shards;
use super::locate::{ParitySection, head_at};
use crate::Result;
use crate::container::lenient::read_what_can_be;
use crate::container::read::ContainerReader;
use crate::storage::FileReader;
use format::parity::Geometry;
use std::fmt;

/// The damage to the shards of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardDamage {
    /// Damaged shards of data.
    pub data_shards: u64,
    /// Damaged shards of parity.
    pub parity_shards: u64,
    /// Groups of shards with more damage than their parity can heal.
    pub groups_beyond_repair: u64,
    /// Whether the metadata of the parity is damaged.
    pub in_metadata: bool,
    /// Whether the container has no parity although it should.
    pub has_no_parity: bool,
}

impl ShardDamage {
    /// Whether nothing is damaged.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for ShardDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data_shards, parity_shards, groups_beyond_repair, .. } = self;
        if self.has_no_parity {
            return write!(f, "it has no parity");
        }
        write!(f, "{data_shards} shards of data and {parity_shards} of parity are damaged")?;
        if self.in_metadata {
            write!(f, ", and the metadata of the parity")?;
        }
        if *groups_beyond_repair > 0 {
            write!(
                f,
                "; {groups_beyond_repair} groups of 8 MiB have more damage than parity can heal"
            )?;
        }
        Ok(())
    }
}

/// The damage to the container in `reader`, which was written with `percent` of parity. Reads all of it.
pub fn inspect(reader: &ContainerReader, percent: u32) -> Result<ShardDamage> {
    let Some(section) = reader.parity()? else {
        return Ok(ShardDamage { has_no_parity: percent > 0, ..ShardDamage::default() });
    };
    let file = &**reader.file();
    let ParitySection { geometry, has_end } = section;
    let mut damage = ShardDamage {
        in_metadata: !has_end || !frame_is_whole(file, &geometry),
        ..ShardDamage::default()
    };
    for number in 0..geometry.groups() {
        let Some(group) = geometry.group(number) else { break };
        let shards = Shards::read(file, group);
        let [data, parity] = shards.bad();
        damage.data_shards += data;
        damage.parity_shards += parity;
        damage.in_metadata |= !shards.sums_agree;
        damage.groups_beyond_repair += u64::from(data > 0 && !shards.can_heal());
    }
    Ok(damage)
}

/// Whether the first head and the zeros around it are as written. Nobody needs them while the rest
/// is whole; they are repaired so that the next rot does not find them missing.
fn frame_is_whole(file: &dyn FileReader, geometry: &Geometry) -> bool {
    let [first, _] = geometry.heads_at();
    head_at(file, first) == Some(*geometry)
        && are_zeros(file, geometry.protected(), first)
        && are_zeros(file, geometry.zeros_at(), geometry.parity_at())
}

/// Whether there are only zeros, less than a sector of them.
fn are_zeros(file: &dyn FileReader, from: u64, to: u64) -> bool {
    let mut bytes = vec![0xff; to.saturating_sub(from) as usize];
    read_what_can_be(file, &mut bytes, from) && bytes.iter().all(|byte| *byte == 0)
}
