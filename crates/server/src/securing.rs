//! Having others keep what locked snapshots need: the lock helper the files of pools in directories
//! (`docs/adr/0045-locks-on-the-disk.md`), and the storage the objects of pools in buckets (`buckets`).
//!
//! A domain is looked at soon after a locked snapshot came or its containers were rewritten, and once an hour. Each
//! look walks its snapshots, so the next one of the same domain waits for a multiple of what the last one took.

mod buckets;
mod files;
#[cfg(test)]
mod tests;

use api::Name;
use api::status::KeptLocks;
use api::upkeep::ObjectLock;
use buckets::Buckets;
use files::secure_files;
use lock_helper::Client;
use parking_lot::Mutex;
use repository::reclaim::locked::LockedFiles;
use repository::watch::Unwatched;
use rustc_hash::{FxHashMap, FxHashSet};
use server_contract::folder::Folder;
use server_contract::pool::{self, NAME_TAKEN};
use server_data::domains::Domains;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often is looked whether something is to be done.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often every domain is looked at.
const ALL_EVERY: Duration = Duration::from_secs(3600);
/// A look takes at most this part of the time.
const REST: u32 = 10;
/// What failed is tried again after so long.
const AGAIN: Duration = Duration::from_secs(60);
/// How often is looked whether the helper is there at all, while it keeps something.
const REACH_EVERY: Duration = Duration::from_secs(10);
/// Where a lock was ever given, this file is in the repository.
const LOCKS_GIVEN: &str = "lock-clock";

/// The repositories of this server, in pools that can be used.
type Folders = Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>;
/// Whether the pool of a repository answers, else why it cannot be used. Asked before anything in it is looked at: one
/// that hangs must not end the looks at those of all others.
type Answers = Box<dyn Fn(&Path) -> Result<(), String> + Send + Sync>;
/// Who is told how it went.
type Told = Box<dyn Fn(KeptLocks) + Send + Sync>;

/// Who keeps what locked snapshots need.
#[derive(Clone, Debug, Default)]
pub struct Keepers {
    /// Socket of the lock helper of this machine.
    pub lock_helper: Option<PathBuf>,
    /// How the storages of pools in buckets lock objects.
    pub object_lock: Option<ObjectLock>,
}

impl Keepers {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lock_helper.is_none() && self.object_lock.is_none()
    }
}

/// Keeps the keepers up to date.
pub struct Securing {
    helper: Option<Client>,
    buckets: Option<Buckets>,
    domains: Arc<Domains>,
    folders: Folders,
    answers: Answers,
    told: Told,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When every domain is looked at again; `None` for at once.
    all_at: Option<Instant>,
    /// Domains that are to be looked at, not before this time.
    due: FxHashMap<PathBuf, Instant>,
    /// Of these, those that need not have locks.
    without_locks: FxHashSet<PathBuf>,
    /// Until when a domain rests after its last look.
    rests: FxHashMap<PathBuf, Instant>,
    /// Pools in which a look goes on, and the domain that is looked at.
    looks: FxHashMap<PathBuf, PathBuf>,
    /// When the helper is reached for again; `None` for at once.
    reach_at: Option<Instant>,
    /// How it went in each domain that has locks.
    outcomes: FxHashMap<PathBuf, Outcome>,
}

/// Of one domain: what is kept, or what is wrong.
type Outcome = Result<Kept, String>;

/// What is kept of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kept {
    files: u64,
    objects: u64,
}

/// Does so, if anybody keeps anything, until the future is dropped.
pub async fn run(securing: Option<Arc<Securing>>) {
    match securing {
        Some(securing) => securing.run().await,
        None => std::future::pending().await,
    }
}

impl Securing {
    /// Tells `keepers` of the repositories in `folders`, which `domains` has open.
    pub fn new(
        keepers: &Keepers,
        domains: Arc<Domains>,
        (folders, answers): (Folders, Answers),
        told: Told,
    ) -> Self {
        let state = Mutex::default();
        let helper = keepers.lock_helper.clone().map(Client::new);
        let buckets = keepers.object_lock.map(Buckets::new);
        Self { helper, buckets, domains, folders, answers, told, state }
    }

