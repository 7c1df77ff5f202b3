//! The engine's storage over objects. Which file is which object: `docs/FORMAT.md`, chapter 17.

mod files;

use crate::cache::{self, Cache};
use crate::class_setting::SETTING;
use crate::client::Client;
use crate::known;
use crate::lease::{self, Held, Moment};
use crate::names::{
    BEHIND_CONTAINERS, DIRECTORY_MARK, LEASE, Listed, Names, ROOTS, SNAPSHOTS, STATE,
};
use crate::probe;
use crate::reader::Kept;
use crate::requests::Asked;
use crate::rows::row_of;
use crate::runs::Runs;
use crate::staging::Staging;
use crate::takeover::Ended;
use crate::uploads;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use repository::local::Counters;
use repository::storage::{PUT_SUFFIX, StorageError, StorageResult};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CONFIG: &str = "config";
const CONTAINERS: &str = "containers";
/// In tests: a lease is taken when nothing was heard of its holder for so many seconds.
const QUIET_VARIABLE: &str = "ICECORE_S3_QUIET_SECS";
/// So long a listing is believed: by who asks for the first time since it was made, and of the tags in it.
const BELIEVED_FOR: Duration = Duration::from_secs(5);
/// So long the list of snapshots is believed by who wants the latest one of a source.
const LATELY: Duration = Duration::from_secs(1);
/// The most of a small object that is kept in memory.
const RECENT_BYTES_MAX: u64 = 1 << 20;

/// A repository in a bucket.
pub struct ObjectStorage {
    pub(crate) shared: Arc<Shared>,
    staging: Staging,
    runs: Runs,
    /// Whether the runs that it writes are read again, and kept for that.
    reads_runs: bool,
    /// Held while somebody takes the lease.
    acquiring: Mutex<()>,
    /// Held while the list of containers that are about to go is changed.
    pub(crate) announcing: Mutex<()>,
    pub(crate) quiet: Duration,
    pub(crate) beat_every: Duration,
    /// So long is a look at the lease believed.
    pub(crate) checked_for: Duration,
    /// Called before it waits for another writer, with the longest time.
    pub(crate) waits: Waits,
}

/// Tells that a writer waits, and how long at most.
pub type Waits = Box<dyn Fn(Duration) + Send + Sync>;

/// What the storage and the guard of its lease share.
pub(crate) struct Shared {
    pub(crate) client: Arc<Client>,
    pub(crate) state: Mutex<State>,
}

/// What is known of the objects.
#[derive(Default)]
pub(crate) struct State {
    /// Without containers. Exact while the lease is held.
    pub(crate) names: Names,
    /// What nobody has asked for since all names were listed.
    pub(crate) unread: BTreeSet<&'static str>,
    /// When a directory or row was listed last; all names under an empty name.
    pub(crate) listed_at: HashMap<String, Moment>,
    pub(crate) held: Option<Arc<Held>>,
    /// There was a config: while there is none yet, somebody makes or moves a repository.
    pub(crate) is_repository: bool,
    pub(crate) ended: Option<(u64, Ended)>,
    /// The last object of each row that was read or written.
    pub(crate) roots: HashMap<&'static str, (u64, Bytes)>,
    /// Containers that the holder of this lease is about to remove.
    pub(crate) removed: Vec<String>,
    /// Of containers.
    pub(crate) lengths: HashMap<String, u64>,
    /// Directories of containers that were listed since the lease was taken: nobody else writes to them.
    pub(crate) listed: BTreeSet<String>,
    /// Objects that were read for who opens them next.
    pub(crate) expected: HashMap<String, Bytes>,
    /// Containers of which this machine keeps something wrong.
    pub(crate) distrusted: BTreeSet<String>,
    /// What this machine keeps.
    pub(crate) cache: Option<Arc<Cache>>,
    /// Small objects that were read or written last and never change: runs and snapshots are read more than once.
    pub(crate) recent: VecDeque<(String, Bytes)>,
}

impl State {
    /// Whether the names in `what` are as they were so short a time ago.
    pub(crate) fn is_fresh(&self, what: &str, within: Duration) -> bool {
        let is_recent = |what| self.listed_at.get(what).is_some_and(|at| at.age() < within);
        self.held.is_some() || is_recent("") || is_recent(what)
    }

    /// Whether nobody has asked for `what` yet since all names were listed, a short time ago. From now on somebody has.
    pub(crate) fn is_first_look(&mut self, what: &str) -> bool {
        self.unread.remove(what) && self.is_fresh("", BELIEVED_FOR)
    }

    /// Just `found` have names in `what` now.
    fn replace(&mut self, what: &str, found: Vec<(String, Listed)>) {
        let prefix = if what.is_empty() { String::new() } else { format!("{what}/") };
        self.names.replace(&prefix, "", found);
        self.listed_at.insert(what.to_owned(), Moment::now());
    }

