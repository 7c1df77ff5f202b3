//! A simulated disk with the guarantees of POSIX and no more: after a power cut, data that was not synced is lost,
//! kept, or kept in some sectors of 512 bytes; a name is durable when its directory was synced.
//!
//! `content` holds the bytes of a file, `names` the directory tree, `faults` what fails and when; `storage` is the
//! interface to the engine.

mod content;
mod corruption;
mod faults;
mod names;
mod storage;

pub use corruption::Corruption;
pub use faults::{Fault, Faults};
pub use storage::SimStorage;

use crate::random::Random;
use content::Content;
use format::wire::Checksum;
use names::{Names, Node};
use parking_lot::Mutex;
use repository::storage::{StorageError, StorageResult};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of a process.
pub type Process = u32;
/// Number of a file, whatever its name.
type FileNo = usize;
/// A sync of the engine that does nothing: a test must then fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkippedSync {
    /// `sync` or `sync directory`.
    pub verb: &'static str,
    /// Name of the file or directory; with `*` at the end, a prefix.
    pub names: &'static str,
}

impl SkippedSync {
    fn is(&self, verb: &str, name: &str) -> bool {
        let fits = match self.names.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.names,
        };
        fits && verb == self.verb
    }
}

/// A file that was hidden.
pub struct HiddenFile(FileNo);

/// A task that runs before each operation of other tasks.
type Interleaved = Box<dyn FnMut() + Send>;

/// A disk and the processes that use it.
pub struct Disk {
    state: Mutex<State>,
    interleaved: Mutex<Option<Interleaved>>,
    open: Open,
}

/// Files that are open.
#[derive(Default)]
struct Open {
    now: AtomicUsize,
    most: AtomicUsize,
}

struct State {
    random: Random,
    files: Vec<Content>,
    names: Names,
    locks: BTreeMap<String, Process>,
    alive: BTreeSet<Process>,
    next_process: Process,
    faults: Faults,
    operations: u64,
    /// Hash over all operations so far.
    trace: Checksum,
    log: Option<Vec<String>>,
    skipped_sync: Option<SkippedSync>,
    /// The fault of the current write.
    write_fault: Option<Fault>,
    /// Whether the current write is short.
    is_short: bool,
    stale: Stale,
    free_bytes: u64,
}

/// Stale directory listings, as from the cache of a network file system.
#[derive(Clone, Copy, Default)]
struct Stale {
    /// Whether it is a network file system.
    is_possible: bool,
    /// Whether it does so now.
    is_on: bool,
    has_happened: bool,
}

/// Free bytes of a disk that never gets full.
pub const AMPLE_BYTES: u64 = 1 << 40;
/// While listings are stale, one in so many is current.
const CURRENT_ONE_IN: u64 = 3;