    async fn run(self: Arc<Self>) {
        loop {
            let this = self.clone();
            let _ = tokio::task::spawn_blocking(move || this.look()).await; // a bug is in the log
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Begins to look at the domains whose turn it is. Each pool has a thread of its own: a look in one that begins to
    /// hang ends when it answers again, and keeps no other from its own. The first time it tells of it also if there is
    /// none.
    fn look(self: &Arc<Self>) {
        let is_first = self.state.lock().all_at.is_none();
        let due = self.due(Instant::now());
        for (pool, domains) in &due {
            let looks = Looks { securing: self.clone(), pool: pool.clone() };
            let theirs = domains.clone();
            if let Err(error) = std::thread::Builder::new().spawn(move || looks.at(&theirs)) {
                domains.iter().for_each(|it| self.note(it, Err(text(&error)), Duration::ZERO));
            }
        }
        if self.lost_any() || is_first && due.is_empty() {
            (self.told)(self.summary());
        }
    }

    /// Looks at a domain, if it is still there and may have locks.
    fn look_at(&self, folder: &Path) {
        let begun = Instant::now();
        let outcome = self.outcome(folder);
        let (domain, took) = (folder.display(), begun.elapsed());
        match &outcome {
            Some(Ok(kept)) => tracing::debug!(%domain, ?kept, ?took, "what is locked is kept"),
            Some(Err(why)) => tracing::error!(%domain, why, "ALARM: what is locked is not kept"),
            None => _ = self.state.lock().outcomes.remove(folder),
        }
        if let Some(outcome) = outcome {
            self.note(folder, outcome, took);
        }
    }

    /// What is kept of the repository in `folder`; `None` if it moved away or never had a lock.
    fn outcome(&self, folder: &Path) -> Option<Outcome> {
        let may_have_none = self.state.lock().without_locks.remove(folder);
        if let Err(why) = (self.answers)(folder) {
            return Some(Err(why));
        }
        // Nobody knows what moved away of a pool that is not there.
        let is_gone = !folder.exists() && pool::verify(folder).is_ok();
        let has_none = || may_have_none && !self.may_have_locks(folder);
        (!is_gone && !has_none()).then(|| self.secure(folder))
    }

    /// Whether the helper that keeps something has gone, or a pool of which it does no longer answers, or one in which
    /// a look goes on: what it kept is looked at again soon, and an alarm until then.
    fn lost_any(&self) -> bool {
        let asked = self.state.lock().reach_now(Instant::now());
        let reached = match (&self.helper, asked.kept.is_empty()) {
            (Some(helper), false) => helper.reach().map_err(text),
            _ => Ok(()),
        };
        let why = |folder: &PathBuf| reached.clone().and_then(|()| (self.answers)(folder)).err();
        let kept = asked.kept.iter().filter_map(|it| Some((it, why(it)?)));
        let hangs = |folder: &PathBuf| (self.answers)(folder).err();
        let looked_at = asked.looked_at.iter().filter_map(|it| Some((it, hangs(it)?)));
        let lost: Vec<_> = kept.chain(looked_at).collect();
        for (folder, why) in &lost {
            tracing::error!(domain = %folder.display(), why, "ALARM: nobody knows whether what is locked is kept");
            self.note(folder, Err(why.clone()), Duration::ZERO);
        }
        !lost.is_empty()
    }

    /// The domains whose turn it is, by their pools, in which looks count as begun. The others stay in the list.
    fn due(&self, now: Instant) -> BTreeMap<PathBuf, Vec<PathBuf>> {
        let is_all = self.state.lock().all_at.is_none_or(|at| at <= now);
        let all = if is_all { (self.folders)() } else { Vec::new() };
        let mut state = self.state.lock();
        if is_all {
            state.all_at = Some(now + ALL_EVERY);
            let told: Vec<_> = state.outcomes.keys().cloned().collect();
            for folder in all.into_iter().chain(told) {
                state.wants(folder, now, false);
            }
        }
        for folder in self.domains.to_secure() {
            state.wants(folder, now, true);
        }
        state.take_due(now)
    }

    fn note(&self, folder: &Path, outcome: Outcome, took: Duration) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if outcome.is_err() {
            state.due.insert(folder.to_owned(), now + AGAIN);
        }
        state.rests.insert(folder.to_owned(), now + took * REST);
        state.outcomes.insert(folder.to_owned(), outcome);
    }

    /// Whether a lock may ever have been given in the repository in `folder`. Of one in a bucket only the bucket knows.
    fn may_have_locks(&self, folder: &Path) -> bool {
        match pool::is_in_bucket(folder) {
            Ok(false) => self.helper.is_some() && folder.join(LOCKS_GIVEN).exists(),
            _ => self.buckets.is_some(), // an error is told by the look
        }
    }

    fn secure(&self, folder: &Path) -> Outcome {
        if pool::is_in_bucket(folder).map_err(text)? {
            let Some(buckets) = &self.buckets else { return Ok(Kept::default()) };
            return buckets.secure(folder, &self.locked(folder)?);
        }
        match &self.helper {
            Some(helper) => secure_files(helper, folder, &self.locked(folder)?),
            None => Ok(Kept::default()),
        }
    }

    fn locked(&self, folder: &Path) -> Result<LockedFiles, String> {
        let domain = self.domains.open(folder).map_err(text)?;
        domain.repository.locked_files(&Unwatched).map_err(text)
    }

    fn summary(&self) -> KeptLocks {
        let KeptLocks { files, objects, problems } = self.state.lock().summary();
        let files = files.filter(|_| self.helper.is_some());
        KeptLocks { files, objects: objects.filter(|_| self.buckets.is_some()), problems }
    }
}

/// The directory of the pool in which the repository `folder` lies.
fn pool_of(folder: &Path) -> PathBuf {
    folder.ancestors().nth(2).unwrap_or(folder).to_owned()
}

/// Whether the pool in which the repository `domain` lies answers.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn pool_answers(folder: &Folder, domain: &Path) -> Result<(), String> {
    let pool = pool_of(domain);
    let name = pool.file_name().and_then(|name| name.to_str());
    let further = name.filter(|name| *name != NAME_TAKEN).map(str::parse::<Name>);
    folder.pool_answers(further.transpose().map_err(text)?.as_ref()).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The looks in one pool, as long as they go on: the pool is free for the next ones when they end, also by a panic.
struct Looks {
    securing: Arc<Securing>,
    pool: PathBuf,
}

impl Looks {
    fn at(self, domains: &[PathBuf]) {
        for folder in domains {
            self.securing.state.lock().looks.insert(self.pool.clone(), folder.clone());
            self.securing.look_at(folder);
        }
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        // While others go on, their part would be missing: they tell of all, or are told of when they hang.
        if self.securing.state.lock().ends_in(&self.pool) {
            (self.securing.told)(self.securing.summary());
        }
    }
}

/// What is to be asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    /// Domains of which the helper keeps something.
    kept: Vec<PathBuf>,
    /// Domains that are being looked at, of which nothing is known to be wrong.
    looked_at: Vec<PathBuf>,
}

