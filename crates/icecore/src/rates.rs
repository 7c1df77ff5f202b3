//! How fast one core computes, and how fast a disk takes what is synced.

use crate::failure::{Failure, Result};
use chunker::{Chunker, Params};
use crypto::{Cipher, KeyMaterial, NonceCounter, SessionKey};
use ids::SessionId;
use repository::local::LocalStorage;
use repository::storage::Storage;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes computed on: more than fits into the caches.
const DATA_BYTES: usize = 32 << 20;
/// As long as a compressed record.
const BLOCK_BYTES: usize = 1 << 20;
/// A rate is measured for at least this time.
const TIME_MIN: Duration = Duration::from_millis(250);
/// Levels of Zstandard that are of use.
const LEVELS: [i32; 6] = [-1, 1, 2, 3, 6, 12];
/// Bytes between two syncs: about a container.
const SYNC_BYTES: u64 = 64 << 20;

/// A measured rate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rate {
    pub(crate) what: String,
    pub(crate) bytes_per_sec: f64,
}

/// What one core does with data that compresses about as text does.
pub(crate) fn cpu() -> Result<Vec<Rate>> {
    let data = text_like(DATA_BYTES);
    let blocks = || data.chunks(BLOCK_BYTES);
    let material = KeyMaterial::generate(&mut |bytes: &mut [u8]| bytes.fill(7));
    let ids = material.domain.id_key();
    let hash = |block| {
        std::hint::black_box(ids.chunk_id(block));
    };
    let mut rates = vec![measure("hash (BLAKE3)".into(), || blocks().for_each(hash))];
    for (name, privacy) in
        [("standard", chunker::Privacy::Standard), ("hardened", chunker::Privacy::Hardened)]
    {
        let chunker = Chunker::new(privacy, &material.domain.chunker_key().0, Params::DEFAULT);
        rates.push(measure(format!("chunk ({name})"), || cut(&chunker, &data)));
    }
    for level in LEVELS {
        rates.push(compress(level, &data)?);
    }
    for (name, cipher) in
        [("AES-256-GCM", Cipher::Aes256Gcm), ("ChaCha20-Poly1305", Cipher::ChaCha20Poly1305)]
    {
        rates.push(encrypt(name, cipher, &data));
    }
    Ok(rates)
}

fn cut(chunker: &Chunker, mut data: &[u8]) {
    while let Some(length) = chunker.next_cut(data, true).filter(|length| *length > 0) {
        data = data.get(length..).unwrap_or_default();
    }
}

fn compress(level: i32, data: &[u8]) -> Result<Rate> {
    let mut compressor = zstd::bulk::Compressor::new(level)?;
    let mut out = vec![0; zstd::zstd_safe::compress_bound(BLOCK_BYTES)];
    let mut packed = 0;
    let rate = measure(String::new(), || {
        let lengths = data
            .chunks(BLOCK_BYTES)
            .map(|block| compressor.compress_to_buffer(block, &mut out[..]).unwrap_or(0));
        packed = lengths.sum();
    });
    let what =
        format!("compress (zstd {level}, to {:.0} %)", 100.0 * packed as f64 / data.len() as f64);
    Ok(Rate { what, ..rate })
}

fn encrypt(name: &str, cipher: Cipher, data: &[u8]) -> Rate {
    let key = SessionKey::new(SessionId([1; 16]), [2; 32], cipher);
    let counter = NonceCounter::new();
    let mut buffer = Vec::with_capacity(2 * BLOCK_BYTES);
    measure(format!("encrypt ({name})"), || {
        for block in data.chunks(BLOCK_BYTES) {
            buffer.clear();
            buffer.extend_from_slice(block);
            if let Ok(nonce) = counter.next(block.len()) {
                key.seal_in_place(nonce, b"", &mut buffer);
            }
        }
    })
}

/// Runs `work`, which processes all the data, until the time is long enough to measure.
fn measure(what: String, mut work: impl FnMut()) -> Rate {
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < TIME_MIN {
        work();
        rounds += 1;
    }
    Rate { what, bytes_per_sec: (rounds * DATA_BYTES) as f64 / start.elapsed().as_secs_f64() }
}

/// Words of random letters in random order.
fn text_like(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let word =
        |seed: u64| (0..3 + seed % 7).map(move |at| b'a' + ((seed >> (8 + 5 * at)) % 26) as u8);
    let words: Vec<Vec<u8>> = (0..4096).map(|_| word(random()).chain([b' ']).collect()).collect();
    let mut data = Vec::with_capacity(length + 16);
    while data.len() < length {
        // The product makes some words frequent and most of them rare.
        let pick = (random() % 4096 * (random() % 4096) / 4096) as usize;
        data.extend_from_slice(&words[pick]);
    }
    data.truncate(length);
    data
}

/// Writes `size` bytes below `directory` as a backup does, and removes them again.
pub(crate) fn storage(directory: &Path, size: u64) -> Result<Vec<Rate>> {
    let failed = |error| Failure::from(store::Error::from(error));
    let storage = LocalStorage::open(directory).map_err(failed)?;
    let name = format!("bench-{}", std::process::id());
    let result = write(&storage, &name, size);
    storage.remove(&name).map_err(failed)?;
    let (large, syncs_per_sec) = result.map_err(failed)?;
    let small = Rate {
        what: format!("write and sync 4 KiB ({syncs_per_sec:.0}/s)"),
        bytes_per_sec: 4096.0 * syncs_per_sec,
    };
    Ok(vec![Rate { what: "write, sync every 64 MiB".into(), bytes_per_sec: large }, small])
}

type StorageResult<T> = repository::storage::StorageResult<T>;

fn write(storage: &LocalStorage, name: &str, size: u64) -> StorageResult<(f64, f64)> {
    // Not zeros: some disks store none.
    let block = text_like(BLOCK_BYTES);
    let (mut file, start) = (storage.create(name)?, Instant::now());
    let (mut written, mut unsynced) = (0, 0);
    while written < size {
        file.append(&[&block])?;
        (written, unsynced) = (written + BLOCK_BYTES as u64, unsynced + BLOCK_BYTES as u64);
        if unsynced >= SYNC_BYTES || written >= size {
            file.sync()?;
            unsynced = 0;
        }
    }
    let rate = written as f64 / start.elapsed().as_secs_f64().max(1e-9);
    let (start, mut syncs) = (Instant::now(), 0_u32);
    while start.elapsed() < TIME_MIN {
        file.append(&[&block[..4096]])?;
        file.sync()?;
        syncs += 1;
    }
    Ok((rate, f64::from(syncs) / start.elapsed().as_secs_f64()))
}
