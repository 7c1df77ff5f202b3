//! How fast one core cuts files: `cargo run --release -p chunker --example speed`.
//!
//! Counts the thread's processor time (Linux), so that a busy machine changes little.

use chunker::{Chunker, Params, Privacy};

const LEN: usize = 256 << 20;

fn main() {
    let data = noise();
    for privacy in [Privacy::Standard, Privacy::Hardened] {
        let chunker = Chunker::new(privacy, &[7; 32], Params::DEFAULT);
        let mut seconds: Vec<f64> = (0..5).map(|_| cut_all(&chunker, &data).1).collect();
        seconds.sort_by(f64::total_cmp);
        let chunks = cut_all(&chunker, &data).0;
        let speed = LEN as f64 / seconds[2] / 1e6;
        println!("{privacy:?}: {speed:.0} MB/s, {chunks} chunks of {} bytes", LEN / chunks);
    }
}

fn cut_all(chunker: &Chunker, mut data: &[u8]) -> (usize, f64) {
    let (start, mut chunks) = (cpu_seconds(), 0);
    while let Some(len) = chunker.next_cut(data, true) {
        data = &data[len..];
        chunks += 1;
    }
    (chunks, cpu_seconds() - start)
}

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let ns: f64 = text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds");
    ns / 1e9
}

/// Bytes without a pattern (SplitMix64).
fn noise() -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).to_le_bytes()
    };
    (0..LEN / 8).flat_map(|_| next()).collect()
}
