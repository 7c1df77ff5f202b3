//! Objects into sealed records and back. Pure: no I/O, no clock, no randomness.
//!
//! [`Block`] gathers objects, [`Sealer`] makes a record of them, [`Opener`] brings them back.
//! Order of the steps: gather, compress, pad, seal; the reverse on the way back, where nothing
//! is decompressed before its seal is good.

mod block;
mod open;
mod sealer;

pub use block::{AUTO_STEP_MAX, Block, BlockCompressor, Level};
pub use open::{OpenedBlock, Opener};
pub use sealer::Sealer;

/// Why a record could not be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a record.
    #[error(transparent)]
    Format(#[from] format::Error),
    /// The seal is invalid, or the session has reached a limit.
    #[error(transparent)]
    Crypto(#[from] crypto::Error),
    /// The plaintext does not decompress to what the header says.
    #[error("a record cannot be decompressed")]
    Decompress,
    /// The content of an object does not match its id.
    #[error("the content of object {0} does not match its id")]
    WrongContent(ids::ObjectId),
    /// Compressing failed: out of memory, or a bug of the compressor.
    #[error("a record could not be compressed")]
    Compress,
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests;
