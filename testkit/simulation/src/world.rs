//! What runs on the simulated disk, and what must hold: every byte of what was acknowledged is there, after any fault
//! at any moment; what was forgotten is not; and nobody has to repair anything by hand.

mod backup;
pub mod corruption;
pub mod kept;
mod liar;
mod model;
mod open_sessions;
mod records;
pub mod scenarios;
mod task;
mod tree;

use crate::disk::{AMPLE_BYTES, Disk, Fault, Faults, SkippedSync};
use crate::random::Random;
use ids::RepositoryId;
use open_sessions::OpenSessions;
use parking_lot::Mutex;
use repository::Repository;
use repository::config::Config;
use repository::container;
use repository::container::read::ContainerReader;
use std::sync::Arc;
use task::{Interleaved, Shared, Task, WriterProcess, rebuild};

/// Longest distance of a fault from the beginning of an episode, in operations.
const REACH: [u64; 3] = [12, 60, 240];
/// Syncs of directories until the one at which something happens, at most.
const SYNCS: u64 = 10;
/// One seed of so many is of a repository without deduplication.
const APART_OF: u64 = 4;
/// In one of so many of the others, some nodes lie.
const LIARS_IN: u64 = 3;
const EPISODES_MIN: u64 = 4;
const EPISODES_MORE: u64 = 12;

/// So that one directory is not enough.
const CONTAINERS_OF_A_DIRECTORY: u64 = 256;

/// The result of a seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Operations of the disk.
    pub operations: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Backups that were reported done.
    pub backups: u64,
    /// A hash over all that happened: the same for the same seed.
    pub trace: String,
}

impl Outcome {
    /// The sum of both; it has no trace.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            faults: self.faults + other.faults,
            backups: self.backups + other.backups,
            trace: String::new(),
        }
    }
}

/// What went wrong, and all that happened before.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub what: String,
    /// Every operation, if the log was requested.
    pub log: Vec<String>,
}

/// Runs `seed`: everything that happens follows from it.
pub fn run(seed: u64, logged: bool) -> Result<Outcome, Failure> {
    run_without(None, seed, logged)
}

/// Runs `seed` while the engine skips one of its syncs.
pub fn run_without(sync: Option<SkippedSync>, seed: u64, logged: bool) -> Result<Outcome, Failure> {
    let mut random = Random::new(seed);
    let disk = Disk::new(Random::new(random.next()), logged);
    disk.skip_sync(sync);
    if random.one_in(2) {
        disk.make_network_file_system();
    }
    let mut world = World::new(disk.clone(), random, seed % APART_OF == APART_OF - 1);
    let result = world.run_episodes();
    // The last of those that it lived on.
    let disk = world.shared.disk.clone();
    let failure = |what| Failure { what, log: disk.log() };
    result.map_err(failure)?;
    Ok(Outcome { operations: disk.operations(), trace: disk.trace(), ..world.outcome })
}

struct World {
    shared: Shared,
    random: Random,
    running: Option<WriterProcess>,
    open: OpenSessions,
    /// A rebuild was broken off, or met a fault: it has to be run once more.
    is_rebuilding: bool,
    outcome: Outcome,
}

impl World {
    fn new(disk: Arc<Disk>, mut random: Random, is_apart: bool) -> Self {
        let mut shared = Shared::with_random_sizes(disk, &mut random).with_backups_apart(is_apart);
        shared.has_liars = !is_apart && random.one_in(LIARS_IN);
        let (running, open, outcome) = Default::default();
        Self { shared, random, running, open, is_rebuilding: false, outcome }
    }

    fn run_episodes(&mut self) -> Result<(), String> {
        self.init()?;
        for _ in 0..EPISODES_MIN + self.random.below(EPISODES_MORE) {
            self.episode()?;
        }
        self.settle()
    }

