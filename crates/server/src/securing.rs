//! Having others keep what locked snapshots need: the lock helper the files of pools in directories
//! (`docs/adr/0045-locks-on-the-disk.md`), and the storage the objects of pools in buckets (`buckets`).
//!
//! A domain is looked at soon after a locked snapshot came or its containers were rewritten, and once an hour. Each
//! look walks its snapshots, so the next one of the same domain waits for a multiple of what the last one took.

mod buckets;
#[cfg(test)]
mod tests;

use api::Name;
use api::status::KeptLocks;
use api::upkeep::ObjectLock;
use buckets::Buckets;
use lock_helper::{Client, File, Secured};
use parking_lot::Mutex;
use repository::reclaim::locked::LockedFiles;
use repository::watch::Unwatched;
use rustc_hash::FxHashMap;
use server_contract::folder::Folder;
use server_contract::pool::{self, NAME_TAKEN};
use server_data::domains::Domains;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
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
/// Files that failed and are named in the log.
const NAMED_MAX: usize = 5;

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
    /// Until when a domain rests after its last look.
    rests: FxHashMap<PathBuf, Instant>,
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

    /// Looks at the domains whose turn it is. The first time it tells of it also if there is none.
    fn look(&self) {
        let is_first = self.state.lock().all_at.is_none();
        let due = self.due(Instant::now());
        for folder in &due {
            let begun = Instant::now();
            let outcome = self.secure(folder);
            let (domain, took) = (folder.display(), begun.elapsed());
            match &outcome {
                Ok(kept) => tracing::debug!(%domain, ?kept, ?took, "what is locked is kept"),
                Err(why) => tracing::error!(%domain, why, "ALARM: what is locked is not kept"),
            }
            self.note(folder, outcome, took);
        }
        if is_first || self.lost_any() || !due.is_empty() {
            (self.told)(self.summary());
        }
    }

    /// Whether the helper that keeps something has gone, or a pool of which it does no longer answers: what it kept is
    /// looked at again soon, and an alarm until then.
    fn lost_any(&self) -> bool {
        let Some(helper) = &self.helper else { return false };
        let kept = self.state.lock().reach_now(Instant::now());
        if kept.is_empty() {
            return false;
        }
        let reached = helper.reach().map_err(text);
        let why = |folder: &PathBuf| reached.clone().and_then(|()| (self.answers)(folder)).err();
        let lost: Vec<_> = kept.iter().filter_map(|it| Some((it, why(it)?))).collect();
        for (folder, why) in &lost {
            tracing::error!(domain = %folder.display(), why, "ALARM: nobody knows whether what is locked is kept");
            self.note(folder, Err(why.clone()), Duration::ZERO);
        }
        !lost.is_empty()
    }

    /// The domains whose turn it is. The others stay in the list.
    fn due(&self, now: Instant) -> Vec<PathBuf> {
        let mut state = self.state.lock();
        let mut wanted = self.domains.to_secure();
        if state.all_at.is_none_or(|at| at <= now) {
            state.all_at = Some(now + ALL_EVERY);
            // What moved away; nobody knows that of a pool that is not there.
            state.outcomes.retain(|folder, _| {
                (self.answers)(folder).is_err() || folder.exists() || pool::verify(folder).is_err()
            });
            wanted.extend((self.folders)().into_iter().filter(|it| self.may_have_locks(it)));
        }
        for folder in wanted {
            state.due.entry(folder).or_insert(now);
        }
        let State { due, rests, .. } = &mut *state;
        rests.retain(|_, until| *until > now);
        let is_due = |folder: &PathBuf, at: &Instant| *at <= now && !rests.contains_key(folder);
        let turn: Vec<_> = due
            .iter()
            .filter(|(folder, at)| is_due(folder, at))
            .map(|(it, _)| it.clone())
            .collect();
        due.retain(|folder, _| !turn.contains(folder));
        turn
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
            // Where nobody can look it may, and the look says why.
            Ok(false) => {
                let may = || (self.answers)(folder).is_err() || folder.join(LOCKS_GIVEN).exists();
                self.helper.is_some() && may()
            }
            _ => self.buckets.is_some(), // an error is told by the look
        }
    }

    /// What is kept of the repository in `folder`.
    fn secure(&self, folder: &Path) -> Outcome {
        (self.answers)(folder)?;
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

/// Whether the pool in which the repository `domain` lies answers.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn pool_answers(folder: &Folder, domain: &Path) -> Result<(), String> {
    let pool = domain.ancestors().nth(2).and_then(|pool| pool.file_name()?.to_str());
    let further = pool.filter(|name| *name != NAME_TAKEN).map(str::parse::<Name>);
    folder.pool_answers(further.transpose().map_err(text)?.as_ref()).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Has the lock helper keep files.
fn secure_files(helper: &Client, folder: &Path, locked: &LockedFiles) -> Outcome {
    let (pool, within) = place(folder).map_err(text)?;
    let files = named(&within, locked);
    if files.is_empty() {
        return Ok(Kept::default());
    }
    let secured = helper.secure(&pool, &files).map_err(text)?;
    judged(&secured, locked.lost_pages)
}

impl State {
    /// The domains of which the helper keeps something, when it is time to reach for it.
    fn reach_now(&mut self, now: Instant) -> Vec<PathBuf> {
        if self.reach_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        self.reach_at = Some(now + REACH_EVERY);
        let has_files = |outcome: &Outcome| outcome.as_ref().is_ok_and(|kept| kept.files > 0);
        let kept = self.outcomes.iter().filter(|(_, outcome)| has_files(outcome));
        kept.map(|(folder, _)| folder.clone()).collect()
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

/// The directory of the pool in which the repository `folder` lies, and its path in there. Links are followed here, so
/// that the helper need not follow any. Where the directory of the domains is a file system of its own, it is the pool:
/// no file has names in two of them.
fn place(folder: &Path) -> std::io::Result<(PathBuf, String)> {
    let real = folder.canonicalize()?;
    let device = |path: &Path| path.metadata().map(|known| known.dev());
    let own = device(&real)?;
    let mut pool = real.clone();
    for above in real.ancestors().skip(1).take(2) {
        if device(above)? != own {
            break;
        }
        above.clone_into(&mut pool);
    }
    let within = real.strip_prefix(&pool).unwrap_or(&real).to_string_lossy().into_owned();
    Ok((pool, within))
}

fn named(within: &str, locked: &LockedFiles) -> Vec<File> {
    // Nothing, where the domain is a file system of its own, and so the pool.
    let above = if within.is_empty() { String::new() } else { format!("{within}/") };
    let file = |(name, until_secs): &(String, i64)| File {
        name: format!("{above}{name}"),
        until_secs: *until_secs,
    };
    locked.files.iter().map(file).collect()
}

/// A file that is gone was removed since it was listed, by a reclaim that moved what is needed elsewhere: the next look
/// finds it there.
fn judged(secured: &Secured, lost_pages: u64) -> Outcome {
    let failed = secured.failed.iter().filter(|failed| !failed.is_gone);
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for failed in failed.clone().take(NAMED_MAX) {
        named.entry(&failed.why).or_default().push(&failed.name);
    }
    if !named.is_empty() {
        let reasons: Vec<_> =
            named.iter().map(|(why, names)| format!("{} ({why})", names.join(", "))).collect();
        return Err(format!("{} files are not kept: {}", failed.count(), reasons.join("; ")));
    }
    if secured.failed.iter().any(|failed| failed.is_gone) {
        return Err("some files were removed meanwhile".into());
    }
    nothing_lost(lost_pages)?;
    Ok(Kept { files: secured.files, objects: 0 })
}

fn nothing_lost(lost_pages: u64) -> Result<(), String> {
    if lost_pages == 0 {
        return Ok(());
    }
    Err(format!(
        "{lost_pages} pages of locked snapshots cannot be read, so what they need is not kept: icecore server check"
    ))
}
