//! Errors that seeds found, each as the shortest scenario that shows it. A scenario runs with many seeds, which decide
//! what happens to unsynced data.

mod checkpoints;
mod containers;
mod damage;
mod held_twice;
mod moves;
mod open_sessions;
mod snapshots;
mod stale_listings;
mod writers;

use super::backup::{Base, Checkpoints};
use super::model::Violation;
use super::task::{Shared, Task, WriterProcess, rebuild, rebuild_in_parts};
use super::tree::Tree;
use super::{init, no_leftovers};
use crate::disk::{AMPLE_BYTES, Corruption, Disk, Fault, Faults, SkippedSync};
use crate::random::Random;
pub use checkpoints::*;
pub use containers::*;
pub use damage::*;
pub use held_twice::*;
use ids::KeyId;
pub use moves::*;
pub use open_sessions::*;
use repository::snapshots::SnapshotRef;
use repository::{Error, Repository, Result};
pub use snapshots::*;
pub use stale_listings::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
pub use writers::*;

/// Seeds for each scenario.
const SEEDS: u64 = 96;
/// Steps over which the seeds of a scenario are spread.
const STEPS: u64 = 160;

/// Passes the names of all scenarios to the macro `$then`.
#[macro_export]
macro_rules! all_scenarios {
    ($then:ident) => {
        $then! {
            a_directory_of_a_killed_writer
            a_directory_whose_sync_failed
            a_name_of_a_killed_writer
            a_rebuild_after_a_killed_writer
            a_removal_that_is_not_durable
            a_snapshot_that_is_forgotten_twice
            a_base_that_is_forgotten
            a_torn_container
            a_run_that_a_failed_commit_named
            a_reclaim_after_a_failed_commit
            a_manifest_without_its_data
            a_number_that_could_not_be_read
            a_rebuild_that_is_killed
            a_forget_on_a_full_disk
            a_writer_that_wakes_without_its_lease
            a_container_that_is_gone
            a_container_that_is_given_up
            a_disk_that_is_full_from_the_first_byte
            a_rebuild_that_could_not_read
            a_copy_that_rotted
            a_snapshot_that_is_healed
            a_reclaim_with_stale_listings
            a_rebuild_with_stale_listings
            a_start_with_stale_listings
            an_init_with_stale_listings
            a_state_of_a_killed_writer
            a_forget_behind_a_state_of_a_killed_writer
            an_init_that_is_killed
            a_receipt_at_the_end_of_a_container
            a_receipt_that_reclaim_copies
            a_write_that_takes_a_part
            a_copy_of_a_repository_that_is_written
            a_rebuild_that_writes_very_many_runs
            a_session_that_stays_open
            a_container_that_is_written_again_beside_a_reclaim
            a_commit_while_reclaim_merges
            a_commit_while_somebody_reads_the_index_again
            a_container_that_drains
            a_container_that_drained_into_a_new_snapshot
            a_session_that_begins_while_reclaim_gives_up
            a_reclaim_beside_another
            a_reclaim_that_ends_between_its_stages
            a_repository_that_moves
            a_checkpoint_of_what_is_not_durable
            a_checkpoint_that_fails
            a_checkpoint_of_a_container_that_is_written_again
            a_commit_that_fails_behind_its_manifest
            a_session_that_is_interrupted_and_a_reclaim
            a_session_that_is_interrupted_beside_another
            a_session_that_is_killed_with_checkpoints
            a_recovery_that_is_killed
            a_copy_of_what_a_session_stored_again
            a_newer_place_of_what_drains
            a_checkpoint_of_what_another_session_stores
            a_newer_place_of_what_a_session_relies_on
        }
    };
}

macro_rules! table {
    ($($name:ident)*) => {
        /// All scenarios, by name.
        pub const ALL: &[(&str, fn(&mut TestBed))] = &[$((stringify!($name), $name)),*];
    };
}

all_scenarios!(table);

/// Files that a rebuild may keep open: the runs of a level and of the next, and a few.
const OPEN_MAX: usize = 90;
/// Rounds of scenarios in which something rare must happen.
const ROUNDS: u64 = 16;

