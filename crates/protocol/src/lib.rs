//! Packets between agents and servers: pure codecs and state machines. `docs/PROTOCOL.md` tells the
//! same in words; tests compare the two.
//!
//! Start reading at [`packet`], then [`state`] (what may come when) and [`window`] (what is sent
//! again after a cut).

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

/// Oldest version that this program speaks.
pub const VERSION_OLDEST: u16 = 3;
/// Newest version that this program speaks.
pub const VERSION_NEWEST: u16 = 3;
/// Name of the data protocol in the TLS handshake (ALPN).
pub const ALPN: &[u8] = b"icecore/1";
/// The version that both ends speak, given the range of the other one.
pub fn common_version(oldest: u16, newest: u16) -> Option<u16> {
    let version = newest.min(VERSION_NEWEST);
    (version >= oldest.max(VERSION_OLDEST)).then_some(version)
}
