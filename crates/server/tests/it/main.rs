//! Both planes of the server together, over real TLS on loopback: what honest machines get, and what others do not.
//! Start reading at `rig`, a server that is administered, and at `hostile`, a server with honest machines and the packets
//! of a thief.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test may stop at the first surprise"
)]

mod administration;
mod caps;
mod checkpoints;
mod closing;
mod ending;
mod enrollment;
mod epochs;
mod events;
mod forget;
mod forking;
mod hostile;
mod hostile_client;
mod lying_nodes;
mod owners;
mod owners_of_rewritten;
mod placing;
mod quotas;
mod receipts;
mod renewing;
mod rig;
mod storage_servers;
mod two_administrators;
mod watching;