impl Disk {
    /// An empty disk. With `logged` it records every operation.
    pub fn new(random: Random, logged: bool) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                random,
                files: Vec::new(),
                names: Names::default(),
                locks: BTreeMap::new(),
                alive: BTreeSet::new(),
                next_process: 0,
                faults: Faults::none(),
                operations: 0,
                trace: Checksum::default(),
                log: logged.then(Vec::new),
                skipped_sync: None,
                write_fault: None,
                is_short: false,
                stale: Stale::default(),
                free_bytes: AMPLE_BYTES,
            }),
            interleaved: Mutex::new(None),
            open: Open::default(),
        })
    }

    /// A copy of the disk with its state of unsynced data, and other random numbers.
    pub fn copy(&self, random: Random) -> Arc<Self> {
        let copy = Self::new(random, false);
        let (state, mut new) = (self.state.lock(), copy.state.lock());
        new.files.clone_from(&state.files);
        new.names = state.names.clone();
        new.stale.is_possible = state.stale.is_possible;
        drop(new);
        copy
    }

    /// A copy of the files as they are now, durable on the new disk: like `cp` and `sync` while no process writes, or a
    /// volume snapshot while one does.
    pub fn copy_of_files(&self, random: Random) -> Arc<Self> {
        let copy = Self::new(random, false);
        let (state, mut new) = (self.state.lock(), copy.state.lock());
        new.files = state.files.iter().map(Content::copied).collect();
        new.names = state.names.copied();
        new.stale.is_possible = state.stale.is_possible;
        new.free_bytes = state.free_bytes;
        new.skipped_sync = state.skipped_sync;
        drop(new);
        copy
    }

    /// Continues the log, the trace and the count of operations of `old`.
    pub fn continue_log_of(&self, old: &Self) {
        let (mut state, old) = (self.state.lock(), old.state.lock());
        state.operations = old.operations;
        state.trace = old.trace.clone();
        state.log.clone_from(&old.log);
    }

    /// A new process.
    pub fn process(self: &Arc<Self>) -> SimStorage {
        let mut state = self.state.lock();
        state.next_process += 1;
        let process = state.next_process;
        state.alive.insert(process);
        SimStorage::new(self.clone(), process)
    }

    /// Whether `process` still runs.
    pub fn is_alive(&self, process: Process) -> bool {
        self.state.lock().alive.contains(&process)
    }

    /// Turns the disk into a network file system, whose listings can be stale.
    pub fn make_network_file_system(&self) {
        let mut state = self.state.lock();
        state.stale.is_possible = true;
        state.names.keep_history();
    }

    /// Whether it is a network file system.
    pub fn is_remote(&self) -> bool {
        self.state.lock().stale.is_possible
    }

    /// Makes most listings stale until [`Disk::disarm`]. Has no effect unless the disk is a network file system.
    pub fn serve_stale_listings(&self) {
        let stale = &mut self.state.lock().stale;
        stale.is_on = stale.is_possible;
    }

    /// Sets the free bytes that the disk reports. [`Fault::DiskFull`] decides when it is really full.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.state.lock().free_bytes = free_bytes;
    }

    /// Whether the disk reports little space.
    pub fn is_short(&self) -> bool {
        self.state.lock().free_bytes < AMPLE_BYTES
    }

    /// Skips a sync of the engine from now on.
    pub fn skip_sync(&self, sync: Option<SkippedSync>) {
        self.state.lock().skipped_sync = sync;
    }

    fn is_skipped(&self, verb: &str, name: &str) -> bool {
        self.state.lock().skipped_sync.is_some_and(|sync| sync.is(verb, name))
    }

    /// Sets the fault that happens from now on, counted from here.
    pub fn arm(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// Removes the fault; returns whether it happened.
    pub fn disarm(&self) -> bool {
        let mut state = self.state.lock();
        let fired = std::mem::replace(&mut state.faults, Faults::none()).has_fired;
        let Stale { is_possible, has_happened, .. } = state.stale;
        state.stale = Stale { is_possible, ..Stale::default() };
        fired || has_happened
    }

    /// Runs `action` without faults and without an interleaved task.
    pub fn without_faults<T>(&self, action: impl FnOnce() -> T) -> T {
        let (faults, stale) = self.calm();
        let interleaved = self.interleaved.lock().take();
        let result = action();
        let mut state = self.state.lock();
        (state.faults, state.stale) = (faults, stale);
        drop(state);
        *self.interleaved.lock() = interleaved;
        result
    }

    /// Removes the faults and returns them.
    fn calm(&self) -> (Faults, Stale) {
        let mut state = self.state.lock();
        let stale = state.stale;
        state.stale.is_on = false;
        (std::mem::replace(&mut state.faults, Faults::none()), stale)
    }

    /// Lets `interleaved` run before every operation that others do, until [`Disk::stop_interleaving`].
    pub fn interleave(&self, interleaved: Interleaved) {
        *self.interleaved.lock() = Some(interleaved);
    }

    /// Ends the interleaving.
    pub fn stop_interleaving(&self) {
        *self.interleaved.lock() = None;
    }

    /// Kills a process with SIGKILL; its writes stay in the cache.
    pub fn kill(&self, process: Process) {
        self.state.lock().kill(process);
    }

    /// Releases all locks, as a network file system does when a client was away for too long.
    pub fn lose_locks(&self) {
        self.state.lock().locks.clear();
    }

    /// Maximum number of open files since the last call.
    pub fn max_open_files(&self) -> usize {
        let now = self.open.now.load(Ordering::Relaxed);
        self.open.most.swap(now, Ordering::Relaxed)
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// A hash of all operations: the same seed gives the same trace.
    pub fn trace(&self) -> String {
        let trace = self.state.lock().trace.clone().finish();
        trace.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Writes a line to the log.
    pub fn note(&self, text: impl Into<String>) {
        let mut state = self.state.lock();
        let text = text.into();
        state.trace.update(text.as_bytes());
        if let Some(log) = &mut state.log {
            log.push(text);
        }
    }

    /// The log of operations.
    pub fn log(&self) -> Vec<String> {
        self.state.lock().log.clone().unwrap_or_default()
    }

    /// Names of all files.
    pub fn files(&self) -> Vec<String> {
        self.state.lock().names.files()
    }

    /// Cuts the power.
    pub fn lose_power(&self) {
        self.state.lock().lose_power();
    }

    /// Hides a file, as if it was moved away or its volume was not mounted.
    pub fn hide_file(&self, name: &str) -> Option<HiddenFile> {
        let mut state = self.state.lock();
        let file = state.names.file(name)?;
        state.names.unset(name);
        state.names.sync(names::parent(name));
        Some(HiddenFile(file))
    }

    /// Brings a hidden file back.
    pub fn restore_file(&self, name: &str, hidden: HiddenFile) {
        let mut state = self.state.lock();
        state.names.set(name, Node::File(hidden.0));
        state.names.sync(names::parent(name));
    }

    /// Length of a file in bytes.
    pub fn length(&self, name: &str) -> usize {
        let state = self.state.lock();
        state.names.file(name).map_or(0, |file| state.files[file].cached().len())
    }

    /// One operation of `process` begins; what it is, for the trace.
    fn step(
        &self,
        process: Process,
        verb: &'static str,
        name: &str,
        length: usize,
    ) -> StorageResult<()> {
        self.run_interleaved();
        let mut state = self.state.lock();
        state.operations += 1;
        state.write_down(process, verb, name, length);
        let fault = state.faults.next(verb, name);
        if let Some(fault) = fault {
            state.apply_fault(fault, process);
        }
        if !state.alive.contains(&process) {
            return Err(failed(verb, name, "the process is dead"));
        }
        match fault {
            Some(Fault::DiskFull) => Err(StorageError::new(verb, name, io::ErrorKind::StorageFull)),
            Some(Fault::IoError | Fault::DiskFailure | Fault::FailedSync) => {
                Err(failed(verb, name, "input/output error"))
            }
            Some(
                Fault::PowerCut
                | Fault::Kill
                | Fault::ShortWrite
                | Fault::LostWrite
                | Fault::MisdirectedWrite
                | Fault::BitRot,
            )
            | None => Ok(()),
        }
    }

    fn run_interleaved(&self) {
        // Removed while it runs, so that its own operations are not interleaved.
        let Some(mut interleaved) = self.interleaved.lock().take() else { return };
        interleaved();
        self.interleaved.lock().get_or_insert(interleaved);
    }
}

impl State {
    fn apply_fault(&mut self, fault: Fault, process: Process) {
        match fault {
            Fault::PowerCut => self.lose_power(),
            Fault::Kill => self.kill(process),
            Fault::LostWrite | Fault::MisdirectedWrite => self.write_fault = Some(fault),
            Fault::ShortWrite => self.is_short = true,
            Fault::BitRot => self.corrupt_containers(),
            Fault::IoError | Fault::DiskFailure | Fault::DiskFull | Fault::FailedSync => {}
        }
        if let Some(log) = &mut self.log {
            log.push(format!("*** {fault:?}"));
        }
    }

    fn kill(&mut self, process: Process) {
        self.alive.remove(&process);
        self.locks.retain(|_, holder| *holder != process);
    }

    fn list(&mut self, directory: &str) -> Vec<String> {
        if !self.stale.is_on || self.random.one_in(CURRENT_ONE_IN) {
            return self.names.list(directory);
        }
        self.stale.has_happened = true;
        if let Some(log) = &mut self.log {
            log.push("*** stale listing".into());
        }
        self.names.stale_listing(directory, &mut self.random)
    }

    fn lose_power(&mut self) {
        self.alive.clear();
        self.locks.clear();
        self.names.lose_power(&mut self.random);
        for file in &mut self.files {
            file.lose_power(&mut self.random);
        }
    }

    fn write_down(&mut self, process: Process, verb: &str, name: &str, length: usize) {
        // No text of each operation: making it would take an eighth of the time of all tests on this disk.
        self.trace.update(&process.to_be_bytes());
        [verb, name].iter().for_each(|part| self.trace.update(part.as_bytes()));
        self.trace.update(&length.to_be_bytes());
        if let Some(log) = &mut self.log {
            log.push(format!("{process} {verb} {name} {length}"));
        }
    }
}

fn failed(verb: &'static str, name: &str, reason: &'static str) -> StorageError {
    StorageError::new(verb, name, io::Error::other(reason))
}
