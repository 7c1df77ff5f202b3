//! What the engine keeps, for tests that have no key: sealed records whose content is of no account, and repositories
//! that hold some.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

pub mod before;
pub mod record;
pub mod repositories;

pub use before::Before;
pub use record::{
    SESSION, chunk, data, id, leaf, manifest, page, record, session_record, tombstone,
};
pub use repositories::{OPTIONS, files, killed_here, made, made_as, reopened, runs, store};
