//! Objects as JSON, one by one: so a catalog stores them, and an API sends them.

use crate::kind::Kind;
use crate::name::NameError;

/// A body is no object of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A key or value is not as it must be.
    #[error("{kind} {name}: {reason}")]
    Body {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
        /// What is wrong, and what to write instead.
        reason: String,
    },
    /// More objects than one site may have.
    #[error("a site has at most {} objects; remove some first", crate::OBJECTS_MAX)]
    TooMany,
}
