//! `icecore server retention`, `snapshot`, `source`, `expire`.

mod clock;
mod expire;
mod explain;
mod listed;
mod named;
mod simulate;
mod source;

pub(crate) use clock::ClockArgs;
pub(crate) use expire::ExpireArgs;
pub(crate) use explain::Explain;
pub(crate) use named::SnapshotArgs;
pub(crate) use simulate::Simulate;
pub(crate) use source::SourceArgs;
