//! A container whose footer is not believed: the walk over it ends, and says of every byte
//! whether it is a good record.

use format::record;
use crate::memory::Memory;
use ids::ContainerNo;
use repository::container::{self, read::ContainerReader};

/// The records of `bytes` with good sums, as far as their headers say where they end.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 64;
    while let Some(rest) = out.get(at..) {
        let Ok(header) = record::Header::decode(rest) else { break };
        let length = header.record_bytes();
        let Some(body) = rest.get(..length - 16) else { break };
        let sum = format::wire::checksum(&[body]);
        let Some(place) = out.get_mut(at + length - 16..at + length) else { break };
        place.copy_from_slice(&sum);
        at += length;
    }
    out
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let good = summed(bytes);
    for bytes in [bytes, &good] {
        let number = ContainerNo(7);
        let storage = Memory::with(&[(&container::name(number), bytes)]);
        let reader = ContainerReader::open(&*storage, number).expect("it is there");
        let mut visited = 0;
        let Ok(walk) = reader.walk(|_, _| visited += 1) else { continue };
        assert_eq!(visited, walk.rows.len());
        let records: u64 = walk.rows.iter().map(|row| u64::from(row.length)).sum();
        let damaged: u64 = walk.damaged.iter().map(|(_, length)| length).sum();
        assert!(records + damaged <= (bytes.len() as u64).saturating_sub(64));
        if let Ok(rows) = reader.rows() {
            rows.iter().for_each(|row| drop(reader.associated(row)));
        }
    }
}
