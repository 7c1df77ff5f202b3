//! What the seeds found, each as short as it can be told. A story is told for many fates of what
//! was not synced.

use super::backup::Base;
use super::model::Violation;
use super::task::{Running, Shared, Task, rebuild, rebuild_in_parts};
use super::tree::Tree;
use super::{init, no_leftovers};
use crate::disk::{Disk, Fault, Faults, LeftOut, Rot};
use crate::random::Random;
use ids::KeyId;
use repository::snapshots::SnapshotRef;
use repository::{Error, Repository, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// A writer is killed after it made the directory of its container and before that is durable.
pub fn a_directory_of_a_killed_writer(lab: &mut Lab) {
    lab.arm("sync directory", "containers", 0, Fault::Kill);
    let Some(killed) = lab.start() else { return };
    lab.fails("the backup", lab.backup(&killed, 1));
    let Some(next) = lab.start() else { return };
    lab.needs("the next backup", lab.backup(&next, 1));
    lab.disk().cut_power();
}

/// The same with a sync that fails, in a process that goes on.
pub fn a_directory_whose_sync_failed(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.arm("sync directory", "containers", 0, Fault::Error);
    lab.fails("the backup", lab.backup(&running, 1));
    lab.needs("the next backup", lab.backup(&running, 1));
    lab.disk().cut_power();
}

/// A writer is killed after its container has its name and before that is durable; the next one
/// builds on it and writes into another directory.
pub fn a_name_of_a_killed_writer(lab: &mut Lab) {
    let Some(killed) = lab.start() else { return };
    lab.arm("sync directory", "containers/", 0, Fault::Kill);
    lab.fails("the backup", lab.backup(&killed, 1));
    let Some(next) = lab.start() else { return };
    next.repository.skip_containers(256);
    lab.needs("the next backup", lab.backup(&next, 1));
    lab.disk().cut_power();
}

/// The same, and a rebuild brings the snapshot back.
pub fn a_rebuild_after_a_killed_writer(lab: &mut Lab) {
    let Some(killed) = lab.start() else { return };
    lab.arm("sync directory", "containers/", 0, Fault::Kill);
    lab.fails("the backup", lab.backup(&killed, 1));
    lab.rebuild();
    lab.disk().cut_power();
}

/// A snapshot whose removal is not durable, and whose data a reclaim gives back.
pub fn a_removal_that_is_not_durable(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.needs("a backup", lab.backup(&running, 2));
    let first = lab.kept()[..1].to_vec();
    lab.arm("sync directory", "snapshots", 0, Fault::Error);
    lab.fails("to forget", lab.forget(&running, &first));
    lab.needs("to reclaim", lab.reclaim(&running));
    lab.disk().cut_power();
}

/// A removal that failed is asked for once more, and reported done.
pub fn a_snapshot_that_is_forgotten_twice(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let first = lab.kept();
    lab.arm("sync directory", "snapshots", 0, Fault::Error);
    lab.fails("to forget", lab.forget(&running, &first));
    lab.needs("to forget again", lab.forget(&running, &first));
    lab.disk().cut_power();
}

/// A snapshot is chosen to build on, then forgotten, and its space given back.
pub fn a_base_that_is_forgotten(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let names = lab.kept();
    let known = names.first().and_then(|name| lab.shared.model.lock().known(*name).cloned());
    let base = names.first().zip(known).map(|(name, known)| Base { name: *name, known });
    let backup = lab.shared.backup_of(&running, Lab::tree(1), base);
    lab.needs("to forget", lab.forget(&running, &names));
    lab.needs("to reclaim", lab.reclaim(&running));
    lab.needs("the backup", lab.finish(&running, backup));
}

/// The power goes under a backup, again and again; the next one builds on what survived of its
/// container.
pub fn a_torn_container(lab: &mut Lab) {
    for round in 0..ROUNDS {
        let Some(running) = lab.start() else { return };
        lab.arm("append", "containers", 2 + (lab.step + round) % 8, Fault::PowerCut);
        let _ = lab.backup(&running, round);
        lab.disk().disarm();
        lab.disk().cut_power();
        let Some(next) = lab.start() else { return };
        lab.needs("the next backup", lab.backup(&next, round));
        lab.end(next);
    }
}

/// A commit fails when its index is already seen; the next one of the process must not write a run
/// of the same name.
pub fn a_run_that_a_failed_commit_named(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.arm("sync directory", "index", lab.step % 4, Fault::Error);
    let _ = lab.backup(&running, 2);
    lab.disk().disarm();
    lab.disk().arm(Faults::after(30 + lab.step / 4, Fault::PowerCut));
    let _ = lab.backup(&running, 3);
    lab.disk().cut_power();
}

/// A commit fails in its last step, and a reclaim follows in the same process.
pub fn a_reclaim_after_a_failed_commit(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.arm("sync directory", "snapshots", 0, Fault::Error);
    lab.fails("the backup", lab.backup(&running, 2));
    lab.needs("to reclaim", lab.reclaim(&running));
}

/// A backup fails in its last step, a reclaim takes what it stored, and a rebuild finds its
/// manifest.
pub fn a_manifest_without_its_data(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.arm("create", "snapshots", 0, Fault::Error);
    lab.fails("the backup", lab.backup(&running, 2));
    lab.end(running);
    let Some(next) = lab.start() else { return };
    lab.needs("to reclaim", lab.reclaim(&next));
    lab.end(next);
    lab.rebuild();
}

/// A read error while what a dead writer left is settled: its number must not be given out again.
pub fn a_number_that_could_not_be_read(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.arm("create", "index", 0, Fault::Kill);
    lab.fails("the backup", lab.backup(&running, 1));
    lab.arm("read", "containers", lab.step % 12, Fault::Error);
    let started = lab.shared.start();
    lab.disk().disarm();
    let Some(next) = started.ok().or_else(|| lab.start()) else { return };
    lab.needs("the next backup", lab.backup(&next, 2));
    lab.end(next);
    lab.rebuild();
}

/// A rebuild is killed at any step: the index of before is still there.
pub fn a_rebuild_that_is_killed(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.end(running);
    lab.disk().arm(Faults::after(lab.step / 2, Fault::Kill));
    let _ = rebuild(lab.disk());
    lab.disk().disarm();
    let Some(next) = lab.start() else { return };
    lab.needs("the next backup", lab.backup(&next, 2));
}

/// What a failed forget left in a process that goes on is gone after the next one.
pub fn a_forget_on_a_full_disk(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let first = lab.kept();
    lab.arm("append", "containers", lab.step % 3, Fault::Full);
    lab.fails("to forget", lab.forget(&running, &first));
    lab.needs("a backup", lab.backup(&running, 2));
    lab.end(running);
    let Some(next) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&next, 3));
    if let Err(what) = no_leftovers(lab.disk()) {
        lab.shared.is_wrong(what);
    }
}

