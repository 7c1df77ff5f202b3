//! The pipelines against real trees and real files: what goes in comes out, whatever happens in
//! between. Start reading at `testkit`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test may stop at the first surprise")]

mod advised;
mod changing;
mod checking_remotely;
mod copies;
mod damage;
mod damage_matrix;
mod deleting;
mod doubts;
mod environment;
mod epochs;
mod fallback;
mod faults;
mod fences;
mod forged;
mod hostile;
mod identity;
mod incidents;
mod incremental;
mod interrupted;
mod interrupted_restores;
mod kept;
mod keys;
mod large_attributes;
mod limits;
mod lost_pages;
mod many_small_files;
mod onto_others;
mod opening;
mod parity;
mod power;
mod racer;
mod rebuilding;
mod reclaiming;
mod remote;
mod restoring;
mod rotting;
mod round_trip;
mod scrubbing;
mod signers;
mod simulated;
mod streams;
mod testkit;
mod volume;
mod without_dedup;