    /// The tag of the object `name`, if a listing has just said it.
    fn fresh_tag(&self, name: &str) -> Option<&str> {
        let directory = name.rsplit_once('/').map_or("", |(directory, _)| directory);
        let is_believed = self.is_fresh(directory, BELIEVED_FOR) && !self.distrusted.contains(name);
        is_believed.then(|| self.names.tag(name)).flatten()
    }

    /// What this machine keeps of the object `name`, for who reads now.
    pub(crate) fn kept_of(&self, name: &str) -> Kept {
        let tag = self.names.tag(name).map(str::to_owned);
        let is_growing = tag.is_some() || self.held.is_none();
        let is_distrusted = self.distrusted.contains(name);
        Kept { cache: self.cache.clone(), is_growing, tag, is_distrusted }
    }

    /// The row of the index's state, as far as the storage tells contents apart.
    fn states(&self) -> Vec<cache::State> {
        let tagged = self.names.tagged(STATE).into_iter();
        tagged.map(|(number, tag)| cache::State { number, tag }).collect()
    }

    /// From now on, what is read may be of the last state.
    pub(crate) fn note_state(&self) {
        if let (Some(cache), None, Some(last)) = (&self.cache, &self.held, self.states().last()) {
            cache.note(last);
        }
    }
}

impl ObjectStorage {
    /// The repository that `client` reaches. One request shows whether it is reachable.
    ///
    /// # Errors
    /// When it is not, or the bucket does not exist.
    pub fn open(client: Client) -> StorageResult<Self> {
        let mut state = State::default();
        let listed =
            client.list("", BEHIND_CONTAINERS).map_err(|error| no_bucket(&client, error))?;
        state.replace("", listed);
        state.unread = ROOTS.into_iter().chain(["index", "keys", SNAPSHOTS, LEASE]).collect();
        let shared = Arc::new(Shared { client: Arc::new(client), state: Mutex::new(state) });
        Ok(Self {
            shared,
            staging: Staging::default(),
            runs: Runs::default(),
            reads_runs: true,
            acquiring: Mutex::new(()),
            announcing: Mutex::new(()),
            quiet: lease::QUIET,
            beat_every: lease::BEAT_EVERY,
            checked_for: lease::CHECKED_FOR,
            waits: Box::new(|_| {}),
        })
    }

    /// Checks that two writers cannot create the same object: for `init`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when they can.
    pub fn probe(&self) -> StorageResult<()> {
        probe::race(&self.shared.client)
    }

    /// Keeps what is read and never changes in a directory below `directory`. Not for a check: it has to see what the bucket
    /// has.
    pub fn keep_in(&mut self, directory: &Path) {
        self.shared.state.lock().cache = Some(Arc::new(Cache::new(directory)));
    }

    /// Keeps no run that it writes: for who only copies.
    pub fn read_no_runs(&mut self) {
        self.reads_runs = false;
    }

    /// Counts in `times` how long uploads and reads take.
    pub fn time_in(&self, times: Arc<Counters>) {
        self.client().time_in(times);
    }

    /// Calls `waits` before it waits to see whether another writer still runs.
    pub fn tell_waits(&mut self, waits: Waits) {
        self.waits = waits;
    }

    /// Takes a lease already when nothing was heard of its holder for `quiet`. For tests.
    pub fn take_over_after(&mut self, quiet: Duration) {
        self.quiet = quiet;
    }

    /// Shows more often that this process lives. For tests.
    pub fn beat_every(&mut self, every: Duration) {
        self.beat_every = every;
    }

    /// Waits for other writers, and beats, as a variable of the environment says. For tests.
    pub fn wait_as_the_environment_says(&mut self) {
        let secs = std::env::var(QUIET_VARIABLE).ok().and_then(|secs| secs.parse().ok());
        if let Some(secs) = secs {
            self.take_over_after(Duration::from_secs(secs));
            self.beat_every(Duration::from_secs(secs) / 12);
        }
    }

    /// Believes no look at the lease for longer than this. For tests.
    pub fn look_again_after(&mut self, checked_for: Duration) {
        self.checked_for = checked_for;
    }