/// A process sleeps before it writes its container, another one takes over and uses its number,
/// and it wakes.
pub fn a_sleeper_that_wakes(lab: &mut Lab) {
    let Some(sleeper) = lab.start() else { return };
    let mut asleep = lab.shared.backup_of(&sleeper, Lab::tree(1), None);
    for _ in 0..lab.step % 6 {
        let _ = asleep.go_on(&sleeper, &lab.shared);
    }
    lab.disk().lose_locks();
    let Some(thief) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&thief, 2));
    let woken = lab.finish(&sleeper, asleep);
    if woken.is_ok() {
        lab.shared.is_wrong("published without the lease".into());
    }
    lab.needs("a backup", lab.backup(&thief, 3));
}

/// A container is taken away by hand: nothing in it is taken for stored.
pub fn a_container_that_is_gone(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let first = lab.kept();
    let is_container = |name: &String| name.starts_with("containers/");
    lab.disk().files().into_iter().filter(is_container).for_each(|name| {
        lab.disk().take_away(&name);
    });
    lab.end(running);
    let Some(next) = lab.start() else { return };
    lab.needs("the next backup", lab.backup(&next, 1));
    lab.needs("to forget", lab.forget(&next, &first));
}

/// A container is lost for good. A backup stores anew what the source still has; the rest is given
/// up, and nothing else.
pub fn a_container_that_is_given_up(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let first = lab.kept();
    let containers =
        |files: Vec<String>| files.into_iter().filter(|it| it.starts_with("containers/"));
    let oldest = containers(lab.disk().files()).min();
    // Some of these share chunks with the first, which lie in its container only.
    lab.needs("a backup", lab.backup(&running, 2 + lab.step));
    lab.end(running);
    let Some(_lost) = oldest.and_then(|name| lab.disk().take_away(&name)) else { return };
    lab.rebuild();
    let Some(next) = lab.start() else { return };
    lab.needs("a backup of what there is", lab.backup(&next, 2 + lab.step));
    lab.needs("to give up what is lost", lab.finish(&next, Task::GiveUp));
    lab.needs("to forget", lab.forget(&next, &first));
    lab.needs("to reclaim", lab.reclaim(&next));
}

