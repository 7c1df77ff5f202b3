//! What tests of several crates share. Nothing here is part of the product.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

pub mod calendar;
pub mod cold;
pub mod faketime;
pub mod hanging;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod random;
pub mod s3;
pub mod skips;

pub use faketime::faketime;
pub use hanging::Hanging;
pub use random::{Random, noise, seeds};
pub use skips::skip;
