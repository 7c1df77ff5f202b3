//! What of a container has rotted, by its own checksums of shards.

use super::group::Shards;
use super::locate::{ParitySection, head_at};
use crate::Result;
use crate::container::lenient::read_what_can_be;
use crate::container::read::ContainerReader;
use crate::storage::FileReader;
use format::parity::Geometry;
use std::fmt;

/// What has rotted of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardDamage {
    /// Shards of data.
    pub data_shards: u64,
    /// Shards of parity.
    pub parity_shards: u64,
    /// Groups that have lost more than their parity can make good.
    pub groups_beyond_repair: u64,
    /// Whether something beside the shards is not as it was written: what tells how to heal.
    pub in_metadata: bool,
    /// There is no parity, and there should be.
    pub has_no_parity: bool,
}

impl ShardDamage {
    /// Whether all is as it was written.
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
        write!(f, "{data_shards} sectors of data and {parity_shards} of parity have rotted")?;
        if self.in_metadata {
            write!(f, ", and what tells how to heal")?;
        }
        if *groups_beyond_repair > 0 {
            write!(
                f,
                "; {groups_beyond_repair} stretches of 8 MiB have lost more than parity makes good"
            )?;
        }
        Ok(())
    }
}

/// What has rotted of the container in `reader`, which was written with `percent` of parity.
/// Reads all of it.
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
