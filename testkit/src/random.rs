//! Random numbers that can be repeated: the seed is printed, so that a failure can be run again.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "an endless iterator would be no better")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number of seconds, or the like, below `end`, which is above 0.
    pub fn signed(&mut self, end: i64) -> i64 {
        self.below(end as u64) as i64
    }

    /// A length or index below `end`, which is not 0.
    pub fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Whether something with a chance of one in `many` happens.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// One element of `all`, which is not empty.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// One of two.
    pub fn either<T>(&mut self, one: T, other: T) -> T {
        if self.one_in(2) { one } else { other }
    }

    /// Bytes: noise, or text that compresses.
    pub fn bytes(&mut self, length: u64) -> Vec<u8> {
        let noise = self.one_in(2);
        let words = (0..length.div_ceil(8)).flat_map(|at| {
            let word = if noise { self.next() } else { at / 7 };
            word.to_le_bytes()
        });
        let mut bytes: Vec<u8> = words.collect();
        bytes.truncate(length as usize);
        bytes
    }
}

/// Bytes that no compressor makes smaller, the same for the same seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; length];
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&random.next().to_le_bytes()[..word.len()]);
    }
    bytes
}

/// The seeds to run: `ICECORE_MODEL_RUNS` of them, or as many as a test takes by itself, from `ICECORE_MODEL_FIRST` on.
///
/// # Panics
/// When one of the variables is not a number.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let first = number("ICECORE_MODEL_FIRST").unwrap_or(0);
    first..first + number("ICECORE_MODEL_RUNS").unwrap_or(usual)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
