//! Backup: walk, merge with the previous snapshot, read what changed, store what is new.
//!
//! ```text
//!  walk ──▶ merge (this thread) ──▶ queue ──▶ workers: read, cut, hash, compress, seal ──▶ session
//!                    │ batches in order                        │
//!                    └──────────▶ reorder ◀────────────────────┘
//!                                     └──▶ tree builder ──▶ pages ──▶ session
//! ```
//! Batches go to the workers and come back in the order of the walk. Their number is bounded, so
//! memory does not grow with the number of objects. Read `run` first, then `pipeline`, `merge`,
//! `worker`, `reorder`, `publish`.

mod batch;
#[cfg(test)]
pub(crate) mod bit_flips;
mod checkpoints;
mod chunk_buffer;
mod chunk_writer;
mod compression;
mod compressor;
mod context;
mod counters;
mod dry_run;
mod emptied;
mod failed;
mod links;
mod memory;
mod merge;
mod monitor;
mod object_dedup;
mod options;
mod pipeline;
mod previous;
mod publish;
mod queue;
mod readers;
mod reorder;
mod run;
mod run_list;
mod storable;
mod stream;
mod worker;

pub use crate::progress::Progress;
pub use checkpoints::TransactionLimits;
pub use dry_run::dry_run;
pub use failed::{FAILED_OBJECTS_MAX, FailedObject, FailedObjects};
pub use monitor::BackupMonitor;
pub use options::BackupOptions;
pub use publish::BackupOutcome;
pub use run::run;
pub use stream::run_stream;
