//! What the planes of a server agree on, so that neither of them needs the other: the data plane asks
//! [`access_control`], the control plane writes repositories through [`Repositories`], and a server of either kind has
//! a [`folder`] of its own files and counts the [`uses`] of domains. There is no key here and no catalog, and no network but
//! to the bucket of a pool.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod access_control;
pub mod budgets;
mod error;
pub mod folder;
pub mod moving;
pub mod pool;
pub mod repositories;
pub mod settings;
pub mod upkeep;
pub mod uses;

pub use error::{Error, Result};
pub use repositories::{Expired, Repositories, config};
