//! What the seeds found, each as short as it can be told. A story is told for many fates of what
//! was not synced.

mod containers;
mod damage;
mod past;
mod snapshots;
mod writers;

use super::backup::Base;
use super::model::Violation;
use super::task::{Running, Shared, Task, rebuild, rebuild_in_parts};
use super::tree::Tree;
use super::{init, no_leftovers};
use crate::disk::{Disk, Fault, Faults, LeftOut, Rot};
use crate::random::Random;
pub use containers::*;
pub use damage::*;
use ids::KeyId;
pub use past::*;
use repository::snapshots::SnapshotRef;
use repository::{Error, Repository, Result};
pub use snapshots::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
pub use writers::*;

/// Fates of what was not synced, for each story.
const FATES: u64 = 96;
/// Steps over which the fates of a story are spread.
const STEPS: u64 = 160;

/// Hands the names of all stories to the macro `$then`.
#[macro_export]
macro_rules! all_stories {
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
            a_sleeper_that_wakes
            a_container_that_is_gone
            a_container_that_is_given_up
            a_disk_that_is_full_from_the_first_byte
            a_rebuild_that_could_not_read
            a_copy_that_rotted
            a_reclaim_that_lists_the_past
            a_rebuild_that_lists_the_past
            a_start_that_lists_the_past
            an_init_that_lists_the_past
            a_state_of_a_killed_writer
            an_init_that_is_killed
            a_receipt_at_the_end_of_a_container
            a_receipt_that_reclaim_copies
            a_write_that_takes_a_part
            a_copy_of_a_repository_that_is_written
            a_rebuild_that_writes_very_many_runs
        }
    };
}

macro_rules! table {
    ($($name:ident)*) => {
        /// All stories, by name.
        pub const ALL: &[(&str, fn(&mut Lab))] = &[$((stringify!($name), $name)),*];
    };
}

all_stories!(table);

/// Files that a rebuild may keep open: the runs of a level and of the next, and a few.
const OPEN_MAX: usize = 90;
/// For stories in which something rare has to happen.
const ROUNDS: u64 = 16;

/// Tells `story` with every fate; the first in which something is wrong.
/// With `left_out` it happens without one of the syncs.
pub fn tell(story: fn(&mut Lab), left_out: Option<LeftOut>) -> std::result::Result<(), Violation> {
    (0..FATES).try_for_each(|fate| {
        let mut lab = Lab::new(fate)?;
        lab.disk().leave_out(left_out);
        story(&mut lab);
        lab.ends().map_err(|what| format!("fate {fate}: {what}"))
    })
}

/// A repository, and what was promised of it.
pub struct Lab {
    shared: Shared,
    /// For stories in which something happens at any step.
    step: u64,
}

impl Lab {
    fn new(fate: u64) -> std::result::Result<Self, Violation> {
        let disk = Disk::new(Random::new(fate), false);
        init(&disk)?;
        Ok(Self { shared: Shared::new(disk), step: fate * STEPS / FATES })
    }

    fn disk(&self) -> &Arc<Disk> {
        &self.shared.disk
    }

    fn arm(&self, verb: &'static str, start: &'static str, left: u64, fault: Fault) {
        self.disk().arm(Faults::at(verb, start, left, fault));
    }

    fn needs<T>(&self, what: &str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.shared.is_wrong(format!("{what} fails: {error}"))).ok()
    }

    fn fails<T>(&self, what: &str, result: Result<T>) {
        if result.is_ok() {
            self.shared.is_wrong(format!("{what} should have failed"));
        }
        self.disk().disarm();
    }

    fn start(&self) -> Option<Running> {
        self.needs("a start", self.shared.start())
    }

    fn tree(number: u64) -> Tree {
        Tree::any(&mut Random::new(number))
    }

    fn finish(&self, running: &Running, mut task: Task) -> Result<()> {
        while !task.go_on(running, &self.shared)? {}
        Ok(())
    }

    /// A backup of tree `number`, all of it asked for.
    fn backup(&self, running: &Running, number: u64) -> Result<()> {
        self.finish(running, self.shared.backup_of(running, Self::tree(number), None))
    }

    fn kept(&self) -> Vec<SnapshotRef> {
        self.shared.model.lock().kept()
    }

    fn forget(&self, running: &Running, names: &[SnapshotRef]) -> Result<()> {
        self.finish(running, Task::Forget(names.to_vec()))
    }

    fn reclaim(&self, running: &Running) -> Result<()> {
        self.finish(running, Task::Reclaim(0.0))
    }

    /// Does something while lists are of the past: it is done, or refused for that reason.
    fn past(&self, what: &str, action: impl FnOnce(&Self) -> Result<()>) {
        self.disk().show_the_past();
        let result = action(self);
        self.disk().disarm();
        if !matches!(result, Err(Error::StaleList { .. })) {
            self.needs(what, result);
        }
    }

    /// What a process does when it has started: its lists are of now.
    fn go_on(&self, running: Running) {
        self.disk().disarm();
        self.needs("the next backup", self.backup(&running, 2));
        self.end(running);
    }

    fn end(&self, running: Running) {
        self.disk().kill(running.storage.process());
    }

    fn rebuild(&self) {
        let damaged = self.needs("a rebuild", rebuild(self.disk()));
        if damaged == Some(true) {
            self.shared.is_wrong("a rebuild finds damage where there is none".into());
        }
    }

    /// Processes that start from now on finish containers at so many bytes.
    fn containers_of(&mut self, bytes: u64) {
        self.shared = self.shared.clone().with_containers_of(bytes);
    }

    /// All files of snapshots are lost; the containers have what they said.
    fn rebuild_without_snapshots(&self) {
        for name in self.disk().files().iter().filter(|name| name.starts_with("snapshots/")) {
            self.disk().take_away(name);
        }
        self.rebuild();
    }

    /// Everything that was promised is there.
    fn ends(&mut self) -> std::result::Result<(), Violation> {
        self.disk().disarm();
        self.shared.look();
        self.shared.wrong.lock().take().map_or(Ok(()), Err)
    }
}
