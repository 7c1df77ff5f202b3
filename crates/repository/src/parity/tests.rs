//! Containers with parity, and all that can rot of them.

use super::group::Shards;
use super::{ShardDamage, inspect, locate};
use crate::container::name;
use crate::container::read::ContainerReader;
use crate::container::write::ContainerWriter;
use crate::local::LocalStorage;
use crate::storage::{FileReader, StorageError, StorageResult};
use format::container::{Header, Row};
use format::parity::SHARD_BYTES;
use format::record::{self, Codec, RecordKind, SealedRecord};
use ids::{ContainerNo, RecordLocation, RepositoryId, SessionId};
use std::path::PathBuf;

const NUMBER: ContainerNo = ContainerNo(7);
const PERCENT: u32 = 10;

struct Lab {
    _folder: tempfile::TempDir,
    storage: LocalStorage,
    path: PathBuf,
    good: Vec<u8>,
    rows: Vec<Row>,
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn record(seed: u64, length: usize) -> SealedRecord {
    let kind = if seed == 0 { RecordKind::Session } else { RecordKind::Tombstone };
    let header = record::Header {
        kind,
        codec: Codec::Raw,
        session: SessionId([1; 16]),
        nonce: seed,
        objects: 0,
        clear_bytes: 0,
        plain_bytes: 0,
        sealed_bytes: length as u32,
    };
    let (associated, sealed) = (header.encode().unwrap().to_vec(), noise(seed, length));
    SealedRecord { kind, ids: Vec::new(), associated, sealed }
}

impl Lab {
    /// A container of records of these lengths.
    fn new(lengths: &[usize]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        let header = Header { repository: RepositoryId([2; 16]), number: NUMBER, generation: 1 };
        let mut writer = ContainerWriter::create(&storage, header, PERCENT).unwrap();
        for (seed, length) in lengths.iter().enumerate() {
            let record = record(seed as u64, *length);
            writer.append(record.kind, &[&record.to_bytes()]).unwrap();
        }
        writer.sync().unwrap();
        writer.publish(&storage).unwrap();
        let path = folder.path().join(name(NUMBER));
        let good = std::fs::read(&path).unwrap();
        let rows = ContainerReader::open(&storage, NUMBER).unwrap().rows().unwrap();
        Self { _folder: folder, storage, path, good, rows }
    }

    /// Opens it with other bytes.
    fn with(&self, bytes: &[u8]) -> ContainerReader {
        std::fs::write(&self.path, bytes).unwrap();
        ContainerReader::open(&self.storage, NUMBER).unwrap()
    }

    fn protected(&self) -> usize {
        let parity = self.with(&self.good).parity().unwrap().unwrap();
        parity.geometry.protected() as usize
    }

