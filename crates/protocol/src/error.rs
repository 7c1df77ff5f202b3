//! Errors of decoders and state machines.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes are not a packet, or a packet is not allowed now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes cannot be decoded.
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
    /// A packet is longer than the packet table allows.
    #[error("{packet} of {bytes} bytes exceeds the limit of {limit}")]
    TooLong {
        /// The packet.
        packet: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// This end may not send the packet.
    #[error("{0} may not be sent by this end")]
    WrongEnd(&'static str),
    /// The packet is not allowed in this state.
    #[error("{packet} is not allowed {state}")]
    OutOfOrder {
        /// The packet.
        packet: &'static str,
        /// State of the connection.
        state: &'static str,
    },
    /// A reply without a request.
    #[error("{packet} answers no request")]
    Unrequested {
        /// The packet.
        packet: &'static str,
    },
    /// More was acknowledged than was sent.
    #[error("more was acknowledged than was sent")]
    NotSent,
}