    /// Makes the repository; what goes wrong meanwhile costs another try, or nothing.
    fn init(&mut self) -> Result<(), String> {
        let disk = self.shared.disk.clone();
        self.arm();
        let made = init(&disk);
        let has_fired = disk.disarm();
        self.outcome.faults += u64::from(has_fired);
        disk.set_free_bytes(AMPLE_BYTES);
        match made {
            Err(what) if !has_fired => Err(what),
            Err(_) if Repository::open(Arc::new(disk.process())).is_err() => init(&disk),
            // It is there, and nobody said so: that holds from the first writer on.
            Err(_) => {
                let started = self.shared.start().map_err(|error| format!("no start: {error}"))?;
                disk.kill(started.storage.process());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// One thing after another; something may go wrong meanwhile.
    fn episode(&mut self) -> Result<(), String> {
        self.arm();
        let result = self.act();
        let has_fired = self.shared.disk.disarm();
        self.outcome.faults += u64::from(has_fired);
        if has_fired {
            self.open.meet_fault();
        }
        let what = self.shared.wrong.lock().take();
        what.map_or(Ok(()), Err)?;
        if let Err(error) = &result {
            self.shared.disk.note(format!("    failed: {error}"));
            // What a rebuild could not read is missing, and whoever needs it says so.
            let is_excused = self.is_rebuilding || error.is_full() && self.shared.disk.is_short();
            if !has_fired && !is_excused {
                return Err(format!("without any fault: {error}"));
            }
        }
        self.maybe_end_process(result.is_err());
        if self.random.one_in(16) {
            self.move_to_a_copy();
        }
        if self.random.one_in(3) { self.verify() } else { Ok(()) }
    }

    fn arm(&mut self) {
        use Fault::{DiskFailure, DiskFull, FailedSync, IoError, Kill, PowerCut, ShortWrite};
        let faults = [
            PowerCut,
            PowerCut,
            PowerCut,
            Kill,
            Kill,
            IoError,
            DiskFailure,
            DiskFull,
            FailedSync,
            ShortWrite,
        ];
        let fault = *self.random.pick(&faults);
        let reach = *self.random.pick(&REACH);
        let left = self.random.below(if fault == FailedSync { reach / 8 + 1 } else { reach });
        let faults = match self.random.below(8) {
            0 | 1 => Faults::none(),
            // When names are seen and not durable.
            2 => Faults::at("sync directory", "", left % SYNCS, fault),
            _ => Faults::after(left, fault),
        };
        self.shared.disk.arm(faults);
        if self.random.one_in(2) {
            self.shared.disk.serve_stale_listings();
        }
        self.shared.disk.set_free_bytes(free_bytes(&mut self.random));
    }

    /// Whether a process goes on after it: the dead do not.
    fn maybe_end_process(&mut self, failed: bool) {
        let Some(running) = &self.running else { return };
        let process = running.storage.process();
        let ends = self.random.one_in(if failed { 2 } else { 4 });
        if ends || !self.shared.disk.is_alive(process) {
            self.end_process();
        }
    }

    /// Kills the process that runs, with its sessions.
    fn end_process(&mut self) {
        if let Some(running) = self.running.take() {
            self.shared.disk.kill(running.storage.process());
        }
        self.open = OpenSessions::default();
    }

    /// Nobody writes; the files are copied to another disk, and what follows happens there.
    fn move_to_a_copy(&mut self) {
        self.end_process();
        let (old, seed) = (self.shared.disk.clone(), self.random.next());
        old.note("--- moves to a copy");
        self.shared.disk = old.copy_of_files(Random::new(seed));
        self.shared.disk.continue_log_of(&old);
    }

    fn act(&mut self) -> repository::Result<()> {
        if self.random.one_in(12) {
            return self.rebuild();
        }
        let running = match self.running.take() {
            Some(running) => running,
            None => self.shared.start()?,
        };
        if self.random.one_in(16) {
            running.repository.skip_containers(CONTAINERS_OF_A_DIRECTORY);
        }
        self.running = Some(running.clone());
        if self.random.one_in(16) {
            return self.lose_lease_asleep(&running);
        }
        self.outcome.backups += self.open.go_on(&running, &self.shared, &mut self.random)?;
        let main_task = self.task(&running);
        if self.random.one_in(2) {
            return self.run_alone(main_task, &running);
        }
        let reads = self.random.one_in(4) && !self.is_rebuilding;
        let interleaved = match reads {
            true => self.reader_task(),
            false => self.task(&running),
        };
        self.run_together(main_task, interleaved, &running)
    }

    /// Somebody who changes nothing.
    fn reader_task(&mut self) -> Task {
        match self.random.below(3) {
            0 => Task::Read,
            1 => Task::StaleRead,
            _ => Task::Copy,
        }
    }

    fn task(&mut self, running: &WriterProcess) -> Task {
        match self.random.below(12) {
            // Who gives space back after a rebuild that could not read everything?
            _ if self.is_rebuilding && self.random.one_in(2) => Task::reclaim(&mut self.random),
            0..6 => Task::backup(running, &self.shared, &mut self.random),
            6..8 => Task::forget(&self.shared, &mut self.random),
            8..10 => Task::clean(&self.shared, &mut self.random),
            _ => Task::reclaim(&mut self.random),
        }
    }

    fn run_alone(&mut self, mut task: Task, running: &WriterProcess) -> repository::Result<()> {
        self.shared.disk.note(format!("--- {}", task.name()));
        while !task.advance(running, &self.shared)? {}
        self.outcome.backups += u64::from(task.name() == "backup");
        Ok(())
    }

    /// One runs, and between its operations the other one does.
    fn run_together(
        &mut self,
        main_task: Task,
        interleaved: Task,
        running: &WriterProcess,
    ) -> repository::Result<()> {
        self.shared.disk.note(format!("--- {} beside", interleaved.name()));
        let random = Random::new(self.random.next());
        let interleaved =
            Arc::new(Mutex::new(Interleaved { task: interleaved, random, ended: None }));
        let (turn, beside, shared) = (interleaved.clone(), running.clone(), self.shared.clone());
        self.shared.disk.interleave(Box::new(move || turn.lock().turn(&beside, &shared)));
        let result = self.run_alone(main_task, running);
        self.shared.disk.stop_interleaving();
        let mut interleaved = interleaved.lock();
        interleaved.finish(running, &self.shared);
        result.and(interleaved.ended.take().unwrap_or(Ok(())))
    }

    /// A process sleeps in the middle of its work, its lock is given to another one, and it wakes.
    fn lose_lease_asleep(&mut self, sleeper: &WriterProcess) -> repository::Result<()> {
        let mut asleep = Task::backup(sleeper, &self.shared, &mut self.random);
        for _ in 0..self.random.below(6) {
            if asleep.advance(sleeper, &self.shared)? {
                return Ok(());
            }
        }
        self.shared.disk.note("--- robbed");
        self.shared.disk.lose_locks();
        self.running = None;
        let open = std::mem::take(&mut self.open);
        let result = self.wake_without_lease(sleeper, asleep);
        self.shared.disk.kill(sleeper.storage.process());
        drop(open);
        result
    }

    fn wake_without_lease(
        &mut self,
        sleeper: &WriterProcess,
        mut asleep: Task,
    ) -> repository::Result<()> {
        let successor = self.shared.start()?;
        self.running = Some(successor.clone());
        let task = self.task(&successor);
        self.run_alone(task, &successor)?;
        while let Ok(is_done) = asleep.advance(sleeper, &self.shared) {
            if is_done {
                self.shared.violation("published without the lease".into());
                break;
            }
        }
        Ok(())
    }

    fn rebuild(&mut self) -> repository::Result<()> {
        self.shared.disk.note("--- rebuild");
        self.end_process();
        self.is_rebuilding = true;
        self.is_rebuilding = rebuild(&self.shared.disk)?;
        if self.is_rebuilding {
            // It may not have been able to read what says that they were forgotten.
            self.shared.model.lock().allow_forgotten();
        }
        Ok(())
    }

    /// What a person who looks would find.
    fn verify(&mut self) -> Result<(), String> {
        self.shared.disk.note("--- verify");
        if self.is_rebuilding {
            self.rebuild().map_err(|error| format!("a rebuild fails: {error}"))?;
            if self.is_rebuilding {
                return Err("a rebuild finds damage where there is none".into());
            }
        }
        self.shared.read_all();
        self.shared.wrong.lock().take().map_or(Ok(()), Err)
    }

    /// The end: a last writer settles everything, and the repository is as good as new.
    fn settle(&mut self) -> Result<(), String> {
        self.shared.disk.set_free_bytes(AMPLE_BYTES);
        self.verify()?;
        self.end_process();
        let failed = |error: repository::Error| format!("at the end: {error}");
        let running = self.shared.start().map_err(failed)?;
        for task in [Task::backup(&running, &self.shared, &mut self.random), Task::Reclaim(0.0)] {
            self.run_alone(task, &running).map_err(failed)?;
            self.verify()?;
        }
        whole(&running.repository)?;
        no_leftovers(&self.shared.disk)
    }
}

/// What a disk says that it has left: mostly enough.
fn free_bytes(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 | 2 => random.below(1 << 16),
        _ => AMPLE_BYTES,
    }
}

fn init(disk: &Arc<Disk>) -> Result<(), String> {
    let config = Config::new(RepositoryId([1; 16]), [0; 32], 0, 1, [1, 2, 3]);
    let keys = repository::keys::Keys::default();
    let made = Repository::init(Arc::new(disk.process()), config, &keys);
    made.map(|_| ()).map_err(|error| format!("cannot make a repository: {error}"))
}

/// No container is damaged.
fn whole(repository: &Repository) -> Result<(), String> {
    let failed = |error: repository::Error| format!("check: {error}");
    let storage = &**repository.storage();
    for file in container::list(storage, ids::ContainerNo(0)).map_err(failed)? {
        let reader = ContainerReader::open(storage, file.number).map_err(failed)?;
        let walk = reader.walk(|_, _| ()).map_err(failed)?;
        if !walk.damaged.is_empty() {
            return Err(format!("container {} is damaged: {:?}", file.number, walk.damaged));
        }
    }
    Ok(())
}

/// Nothing that only an unfinished run leaves is there.
fn no_leftovers(disk: &Disk) -> Result<(), String> {
    let is_left =
        |name: &String| name.ends_with(".part") || name.ends_with(".new") || name.contains("spill");
    let left: Vec<_> = disk.files().into_iter().filter(is_left).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {}", left.join(", "))) }
}
