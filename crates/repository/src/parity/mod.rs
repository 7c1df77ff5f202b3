//! Parity: makes rotten sectors of a container good again. Optional, chosen at `init`.
//!
//! `encode` computes it while a container is written; `group` reads a stretch of a container and
//! makes good what it can; `healed` is a container as it was before the rot, for who reads;
//! `repair` writes that in its
//! place, and `inspect` says whether there is reason to. Needs no key: it works on the bytes as they lie.
//! Where what lies: `format::parity`.

mod encode;
mod group;
mod healed;
mod inspect;
mod locate;
mod repair;

pub use encode::Encoder;
pub use healed::HealedFile;
pub use inspect::{ShardDamage, inspect};
pub use locate::{ParitySection, locate};
pub use repair::{RepairOutcome, remove_unfinished, repair};

#[cfg(test)]
mod tests;

use crate::Error;

/// The code refuses only what `format::parity` does not allow in the first place.
fn refused(_: reed_solomon_simd::Error) -> Error {
    Error::ParityCode
}