/// The disk is full while the repository is made, or while its first backup runs: what that wrote
/// does not stay in everybody's way.
pub fn a_disk_that_is_full_from_the_first_byte(lab: &mut Lab) {
    let disk = Disk::new(Random::new(lab.step), false);
    disk.arm(Faults::after(lab.step / 2, Fault::Full));
    let made = init(&disk);
    disk.disarm();
    if let Err(what) = made.or_else(|_| init(&disk)) {
        return lab.shared.is_wrong(what);
    }
    lab.shared = Shared::new(disk);
    let Some(running) = lab.start() else { return };
    lab.arm("append", "containers", lab.step % 3, Fault::Full);
    lab.fails("a backup", lab.backup(&running, 1));
    let files = lab.disk().files();
    if let Some(part) = files.iter().find(|name| name.ends_with(".part")) {
        lab.shared.is_wrong(format!("{part} keeps the disk full"));
    }
    lab.needs("to reclaim", lab.reclaim(&running));
    lab.needs("a backup", lab.backup(&running, 2));
}

/// A container is not there while a rebuild runs, and is there again: no reclaim takes it for
/// garbage.
pub fn a_rebuild_that_could_not_read(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    // Some of these share chunks with the first, which then lie in its container only.
    lab.needs("a backup", lab.backup(&running, 2 + lab.step));
    let files = lab.disk().files();
    let oldest = files.iter().filter(|name| name.starts_with("containers/")).min();
    let Some(victim) = oldest.cloned() else { return };
    lab.needs("to forget", lab.forget(&running, &lab.kept()[..1]));
    lab.end(running);
    let Some(taken) = lab.disk().take_away(&victim) else { return };
    let _ = rebuild(lab.disk());
    lab.disk().give_back(&victim, taken);
    let Some(next) = lab.start() else { return };
    let reclaimed = lab.reclaim(&next);
    if let Err(Error::Storage(error)) = reclaimed {
        lab.shared.is_wrong(format!("to reclaim fails: {error}"));
    }
    lab.end(next);
    lab.rebuild();
}

/// A reclaim is killed when it has copied what lives, and a copy rots: the old one is still used.
pub fn a_copy_that_rotted(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    for number in 1..4 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.needs("to forget", lab.forget(&running, &lab.kept()[..1]));
    lab.arm("create", "index/run", 0, Fault::Kill);
    lab.fails("to reclaim", lab.reclaim(&running));
    let files = lab.disk().files();
    let copy = files.iter().filter(|name| name.starts_with("containers/")).max();
    let Some(copy) = copy else { return };
    let at = lab.step as usize * lab.disk().length(copy) / STEPS as usize;
    lab.disk().rot(copy, &Rot::Flip(at, 3));
    let Some(next) = lab.start() else { return };
    lab.end(next);
}

/// A network file system lists the snapshots as they were before the newest: a reclaim leaves what
/// that one needs.
pub fn a_reclaim_that_lists_the_past(lab: &mut Lab) {
    lab.disk().make_remote();
    let Some(running) = lab.start() else { return };
    for number in 0..3 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.needs("to forget", lab.forget(&running, &lab.kept()[..1]));
    lab.past("to reclaim", |lab| lab.reclaim(&running));
}

/// It lists the containers as they were before the newest: a rebuild leaves none out.
pub fn a_rebuild_that_lists_the_past(lab: &mut Lab) {
    lab.disk().make_remote();
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.needs("a backup", lab.backup(&running, 2));
    lab.end(running);
    lab.past("a rebuild", |lab| rebuild(lab.disk()).map(|_| ()));
}

/// It lists the containers as they were before a dead writer left one: neither its number nor that
/// of its snapshot is given again.
pub fn a_start_that_lists_the_past(lab: &mut Lab) {
    lab.disk().make_remote();
    let Some(killed) = lab.start() else { return };
    lab.arm("create", "index/spill", 0, Fault::Kill);
    lab.fails("the backup", lab.backup(&killed, 1));
    lab.past("a start", |lab| lab.shared.start().map(|started| lab.go_on(started)));
    lab.rebuild();
}

/// It lists a repository as it was before anything was in it, and its config is lost in both places: an
/// init leaves the keys that open what is there.
pub fn an_init_that_lists_the_past(lab: &mut Lab) {
    lab.disk().make_remote();
    let Some(running) = lab.start() else { return };
    let id = KeyId([7; KeyId::LEN]);
    lab.needs("a key", running.repository.put_key_slot(&running.lease, id, b"slot"));
    lab.needs("a backup", lab.backup(&running, 1));
    lab.end(running);
    for name in repository::config::NAMES {
        lab.disk().take_away(name);
    }
    lab.disk().show_the_past();
    let _ = init(lab.disk());
    lab.disk().disarm();
    if !lab.disk().files().contains(&format!("keys/{id}")) {
        lab.shared.is_wrong("a key is gone".into());
    }
    lab.rebuild();
}

