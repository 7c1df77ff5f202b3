//! Packets between nodes and servers: pure codecs and state machines. The specification is
//! `docs/PROTOCOL.md`; tests compare the two.
//!
//! Start reading at [`packet`], then [`state`] (which packet may come when) and [`window`] (what is
//! sent again after a disconnect).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
pub mod fault;
mod field;
pub mod flags;
pub mod frame;
pub mod limits;
pub mod packet;
pub mod state;
pub mod window;

pub use error::{Error, Result};
pub use packet::Packet;

/// Oldest version that this program supports.
pub const VERSION_OLDEST: u16 = 3;
/// Newest version that this program supports.
pub const VERSION_NEWEST: u16 = 6;
/// The first version with the packet `Checkpoint`.
pub const VERSION_CHECKPOINT: u16 = 5;
/// The first version with the packet `GetMoreKeys`.
pub const VERSION_MORE_KEYS: u16 = 6;
/// Name of the data protocol in the TLS handshake (ALPN).
pub const ALPN: &[u8] = b"icecore/1";
/// The newest version that both ends support, given the range of the other end.
pub fn common_version(oldest: u16, newest: u16) -> Option<u16> {
    let version = newest.min(VERSION_NEWEST);
    (version >= oldest.max(VERSION_OLDEST)).then_some(version)
}
