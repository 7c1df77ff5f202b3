//! Moves of domains from one pool of a storage server to another. The control server asks for them in its replies to
//! heartbeats, and the next heartbeats say how they go. It asks again each time: what nobody asks for ends.

use crate::Name;
use crate::upkeep::MoveReport;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A move that the control server asks for, until it has heard how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveOrder {
    /// Its job on the control server.
    pub job: u64,
    /// The domain.
    pub domain: Name,
    /// The pool of the storage server to which it moves.
    pub pool: Name,
    /// End what runs in the domain, instead of waiting until nothing does.
    #[serde(default)]
    pub interrupt: bool,
    /// The most bytes to copy in a second while the domain is in use; no limit when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_sec: Option<u64>,
    /// Whether it is to go on; else it ends where it can, and the domain stays where it is.
    pub goes_on: bool,
}

/// How a move goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveStatus {
    /// Its job on the control server.
    pub job: u64,
    /// What is done now, in a few words.
    pub stage: String,
    /// Bytes copied since it began there.
    pub bytes: u64,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<MoveEnd>,
}

/// How a move ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MoveEnd {
    /// The domain lies in the other pool.
    Done(MoveReport),
    /// It was told to end: the domain lies where it did.
    Stopped,
    /// Why it failed.
    Failed(String),
}