/// Runs `scenario` with every seed, and returns the first violation. With `skipped_sync` the engine skips one of its
/// syncs.
pub fn run_scenario(
    scenario: fn(&mut TestBed),
    skipped_sync: Option<SkippedSync>,
) -> std::result::Result<(), Violation> {
    (0..SEEDS).try_for_each(|seed| {
        let mut bed = TestBed::new(seed)?;
        bed.disk().skip_sync(skipped_sync);
        scenario(&mut bed);
        bed.conclude().map_err(|what| format!("seed {seed}: {what}"))
    })
}

/// A repository, and what was promised of it.
pub struct TestBed {
    shared: Shared,
    /// The step at which something happens, in scenarios that need one.
    step: u64,
}

impl TestBed {
    fn new(seed: u64) -> std::result::Result<Self, Violation> {
        let disk = Disk::new(Random::new(seed), false);
        init(&disk)?;
        Ok(Self { shared: Shared::new(disk), step: seed * STEPS / SEEDS })
    }

    fn disk(&self) -> &Arc<Disk> {
        &self.shared.disk
    }

    fn arm(&self, verb: &'static str, start: &'static str, left: u64, fault: Fault) {
        self.disk().arm(Faults::at(verb, start, left, fault));
    }

    fn must_succeed<T>(&self, what: &str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.shared.violation(format!("{what} fails: {error}"))).ok()
    }

    fn must_fail<T>(&self, what: &str, result: Result<T>) {
        if result.is_ok() {
            self.shared.violation(format!("{what} should have failed"));
        }
        self.disk().disarm();
    }

    fn start(&self) -> Option<WriterProcess> {
        self.must_succeed("a start", self.shared.start())
    }

    fn tree(number: u64) -> Tree {
        Tree::any(&mut Random::new(number))
    }

    fn finish(&self, running: &WriterProcess, mut task: Task) -> Result<()> {
        while !task.advance(running, &self.shared)? {}
        Ok(())
    }

    /// A backup of tree `number`, all of it asked for.
    fn backup(&self, running: &WriterProcess, number: u64) -> Result<()> {
        self.finish(running, self.shared.backup_of(running, Self::tree(number), None))
    }

    fn live_snapshots(&self) -> Vec<SnapshotRef> {
        self.shared.model.lock().live_snapshots()
    }

    fn forget(&self, running: &WriterProcess, names: &[SnapshotRef]) -> Result<()> {
        self.finish(running, Task::Forget(names.to_vec()))
    }

    fn reclaim(&self, running: &WriterProcess) -> Result<()> {
        self.finish(running, Task::Reclaim(0.0))
    }

    /// Runs `action` while listings are stale: it succeeds, or fails for that reason.
    fn with_stale_listings(&self, what: &str, action: impl FnOnce(&Self) -> Result<()>) {
        self.disk().serve_stale_listings();
        let result = action(self);
        self.disk().disarm();
        if !matches!(result, Err(Error::StaleListing { .. })) {
            self.must_succeed(what, result);
        }
    }

    /// Backs up with a process that has started; its listings are current.
    fn advance(&self, running: WriterProcess) {
        self.disk().disarm();
        self.must_succeed("the next backup", self.backup(&running, 2));
        self.end(running);
    }

    fn end(&self, running: WriterProcess) {
        self.disk().kill(running.storage.process());
    }

    fn rebuild(&self) {
        let damaged = self.must_succeed("a rebuild", rebuild(self.disk()));
        if damaged == Some(true) {
            self.shared.violation("a rebuild finds damage where there is none".into());
        }
    }

    /// Processes that start from now on finish containers at so many bytes.
    fn set_container_bytes(&mut self, bytes: u64) {
        self.shared = self.shared.clone().with_container_bytes(bytes);
    }

    /// Sessions of processes that start from now on make such checkpoints.
    fn set_checkpoints(&mut self, checkpoints: Checkpoints) {
        self.shared = self.shared.clone().with_checkpoints(checkpoints);
    }

    /// All files of snapshots are lost; the containers have what they said.
    fn rebuild_without_snapshots(&self) {
        for name in self.disk().files().iter().filter(|name| name.starts_with("snapshots/")) {
            self.disk().hide_file(name);
        }
        self.rebuild();
    }

    /// Everything that was promised is there.
    fn conclude(&mut self) -> std::result::Result<(), Violation> {
        self.disk().disarm();
        self.shared.read_all();
        self.shared.wrong.lock().take().map_or(Ok(()), Err)
    }
}
