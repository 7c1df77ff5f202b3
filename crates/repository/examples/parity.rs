//! How fast parity is computed, and how fast a group is made good: on one core, without any disk.

use format::container::{HEADER_BYTES, TRAILER_BYTES};
use repository::parity::{Encoder, HealedFile, locate};
use repository::storage::{FileReader, StorageError, StorageResult};
use std::sync::Arc;
use std::time::Instant;

const CONTAINER_BYTES: usize = 64 << 20;
const GROUP_BYTES: usize = 8 << 20;
const ROUNDS: usize = 8;

fn main() {
    let bytes: Vec<u8> = (0..CONTAINER_BYTES as u64 / 8)
        .flat_map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect();
    assert!(bytes.len() > HEADER_BYTES + TRAILER_BYTES);
    println!("percent  encode MB/s  space  read MB/s, nothing lost  heal MB/s, all it can");
    for percent in [1, 3, 5, 10, 25] {
        let begun = Instant::now();
        let mut section = Vec::new();
        for _ in 0..ROUNDS {
            section = encode(&bytes, percent);
        }
        let encoded = (ROUNDS * bytes.len()) as f64 / begun.elapsed().as_secs_f64() / 1e6;
        let space = section.len() as f64 / bytes.len() as f64;
        let file = [&bytes[..], &section].concat();
        let lost = GROUP_BYTES / 4096 * percent as usize / 100;
        let [read, healed] = [0, lost].map(|lost| heal(&file, &bytes, lost));
        println!("{percent:7}  {encoded:11.0}  {space:.4}  {read:23.0}  {healed:21.0}");
    }
}

fn encode(bytes: &[u8], percent: u32) -> Vec<u8> {
    let mut encoder = Encoder::new(percent);
    let mut section = Vec::new();
    // Records of 2 MiB, as a backup writes them.
    bytes.chunks(2 << 20).for_each(|record| encoder.push(record).expect("a group"));
    let keep = |parts: &[&[u8]]| {
        section = parts.concat();
        Ok(())
    };
    encoder.finish(keep).expect("a section");
    section
}

/// Reads all of it with `lost` sectors gone of each group; in MB/s.
fn heal(file: &[u8], good: &[u8], lost: usize) -> f64 {
    let mut bytes = file.to_vec();
    let groups = bytes[..good.len()].chunks_mut(GROUP_BYTES);
    groups.for_each(|group| group[..lost * 4096].fill(0));
    let file = Arc::new(Memory(bytes));
    let geometry = locate(&*file).expect("a file").expect("a section").geometry;
    let begun = Instant::now();
    let healed = HealedFile::new(file, geometry);
    let mut all = vec![0; good.len()];
    healed.read_exact_at(&mut all, 0).expect("bytes");
    let took = begun.elapsed().as_secs_f64();
    assert!(all == good, "healed");
    good.len() as f64 / took / 1e6
}

struct Memory(Vec<u8>);

impl FileReader for Memory {
    fn length(&self) -> StorageResult<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let end = || StorageError::new("read", "memory", std::io::ErrorKind::UnexpectedEof);
        let bytes = self.0.get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or_else(end)?);
        Ok(())
    }
}