    /// Ends uploads that began longer ago than `age`; how many. Happens by itself with those of more than a day, now and
    /// then when a writer ends.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn abort_uploads(&self, age: Duration) -> StorageResult<u64> {
        uploads::abort(self.client(), age)
    }

    /// What this process has asked of the storage until now.
    pub fn asked(&self) -> Asked {
        self.client().requests().until_now()
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.shared.client
    }

    /// What is known, with the names of `what` as they are now: a directory or a row.
    pub(crate) fn look(&self, what: &str) -> StorageResult<MutexGuard<'_, State>> {
        let mut state = self.shared.state.lock();
        if state.held.is_none() && !state.is_first_look(what) {
            let listed = self.client().list(what, what)?;
            state.replace(what, listed);
        }
        Ok(state)
    }

    /// The same of all names: one request, as for each of `what`.
    pub(crate) fn look_at_all(&self, what: [&str; 2]) -> StorageResult<MutexGuard<'_, State>> {
        let mut state = self.shared.state.lock();
        // Each of them, also when the first one was asked for before.
        let first_looks = what.map(|what| state.is_first_look(what));
        if state.held.is_none() && first_looks != [true; 2] {
            let listed = self.client().list("", BEHIND_CONTAINERS)?;
            state.replace("", listed);
        }
        Ok(state)
    }

    /// The object `name`, which changes seldom.
    pub(crate) fn get_seldom(&self, name: &str) -> StorageResult<Bytes> {
        let tag = self.shared.state.lock().fresh_tag(name).map(str::to_owned);
        known::get(self.client().location(), name, tag, || self.client().get(name))
    }

    /// The file that says which repository this is.
    fn open_config(&self) -> StorageResult<Bytes> {
        let config = self.client().get(CONFIG)?;
        let mut state = self.shared.state.lock();
        state.is_repository = true;
        if let Some(cache) = &state.cache {
            cache.attach(&config, &state.states());
        }
        Ok(config)
    }

    fn list_containers(&self, directory: &str) -> StorageResult<Vec<String>> {
        let listed = self.client().list_directory(directory)?;
        if listed.is_empty() && directory == CONTAINERS {
            return Err(StorageError::new("list", directory, ErrorKind::NotFound));
        }
        let mut state = self.shared.state.lock();
        if state.held.is_some() {
            state.listed.insert(directory.to_owned());
        }
        for (name, length) in &listed {
            if let Some(length) = length {
                state.lengths.insert(format!("{directory}/{name}"), *length);
            }
        }
        let names = listed.into_iter().map(|(name, _)| name);
        Ok(names.filter(|name| name != DIRECTORY_MARK).collect())
    }

    /// Whether there is a repository.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn has_repository(&self) -> StorageResult<bool> {
        match self.client().length(CONFIG) {
            Err(error) if error.is_not_found() => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Whether the last listing had the storage class of containers.
    pub(crate) fn has_setting(&self) -> bool {
        self.shared.state.lock().names.has(SETTING)
    }

    /// This process has written that setting.
    pub(crate) fn note_setting(&self) {
        self.shared.state.lock().names.insert(SETTING, 0);
    }

    /// Whether nothing has this name, as far as is known without a request.
    fn is_known_absent(&self, name: &str) -> bool {
        let state = self.shared.state.lock();
        state.held.is_some() && name > BEHIND_CONTAINERS && !state.names.has(name)
    }

    fn note(&self, name: &str, length: u64, tag: Option<String>) {
        let mut state = self.shared.state.lock();
        if name.starts_with(CONTAINERS) {
            state.lengths.insert(name.to_owned(), length);
        } else if name > BEHIND_CONTAINERS {
            state.names.insert_tagged(name, length, tag);
        }
    }

    /// This process has written the run `name`, and reads it again.
    fn keep_run(&self, name: &str, staged: crate::staging::Staged) -> StorageResult<()> {
        let (length, kept) = (staged.bytes(), self.shared.state.lock().kept_of(name));
        if length > RECENT_BYTES_MAX {
            kept.keep_file(name, &staged);
            self.runs.keep(name, staged);
            return Ok(());
        }
        let bytes = staged.read(0, length as usize)?;
        kept.keep(name, &bytes);
        self.shared.keep(name, bytes);
        Ok(())
    }

    /// The objects to remove for the file `name`. One that is in the making goes at once.
    fn objects_of(&self, name: &str) -> StorageResult<Vec<String>> {
        if self.staging.remove(name) || name.ends_with(PUT_SUFFIX) || name.ends_with(".part") {
            return Ok(Vec::new());
        }
        if name.starts_with("snapshots/") {
            return self.snapshot_objects(name);
        }
        if let Some(row) = row_of(name) {
            let state = self.look(row)?;
            return Ok(state.names.below(row).map(|number| format!("{row}/{number}")).collect());
        }
        Ok(if self.is_known_absent(name) { Vec::new() } else { vec![name.to_owned()] })
    }

    /// The staged file `name`, to be uploaded.
    fn staged(&self, name: &str) -> StorageResult<crate::staging::Staged> {
        let absent = || StorageError::new("rename", name, ErrorKind::NotFound);
        self.staging.get(name).ok_or_else(absent)
    }
}

fn no_bucket(client: &Client, error: StorageError) -> StorageError {
    if !error.is_not_found() {
        return error;
    }
    StorageError::new(
        "open",
        client.location(),
        Error::new(ErrorKind::NotFound, "the bucket does not exist"),
    )
}
