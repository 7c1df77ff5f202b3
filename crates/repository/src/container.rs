//! Containers as files: names, writing, reading, also of damaged ones.

pub(crate) mod lenient;
pub mod read;
pub(crate) mod write;

use crate::storage::{PUT_SUFFIX, Storage};
use crate::{Repository, Result};
use format::container::Row;
use ids::{ContainerNo, RecordLocation};

/// Directory of all containers.
pub const DIRECTORY: &str = "containers";
/// Containers per directory: 2^8.
const SHARD_BITS: u32 = 8;
const SUFFIX: &str = ".ice";
const PART_SUFFIX: &str = ".part";

/// Size in bytes at which a container is finished: large enough that syncs are few, small enough
/// that rewriting one is quick.
pub const TARGET_BYTES: u64 = 64 << 20;

/// Name of the container `number`.
pub fn name(number: ContainerNo) -> String {
    format!("{}/{number}{SUFFIX}", shard(number))
}

/// Where the record of `row` in the container `number` lies.
pub(crate) fn place_of(number: ContainerNo, row: &Row) -> RecordLocation {
    RecordLocation { container: number, offset: row.offset, length: row.length }
}

pub(crate) fn part_name(number: ContainerNo) -> String {
    format!("{}/{number}{PART_SUFFIX}", shard(number))
}

/// Name of the file that a repair writes before it replaces the container.
pub(crate) fn healed_name(number: ContainerNo) -> String {
    format!("{}{PUT_SUFFIX}", name(number))
}

pub(crate) fn shard(number: ContainerNo) -> String {
    format!("{DIRECTORY}/{:08x}", number.0 >> SHARD_BITS)
}

/// A file in the directory of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerFile {
    /// Its number.
    pub number: ContainerNo,
    /// Whether it was finished.
    pub finished: bool,
}

/// All containers with numbers from `first` on, in order. On a network file system the listing may be stale: a
/// container that cannot be opened was removed, and the newest may be missing.
pub fn list(storage: &dyn Storage, first: ContainerNo) -> Result<Vec<ContainerFile>> {
    list_by(first, |directory| Ok(storage.list(directory)?))
}

/// All containers with numbers from `first` on, never stale; for the holder of the lease.
pub(crate) fn list_current(
    repository: &Repository,
    first: ContainerNo,
) -> Result<Vec<ContainerFile>> {
    list_by(first, |directory| repository.listing_markers.list(&*repository.storage, directory))
}

fn list_by(
    first: ContainerNo,
    list: impl Fn(&str) -> Result<Vec<String>>,
) -> Result<Vec<ContainerFile>> {
    let first_shard = format!("{:08x}", first.0 >> SHARD_BITS);
    let mut found = Vec::new();
    for shard in shards(list(DIRECTORY)?).filter(|shard| *shard >= first_shard) {
        let names = list(&format!("{DIRECTORY}/{shard}"))?;
        found.extend(
            names.iter().filter_map(|name| parse(name)).filter(|file| file.number >= first),
        );
    }
    found.sort_unstable();
    Ok(found)
}

/// Files that interrupted repairs left.
pub(crate) fn healed_left(storage: &dyn Storage) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for shard in shards(storage.list(DIRECTORY)?) {
        let names = storage.list(&format!("{DIRECTORY}/{shard}"))?;
        let healed = names.iter().filter(|name| name.ends_with(PUT_SUFFIX));
        left.extend(healed.map(|name| format!("{DIRECTORY}/{shard}/{name}")));
    }
    Ok(left)
}

fn shards(names: Vec<String>) -> impl Iterator<Item = String> {
    let is_shard = |name: &String| {
        name.len() == 8 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    names.into_iter().filter(is_shard)
}

fn parse(name: &str) -> Option<ContainerFile> {
    let (digits, finished) = match (name.strip_suffix(SUFFIX), name.strip_suffix(PART_SUFFIX)) {
        (Some(digits), _) => (digits, true),
        (None, Some(digits)) => (digits, false),
        (None, None) => return None,
    };
    let number = ContainerNo(u64::from_str_radix(digits, 16).ok()?);
    // Its only spelling: another file would be read in the place of this one.
    (number.to_string() == digits).then_some(ContainerFile { number, finished })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let number = ContainerNo(0x1234);
        assert_eq!(name(number), "containers/00000012/0000001234.ice");
        assert_eq!(parse("0000001234.ice"), Some(ContainerFile { number, finished: true }));
        assert_eq!(parse("0000001234.part"), Some(ContainerFile { number, finished: false }));
        assert_eq!(parse("123456789ab.ice").map(|file| file.number.0), Some(0x123_4567_89ab));
        for other in ["lost+found", "1.ice", "+000001234.ice", "00000ABCDE.part", "00000001234.ice"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
        let healed = healed_name(number);
        assert_eq!(parse(healed.rsplit('/').next().unwrap()), None, "nobody reads it");
    }
}
