//! A disk with the promises of POSIX and no more: what was not synced may be lost, as a whole, in
//! parts of 512 bytes, or not at all; a name is durable when its directory was synced.
//!
//! `content` is what one file holds, `names` which names there are, `faults` what goes wrong when,
//! `storage` how the engine sees it.

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
use format::wire::checksum;
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
/// A sync that is left out, as if nobody had written it: a test shows that it is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkippedSync {
    /// `sync` or `sync directory`.
    pub verb: &'static str,
    /// Name of the file or directory; with a star at the end all that begin so.
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

/// A file that was taken away.
pub struct HiddenFile(FileNo);

/// What runs beside an operation, before it.
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
    /// Sum over all operations so far.
    trace: [u8; 16],
    log: Option<Vec<String>>,
    skipped_sync: Option<SkippedSync>,
    /// What happens to the write under way.
    write_fault: Option<Fault>,
    /// The write under way takes not all.
    is_short: bool,
    stale: Stale,
    free_bytes: u64,
}

/// Lists that show the past, as a network file system may have them in its cache.
#[derive(Clone, Copy, Default)]
struct Stale {
    /// Whether it is a network file system.
    is_possible: bool,
    /// Whether it does so now.
    is_on: bool,
    has_happened: bool,
}

/// Free bytes of a disk with room for everything.
pub const AMPLE_BYTES: u64 = 1 << 40;
/// While lists are stale, one of so many is not.
const CURRENT_ONE_IN: u64 = 3;

impl Disk {
    /// An empty disk. With `logged` it writes down what was asked of it.
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
                trace: [0; 16],
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

    /// What lies on this disk on another one, on which things go otherwise. Nobody uses it yet.
    pub fn copy(&self, random: Random) -> Arc<Self> {
        let copy = Self::new(random, false);
        let (state, mut new) = (self.state.lock(), copy.state.lock());
        new.files.clone_from(&state.files);
        new.names = state.names.clone();
        new.stale.is_possible = state.stale.is_possible;
        drop(new);
        copy
    }

    /// All files of this disk on another one, copied at this moment and durable there, as `cp` and `sync` do while
    /// nobody writes, or a snapshot of the volume while somebody does.
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

    /// What was asked of `old` so far belongs to what happens here.
    pub fn continue_log_of(&self, old: &Self) {
        let (mut state, old) = (self.state.lock(), old.state.lock());
        state.operations = old.operations;
        state.trace = old.trace;
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

    /// Makes a network file system of it.
    pub fn make_network_file_system(&self) {
        let mut state = self.state.lock();
        state.stale.is_possible = true;
        state.names.keep_history();
    }

    /// Whether it is a network file system.
    pub fn is_remote(&self) -> bool {
        self.state.lock().stale.is_possible
    }

    /// Until [`Disk::disarm`] most lists show what a directory was some changes ago. Only a
    /// network file system does so.
    pub fn serve_stale_listings(&self) {
        let stale = &mut self.state.lock().stale;
        stale.is_on = stale.is_possible;
    }

    /// Says from now on that so many bytes can be written; how many really can is for
    /// [`Fault::DiskFull`].
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.state.lock().free_bytes = free_bytes;
    }

    /// Whether it says that there is little room.
    pub fn is_short(&self) -> bool {
        self.state.lock().free_bytes < AMPLE_BYTES
    }

    /// Leaves a sync out from now on.
    pub fn skip_sync(&self, sync: Option<SkippedSync>) {
        self.state.lock().skipped_sync = sync;
    }

    fn is_skipped(&self, verb: &str, name: &str) -> bool {
        self.state.lock().skipped_sync.is_some_and(|sync| sync.is(verb, name))
    }

    /// What goes wrong from now on; counted from here.
    pub fn arm(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// Whether what was armed has happened, and nothing goes wrong from now on.
    pub fn disarm(&self) -> bool {
        let mut state = self.state.lock();
        let fired = std::mem::replace(&mut state.faults, Faults::none()).has_fired;
        let Stale { is_possible, has_happened, .. } = state.stale;
        state.stale = Stale { is_possible, ..Stale::default() };
        fired || has_happened
    }

    /// Runs `action` without faults and without a guest.
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

    /// Nothing goes wrong; what would have.
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

    /// Nobody runs beside the others any more.
    pub fn stop_interleaving(&self) {
        *self.interleaved.lock() = None;
    }

    /// kill -9: what it wrote stays in the cache.
    pub fn kill(&self, process: Process) {
        self.state.lock().kill(process);
    }

    /// All locks are given up, as a network file system does to who was away for long.
    pub fn lose_locks(&self) {
        self.state.lock().locks.clear();
    }

    /// Most files that were open at a time since the last call.
    pub fn max_open_files(&self) -> usize {
        let now = self.open.now.load(Ordering::Relaxed);
        self.open.most.swap(now, Ordering::Relaxed)
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// A sum of everything that was asked of the disk: the same seed gives the same.
    pub fn trace(&self) -> String {
        self.state.lock().trace.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Notes something in the log.
    pub fn note(&self, text: impl Into<String>) {
        let mut state = self.state.lock();
        let text = text.into();
        state.trace = checksum(&[&state.trace, text.as_bytes()]);
        if let Some(log) = &mut state.log {
            log.push(text);
        }
    }

    /// What was asked of the disk.
    pub fn log(&self) -> Vec<String> {
        self.state.lock().log.clone().unwrap_or_default()
    }

    /// Names of all files.
    pub fn files(&self) -> Vec<String> {
        self.state.lock().names.files()
    }

    /// The power goes.
    pub fn lose_power(&self) {
        self.state.lock().lose_power();
    }

    /// A file is gone, by hand, or because what it lies on is not mounted.
    pub fn hide_file(&self, name: &str) -> Option<HiddenFile> {
        let mut state = self.state.lock();
        let file = state.names.file(name)?;
        state.names.unset(name);
        state.names.sync(names::parent(name));
        Some(HiddenFile(file))
    }

    /// It is there again.
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
        // Taken out, so that what it does itself has no guest.
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
            log.push("*** of the past".into());
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
        let line = format!("{process} {verb} {name} {length}");
        self.trace = checksum(&[&self.trace, line.as_bytes()]);
        if let Some(log) = &mut self.log {
            log.push(line);
        }
    }
}

fn failed(verb: &'static str, name: &str, reason: &'static str) -> StorageError {
    StorageError::new(verb, name, io::Error::other(reason))
}
