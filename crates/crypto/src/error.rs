//! Errors, with the facts that a caller needs to name the next step.

use ids::KeyEpoch;

/// Every failure of this crate. None of them carries secret bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The password, recovery key or recipient secret does not fit what it was tried on.
    #[error("the password or key does not open this")]
    WrongKey,
    /// Bytes are not what was written: flipped, cut short, swapped or forged.
    #[error("damaged or forged: {what}")]
    Damaged {
        /// The part that failed, for a log line.
        what: &'static str,
    },
    /// The session has used all its nonces or bytes; continue with a new session.
    #[error("the session has reached its limit; start a new one")]
    SessionFull,
    /// A signature was not made by this key over these bytes.
    #[error("the signature does not match")]
    BadSignature,
    /// The key is read-only.
    #[error("this key is read-only and cannot sign")]
    CannotSign,
    /// Something was sealed in a later key epoch than these keys know.
    #[error("the data was stored in key epoch {epoch}; this key reads up to epoch {newest}")]
    LaterEpoch {
        /// The epoch of the session.
        epoch: KeyEpoch,
        /// The newest epoch that the keys know.
        newest: KeyEpoch,
    },
    /// The key list is older than the key that reads it.
    #[error("the key list has epoch {epoch}, but this key was made in epoch {made_in}")]
    OldKeyList {
        /// The epoch of the list.
        epoch: KeyEpoch,
        /// The epoch in which the key was made.
        made_in: KeyEpoch,
    },
    /// There are more keys than a list can hold.
    #[error("the key list is full: {count} keys")]
    TooManyKeys {
        /// How many there are.
        count: usize,
    },
    /// Cost parameters of the password hash outside the allowed range.
    #[error("password hash parameters out of range: {what}")]
    KdfLimits {
        /// The parameter that is out of range.
        what: &'static str,
    },
    /// Not enough memory to run the password hash with its parameters.
    #[error("not enough memory for the password hash")]
    OutOfMemory,
    /// A slot's label is too long or holds control characters.
    #[error("a key's label is at most 64 bytes of text without control characters")]
    BadLabel,
    /// An empty password would protect nothing.
    #[error("the password is empty")]
    EmptyPassword,
    /// A recovery key was mistyped: wrong length, character or checksum.
    #[error("not a valid recovery key: {what}")]
    BadRecoveryText {
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Shorthand for [`Error::Damaged`].
pub(crate) const fn damaged(what: &'static str) -> Error {
    Error::Damaged { what }
}
