//! Makes an index large with little content: `many_chunks init REPO` makes a repository (password `x`) whose chunks have
//! some 256 bytes, `many_chunks feed BYTES` writes a stream for it in which no chunk comes twice and all of them
//! compress to next to nothing, `many_chunks half BYTES` every second 128 KiB of that. Used by `bench/chunks.py`.
use crypto::SlotSecret;
use pipeline::unlocked::{InitOptions, UnlockedRepository};
use repository::local::LocalStorage;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const CHUNKS: chunker::Params = chunker::Params { min: 128, average: 256, max: 1024 };
/// Bytes after which the stream is the same again but for a number.
const PERIOD: usize = 512;
/// More than a pipe and the buffers of a reader hold: who took as much has begun.
const BEGUN: u64 = 4 << 20;

fn main() {
    let words: Vec<_> = std::env::args().collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "init", folder] => init(Path::new(folder)),
        [_, "feed", bytes] => feed(bytes.parse().unwrap(), 1),
        [_, "half", bytes] => feed(bytes.parse().unwrap(), 2),
        _ => panic!("many_chunks init REPO | feed BYTES | half BYTES"),
    }
}

fn init(folder: &Path) {
    let storage = Arc::new(LocalStorage::create(folder).unwrap());
    let options = InitOptions { chunks: CHUNKS, ..InitOptions::default() };
    UnlockedRepository::init(storage, SlotSecret::Password(b"x"), options).unwrap();
}

/// Writes one in `one_in` blocks of the stream, and to standard error the seconds until the reader had begun.
fn feed(bytes: u64, one_in: u64) {
    let begun = Instant::now();
    let mut output = std::io::stdout().lock();
    let mut block = vec![0_u8; 256 * PERIOD];
    blake3::Hasher::new().finalize_xof().fill(&mut block[..PERIOD]);
    for at in 1..256 {
        block.copy_within(..PERIOD, at * PERIOD);
    }
    let (mut number, mut written) = (0_u64, 0_u64);
    for place in 0..bytes.div_ceil(block.len() as u64) {
        // So near that each chunk holds one.
        for part in block.chunks_exact_mut(64) {
            part[..8].copy_from_slice(&number.to_le_bytes());
            number += 1;
        }
        if !place.is_multiple_of(one_in) {
            continue;
        }
        if output.write_all(&block).is_err() {
            return;
        }
        let was = written;
        written += block.len() as u64;
        if was < BEGUN && written >= BEGUN {
            eprintln!("begun after {:.3} s", begun.elapsed().as_secs_f64());
        }
    }
}
