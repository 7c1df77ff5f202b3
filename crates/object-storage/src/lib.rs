//! A repository in a bucket of an object storage that speaks S3: an implementation of
//! [`repository::storage::Storage`].
//!
//! Objects are written as a whole, under names that are used once. What changes is a row of numbered objects of which
//! each is created only if it is absent: a writer that was overtaken fails at its next one ([`roots`]). Whoever takes
//! the lease of a writer that did not end it fences that writer out ([`takeover`]). Files in the making lie in
//! temporary files of this machine ([`staging`]). What locked snapshots need, the storage can keep from us
//! ([`object_lock`]), and what was removed or overwritten can be put back ([`versions`]). A pool of a server may lie in a
//! bucket ([`pool`]). Containers may lie in cold storage classes ([`classes`], [`archived`]). Decisions: `docs/adr/0036-object-storage.md`, `docs/adr/0046-object-lock.md`,
//! `docs/adr/0051-pools-in-buckets.md`, `docs/adr/0054-cold-storage-classes.md`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod archived;
mod away;
mod cache;
mod class_setting;
mod classes;
mod client;
mod connect;
mod credential_process;
mod credentials;
mod errors;
mod known;
mod lease;
mod listed;
mod location;
mod names;
mod object_lock;
mod ownership;
mod patience;
mod pool;
mod probe;
mod reader;
mod removal;
mod requests;
mod roots;
mod rows;
mod runs;
mod signed;
mod small;
mod snapshots;
mod staging;
mod storage;
mod takeover;
mod upload_memory;
mod uploads;
mod valid;
mod versions;

pub use archived::{ObjectState, Readable};
pub use away::Away;
pub use cache::trim_caches;
pub use classes::{STANDARD, Tier};
pub use client::Client;
pub use connect::{Access, connect, connect_through, from_environment};
pub use credentials::{Credentials, Process};
pub use location::Location;
pub use object_lock::{KnownLocks, LockMode, LockOptions, Locked};
pub use patience::{GoesOn, Patience};
pub use pool::BucketPool;
pub use requests::{Asked, Requests, TellsAway};
pub use staging::TEMPORARY;
pub use storage::{ObjectStorage, Waits};
pub use versions::{PutBack, Step};

/// Reads `bytes` as each kind of object that is decoded here; how many of them it is. For the fuzzer.
pub fn decode_objects(bytes: &[u8]) -> usize {
    let object = bytes::Bytes::copy_from_slice(bytes);
    let name = String::from_utf8_lossy(bytes);
    let all = [
        roots::decode(&object).is_some(),
        cache::decode("key", &object).is_some(),
        lease::is_beat(&object),
        takeover::Ended::decode(bytes).is_some(),
        names::parse_snapshot(&name).is_some(),
        matches!(Location::parse(&name), Some(Ok(_))),
        matches!(object_lock::held(bytes), Ok(Some(_))),
        versions::readable(bytes) > 0,
    ];
    all.into_iter().filter(|is_one| *is_one).count()
}
