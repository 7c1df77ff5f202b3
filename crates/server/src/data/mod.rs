//! The part that stores: connections of nodes, their sessions, the repositories of domains. It has
//! no key of any domain.
//!
//! ```text
//!  listen ──▶ connection ──▶ serve ──▶ session ──▶ repository
//!                 ▲            (a blocking thread for each piece of work, never for a connection)
//!                 └── hub: who is connected; limits, orders, cancels, revocations on their way out
//! ```

pub mod connection;
pub mod domains;
mod faults;
pub mod hub;
mod manifest;
mod random;
mod reading;
mod session;
pub mod sessions;
mod work;

use crate::authority::{Authority, JobEnd};
use domains::Domains;
use hub::Hub;
use sessions::Sessions;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Memory for bodies of large packets under way, of all connections together.
const BODIES_BYTES: usize = 256 << 20;
/// What one permit of that memory stands for.
const PERMIT_BYTES: usize = 16 << 10;

/// All that connections share.
pub struct Shared {
    /// Who may do what.
    pub authority: Arc<dyn Authority>,
    /// Open repositories.
    pub domains: Arc<Domains>,
    /// Sessions, attached or waiting for their node to come back.
    pub sessions: Sessions,
    /// Connections.
    pub hub: Hub,
    bodies: Arc<Semaphore>,
    /// Name and version, for the other end.
    program: String,
}

impl Shared {
    /// The part that stores, under `authority`.
    pub fn new(authority: Arc<dyn Authority>) -> Arc<Self> {
        Arc::new(Self {
            authority,
            domains: Arc::default(),
            sessions: Sessions::default(),
            hub: Hub::default(),
            bodies: Arc::new(Semaphore::new(BODIES_BYTES / PERMIT_BYTES)),
            program: concat!("icecore ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }

    /// What time brings: revocations, limits that change with the hour, sessions whose node does not
    /// come back. Called every second.
    pub fn tick(&self) {
        self.hub.tick(&*self.authority);
        let authority = &*self.authority;
        for session in self.sessions.expired() {
            session.finish(authority, &JobEnd::Lost, "");
        }
        for session in self.sessions.take_if(|session| authority.is_cancelled(session.job)) {
            let why = "an administrator cancelled it".to_owned();
            session.finish(authority, &JobEnd::Failed(why), "");
        }
    }
}
