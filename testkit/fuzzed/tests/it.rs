//! Every fuzz target with its committed seeds and with what chance makes of them. A fuzzer goes further: `make fuzz`.

use fuzzed::TARGETS;
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use testkit::random::Random;

/// Changed seeds of each target, unless `ICECORE_FUZZ_RUNS` says otherwise.
const RUNS: u64 = 2_000;
/// Changes to one input, at most.
const CHANGES_MAX: u64 = 4;
/// Numbers that lengths and counts go wrong at.
const EDGES: [u32; 6] = [0, 1, 0x7f, 0x7fff_ffff, 0x8000_0000, u32::MAX];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder).expect("the folder of the targets");
    let name = |path: PathBuf| path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
    files.flatten().filter_map(|file| name(file.path())).collect()
}

/// What is committed for `target`, and an empty input.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder().join("seeds").join(target)).into_iter().flatten();
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    let read = |path: &PathBuf| std::fs::read(path).expect("a seed");
    std::iter::once(Vec::new()).chain(paths.iter().map(read)).collect()
}

/// `input` with a few bytes flipped, set, removed, doubled, added or replaced by an edge of what numbers hold.
fn changed(random: &mut Random, input: &[u8]) -> Vec<u8> {
    let mut input = input.to_vec();
    for _ in 0..=random.below(CHANGES_MAX) {
        let at = random.index(input.len() + 1);
        match (random.below(6), input.get_mut(at)) {
            (0, Some(byte)) => *byte ^= 1 << random.below(8),
            (1, Some(byte)) => *byte = random.below(256) as u8,
            (2, _) => input.truncate(at),
            (3, _) => {
                let end = at + random.index(input.len() - at + 1);
                input.extend_from_within(at..end);
            }
            (4, _) => {
                let edge = random.pick(&EDGES).to_le_bytes();
                input.iter_mut().skip(at).zip(edge).for_each(|(byte, new)| *byte = new);
            }
            _ => {
                let more = random.below(64);
                input.splice(at..at, random.bytes(more));
            }
        }
    }
    input
}

/// Runs `target` on `input`; a panic tells what it was.
fn run((name, fuzz): (&str, fn(&[u8])), input: &[u8]) {
    let done = catch_unwind(|| fuzz(input));
    assert!(done.is_ok(), "target {name} panicked with this input (fuzz/seeds/{name}): {input:?}");
}

#[test]
fn every_target_takes_its_seeds_and_what_chance_makes_of_them() {
    let runs =
        std::env::var("ICECORE_FUZZ_RUNS").map_or(RUNS, |runs| runs.parse().expect("a number"));
    for target in TARGETS {
        let seeds = seeds(target.0);
        seeds.iter().for_each(|seed| run(*target, seed));
        let mut random = Random::new(1);
        for _ in 0..runs {
            let seed = random.pick(&seeds).clone();
            run(*target, &changed(&mut random, &seed));
        }
    }
}

#[test]
fn each_target_is_in_the_table_and_in_the_folder_of_the_fuzzer() {
    let listed: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed, names(&folder().join("fuzz_targets")));
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).expect("the manifest");
    for name in &listed {
        assert!(
            manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\""))
        );
    }
    // Seeds of a target that is gone or was renamed would never be read.
    assert_eq!(names(&folder().join("seeds")).difference(&listed).count(), 0);
}