/// A writer is killed when its index is seen and before that is durable; the next one removes the
/// runs that it does not name, and the power goes.
pub fn a_state_of_a_killed_writer(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    lab.arm("sync directory", "index", lab.step % 4, Fault::Kill);
    let _ = lab.backup(&running, 2);
    lab.end(running);
    lab.arm("sync directory", "index", lab.step / 4 % 3, Fault::PowerCut);
    let _ = lab.shared.start();
    lab.disk().cut_power();
}

/// An init is killed at any step: it is made again, or goes on, and leaves nothing behind.
pub fn an_init_that_is_killed(lab: &mut Lab) {
    let disk = Disk::new(Random::new(lab.step), false);
    disk.arm(Faults::after(lab.step * 2 / 3, Fault::Kill));
    let _ = init(&disk);
    disk.disarm();
    if Repository::open(Arc::new(disk.process())).is_err()
        && let Err(what) = init(&disk)
    {
        return lab.shared.is_wrong(what);
    }
    lab.shared = Shared::new(disk);
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    if let Err(what) = no_leftovers(lab.disk()) {
        lab.shared.is_wrong(what);
    }
}

/// A manifest fills its container: its receipt is in it all the same, and a rebuild finds it.
pub fn a_receipt_at_the_end_of_a_container(lab: &mut Lab) {
    lab.containers_of(1 + 37 * lab.step);
    let Some(running) = lab.start() else { return };
    for number in 0..4 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.end(running);
    lab.rebuild_without_snapshots();
}

/// The same where a reclaim has copied both, out of a container in which something has rotted.
pub fn a_receipt_that_reclaim_copies(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    for number in 0..3 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.end(running);
    let files = lab.disk().files();
    let Some(second) = files.iter().filter(|name| name.starts_with("containers/")).nth(1) else {
        return;
    };
    let at = lab.disk().length(second) / 4 + lab.step as usize;
    lab.disk().rot(second, &Rot::Flip(at, 3));
    lab.needs("a rebuild", rebuild(lab.disk()));
    lab.containers_of(1 + 11 * lab.step);
    let Some(next) = lab.start() else { return };
    for number in 0..3 {
        lab.needs("a backup of what there is", lab.backup(&next, number));
    }
    lab.needs("to give up what has rotted", lab.finish(&next, Task::GiveUp));
    lab.end(next);
    lab.rebuild_without_snapshots();
}

/// A write takes a part of what it gets, and goes on, is interrupted, or ends there.
pub fn a_write_that_takes_a_part(lab: &mut Lab) {
    let Some(running) = lab.start() else { return };
    lab.arm("append", "", lab.step % 40, Fault::Short);
    let _ = lab.backup(&running, 1);
    lab.disk().disarm();
    lab.needs("the next backup", lab.backup(&running, 2));
    lab.disk().cut_power();
}

/// Between any two steps of a backup all files are copied: the copy is a repository.
pub fn a_copy_of_a_repository_that_is_written(lab: &mut Lab) {
    lab.containers_of(2_000);
    let Some(running) = lab.start() else { return };
    lab.needs("a backup", lab.backup(&running, 1));
    let left = Arc::new(AtomicU64::new(lab.step));
    let shared = lab.shared.clone();
    lab.disk().invite(Box::new(move || {
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            shared.copy();
        }
    }));
    lab.needs("the next backup", lab.backup(&running, 2));
    lab.needs("to forget", lab.forget(&running, &lab.kept()[..1]));
    lab.needs("to reclaim", lab.reclaim(&running));
    lab.disk().dismiss();
}

/// A rebuild has room for few ids in memory, as with very many objects: it writes many runs, and keeps few files
/// open.
pub fn a_rebuild_that_writes_very_many_runs(lab: &mut Lab) {
    if !lab.step.is_multiple_of(40) {
        return; // It has no fates: nothing goes wrong.
    }
    lab.containers_of(1);
    let Some(running) = lab.start() else { return };
    for number in 0..30 {
        lab.needs("a backup", lab.backup(&running, number));
    }
    lab.end(running);
    lab.disk().most_open();
    lab.needs("a rebuild", rebuild_in_parts(lab.disk(), 1));
    let (most, files) = (lab.disk().most_open(), lab.disk().files());
    let containers = files.iter().filter(|name| name.starts_with("containers/")).count();
    if containers < 3 * OPEN_MAX / 2 || most > OPEN_MAX {
        lab.shared.is_wrong(format!("{most} files were open for {containers} containers"));
    }
}
