//! Moving a domain from one pool of this server to another, while it is in use.
//!
//! Most is copied beside the sessions. Then nobody may use the domain for as long as the rest takes, the catalog names
//! the other pool, and the directory in the first one is removed. Killed at any step, the next move goes on; until then
//! the domain is where the catalog says, or nobody opens it. What differs where a pool lies in a bucket:
//! [`server_contract::pool::moves`].

mod allowed;
mod readers;

use self::allowed::Allowed;
use crate::upkeep::of_engine;
use crate::upkeep::pace::{self, Pace};
use repository::Repository;
use repository::lease::{Lease, LeasePurpose};
use repository::moving::{Move, differs, lacks};
use repository::storage::{Storage, StorageError};
use repository::watch::Watch;
use server_contract::moving::{
    DomainMover, MoveControl, MoveRequest, Moved, finished, leftover, unfinished,
};
use server_contract::pool::moves::{self, MoveTarget};
use server_contract::pool::{self, MAIN, NAME_TAKEN};
use server_contract::upkeep::UpkeepError;
use server_data::Shared;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who holds the lease, for people.
const HOLDER: &str = "the server, which moves the domain";
/// How often it looks whether something still runs in the domain.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Those who use the domain have so long to leave when it is closed; else it is opened again for a while.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
const OPEN_FOR: Duration = Duration::from_secs(60);
const LEFT_EVERY: Duration = Duration::from_millis(50);
/// Passes beside the sessions end with one that copied less.
const LITTLE_BYTES: u64 = 256 << 20;
const PASSES_MAX: usize = 5;
/// While something runs in the domain, what it stored is copied so often.
const AGAIN_EVERY: Duration = Duration::from_secs(300);

type Result<T> = std::result::Result<T, UpkeepError>;

/// Moves the domains of a data plane.
pub(crate) struct Mover(pub(crate) Arc<Shared>);

impl DomainMover for Mover {
    fn move_domain(
        &self,
        request: &MoveRequest<'_>,
        control: &dyn MoveControl,
        watch: &dyn Watch,
    ) -> Result<Moved> {
        pace::step_back();
        let (shared, moved, is_switched) = (&*self.0, Moved::default(), request.is_switched);
        let was_there = false;
        let mut attempt =
            Attempt { shared, request, control, watch, moved, is_switched, was_there };
        let done = attempt.run();
        done.map_err(|error| attempt.with_what_stays(error))
    }
}

/// One move.
struct Attempt<'a> {
    shared: &'a Shared,
    request: &'a MoveRequest<'a>,
    control: &'a dyn MoveControl,
    watch: &'a dyn Watch,
    moved: Moved,
    /// The catalog names the other pool.
    is_switched: bool,
    /// The domain was seen in its pool.
    was_there: bool,
}