    /// How many records can be had, by their parity if they must; what is had must be right.
    fn readable(&self, reader: &ContainerReader) -> usize {
        let mut buffer = Vec::new();
        let had = self.rows.iter().filter(|row| {
            let location =
                RecordLocation { container: NUMBER, offset: row.offset, length: row.length };
            let is_good =
                reader.read(location, &mut buffer).is_ok() && record::verify(&buffer).is_ok();
            let is_had = is_good || reader.heal(location, &mut buffer);
            let start = row.offset as usize;
            assert!(!is_had || buffer == self.good[start..start + row.length as usize]);
            is_had
        });
        had.count()
    }
}

fn damage(reader: &ContainerReader) -> ShardDamage {
    inspect(reader, PERCENT).unwrap()
}

#[test]
fn what_is_whole_has_not_rotted() {
    for lengths in [&[50][..], &[50, 4000], &[97, 300_000, 9_000_000, 20], &[50, 8 << 20, 1 << 20]]
    {
        let lab = Lab::new(lengths);
        let reader = lab.with(&lab.good);
        assert_eq!(damage(&reader), ShardDamage::default());
        assert!(reader.parity().unwrap().unwrap().has_end);
        assert_eq!(lab.rows.len(), lengths.len() + 1, "the session record stands twice");
        let healed = reader.healed().unwrap().unwrap();
        assert_eq!(healed.rows().unwrap(), lab.rows);
        let walk = reader.walk(|_, _| ()).unwrap();
        assert_eq!((walk.rows, walk.damaged), (lab.rows.clone(), Vec::new()));
    }
}

/// All over a small container: its own bytes, the parity, and what tells how to heal.
#[test]
fn a_flip_of_any_byte_is_found_and_costs_nothing() {
    let lab = Lab::new(&[50, 5000]);
    let (protected, length) = (lab.protected(), lab.good.len());
    let head = protected.next_multiple_of(SHARD_BYTES);
    let frame = (0..80).chain(protected - 80..protected + 80).chain(head - 80..head + 160);
    let frame = frame.chain(length - 160..length);
    for at in frame.chain((80..length - 160).step_by(23)) {
        let mut bytes = lab.good.clone();
        bytes[at] ^= 1 << (at % 8);
        let reader = lab.with(&bytes);
        assert!(!damage(&reader).is_none(), "a flip at {at} was not found");
        assert_eq!(damage(&reader).groups_beyond_repair, 0, "{at}");
        assert_eq!(lab.readable(&reader), lab.rows.len(), "{at}");
        assert_eq!(reader.healed().unwrap().unwrap().rows().unwrap(), lab.rows, "{at}");
    }
}

#[test]
fn a_truncation_never_gives_other_bytes() {
    let lab = Lab::new(&[50, 5000, 3000]);
    let parity = lab.with(&lab.good).parity().unwrap().unwrap().geometry.parity_at() as usize;
    for end in (0..lab.good.len()).step_by(37) {
        let reader = lab.with(&lab.good[..end]);
        assert!(!damage(&reader).is_none(), "{end}");
        let count = lab.readable(&reader);
        // With its first table whole the container itself is.
        assert!(end < parity || count == lab.rows.len(), "{end}");
    }
}

#[test]
fn every_sector_of_a_container_of_two_groups_can_be_lost() {
    let lab = Lab::new(&[50, 7_000_000, 3_000_000, 500]);
    let sectors = lab.good.len().div_ceil(SHARD_BYTES);
    let ends = (0..6).chain(sectors - 6..sectors);
    for sector in ends.chain((6..sectors - 6).step_by(301)) {
        let mut bytes = lab.good.clone();
        let start = sector * SHARD_BYTES;
        let end = bytes.len().min(start + SHARD_BYTES);
        bytes[start..end].fill(0);
        let reader = lab.with(&bytes);
        assert!(!damage(&reader).is_none(), "sector {sector} was not missed");
        assert_eq!(lab.readable(&reader), lab.rows.len(), "sector {sector}");
    }
}

/// Tables, heads, parity and data: of a small container no two sectors are all that holds a byte.
#[test]
fn any_two_sectors_of_a_small_container_can_be_lost() {
    let lab = Lab::new(&[50, 9000]);
    let sectors = lab.good.len().div_ceil(SHARD_BYTES);
    for (one, other) in (0..sectors).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let mut bytes = lab.good.clone();
        for sector in [one, other] {
            let end = bytes.len().min((sector + 1) * SHARD_BYTES);
            bytes[sector * SHARD_BYTES..end].fill(0x77);
        }
        let reader = lab.with(&bytes);
        assert!(!damage(&reader).is_none(), "{one} {other}");
        assert_eq!(lab.readable(&reader), lab.rows.len(), "sectors {one} and {other}");
    }
}