impl State {
    /// Has a domain looked at. One that need not have locks costs an hourly look at a single file.
    fn wants(&mut self, folder: PathBuf, now: Instant, has_locks: bool) {
        if has_locks {
            self.without_locks.remove(&folder);
        } else if !self.due.contains_key(&folder) {
            self.without_locks.insert(folder.clone());
        }
        self.due.entry(folder).or_insert(now);
    }

    /// Takes the domains whose turn it is out of the list, by their pools; not those of pools in which a look goes on.
    fn take_due(&mut self, now: Instant) -> BTreeMap<PathBuf, Vec<PathBuf>> {
        let Self { due, rests, looks, .. } = self;
        rests.retain(|_, until| *until > now);
        let is_turn = |folder: &PathBuf, at: &Instant| {
            *at <= now && !rests.contains_key(folder) && !looks.contains_key(&pool_of(folder))
        };
        let turn: Vec<_> = due.extract_if(|folder, at| is_turn(folder, at)).collect();
        let mut by_pool: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (folder, _) in turn {
            by_pool.entry(pool_of(&folder)).or_default().push(folder);
        }
        looks.extend(by_pool.iter().map(|(pool, domains)| (pool.clone(), domains[0].clone())));
        by_pool
    }

    /// No look goes on in a pool any more. Returns whether there is an outcome of all.
    fn ends_in(&mut self, pool: &Path) -> bool {
        self.looks.remove(pool);
        self.looks.values().all(|it| self.is_wrong(it))
    }

    fn is_wrong(&self, folder: &Path) -> bool {
        self.outcomes.get(folder).is_some_and(Result::is_err)
    }

    /// The domains that are to be asked for, when it is time to.
    fn reach_now(&mut self, now: Instant) -> Asked {
        if self.reach_at.is_some_and(|at| now < at) {
            return Asked::default();
        }
        self.reach_at = Some(now + REACH_EVERY);
        let has_files = |outcome: &Outcome| outcome.as_ref().is_ok_and(|kept| kept.files > 0);
        let kept = self.outcomes.iter().filter(|(_, outcome)| has_files(outcome));
        let kept: Vec<_> = kept.map(|(folder, _)| folder.clone()).collect();
        let is_new = |folder: &&PathBuf| !kept.contains(folder) && !self.is_wrong(folder);
        let looked_at = self.looks.values().filter(is_new).cloned().collect();
        Asked { kept, looked_at }
    }

    fn summary(&self) -> KeptLocks {
        let kept = || self.outcomes.values().filter_map(|outcome| outcome.as_ref().ok());
        let files = Some(kept().map(|kept| kept.files).sum());
        let objects = Some(kept().map(|kept| kept.objects).sum());
        let failed = self.outcomes.iter().filter_map(|(folder, outcome)| {
            let why = outcome.as_ref().err()?;
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            Some(format!("{name}: {why}"))
        });
        let mut problems: Vec<_> = failed.collect();
        problems.sort();
        let more = problems.len().saturating_sub(KeptLocks::PROBLEMS_MAX);
        if more > 0 {
            // In place of the last one, so that their number stays the same.
            problems.truncate(KeptLocks::PROBLEMS_MAX - 1);
            problems.push(format!("{} further domains: see the log", more + 1));
        }
        KeptLocks { files, objects, problems }
    }
}

fn nothing_lost(lost_pages: u64) -> Result<(), String> {
    if lost_pages == 0 {
        return Ok(());
    }
    Err(format!(
        "{lost_pages} pages of locked snapshots cannot be read, so what they need is not kept: icecore server check"
    ))
}
