//! What a decoder or a state machine refuses.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes are no packet, or a packet may not come now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes do not decode.
    #[error("{packet}: {reason}")]
    Malformed {
        /// The packet.
        packet: &'static str,
        /// What is wrong with it.
        reason: format::Error,
    },
    /// No packet has this number.
    #[error("unknown packet {0}")]
    Unknown(u8),
    /// A packet is longer than its kind may be.
    #[error("{packet} of {bytes} bytes exceeds the limit of {limit}")]
    TooLong {
        /// The packet.
        packet: &'static str,
        /// Its length.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// The packet comes from the wrong end.
    #[error("{0} may not be sent by this end")]
    WrongEnd(&'static str),
    /// The packet may not come now.
    #[error("{packet} is not allowed {state}")]
    OutOfOrder {
        /// The packet.
        packet: &'static str,
        /// What the connection is at.
        state: &'static str,
    },
    /// An answer to nothing that was asked.
    #[error("{packet} answers no request")]
    Unrequested {
        /// The packet.
        packet: &'static str,
    },
    /// More was acknowledged than was sent.
    #[error("more was acknowledged than was sent")]
    NotSent,
}