impl Attempt<'_> {
    fn run(&mut self) -> Result<Moved> {
        let MoveRequest { from, to, .. } = *self.request;
        [from, to].iter().try_for_each(|at| pool::verify(at)).map_err(of_storage)?;
        // A domain may have been moved away from there before.
        self.shared.domains.reopen(to);
        if self.is_switched {
            if !self.is_same_in_both()? {
                return self.cancelled();
            }
        } else {
            self.take_up_again()?;
            if !self.copy_beside()? {
                return self.cancelled();
            }
        }
        if !self.close()? {
            return self.cancelled();
        }
        let begun = Instant::now();
        let done = self.while_closed();
        match self.is_switched {
            true => self.shared.domains.moved_away(from),
            false => self.shared.domains.reopen(from),
        }
        self.control.reopen();
        if self.is_switched {
            self.shared.domains.secure_soon(to);
        }
        self.moved.closed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        if !done? {
            return self.cancelled();
        }
        // Objects go while others use the domain: there may be many of them.
        moves::remove(&leftover(from)).map_err(of_storage)?;
        Ok(Moved { is_done: true, ..self.moved })
    }

    /// A copy that was whole before the catalog named its pool is not any more: others may have written since. Copies
    /// in pools to which it does not move go, and what is left where it lay before.
    fn take_up_again(&self) -> Result<()> {
        let MoveRequest { from, to, others, .. } = *self.request;
        // Another pool that is not mounted keeps what it has.
        let others = others.iter().filter(|other| pool::verify(other).is_ok());
        let others = others.map(PathBuf::as_path).chain([from]);
        let of_others = others.flat_map(|other| [unfinished(other), finished(other)]);
        let mut to_remove = of_others.chain([leftover(to)]);
        let mut done = || {
            if moves::exists(from)? {
                to_remove.try_for_each(|path| moves::remove(&path))?;
            }
            if moves::exists(&finished(to))? {
                moves::remove(&unfinished(to))?;
                moves::rename(&finished(to), &unfinished(to))?;
            }
            Ok(())
        };
        done().map_err(of_storage)
    }

    /// Copies what sessions do not change any more, until little is left; `false` if it was told to end.
    fn copy_beside(&mut self) -> Result<bool> {
        self.watch.stage("copy");
        for pass in 0..PASSES_MAX {
            let Some(bytes) = self.pass(pass == 0)? else { return Ok(false) };
            if bytes < LITTLE_BYTES {
                break;
            }
        }
        Ok(true)
    }

    /// One pass: the bytes that it copied; `None` if it was told to end.
    fn pass(&mut self, is_first: bool) -> Result<Option<u64>> {
        if !self.is_there()? {
            return Ok(Some(0));
        }
        let repository = self.source()?;
        let target = self.target(&repository)?;
        let allowed = Allowed::new(self.watch, self.control);
        let pace = Pace::new(&allowed, self.request.bytes_per_sec);
        let copy = Move::new(&repository, target.storage(), &pace);
        if is_first && let Err(error) = has_room(&copy, target.storage()) {
            // What an earlier move copied stays.
            moves::remove_if_empty(&unfinished(self.request.to));
            return Err(error);
        }
        let done = copy.beside().map_err(of_engine)?;
        self.moved.files += done.files;
        self.moved.bytes += done.bytes;
        match allowed.why_not() {
            Some(why) => Err(UpkeepError::Failed(why)),
            None => Ok((!done.is_interrupted).then_some(done.bytes)),
        }
    }

    /// Whether the domain lies in its pool. If not, nothing was ever stored, unless it was there before.
    fn is_there(&mut self) -> Result<bool> {
        let from = self.request.from;
        let is_there = moves::exists(from).map_err(of_storage)?;
        if !is_there && self.was_there {
            let at = moves::shown(from);
            return Err(UpkeepError::Failed(format!(
                "{} is gone, and was there when the move began: bring it back, then move again",
                at.display()
            )));
        }
        self.was_there = is_there;
        Ok(is_there)
    }

    fn source(&self) -> Result<Repository> {
        let storage = moves::source(self.request.from).map_err(of_storage)?;
        Repository::open(storage).map_err(of_engine)
    }

    fn target(&self, source: &Repository) -> Result<MoveTarget> {
        let id = source.config().repository;
        MoveTarget::begin(&unfinished(self.request.to), id).map_err(of_storage)
    }

    /// Waits until nobody uses the domain, and lets nobody begin to; `false` if it was told to end.
    fn close(&mut self) -> Result<bool> {
        let (from, domains) = (self.request.from, &self.shared.domains);
        let (mut copied, mut opened) = (Instant::now(), None::<Instant>);
        // Behind the change of the catalog there is no way back.
        while self.is_switched || self.watch.goes_on() {
            self.may_go_on()?;
            let busy = self.shared.busy_in(from);
            let is_open = opened.is_some_and(|opened| opened.elapsed() < OPEN_FOR);
            if is_open {
                self.watch.stage("wait for what reads the domain");
            } else if self.is_read()? {
                self.watch.stage("wait for a copy that reads the files of the domain");
            } else if busy == 0 || self.request.interrupt {
                domains.close(from);
                self.watch.stage("close");
                if self.is_left() {
                    return Ok(true);
                }
                domains.reopen(from);
                self.control.reopen();
                opened = Some(Instant::now());
            } else {
                self.watch.stage(&format!("wait for what runs in the domain: {busy}"));
            }
            if !self.is_switched && copied.elapsed() > AGAIN_EVERY {
                self.pass(false)?;
                copied = Instant::now();
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(false)
    }

    /// Whether a command on this machine copies from the first pool, and is waited for: what it reads goes with the
    /// move. Behind the change of the catalog nobody can use the domain, so that this comes first.
    fn is_read(&self) -> Result<bool> {
        let from = self.request.from;
        if self.is_switched || self.request.interrupt || !readers::are_noted(from) {
            return Ok(false);
        }
        let source = moves::source(from).map_err(of_storage)?;
        readers::are_alive(&*source).map_err(of_storage)
    }

    /// Behind the change of the catalog there is no way back.
    fn may_go_on(&self) -> Result<()> {
        if self.is_switched {
            Ok(())
        } else {
            self.control.may_go_on().map_err(UpkeepError::Failed)
        }
    }

    fn is_left(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LEAVE_WITHIN {
            if self.shared.empty(self.request.from) && self.control.is_free() {
                return true;
            }
            std::thread::sleep(LEFT_EVERY);
        }
        false
    }

    /// What is done while nobody uses the domain; `false` if it was told to end before it changed anything.
    fn while_closed(&mut self) -> Result<bool> {
        let from = self.request.from;
        if !self.is_there()? {
            return self.switch().map(|_| true);
        }
        self.may_go_on()?;
        let repository = self.source()?;
        let lease = repository.lease_for(HOLDER, LeasePurpose::Reclaim).map_err(of_engine)?;
        if self.is_switched {
            self.switch()?;
            if let Some(name) = self.lacking(&repository, self.request.to)? {
                return Err(self.both_stay(&name, "is not in"));
            }
        } else {
            if !self.copy_rest(&repository, &lease)? {
                return Ok(false);
            }
            // Before the change of the catalog: behind it the domain would be closed for as long as a bucket is away.
            if let Some(name) = self.lacking(&repository, &finished(self.request.to))? {
                return Err(self.is_not_whole(&name));
            }
            if !self.switch()? {
                return Err(self.both_stay("config", "is not in"));
            }
        }
        self.watch.stage("remove");
        // Whoever still has it open finds neither the lease nor any file.
        moves::give_up(from).map_err(of_storage)?;
        drop(lease);
        Ok(true)
    }

    /// Makes the copy whole; `false` if it was told to end.
    fn copy_rest(&mut self, repository: &Repository, lease: &Lease) -> Result<bool> {
        let to = self.request.to;
        self.watch.stage("copy the rest");
        let target = self.target(repository)?;
        let rest = Move::new(repository, target.storage(), self.watch).rest(lease);
        let rest = rest.map_err(of_engine)?;
        self.moved.files += rest.files;
        self.moved.bytes += rest.bytes;
        if rest.is_interrupted {
            return Ok(false);
        }
        target.verify().map_err(of_storage)?;
        drop(target);
        moves::rename(&unfinished(to), &finished(to)).map_err(of_storage)?;
        Ok(true)
    }

    /// A file of the source that the copy `at` lacks.
    fn lacking(&self, source: &Repository, at: &Path) -> Result<Option<String>> {
        let target = moves::source(at).map_err(of_storage)?;
        lacks(&**source.storage(), &*target).map_err(of_engine)
    }

    /// Whether the domain may be removed from the first pool: what lies in the second one need not be what a move made,
    /// and may have been damaged since. Nobody uses either meanwhile. `false` if it was told to end.
    fn is_same_in_both(&self) -> Result<bool> {
        let MoveRequest { from, to, .. } = *self.request;
        let is_there = |path: &Path| moves::exists(path).map_err(of_storage);
        let copy = if is_there(to)? { to.to_owned() } else { finished(to) };
        if !is_there(from)? || !is_there(&copy)? {
            return Ok(true);
        }
        self.watch.stage("compare");
        let source = self.source()?;
        if let Some(name) = self.lacking(&source, &copy)? {
            return Err(self.both_stay(&name, "is not in"));
        }
        let target = moves::source(&copy).map_err(of_storage)?;
        match differs(&**source.storage(), &*target, self.watch).map_err(of_engine)? {
            Some(name) => Err(self.both_stay(&name, "reads differently in")),
            None => Ok(self.watch.goes_on()),
        }
    }

    fn both_stay(&self, name: &str, how: &str) -> UpkeepError {
        let MoveRequest { from, to, .. } = *self.request;
        UpkeepError::Doubt(format!(
            "{} {how} {}: both stay. Find out which of them is the right one, and move the other one out of its pool",
            moves::shown(from).join(name).display(),
            moves::shown(to).display()
        ))
    }

    fn is_not_whole(&self, name: &str) -> UpkeepError {
        let MoveRequest { from, to, .. } = *self.request;
        UpkeepError::Failed(format!(
            "{} is not in the copy in {}: the domain stays where it is, and the next move copies it",
            moves::shown(from).join(name).display(),
            moves::shown(to).display()
        ))
    }

    /// Lets the catalog name the other pool, and then the copy have the name of the domain; whether it lies there now.
    fn switch(&mut self) -> Result<bool> {
        if !self.is_switched {
            self.control.switch().map_err(UpkeepError::Failed)?;
            self.is_switched = true;
        }
        let to = self.request.to;
        let named = || {
            let is_there = moves::exists(to)?;
            if is_there || !moves::exists(&finished(to))? {
                return Ok(is_there);
            }
            moves::rename(&finished(to), to).map(|()| true)
        };
        named().map_err(of_storage)
    }

    /// Says where a copy that is not whole stays, and what is left in the pool in which the domain lay.
    fn with_what_stays(&self, error: UpkeepError) -> UpkeepError {
        let MoveRequest { from, to, .. } = *self.request;
        let (copy, left) = (unfinished(to), leftover(from));
        let UpkeepError::Failed(why) = error else { return error };
        UpkeepError::Failed(if !self.is_switched && copy.exists() {
            let at = moves::shown(&copy);
            format!(
                "{why}. What was copied stays in {}: the next move continues with it",
                at.display()
            )
        } else if self.is_switched && left.exists() {
            format!(
                "{why}. The domain lies in its new pool; this removes what is left of it in {}: icecore server pool move {} {}",
                moves::shown(&left).display(),
                to.file_name().unwrap_or_default().display(),
                pool_of(to)
            )
        } else {
            why
        })
    }

    /// Nothing was changed, and nothing is left of it.
    fn cancelled(&self) -> Result<Moved> {
        let to = self.request.to;
        if !self.is_switched {
            let left = [unfinished(to), finished(to)];
            left.iter().try_for_each(|path| moves::remove(path)).map_err(of_storage)?;
        }
        Ok(self.moved)
    }
}

/// Whether what the target lacks fits into it.
fn has_room(copy: &Move<'_>, target: &dyn Storage) -> Result<()> {
    if !target.has_limited_space() {
        return Ok(());
    }
    let needed = copy.bytes_left().map_err(of_engine)?;
    let free = target.free_bytes().map_err(of_storage)?;
    if needed <= free {
        return Ok(());
    }
    Err(UpkeepError::Failed(format!(
        "{} has {free} bytes free, and {needed} are to be copied: choose another pool: icecore server pool list",
        target.describe()
    )))
}

/// The name of the pool in which the directory of a domain lies.
fn pool_of(domain: &Path) -> String {
    let pool = domain.ancestors().nth(2).and_then(Path::file_name).unwrap_or_default();
    let pool = pool.to_string_lossy().into_owned();
    if pool == NAME_TAKEN { MAIN.to_owned() } else { pool }
}

fn of_storage(error: StorageError) -> UpkeepError {
    of_engine(error.into())
}

#[cfg(test)]
mod tests;
