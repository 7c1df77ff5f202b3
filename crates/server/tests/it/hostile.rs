//! A server with honest machines, and who has stolen what one of them has.

pub(crate) mod lifetime;
pub(crate) mod raw;
pub(crate) mod server;
