//! The bytes at rest: records, containers, pages, entries, manifests.
//! Pure: no I/O, no clock, no randomness. The document is `docs/FORMAT.md`.

pub mod entry;