#[test]
fn a_burst_heals_up_to_the_parity_and_not_beyond() {
    // 8 MiB are 2,048 shards; a tenth of that, rounded up.
    const SHARDS: usize = 205;
    let lab = Lab::new(&[50, 3_000_000, 3_000_000, 4_000_000]);
    let burst = |first: usize, shards: usize| {
        let mut bytes = lab.good.clone();
        bytes[first * SHARD_BYTES..(first + shards) * SHARD_BYTES].fill(0xaa);
        lab.with(&bytes)
    };
    for first in [0, 100, 2048 - SHARDS] {
        let reader = burst(first, SHARDS);
        let expected = ShardDamage { data_shards: SHARDS as u64, ..ShardDamage::default() };
        assert_eq!(damage(&reader), expected);
        assert_eq!(lab.readable(&reader), lab.rows.len());
        let reader = burst(first, SHARDS + 1);
        // The last one begins in this group and ends in the next, which has parity of its own.
        let beyond = u64::from(first + SHARDS < 2048);
        assert_eq!(damage(&reader).groups_beyond_repair, beyond);
        assert_eq!(lab.readable(&reader) < lab.rows.len(), beyond == 1, "from {first}");
    }
}

/// A disk that says that it cannot read some sectors.
struct BadSectors<'a> {
    bytes: &'a [u8],
    bad: Vec<usize>,
}

impl FileReader for BadSectors<'_> {
    fn length(&self) -> StorageResult<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let start = offset as usize;
        let end = start + buffer.len();
        let sectors = start / SHARD_BYTES..end.div_ceil(SHARD_BYTES);
        if end > self.bytes.len() || self.bad.iter().any(|bad| sectors.contains(bad)) {
            return Err(StorageError::new("read", "it", std::io::ErrorKind::Other));
        }
        buffer.copy_from_slice(&self.bytes[start..end]);
        Ok(())
    }
}

#[test]
fn sectors_that_cannot_be_read_are_made_good() {
    let lab = Lab::new(&[50, 7_000_000, 3_000_000, 500]);
    let last = lab.good.len() / SHARD_BYTES;
    let in_first_table = lab.protected() / SHARD_BYTES;
    for bad in [vec![0], vec![5, 6, 2047, 2048], vec![in_first_table], vec![last], vec![1, last]] {
        let file = BadSectors { bytes: &lab.good, bad: bad.clone() };
        let geometry = locate(&file).unwrap().unwrap().geometry;
        let mut whole = vec![0; geometry.protected() as usize];
        for number in 0..geometry.groups() {
            let group = geometry.group(number).unwrap();
            let healed = Shards::read(&file, group).heal().unwrap().unwrap();
            whole[group.data_at as usize..][..healed.len()].copy_from_slice(&healed);
        }
        assert!(whole == lab.good[..whole.len()], "{bad:?}");
    }
}

/// With one head and one table lost by the end and the other by rot there is no parity, and what
/// is good without it is still there.
#[test]
fn without_both_heads_it_is_a_container_without_parity() {
    let lab = Lab::new(&[50, 5000]);
    let (protected, length) = (lab.protected(), lab.good.len());
    let mut bytes = lab.good.clone();
    bytes[protected.next_multiple_of(SHARD_BYTES)] ^= 1;
    bytes[length - 1] ^= 1;
    let reader = lab.with(&bytes);
    assert_eq!(reader.parity().unwrap(), None);
    assert!(damage(&reader).has_no_parity);
    assert_eq!(lab.readable(&reader), lab.rows.len());
    let walk = reader.walk(|_, _| ()).unwrap();
    assert!(lab.rows.iter().all(|row| walk.rows.contains(row)));
}

/// What any version wrote is read, and written alike: the code itself must never change.
#[test]
fn a_golden_container_is_written_alike_and_heals() {
    let lab = Lab::new(&[50, 6000, 700]);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v1/parity.ice");
    if !path.exists() && std::env::var_os("ICECORE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &lab.good).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == lab.good, "today's writer");
    let mut rotten = golden;
    rotten[..2 * SHARD_BYTES].fill(0);
    assert_eq!(lab.readable(&lab.with(&rotten)), lab.rows.len());
}

/// The large case: a whole group, and one that is not. Whatever a processor can do, it does this.
#[test]
fn the_parity_of_a_whole_group_is_fixed() {
    let lab = Lab::new(&[50, 9_000_000]);
    let sum = blake3::hash(&lab.good).to_hex();
    assert_eq!(&sum.as_str()[..32], "452938c75eeee4d3c764b322014c8078");
}
