//! The index: a state and a run that anybody may have written. Answers or errors, and what a pass
//! over all of it finds is found one by one.

use format::wire::checksum;
use crate::memory::Memory;
use crate::summed;
use ids::ObjectId;
use arbitrary::Arbitrary;
use repository::Repository;
use repository::check::{IdPrefix, containers_in_index, missing_ids};
use repository::config::{self, Config};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    state: &'a [u8],
    numbers: [u64; 4],
    runs: u8,
    rows: u16,
    id: [u8; 24],
    run: &'a [u8],
    is_raw: bool,
}

const PAGE: usize = 4096;

/// The state of an index of one run, or bytes as they are.
fn state(input: &Input<'_>) -> Vec<u8> {
    if input.is_raw {
        return summed(input.state);
    }
    let (is_pending, is_interrupted) = (input.runs >= 192, input.runs >= 128);
    let magic = match (is_pending, is_interrupted) {
        (true, _) => b"ICESTAT3",
        (false, true) => b"ICESTAT2",
        (false, false) => b"ICESTAT1",
    };
    let mut out = magic.to_vec();
    input.numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
    out.extend(u64::from(input.runs % 3).to_le_bytes());
    (0..input.runs % 3).for_each(|_| out.extend(1u64.to_le_bytes()));
    if is_interrupted {
        // Ranges of three numbers each.
        let ranges = input.state.as_chunks::<24>().0;
        out.extend((ranges.len() as u64).to_le_bytes());
        ranges.iter().for_each(|range| out.extend(range));
    }
    if is_pending {
        let snapshots = input.run.as_chunks::<32>().0;
        out.extend((snapshots.len() as u64).to_le_bytes());
        snapshots.iter().for_each(|snapshot| out.extend(snapshot));
    }
    summed(&out)
}

/// A run whose sums are good: one page, its fence, a filter of any length, a trailer.
fn run(input: &Input<'_>) -> Vec<u8> {
    let mut page = [0; PAGE];
    let body = &input.run[..input.run.len().min(PAGE - 16)];
    page[16..16 + body.len()].copy_from_slice(body);
    page[..2].copy_from_slice(&input.rows.to_le_bytes());
    let sum = checksum(&[&page[..2], &page[16..]]);
    page[8..16].copy_from_slice(&sum[..8]);
    let filter = input.run.get(PAGE - 16..).unwrap_or_default();
    let mut trailer = u64::from(input.rows).clamp(1, 170).to_le_bytes().to_vec();
    trailer.extend((filter.len() as u64).to_le_bytes());
    trailer.extend(checksum(&[filter]));
    let fence = &page[16..24];
    let sum = checksum(&[fence, &trailer]);
    [&b"ICERUN01"[..], &[0; 56], &page, fence, filter, &trailer, &sum].concat()
}

fn config() -> Vec<u8> {
    let config = Config::new(ids::RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    let storage = Memory::with(&[]);
    config::write(&config, &*storage).expect("memory");
    repository::storage::read_small(&*storage, "config", 1 << 10).expect("it was written")
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let Some(input) = crate::arbitrary::<Input<'_>>(bytes) else { return };
    static CONFIG: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let (state, run) = (state(&input), if input.is_raw { input.run.to_vec() } else { run(&input) });
    let storage = Memory::with(&[
        ("config", CONFIG.get_or_init(config)),
        ("index/state", &state),
        ("index/run-0000000001", &run),
    ]);
    let Ok(repository) = Repository::open(storage) else { return };
    let (id, index) = (ObjectId(input.id), repository.index());
    let (one, many) = (index.find(&id), index.find_many(&[id, id]));
    if let (Ok(Some(place)), Ok(many)) = (&one, &many) {
        assert_eq!(many[..], [Some(*place); 2]);
    }
    let _ = containers_in_index(&repository);
    let _ = missing_ids(&repository, std::iter::once(Ok(IdPrefix::new(&id))));
}
