//! Parity: heals damaged sectors of a container. Optional, chosen at `init`.
//!
//! `encode` computes it while a container is written, `group` reads a part of a container and heals it, `healed` is a
//! container as it was written, for readers; `inspect` finds damage, and `repair` replaces the container. No key is
//! needed: parity works on sealed bytes. `format::parity` defines the layout.

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
