//! A repository on the simulated disk, for those who decide what is kept: backups come, snapshots go, space is
//! reclaimed, and power and processes fail meanwhile. What fails is done again, as a server does it.

use super::init;
use super::task::{Shared, Task, WriterProcess};
use crate::disk::{Disk, Fault, Faults};
use crate::random::Random;
use format::record::RecordKind;
use repository::container;
use repository::container::read::ContainerReader;
pub use repository::snapshots::SnapshotRef;
use std::collections::BTreeSet;

/// One in so many operations meets a fault.
const FAULT_ONE_IN: u64 = 12;
/// Operations of the disk until then, at most.
const REACH: u64 = 80;
/// How often what failed is tried again without a fault.
const TRIES: u32 = 3;

/// A repository, and what it was told to keep.
pub struct KeptRepository {
    shared: Shared,
    random: Random,
    running: Option<WriterProcess>,
}

impl KeptRepository {
    /// A new one; everything that happens follows from `seed`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(seed: u64) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let disk = Disk::new(Random::new(random.next()), false);
        init(&disk)?;
        let shared = Shared::with_random_sizes(disk, &mut random);
        Ok(Self { shared, random, running: None })
    }

    /// A backup: its snapshot.
    ///
    /// # Errors
    /// What went wrong, besides the faults.
    pub fn back_up(&mut self) -> Result<SnapshotRef, String> {
        let before: BTreeSet<_> = self.kept().into_iter().collect();
        self.despite_faults(&|running, shared, random| {
            Some(Task::backup(running, shared, random))
        })?;
        self.remove_surplus()?;
        let after = self.kept().into_iter().find(|name| !before.contains(name));
        after.ok_or_else(|| "a backup was done, and nothing is new".to_owned())
    }

    /// A backup that failed may have published its snapshot: nobody was told of it, and nobody wants it.
    fn remove_surplus(&mut self) -> Result<(), String> {
        let names = self.running()?.repository.current_snapshots();
        let names = names.map_err(|error| format!("no list: {error}"))?;
        let known: BTreeSet<_> = self.kept().into_iter().collect();
        let surplus: Vec<_> = names.into_iter().filter(|name| !known.contains(name)).collect();
        if surplus.is_empty() { Ok(()) } else { self.remove(&surplus) }
    }

    /// Removes snapshots. Those that are gone already are no mistake: it may have failed after that.
    ///
    /// # Errors
    /// What went wrong, besides the faults.
    pub fn remove(&mut self, names: &[SnapshotRef]) -> Result<(), String> {
        let left = |shared: &Shared| {
            let left = shared.model.lock().not_forgotten(names);
            (!left.is_empty()).then_some(Task::Forget(left))
        };
        self.despite_faults(&|_, shared, _| left(shared))
    }

    /// Reclaims space: mostly as a server does, which leaves for a while what interrupted sessions stored. Without
    /// that, no record is there afterwards of which nothing is needed.
    ///
    /// # Errors
    /// What went wrong, besides the faults.
    pub fn reclaim(&mut self) -> Result<(), String> {
        if !self.random.one_in(12) {
            return self.despite_faults(&|_, _, _| Some(Task::Reclaim(0.0)));
        }
        self.despite_faults(&|_, _, _| Some(Task::ReclaimInterrupted))?;
        self.nothing_is_late()
    }

    /// Everything that is kept is there with every byte, and nothing else.
    ///
    /// # Errors
    /// What is not as it must be.
    pub fn verify(&mut self) -> Result<(), String> {
        self.shared.read_all();
        self.shared.wrong.lock().take().map_or(Ok(()), Err)
    }

    /// Snapshots that are kept.
    pub fn kept(&self) -> Vec<SnapshotRef> {
        self.shared.model.lock().live_snapshots()
    }

    fn running(&mut self) -> Result<WriterProcess, String> {
        if let Some(running) = &self.running {
            return Ok(running.clone());
        }
        let started = self.shared.start().map_err(|error| format!("no start: {error}"))?;
        Ok(self.running.insert(started).clone())
    }

    /// Does a task to its end; what fails by a fault is begun again, by another process.
    fn despite_faults(
        &mut self,
        task: &dyn Fn(&WriterProcess, &Shared, &mut Random) -> Option<Task>,
    ) -> Result<(), String> {
        if self.random.one_in(FAULT_ONE_IN) {
            self.arm();
            let done = self.try_once(task);
            let has_fired = self.shared.disk.disarm();
            if has_fired {
                self.end_process();
            }
            if done.is_ok() || !has_fired {
                return done;
            }
        }
        let mut tries = 0..TRIES;
        loop {
            match self.try_once(task) {
                // The rest of a fault: what it left is found by the next writer.
                Err(_) if tries.next().is_some() => self.end_process(),
                done => return done,
            }
        }
    }

    fn try_once(
        &mut self,
        task: &dyn Fn(&WriterProcess, &Shared, &mut Random) -> Option<Task>,
    ) -> Result<(), String> {
        let running = self.running()?;
        let Some(mut task) = task(&running, &self.shared, &mut self.random) else { return Ok(()) };
        loop {
            match task.advance(&running, &self.shared) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(format!("{}: {error}", task.name())),
            }
        }
    }

    fn arm(&mut self) {
        let faults = [Fault::PowerCut, Fault::Kill, Fault::IoError, Fault::FailedSync];
        let fault = *self.random.pick(&faults);
        let left = self.random.below(if fault == Fault::FailedSync { 8 } else { REACH });
        self.shared.disk.arm(Faults::after(left, fault));
    }

    fn end_process(&mut self) {
        if let Some(running) = self.running.take() {
            self.shared.disk.kill(running.storage.process());
        }
    }

    /// Each record of objects has one that a snapshot needs.
    fn nothing_is_late(&mut self) -> Result<(), String> {
        let running = self.running()?;
        let trees = self.shared.model.lock().trees();
        let needed: BTreeSet<_> = trees.iter().flat_map(super::tree::Tree::objects).collect();
        let storage = &**running.repository.storage();
        let failed = |error: repository::Error| format!("look at what is left: {error}");
        let mut late = 0;
        let files = container::list(storage, ids::ContainerNo(0)).map_err(failed)?;
        for file in files.iter().filter(|file| file.finished) {
            let reader = ContainerReader::open(storage, file.number).map_err(failed)?;
            let count = |_, record: &format::record::Record<'_>| {
                let has_objects =
                    matches!(record.header.kind, RecordKind::Data | RecordKind::Pages);
                let ids = format::record::object_ids(record).unwrap_or_default();
                late += usize::from(has_objects && !ids.iter().any(|id| needed.contains(id)));
            };
            reader.walk(count).map_err(failed)?;
        }
        if late == 0 { Ok(()) } else { Err(format!("{late} records are left that nobody needs")) }
    }
}
